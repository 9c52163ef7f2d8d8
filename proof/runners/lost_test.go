package runners

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
)

// lostConcurrency is how many jobs the lost runner runs at a time. It holds more.
const lostConcurrency = 2

// hooks is a trial that starts without runners. The handlers of its jobs do not return until they are released.
type hooks struct {
	*trial
	begun    chan string // payloads
	release  func()
	released atomic.Bool
	url      string
	address  string
}

func newHooks(t *testing.T, stream uint64, args ...string) *hooks {
	t.Helper()
	h := &hooks{begun: make(chan string, 100)}
	wait := make(chan struct{})
	h.release = func() { h.released.Store(true); close(wait) }
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		payload, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		text := strings.TrimSuffix(string(payload), "\n")
		if !h.released.Load() {
			h.begun <- text
			<-wait
		}
		io.WriteString(w, outputOf(hookType, text))
	}))
	t.Cleanup(web.Close)
	h.url, h.address = web.URL, web.Listener.Addr().String()
	h.trial = newTrial(t, rand.New(rand.NewPCG(*seed, stream)), 0, args...)
	return h
}

// runner starts a runner.
func (h *hooks) runner(id string) *runner {
	h.Helper()
	r := &runner{binary: binary, dir: base, config: func(string) string {
		return fmt.Sprintf("[handlers.hook]\nkind = \"http\"\nurl = %q\n", h.url)
	}, args: []string{"--server", h.server.URL(), "--id", id, "--concurrency", fmt.Sprint(lostConcurrency), "--http-allow", h.address}}
	h.Cleanup(func() { testkit.Check(h, r.clean()) })
	h.must(r.start())
	h.runners = append(h.runners, r)
	return r
}

// post posts n jobs.
func (h *hooks) post(prefix string, n int, lease time.Duration) {
	h.Helper()
	p := post{typ: hookType, acknowledged: true}
	for i := range n {
		p.payloads = append(p.payloads, fmt.Sprint(prefix, i))
	}
	initial := int64(20)
	_, err := h.client.AddLines(h.Context(), []byte(strings.Join(p.payloads, "\n")+"\n"), client.AddOptions{Type: hookType,
		Attributes: client.Attributes{LeaseMs: lease.Milliseconds(), Backoff: &client.Backoff{InitialMs: &initial}}, Key: client.NewKey()})
	h.must(err)
	h.account.add(p)
}

// running waits until a runner runs as many jobs as it can at a time, and returns their payloads.
func (h *hooks) running() (payloads []string) {
	h.Helper()
	for range lostConcurrency {
		select {
		case payload := <-h.begun:
			payloads = append(payloads, payload)
		case <-time.After(maxWait):
			h.Fatalf("undecided, machine too slow (or the runner hangs): %v have begun", payloads)
		}
	}
	return payloads
}

// TestKilledRunnerLosesBegunRuns kills a runner with SIGKILL while it runs jobs. Exactly these jobs have lost an attempt,
// with its row; the jobs that the runner held but had not begun have lost none. Another runner completes them all, long
// before a lease ends.
func TestKilledRunnerLosesBegunRuns(t *testing.T) {
	h := newHooks(t, 2, "--runner-heartbeat", "1s")
	h.post("lost-", 8, time.Hour)
	first := h.runner("killed")
	lost := h.running()
	h.must(first.kill())
	h.runners = nil
	h.release() // the answers never reach the runner
	h.runner("healthy")
	h.drain()
	for _, j := range h.jobs() {
		runs, rows := 1, 0
		if slices.Contains(lost, string(j.Payload)) {
			runs, rows = 2, 1
		}
		if j.RunAttempts != runs || len(j.Attempts) != rows || rows > 0 && (j.Attempts[0].Why != "runner_lost" || j.Attempts[0].RunnerID != "killed") {
			t.Errorf("%s ran %d times, with the rows %+v; begun when the runner was killed: %v", j.Payload, j.RunAttempts, j.Attempts, lost)
		}
	}
	seen := h.finish()
	testkit.Holds(t, seen.Lost == lostConcurrency && seen.Abandoned == 0, seen)
}

// TestFrozenRunner freezes a runner with SIGSTOP for longer than the lease of its jobs. Each of them has lost one
// attempt. Later jobs are not sent to the runner, although its connection has room, so another runner completes them at
// the first attempt. When the first runner continues, it runs the jobs that it is sent.
func TestFrozenRunner(t *testing.T) {
	const held = lostConcurrency + 1 // its credit is larger
	h := newHooks(t, 3)
	h.post("held-", held, lease)
	first := h.runner("frozen")
	h.running()
	h.must(first.cmd.Process.Signal(syscall.SIGSTOP))
	testkit.Eventually(h, "the leases of the frozen runner end", func() bool {
		jobs := h.jobs()
		return len(jobs) == held && !slices.ContainsFunc(jobs, func(j *client.Job) bool { return len(j.Attempts) == 0 })
	})
	h.post("later-", 20, lease)
	h.release()
	healthy := h.runner("healthy")
	h.drain()
	for _, j := range h.jobs() {
		want := 0
		if strings.HasPrefix(string(j.Payload), "held-") {
			want = 1
		}
		frozen := 0
		for _, a := range j.Attempts {
			if a.RunnerID == "frozen" && a.Why == "abandoned" {
				frozen++
			}
		}
		testkit.Equal(t, frozen, want, j.Payload, "has the rows", j.Attempts, "and must")
	}
	h.must(healthy.stop())
	h.runners = []*runner{first}
	h.must(first.cmd.Process.Signal(syscall.SIGCONT))
	h.post("last-", 4, lease)
	h.drain()
	seen := h.finish()
	testkit.Holds(t, seen.Abandoned >= held, seen)
}
