package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/chunks"
	"github.com/daybookq/daybook/client/worker"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestSubmitChunks: long lines and outputs are stored as blobs, and programs that use the Go client read them.
func TestSubmitChunks(t *testing.T) {
	s := serving(t, t.TempDir())
	defer s.end(t, syscall.SIGTERM)
	lines := filepath.Join(t.TempDir(), "lines")
	long := strings.Repeat("long ", 1<<20) // longer than a payload may be
	testkit.NoError(t, os.WriteFile(lines, []byte("short\n"+long+"\n"), 0o600))
	r := execute(t, "", "submit", "--server", s.url, "--type", "x", lines)
	testkit.Holds(t, r.code != terminal.ExitOK, "a long line was taken without --chunks", r.out)
	id := strings.TrimSpace(ok(t, "submit", "--server", s.url, "--type", "x", "--chunks", lines))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	c := client.New(s.url, client.Options{})
	go func() {
		ended <- chunks.Consume(ctx, chunks.ConsumeOptions{Worker: worker.Worker{Client: c, Types: []string{"x"}}, Store: &chunks.Store{}}, func(_ context.Context, chunk *chunks.Chunk) (client.Outcome, error) {
			return client.Outcome{Output: bytes.ToUpper(chunk.Payload)}, nil
		})
	}()
	testkit.Equal(t, ok(t, "results", "-f", "--chunks", "--server", s.url, id), "0\tcompleted\tSHORT\n1\tcompleted\t"+strings.ToUpper(long)+"\n")
	cancel()
	testkit.Check(t, <-ended)
	testkit.Contains(t, ok(t, "results", "--server", s.url, id), `"chunk_addr":"sha256:`)
}
