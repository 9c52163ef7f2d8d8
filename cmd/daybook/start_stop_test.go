package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
)

// stopping starts `daybook stop --wait`, and returns its standard output and the lines of its standard error.
func stopping(t *testing.T, server string) (stop *exec.Cmd, out *bytes.Buffer, lines *bufio.Scanner) {
	t.Helper()
	stop, out = command("stop", "--wait", "--server", server), &bytes.Buffer{}
	stop.Stdout = out
	errs := testkit.Must(stop.StderrPipe())(t)
	testkit.NoError(t, stop.Start())
	return stop, out, bufio.NewScanner(errs)
}

// TestStopWaits: with --wait, stop ends when the last active job has ended, and no more jobs are handed out.
func TestStopWaits(t *testing.T) {
	t.Parallel()
	s := serving(t, filepath.Join(t.TempDir(), "data"))
	execute(t, "a\nb\n", "add", "--type", "slow", "--server", s.url)
	ok(t, "claim", "--runner-id", "r", "--type", "slow", "--server", s.url)
	job := uuids.FindString(ok(t, "jobs", "--status", "active", "--ids", "--server", s.url))
	stop, out, lines := stopping(t, s.url)
	lines.Scan()
	testkit.Equal(t, lines.Text(), "waiting for 1 active job: runner r holds 1")
	rest := make(chan string, 1)
	go func() {
		text := ""
		for lines.Scan() {
			text += lines.Text() + "\n"
		}
		rest <- text
	}()
	select {
	case text := <-rest:
		t.Fatalf("it did not wait: %s%s", text, out)
	case <-time.After(2 * askIdle):
	}
	ok(t, "complete", "--job", job, "--server", s.url)
	testkit.Equal(t, <-rest, "")
	testkit.NoError(t, stop.Wait())
	testkit.Equal(t, out.String(), "the server hands out no jobs; active: 0 jobs\n")
}

// TestStopWaitInterrupted: an interrupted stop --wait prints that the server stays stopped.
func TestStopWaitInterrupted(t *testing.T) {
	s := serving(t, filepath.Join(t.TempDir(), "data"))
	execute(t, strings.Repeat("x\n", 9), "add", "--type", "slow", "--server", s.url)
	for i := range maxNamed + 2 {
		ok(t, "claim", "--runner-id", fmt.Sprint("r", i), "--type", "slow", "--server", s.url)
	}
	stop, _, lines := stopping(t, s.url)
	if lines.Scan(); lines.Text() != "waiting for 7 active jobs: runner r0 holds 1, runner r1 holds 1, runner r2 holds 1, runner r3 holds 1, runner r4 holds 1, 2 other runners hold more" {
		t.Error(lines.Text())
	}
	testkit.NoError(t, stop.Process.Signal(os.Interrupt))
	lines.Scan()
	testkit.Holds(t, strings.HasPrefix(lines.Text(), "interrupted; the server stays stopped"), lines.Text())
	err := stop.Wait()
	testkit.Equal(t, stop.ProcessState.ExitCode(), terminal.ExitSignal+int(syscall.SIGINT), err)
	stats, err := client.New(s.url, client.Options{}).Stats(t.Context())
	testkit.Holds(t, err == nil && stats.Stopped, stats.Stopped, err)
}

// TestStopIsShown: stats and queues show that a server is stopped.
func TestStopIsShown(t *testing.T) {
	s := serving(t, filepath.Join(t.TempDir(), "data"))
	ok(t, "create", "--type", "slow", "p", "--server", s.url)
	ok(t, "stop", "--server", s.url)
	const stopped = "stopped: no jobs are handed out until `daybook start`\n"
	testkit.Contains(t, ok(t, "stats", "--server", s.url), "ready; "+stopped)
	r := execute(t, "", "queues", "--server", s.url)
	testkit.Holds(t, r.errs == "the server is "+stopped && strings.Contains(r.out, "slow"), r)
	ok(t, "start", "--server", s.url)
	testkit.Equal(t, execute(t, "", "queues", "--server", s.url).errs, "")
	testkit.Lacks(t, ok(t, "stats", "--server", s.url), "stopped")
}
