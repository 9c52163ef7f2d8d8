package runners

import (
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestMarked: a process with a mark is found, wherever the mark is, and even if its parent has ended. A process without
// the mark is not killed.
func TestMarked(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	mark := "mark-" + rand.Text()
	t.Cleanup(func() {
		left, err := marked(mark)
		for _, pid := range left {
			_, e := killMarked(pid, mark)
			testkit.Check(t, e)
		}
		testkit.Check(t, err)
	})
	link := filepath.Join(t.TempDir(), mark)
	testkit.NoError(t, os.WriteFile(link, testkit.Must(os.ReadFile(sleep))(t), 0o700))
	start := func(c *exec.Cmd) int {
		t.Helper()
		testkit.NoError(t, c.Start())
		t.Cleanup(func() { _ = c.Wait() }) // it was killed
		return c.Process.Pid
	}
	inPath, inArguments, inEnvironment := exec.Command(link, "300"), exec.Command("sh", "-c", "sleep 300; :", mark), exec.Command(sleep, "300")
	inPath.Args[0] = "sleep"
	inEnvironment.Env = []string{"MARK=" + mark}
	for where, c := range map[string]*exec.Cmd{"path": inPath, "arguments": inArguments, "environment": inEnvironment} {
		pid := start(c)
		testkit.Eventually(t, "the process with the mark in its "+where+" is found", func() bool { return slices.Contains(find(t, mark), pid) })
	}
	testkit.Eventually(t, "the shell has a child", func() bool { return len(below(t, inArguments.Process.Pid)) == 1 })
	if all := below(t, os.Getpid()); !slices.Contains(all, inPath.Process.Pid) || !slices.Contains(all, below(t, inArguments.Process.Pid)[0]) {
		t.Errorf("the descendants %v of this process are not complete", all)
	}

	orphan := exec.Command("sh", "-c", "(setsid sleep 300 &); (sleep 300 &)")
	orphan.Env = append(os.Environ(), "MARK="+mark)
	testkit.NoError(t, orphan.Run())
	testkit.Eventually(t, "two orphans are found", func() bool { return len(find(t, mark)) == 5 })
	testkit.Equal(t, len(testkit.Must(awaitGone(mark, 20*time.Millisecond))(t)), 5)
	killed, err := killMarked(inEnvironment.Process.Pid, mark+"x")
	testkit.Holds(t, !killed && err == nil, "a process without the mark was killed", err)
	for _, pid := range find(t, mark) {
		killed, err := killMarked(pid, mark)
		testkit.Holds(t, killed && err == nil, "process", pid, "was not killed", err)
	}
	if left, err := awaitGone(mark, time.Minute); len(left) > 0 || err != nil {
		t.Errorf("left over: %s, %v", describe(left), err)
	}
}

func find(t *testing.T, mark string) []int { t.Helper(); return testkit.Must(marked(mark))(t) }

func below(t *testing.T, pid int) []int { t.Helper(); return testkit.Must(descendants(pid))(t) }
