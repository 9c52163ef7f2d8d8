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
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
)

// lostConcurrency is how many jobs the runner that is killed runs. It holds more.
const lostConcurrency = 2

// TestKilledRunnerLosesBegunRuns kills a runner with SIGKILL while jobs of it run. Exactly these have lost an attempt, with its
// row; the jobs that the runner held and had not begun have lost none. Another runner does them all, long before a lease ends.
func TestKilledRunnerLosesBegunRuns(t *testing.T) {
	var killed atomic.Bool
	begun := make(chan string, 100)
	release := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		payload, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		text := strings.TrimSuffix(string(payload), "\n")
		if !killed.Load() {
			begun <- text
			<-release // the answer never reaches the runner, which is dead by then
		}
		io.WriteString(w, outputOf(hookType, text))
	}))
	t.Cleanup(web.Close)
	s := newTrial(t, rand.New(rand.NewPCG(*seed, 2)), 0, "--runner-heartbeat", "1s")
	runner := func(id string) *runner {
		r := &runner{binary: binary, dir: base, config: func(string) string {
			return fmt.Sprintf("[handlers.hook]\nkind = \"http\"\nurl = %q\n", web.URL)
		}, args: []string{"--server", s.server.URL(), "--id", id, "--concurrency", fmt.Sprint(lostConcurrency), "--http-allow", web.Listener.Addr().String()}}
		t.Cleanup(func() {
			if err := r.clean(); err != nil {
				t.Error(err)
			}
		})
		s.must(r.start())
		return r
	}
	p := post{typ: hookType, acknowledged: true}
	for i := range 8 {
		p.payloads = append(p.payloads, fmt.Sprint("lost-", i))
	}
	initial := int64(20)
	_, err := s.client.AddLines(s.Context(), []byte(strings.Join(p.payloads, "\n")+"\n"), client.AddOptions{Type: hookType,
		Attributes: client.Attributes{LeaseMs: time.Hour.Milliseconds(), Backoff: &client.Backoff{InitialMs: &initial}}, Key: client.NewKey()})
	s.must(err)
	s.account.add(p)

	first := runner("killed")
	var lost []string
	for range lostConcurrency {
		select {
		case payload := <-begun:
			lost = append(lost, payload)
		case <-time.After(maxWait):
			t.Fatalf("undecided, machine too slow (or the runner hangs): %d jobs have begun\n%s", len(lost), first.log)
		}
	}
	s.must(first.kill())
	killed.Store(true)
	close(release)
	s.runners = append(s.runners, runner("healthy"))
	s.drain()
	for j, err := range s.client.Jobs(s.Context(), client.JobsQuery{}) {
		s.must(err)
		runs, rows := 1, 0
		if slices.Contains(lost, string(j.Payload)) {
			runs, rows = 2, 1
		}
		if j.RunAttempts != runs || len(j.Attempts) != rows || rows > 0 && (j.Attempts[0].Why != "runner_lost" || j.Attempts[0].RunnerID != "killed") {
			t.Errorf("%s ran %d times, with the rows %+v; begun when the runner was killed: %v", j.Payload, j.RunAttempts, j.Attempts, lost)
		}
	}
	if seen := s.finish(); seen.Lost != lostConcurrency || seen.Abandoned != 0 {
		t.Errorf("%+v", seen)
	}
}
