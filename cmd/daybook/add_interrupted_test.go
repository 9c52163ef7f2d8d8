package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestAddInterrupted: after Ctrl-C, add prints that it was interrupted, and how to store only the rest.
func TestAddInterrupted(t *testing.T) {
	s := serving(t, t.TempDir())
	defer s.end(t, syscall.SIGTERM)
	c := client.New(s.url, client.Options{})
	for _, flags := range [][]string{{"--key", "k"}, {"--resume", filepath.Join(t.TempDir(), "state")}, nil} {
		typ := fmt.Sprint("t", len(flags), strings.Join(flags[:min(1, len(flags))], ""))
		cmd := command(append([]string{"add", "--server", s.url, "--type", typ}, flags...)...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		in := testkit.Must(cmd.StdinPipe())(t)
		testkit.NoError(t, cmd.Start())
		line := strings.Repeat("x", 1000) + "\n"
		testkit.Must(io.WriteString(in, strings.Repeat(line, 20_000)))(t) // more than one body
		testkit.Eventually(t, "a body is stored", func() bool {
			q, err := c.Queue(t.Context(), "default", typ)
			return err == nil && q.Counts["pending"] > 0
		})
		testkit.NoError(t, cmd.Process.Signal(syscall.SIGINT))
		exit := new(exec.ExitError)
		testkit.Holds(t, errors.As(cmd.Wait(), &exit) && exit.ExitCode() == terminal.ExitSignal+int(syscall.SIGINT) &&
			strings.Contains(errs.String(), "interrupted"), flags, cmd.ProcessState, errs.String())
		if flags != nil && !strings.Contains(errs.String(), "To store only what is missing, run the same command") {
			t.Errorf("%v: %s", flags, errs.String())
		}
	}
}
