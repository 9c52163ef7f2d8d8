package wasi

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/task"
)

// TestNoMemoryOfTheMachine: if the system refuses a process memory within the limit of its run, the job goes back to its
// queue, and another process runs the next job.
func TestNoMemoryOfTheMachine(t *testing.T) {
	f := newFixture(t, nil)
	wantOK(t, f.text(f.handler("kit", handler.Options{}), "echo\na"), "a")
	pid := innermost(t, f.processes.State().Idle[0].process.Pid())
	text := testkit.Must(os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid)))(t)
	var pages uint64
	testkit.Must(fmt.Sscan(string(text), &pages))(t)
	// This is enough for Go, but too little for the memory of a guest with another limit.
	limit := pages*uint64(os.Getpagesize()) + 128<<20
	testkit.NoError(t, unix.Prlimit(pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: limit, Max: limit}, nil))
	x := f.handler("kit", handler.Options{MemoryBytes: 200 << 20})
	e := f.text(x, "echo\nb")
	testkit.Holds(t, e.Unget, "the run ended with", show(e), "want unget")
	wantOK(t, f.text(x, "echo\nb"), "b")
	s := f.Stats()
	testkit.Holds(t, s.Runs["machine"] == 1 && s.Kills["machine"] == 1 && s.Runs["ok"] == 2, "runs", s.Runs, "kills", s.Kills)
}

// TestNoDescriptors: if a guest's process gets no file descriptor for /proc or for the input, the job goes back to its
// queue, and another process runs the next job.
func TestNoDescriptors(t *testing.T) {
	f := newFixture(t, func(s *Settings) { s.Grants = []string{"proc:read:*"} })
	for i, c := range []struct {
		name, payload string
		x             task.Executor
	}{
		{"proc", "", f.handler("tiny", handler.Options{}, "proc:read:*")},
		{"short input", "a", f.handler("tiny", handler.Options{})},
		{"input by parts", strings.Repeat("a", 100_000), f.handler("tiny", handler.Options{})},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantOK(t, f.text(c.x, c.payload), strings.ToUpper(c.payload))
			pid := innermost(t, f.processes.State().Idle[0].process.Pid())
			testkit.NoError(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: 3}, nil))
			e := f.text(c.x, c.payload)
			testkit.Holds(t, e.Unget, "the run ended with", show(e), "want unget")
			wantOK(t, f.text(c.x, c.payload), strings.ToUpper(c.payload))
			testkit.Equal(t, f.Stats().Kills["machine"], int64(i+1), "processes were ended because of the machine, want", i+1)
		})
	}
}

// TestDescriptorsAreClosed: a process has as many open files after many runs as after the first.
func TestDescriptorsAreClosed(t *testing.T) {
	f := newFixture(t, func(s *Settings) { s.Grants, s.MaxProcesses = []string{"proc:read:*"}, 1 })
	kit := f.handler("kit", handler.Options{}, "proc:read:*")
	open := func() int {
		files := testkit.Must(os.ReadDir(fmt.Sprintf("/proc/%d/fd", innermost(t, f.processes.State().Idle[0].process.Pid()))))(t)
		return len(files)
	}
	long := "count\n" + strings.Repeat("x", 100_000)
	wantOK(t, f.text(kit, long), "100000")
	before := open()
	for range 20 {
		wantOK(t, f.text(kit, long), "100000")
		wantEnd(t, f.text(kit, ""), "error")
		e := f.text(kit, "read /proc/loadavg")
		testkit.MustHold(t, e.Code == "ok" && len(e.Output) != 0, show(e))
	}
	after := open()
	testkit.Holds(t, after <= before, after, "files are open after 60 runs, and", before, "before")
}

// innermost returns the process of the guest, which may be a descendant of the process that the sandbox started.
func innermost(t *testing.T, pid int) int {
	t.Helper()
	for {
		threads := testkit.Must(os.ReadDir(fmt.Sprintf("/proc/%d/task", pid)))(t)
		child := 0
		for _, thread := range threads {
			text := testkit.Must(os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, thread.Name())))(t)
			if fields := strings.Fields(string(text)); len(fields) > 0 {
				child = testkit.Must(strconv.Atoi(fields[0]))(t)
			}
		}
		if child == 0 {
			return pid
		}
		pid = child
	}
}
