package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

// treeOfSeven starts seven processes, each with the mark in its arguments: the program, a child, one in a new session,
// one that ignores SIGHUP, one whose parent has ended, and one with all of these properties that also ignores SIGTERM
// and has a child.
const treeOfSeven = `
sleep 1000 "$0" &
setsid sleep 1000 "$0" &
nohup sleep 1000 "$0" >/dev/null 2>&1 &
(sleep 1000 "$0" &)
(setsid sh -c 'trap "" TERM HUP INT; sleep 1000 "$0"; :' "$0" &)
`

// mark returns a text that no other process has in its arguments. sleep accepts it as a number of seconds.
func mark() string {
	const digits = "0123456789"
	text := []byte("0." + rand.Text())
	for i := 2; i < len(text); i++ {
		text[i] = digits[text[i]%10]
	}
	return string(text)
}

// startTree starts the seven processes, and waits until all of them run.
func startTree(t *testing.T, s *Sandbox, then string) (*Process, string) {
	t.Helper()
	testkit.Need(t, "setsid", "nohup", "sleep")
	m := mark()
	p := testkit.Must(s.Start(shell(treeOfSeven+then, m)))(t)
	t.Cleanup(func() { p.Kill(); p.Wait() })
	awaitTree(t, m)
	return p, m
}

func awaitTree(t *testing.T, m string) {
	t.Helper()
	testkit.Eventually(t, "seven processes run", func() bool { return len(marked(t, m)) == 7 })
}

// gone fails the test if a process of a tree still runs.
func gone(t *testing.T, m string) {
	t.Helper()
	left := marked(t, m)
	testkit.Holds(t, len(left) == 0, len(left), "processes are left", strings.Join(left, "\n"))
}

// endMarked ends the rest of a tree after a failed test.
func endMarked(t *testing.T, m string) {
	for _, line := range marked(t, m) {
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "/proc/"), " ")
		if pid, err := strconv.Atoi(name); err == nil {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func TestKillEndsTheTree(t *testing.T) {
	eachKind(t, func(t *testing.T, s *Sandbox) {
		p, m := startTree(t, s, "wait")
		p.Kill()
		exit, err := p.Wait()
		testkit.Holds(t, exit.Signal.String() == "killed" && exit.Status() == 137 && err == nil, exit, err)
		gone(t, m)
		p.Kill() // and again
		p.Terminate()
	})
}

// TestKillEndsAStoppedTree: Kill works even if the program is stopped and cannot react.
func TestKillEndsAStoppedTree(t *testing.T) {
	eachKind(t, func(t *testing.T, s *Sandbox) {
		p, m := startTree(t, s, "kill -STOP $$")
		p.Kill()
		exit, err := p.Wait()
		testkit.Holds(t, exit.Status() == 137 && err == nil, exit, err)
		gone(t, m)
	})
}

func TestTheTreeEndsWithItsProgram(t *testing.T) {
	eachKind(t, func(t *testing.T, s *Sandbox) {
		testkit.Need(t, "setsid", "nohup", "sleep", "cat")
		m := mark()
		in, out := testkit.Must2(os.Pipe())(t)
		defer in.Close()
		defer out.Close()
		c := shell(treeOfSeven+"read line; exit 3", m)
		c.Stdin = in
		p := testkit.Must(s.Start(c))(t)
		defer p.Kill()
		awaitTree(t, m)
		testkit.Must(out.WriteString("go on\n"))(t)
		exit, err := p.Wait()
		testkit.Holds(t, exit.Code == 3 && exit.Signal == 0 && err == nil, exit, err)
		gone(t, m)
	})
}

// TestTerminate: the program can end itself after Terminate, and descendants that do not react end with it.
func TestTerminate(t *testing.T) {
	eachKind(t, func(t *testing.T, s *Sandbox) {
		p, m := startTree(t, s, `trap 'exit 4' TERM; wait`)
		p.Terminate()
		exit, err := p.Wait()
		testkit.Holds(t, exit.Code == 4 && err == nil, exit, err)
		gone(t, m)
	})
}

// TestALateHandshakeEndsTheTree: if the helper reports too late that the program runs, the tree ends.
func TestALateHandshakeEndsTheTree(t *testing.T) {
	testkit.Need(t, "setsid", "nohup", "sleep")
	eachKind(t, func(t *testing.T, s *Sandbox) {
		m, before := mark(), descriptors(t)
		t.Cleanup(func() { endMarked(t, m) })
		s.tree.sent = func(channel *os.File) { awaitTree(t, m); channel.SetDeadline(time.Now()) }
		p, err := s.Start(shell(treeOfSeven+"wait", m))
		if err == nil {
			p.Kill()
			p.Wait()
		}
		testkit.Failed(t, err, "did not answer within")
		gone(t, m)
		testkit.Equal(t, descriptors(t), before, "descriptors", "before")
	})
}

// TestTheTreeEndsWithTheRunner kills the process that started the tree.
func TestTheTreeEndsWithTheRunner(t *testing.T) {
	testkit.Need(t, "setsid", "nohup", "sleep")
	eachKind(t, func(t *testing.T, s *Sandbox) {
		m := mark()
		exe := testkit.Must(os.Executable())(t)
		runner := exec.Command(exe, string(s.tree.kind), strings.ReplaceAll(m, ".", ","))
		runner.Env = append(os.Environ(), "DAYBOOK_TEST_ROLE=runner")
		runner.Stderr = os.Stderr
		testkit.NoError(t, runner.Start())
		defer runner.Wait()
		defer runner.Process.Kill()
		t.Cleanup(func() { endMarked(t, m) })
		awaitTree(t, m)
		testkit.NoError(t, runner.Process.Kill())
		testkit.Eventually(t, "no process is left", func() bool { return len(marked(t, m)) == 0 })
		if s.tree.kind == control {
			runner.Wait()
			testkit.Eventually(t, "the next runner removes the cgroup", func() bool {
				s.tree.cgroups.removeOld()
				left := testkit.Must(os.ReadDir(s.tree.cgroups.dir))(t)
				for _, entry := range left {
					if strings.HasPrefix(entry.Name(), "daybook-"+strconv.Itoa(runner.Process.Pid)+"-") {
						return false
					}
				}
				return true
			})
		}
	})
}

// runnerRole starts the tree and waits to be killed. Its arguments do not contain the mark.
func runnerRole(args []string) error {
	s, err := newSandbox(kind(args[0]))
	if err != nil {
		return err
	}
	p, err := s.Start(shell(treeOfSeven+"wait", strings.ReplaceAll(args[1], ",", ".")))
	if err != nil {
		return err
	}
	p.Wait()
	return errors.New("the tree ended before its runner")
}

// TestAProgramKillsTheHelper: process 1 of a PID namespace gets no signals from inside. In a cgroup the tree ends with
// the helper, whatever ends the helper.
func TestAProgramKillsTheHelper(t *testing.T) {
	t.Run(string(namespace), func(t *testing.T) {
		s := ofKind(t, namespace)
		r := run(t, s, shell("kill -9 1; kill -STOP 1; echo alive; exit 6"))
		testkit.Holds(t, r.Code == 6 && r.out == "alive\n", r)
	})
	t.Run(string(control), func(t *testing.T) {
		s, m := ofKind(t, control), mark()
		p := testkit.Must(s.Start(shell(treeOfSeven+"kill -9 $PPID; wait", m)))(t)
		exit, err := p.Wait()
		testkit.Holds(t, exit.Status() == 137 && err == nil, exit, err)
		gone(t, m)
	})
}

// TestNoSandbox: with mode Off, the process group ends, and Wait does not wait for processes that have left it.
func TestNoSandbox(t *testing.T) {
	s := testkit.Must(New(Off))(t)
	testkit.Equal(t, len(s.Missing()), 1, "missing", s.Missing())
	testkit.Need(t, "sleep")
	m := mark()
	p := testkit.Must(s.Start(shell(`sleep 1000 "$0" & sleep 1000 "$0" & wait`, m)))(t)
	testkit.Eventually(t, "three processes run", func() bool { return len(marked(t, m)) == 3 })
	p.Kill()
	exit, err := p.Wait()
	testkit.Holds(t, exit.Status() == 137 && err == nil, exit, err)
	testkit.Eventually(t, "no process is left", func() bool { return len(marked(t, m)) == 0 })

	p = testkit.Must(s.Start(shell(`sleep 1000 "$0" & exit 5`, m)))(t)
	exit, err = p.Wait()
	testkit.Holds(t, exit.Code == 5 && err == nil, exit, err, "Wait waits for the rest of the group") // after copyWait, err would be exec.ErrWaitDelay
	testkit.Eventually(t, "no process is left", func() bool { return len(marked(t, m)) == 0 })
}

// descriptors returns the number of this process's open descriptors.
func descriptors(t testing.TB) int {
	t.Helper()
	runtime.GC()
	entries := testkit.Must(os.ReadDir("/proc/self/fd"))(t)
	return len(entries)
}

// children returns the number of this process's children, including those that have ended and were not reaped.
func children(t testing.TB) (n int) {
	t.Helper()
	files := testkit.Must(filepath.Glob("/proc/[0-9]*/stat"))(t)
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(line[strings.LastIndexByte(string(line), ')')+1:]))
		if fields[1] == strconv.Itoa(os.Getpid()) {
			n++
		}
	}
	return n
}

// TestNothingIsLeftOver starts many processes: 2,000 in the best kind, and fewer in the other kinds and in short tests.
func TestNothingIsLeftOver(t *testing.T) {
	eachKind(t, func(t *testing.T, s *Sandbox) {
		n := 2000
		if testing.Short() || testkit.Race || s.tree.kind != namespace {
			n = 500
		}
		once := func() {
			p := testkit.Must(s.Start(Command{Argv: []string{"/bin/true"}}))(t)
			exit, err := p.Wait()
			testkit.MustHold(t, exit.OK() && err == nil, exit, err)
		}
		once()
		fds, processes, goroutines := descriptors(t), children(t), runtime.NumGoroutine()
		for range n {
			once()
		}
		testkit.Equal(t, descriptors(t), fds, "descriptors", "before")
		testkit.Equal(t, children(t), processes, "children", "before")
		testkit.Eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= goroutines })
		if s.tree.cgroups != nil {
			left, err := filepath.Glob(filepath.Join(s.tree.cgroups.dir, "daybook-"+strconv.Itoa(os.Getpid())+"-*"))
			testkit.Holds(t, err == nil && len(left) == 0, "cgroups are left", left, err)
		}
	})
}

// TestHelperIsKilledAtOnce: if the helper is killed before the program runs, Start notices immediately and does not
// wait for its time-out.
func TestHelperIsKilledAtOnce(t *testing.T) {
	if files, err := filepath.Glob("/proc/self/task/*/children"); err != nil || len(files) == 0 {
		t.Skip("the kernel does not list the children of a thread")
	}
	eachKind(t, func(t *testing.T, s *Sandbox) {
		ctx, cancel := context.WithCancel(t.Context())
		var killer sync.WaitGroup
		killer.Go(func() {
			for ctx.Err() == nil {
				killHelpers()
			}
		})
		defer killer.Wait()
		defer cancel()
		refused := 0
		for tries := 0; refused < 5; tries++ {
			if tries == 500 {
				t.Skipf("undecided: of %d helpers, %d were killed before their programs ran", tries, refused)
			}
			p, err := s.Start(shell("sleep 1000"))
			if err == nil {
				p.Kill()
				p.Wait()
				continue
			}
			refused++
			testkit.MustHold(t, !strings.Contains(err.Error(), "did not answer within"), "Start did not notice that its helper was killed", err)
		}
	})
}

// killHelpers kills the helpers that are children of this process.
func killHelpers() {
	files, _ := filepath.Glob("/proc/self/task/*/children")
	for _, file := range files {
		children, _ := os.ReadFile(file) // the thread may have ended
		for _, child := range strings.Fields(string(children)) {
			arguments, _ := os.ReadFile(filepath.Join("/proc", child, "cmdline"))
			if pid, err := strconv.Atoi(child); err == nil && strings.HasPrefix(string(arguments), "daybook-sandbox\x00") {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}
