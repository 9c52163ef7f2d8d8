package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/cmd/daybook/internal/bench"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/load/limits"
	"github.com/daybookq/daybook/internal/load/works"
	"github.com/daybookq/daybook/internal/testkit"
)

// asServer makes bench start this test binary as its server.
func asServer(t *testing.T) {
	t.Helper()
	old := bench.OwnProgram
	bench.OwnProgram = func(args ...string) (*exec.Cmd, error) { return command(args...), nil }
	t.Cleanup(func() { bench.OwnProgram = old })
}

// empty fails the test if a directory is not empty.
func empty(t *testing.T, dir string) {
	t.Helper()
	list := testkit.Must(os.ReadDir(dir))(t)
	testkit.Holds(t, len(list) == 0, dir, "has", list)
}

// TestBench: a short run without --server measures everything, and leaves nothing, as docs/how-to/sizing.md describes.
func TestBench(t *testing.T) {
	asServer(t)
	dir := t.TempDir()
	data := filepath.Join(dir, "no", "data")
	r := execute(t, "", "bench", "--data", data, "--duration", "5s", "--json")
	testkit.MustEqual(t, r.code, terminal.ExitOK, "exit code")
	empty(t, dir)
	testkit.Contains(t, r.errs, "[", "left")
	testkit.Lacks(t, r.errs, "\x1b")
	report := parsed[bench.Report](t, r.out)
	testkit.Holds(t, report.Fsync != nil && report.Fsync.P50 > 0 && report.RoundTripMs > 0 && report.Processors != 0 &&
		len(report.Works) == 5, report)
	for _, w := range report.Works {
		testkit.Holds(t, w.Peak.JobsPerSecond > 0 && w.Half.JobsPerSecond > 0 && w.Half.Latency.Count != 0 &&
			w.Half.Latency.P50 > 0 && w.Limit.Text != "" && w.Limit.Cause != "", w.Name, w)
		if f := w.Peak.Facts; f.ServerProcessors <= 0 || f.LoadProcessors <= 0 || f.ServerMayUse == 0 || f.Disk.Syncs == 0 || f.Disk.SyncMeanMs <= 0 || !f.Local {
			t.Errorf("%s: %+v", w.Name, f)
		}
	}
	testkit.Contains(t, r.out, `"jobs_per_s"`, `"p999_ms"`, `"server_processors"`, `"sync_share"`, `"kept_up"`, `"cause"`, `"round_trip_ms"`)
	var text bytes.Buffer
	testkit.NoError(t, report.Print(&text))
	testkit.Contains(t, text.String(), "append 4 KiB and fsync", "jobs/s", "What limits it:", works.Bulk.Title, works.OneAtATime.Title)
}

// TestBenchOfServer: bench measures a given server in new queues, and deletes them. Its other jobs remain.
func TestBenchOfServer(t *testing.T) {
	s := serving(t, t.TempDir())
	s.post(t, "/add", "mine\n")
	r := execute(t, "", "bench", "--server", s.url, "--duration", "5s")
	testkit.MustHold(t, r.code == terminal.ExitOK && strings.Contains(r.out, "What limits it:") &&
		strings.Contains(r.errs, "queues of client bench-"), "exit code", r.code, r.out, r.errs)
	testkit.Lacks(t, ok(t, "queues", "--server", s.url), "bench-")
	testkit.Equal(t, s.pending(t, "default/default"), 1)
}

// measuring returns when a bench measures, by what it has written.
func measuring(t *testing.T, errs io.Reader) {
	t.Helper()
	said := ""
	for buffer := make([]byte, 4096); !strings.Contains(said, "as fast as possible"); {
		n, err := errs.Read(buffer)
		said += string(buffer[:n])
		testkit.NoError(t, err, said)
	}
}

// TestBenchInterrupted: a signal ends the measurement, and bench deletes everything that it had made.
func TestBenchInterrupted(t *testing.T) {
	s := serving(t, t.TempDir())
	interrupt := func(args ...string) {
		t.Helper()
		cmd := command(append([]string{"bench", "--duration", "60s"}, args...)...)
		var out bytes.Buffer
		cmd.Stdout = &out
		errs := testkit.Must(cmd.StderrPipe())(t)
		testkit.NoError(t, cmd.Start())
		measuring(t, errs)
		testkit.NoError(t, cmd.Process.Signal(syscall.SIGINT))
		var rest bytes.Buffer
		_, _ = rest.ReadFrom(errs) // until the end of the process
		if exit := new(exec.ExitError); !errors.As(cmd.Wait(), &exit) || exit.ExitCode() != terminal.ExitSignal+int(syscall.SIGINT) || !strings.Contains(rest.String(), "interrupted") || out.Len() > 0 {
			t.Errorf("%v: %s", cmd.ProcessState, rest.String())
		}
	}
	interrupt("--server", s.url)
	testkit.Lacks(t, ok(t, "queues", "--server", s.url), "bench-")
	dir := t.TempDir()
	interrupt("--data", filepath.Join(dir, "data"))
	empty(t, dir)
}

// TestBenchWithoutReaders: a signal leaves nothing even if nobody reads the output any more, as after Ctrl-C in a pipe
// to tee, or after the terminal was closed.
func TestBenchWithoutReaders(t *testing.T) {
	s := serving(t, t.TempDir())
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP} {
		cmd := command("bench", "--duration", "60s", "--server", s.url)
		r, w := testkit.Must2(os.Pipe())(t)
		cmd.Stdout, cmd.Stderr = w, w
		testkit.NoError(t, cmd.Start())
		w.Close()
		measuring(t, r)
		r.Close()
		testkit.NoError(t, cmd.Process.Signal(sig))
		testkit.Holds(t, cmd.Wait() != nil, sig, "the command succeeded")
		out := ok(t, "queues", "--server", s.url)
		testkit.Holds(t, !strings.Contains(out, "bench-"), sig, "queues remain", out)
	}
}

// TestBenchServerEnds: a context that ends before or during the start leaves no process and no directory, and a server
// that cannot start is reported.
func TestBenchServerEnds(t *testing.T) {
	asServer(t)
	dir := t.TempDir()
	s := testkit.Must(bench.StartServer(t.Context(), dir, &bytes.Buffer{}))(t)
	testkit.Holds(t, filepath.Dir(s.Dir) == filepath.Dir(dir) || filepath.Dir(s.Dir) == dir, "the directory is", s.Dir)
	testkit.Check(t, s.End())
	_, err := os.Stat(s.Dir)
	testkit.Holds(t, errors.Is(err, os.ErrNotExist), s.Dir, "remains", err)
	sub := filepath.Join(dir, "data", "of", "it") // it does not exist, so its directory is made in dir
	bench.OwnProgram = func(...string) (*exec.Cmd, error) { return command("no-such-command"), nil }
	testkit.Fails(bench.StartServer(t.Context(), sub, &bytes.Buffer{}))(t, "ended")
	empty(t, dir)
	bench.OwnProgram = func(...string) (*exec.Cmd, error) { return exec.Command(filepath.Join(dir, "none")), nil }
	testkit.Fails(bench.StartServer(t.Context(), sub, &bytes.Buffer{}))(t, os.ErrNotExist)
	empty(t, dir)
}

// TestBenchRefusals: settings that cannot be measured are refused before bench makes anything.
func TestBenchRefusals(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{{"--duration", "1s"}, {"--duration", "1h"}, {"--server", "ftp://x"}, {"extra"}} {
		execute(t, "", append([]string{"bench", "--data", dir}, args...)...).ends(t, terminal.ExitUsage)
	}
	execute(t, "", "bench", "--server", "http://127.0.0.1:1").ends(t, terminal.ExitNoAnswer)
	empty(t, dir)
}

// TestBenchProgress: on a terminal one line changes, and it is cleared at the end.
func TestBenchProgress(t *testing.T) {
	var b bytes.Buffer
	p := bench.Progress{Errs: &b, Terminal: true, Length: time.Minute}
	p.Step(limits.Step{Text: "the disk", Part: 0.5})
	p.Step(limits.Step{Text: "the end", Part: 1})
	p.Say("hello")
	const clear = "\r\x1b[K"
	if want := clear + "[##########..........] 30s left  the disk" + clear + "[####################] 0s left  the end" + clear + "daybook: hello\n"; b.String() != want {
		t.Errorf("%q", b.String())
	}
}
