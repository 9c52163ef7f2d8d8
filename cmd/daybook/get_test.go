package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
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

// TestErrorsShown: jobs shows the exception of a traceback, and get all lines of it and a line for each attempt.
func TestErrorsShown(t *testing.T) {
	const traceback = "Traceback (most recent call last):\n  File \"x.py\", line 2, in handle\n    raise ValueError(\"bad\")\nValueError: bad\n"
	a := startAsked(t)
	id := a.do("create", "--max-attempts", "2", "--type", "t", "p")
	a.do("claim", "--runner-id", "r1")
	a.do("complete", id, "--code", "error", "--error", "first")
	a.do("run", id)
	a.do("claim", "--runner-id", "r2")
	a.do("complete", id, "--code", "failed", "--error", traceback)
	testkit.Contains(t, a.do("jobs"), "r2      ValueError: bad…")
	doc := a.do("get", id)
	testkit.Contains(t, doc, "\nerror         Traceback (most recent call last):\n                File \"x.py\", line 2, in handle\n",
		"\n              ValueError: bad\n", "  r1  error", "  first\n", "  r2  failed", "  ValueError: bad…\n")
	if attempts := doc[strings.Index(doc, "\nattempts"):]; strings.Index(attempts, "r1") > strings.Index(attempts, "\n   ") {
		t.Errorf("the first attempt is not in the line of its name:\n%s", attempts)
	}
}

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

// TestAnswersOfOthers: if another program answers, each command reports this with its exit code.
func TestAnswersOfOthers(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>welcome</html>") }))
	defer other.Close()
	for _, verb := range []string{"queues", "jobs", "batches", "stats", "runners", "sweeps", "disk", "get " + sampleID, "get --batch " + sampleID, "clock", "results " + sampleID,
		"handler ls", "fileset ls", "handler history x", "fileset history input", "blob ls", "create x", "claim", "cancel " + sampleID, "pause a/b", "stop", "watch a/b", "top --once",
		"queues --json", "jobs --json", "stats --json", "clock --json", "get --json " + sampleID, "get --json --batch " + sampleID, "runners --json", "runners --json r"} {
		r := execute(t, "", append(strings.Fields(verb), "--server", other.URL)...)
		r.ends(t, terminal.ExitNoAnswer, "the answer is not that of a Daybook server")
	}
}

// TestWatchTimeoutOfSilentServer: --timeout bounds the first request, too.
func TestWatchTimeoutOfSilentServer(t *testing.T) {
	silent := make(chan struct{})
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-silent:
		case <-r.Context().Done():
		}
	}))
	defer other.Close()
	defer close(silent)
	execute(t, "", "watch", "a/b", "--timeout", "100ms", "--server", other.URL).ends(t, terminal.ExitTimeout)
}
