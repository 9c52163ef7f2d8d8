package runners

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/testkit"
)

// treeOfSeven starts seven processes: the program, a child, one in a new session, one that ignores SIGHUP, one whose
// parent has ended, and one that has all of these properties and has a child. All ignore SIGTERM.
const treeOfSeven = `
trap "" TERM
sleep 1000 &
setsid sleep 1000 &
nohup sleep 1000 >/dev/null 2>&1 &
(sleep 1000 &)
(setsid sh -c 'trap "" HUP INT; sleep 1000; :' &)
wait
`

// TestTreeEndsWithItsTimeout: when a handler has run for too long, all seven of its processes end.
func TestTreeEndsWithItsTimeout(t *testing.T) {
	testkit.Need(t, "sh", "setsid", "nohup", "sleep")
	server := daybooktest.Start(t)
	t.Parallel()
	// On a busy machine the tree may not be complete before the time-out. The test then tries a longer one.
	for timeout := 2 * time.Second; timeout < maxWait; timeout *= 4 {
		if treeOnce(t, server, timeout) {
			return
		}
	}
	t.Error("undecided, machine too slow: seven processes were never seen")
}

// treeOnce reports whether all seven processes were seen before they ended.
func treeOnce(t *testing.T, server *daybooktest.Server, timeout time.Duration) (seen bool) {
	r := &runner{
		binary: binary, dir: base, args: []string{"--server", server.URL},
		config: func(mark string) string {
			return fmt.Sprintf("[handlers.seven]\nkind = \"exec\"\nenv = { MARK = %q }\noptions = { timeout_ms = %d }\nshell = '''%s'''\n", mark, timeout.Milliseconds(), treeOfSeven)
		},
	}
	t.Cleanup(func() { testkit.Check(t, r.clean()) })
	testkit.NoError(t, r.start())
	j, err := server.Client.Create(t.Context(), client.NewJob{Type: "seven", Attributes: client.Attributes{MaxAttempts: 1}})
	testkit.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), maxWait)
	defer cancel()
	for ; j.Status != "failed"; time.Sleep(5 * time.Millisecond) {
		seen = seen || len(tree(t, r)) == 7
		j, err = server.Client.Job(ctx, j.ID)
		testkit.NoError(t, err, r.log)
	}
	testkit.Contains(t, j.Error, "timeout_ms")
	// The runner waits for the end of the tree before it reports the job and continues.
	if left := tree(t, r); len(left) > 0 {
		t.Errorf("%d processes are left when the job is reported:\n%s", len(left), describe(left))
	}
	testkit.Check(t, r.stop())
	return seen
}

// tree returns the processes of the handler: those with the runner's mark, except the runner and the helpers of the
// sandbox, which run the runner's binary.
func tree(t *testing.T, r *runner) (pids []int) {
	t.Helper()
	for _, pid := range find(t, r.mark) {
		if inEnvironment(pid, "MARK="+r.mark) {
			pids = append(pids, pid)
		}
	}
	return pids
}
