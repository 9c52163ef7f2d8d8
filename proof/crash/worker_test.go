package crash

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/worker"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/proof/report"
)

// TestWorkers kills the server under the load of the Go client's Worker, which most users run. A Worker claims ahead,
// tickles, reports in batches, and repeats requests without an answer.
func TestWorkers(t *testing.T) {
	l := newLane(t, 7)
	n := max(*kills/20, 3)
	l.workers(n)
	l.report(fmt.Sprintf("%d kills under the load of the client's Worker", n))
}

// handled records the results of a few workers' handlers, and the answers to their reports.
type handled struct {
	h *history

	mu       sync.Mutex
	outputs  map[job.ID]map[string]bool // that a handler returned
	fails    map[job.ID]bool            // a handler returned Fail
	begun    map[job.ID]int
	reported map[job.ID]string // the code of an outcome whose report was acknowledged
	events   int
}

// handle is the handler. It works a little, and fails now and then.
func (r *handled) handle(ctx context.Context, j *client.Job) (client.Outcome, error) {
	id, err := job.ParseID(j.ID)
	if err != nil {
		r.h.problem("a worker was handed the job %q: %v", j.ID, err)
		return client.Outcome{}, err
	}
	r.h.seen(id, j.Payload)
	r.mu.Lock()
	r.begun[id]++
	begun := r.begun[id]
	r.mu.Unlock()
	hash := fnv.New64a()
	fmt.Fprint(hash, j.ID, begun)
	rng := rand.New(rand.NewPCG(hash.Sum64(), 0))
	if rng.IntN(4) == 0 {
		pause(ctx, time.Duration(rng.IntN(30))*time.Millisecond)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch n := rng.IntN(40); {
	case n == 0:
		r.fails[id] = true
		return client.Outcome{}, worker.Fail(errors.New("it cannot be done"))
	case n < 3:
		return client.Outcome{}, worker.RetryAfter(50*time.Millisecond, errors.New("not yet"))
	case n < 15:
		r.note(id, "")
		return client.Outcome{}, nil
	}
	output := fmt.Sprintf("run %d of %s", begun, j.ID)
	r.note(id, output)
	return client.TextOutput(output), nil
}

func (r *handled) note(id job.ID, output string) {
	if r.outputs[id] == nil {
		r.outputs[id] = map[string]bool{}
	}
	r.outputs[id][output] = true
}

// event records what happened to the workers.
func (r *handled) event(e worker.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events++
	if e.Job == nil || e.Err != nil {
		return
	}
	if id, err := job.ParseID(e.Job.ID); err == nil && (e.Outcome.Code == "" || e.Outcome.Code == "ok" || e.Outcome.Code == "failed") {
		r.reported[id] = map[bool]string{true: "failed", false: "completed"}[e.Outcome.Code == "failed"]
	}
}

// verdict says why the document of an ended job is wrong, or returns "".
func (r *handled) verdict(id job.ID, d *document, output string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch reported := r.reported[id]; {
	case reported != "" && reported != d.Status:
		return fmt.Sprintf("an acknowledged report says that it is %s", reported)
	case d.Status == "completed" && !r.outputs[id][output]:
		return fmt.Sprintf("no handler returned the output %q", output)
	case d.Status == "failed" && !r.fails[id] && d.RunAttempts < d.MaxAttempts:
		return "no handler said that it failed, and it has attempts left"
	}
	return ""
}

func (l *lane) workers(kills int) {
	s := l.newTrial("workers", l.TempDir())
	l.must(s, s.start())
	l.must(s, s.firstKey())
	r := &handled{h: s.h, outputs: map[job.ID]map[string]bool{}, fails: map[job.ID]bool{}, begun: map[job.ID]int{}, reported: map[job.ID]string{}}
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	ended := make([]error, 3)
	for i := range ended {
		w := &worker.Worker{
			Client: client.New(s.server.URL(), client.Options{Key: s.u.key}), Handler: r.handle, Types: []string{s.u.queue}, OnEvent: r.event, Wait: time.Second,
			RunnerID: fmt.Sprint("worker-", i), Concurrency: []int{1, 8, 16}[i], Batch: []int{1, 10, 100}[i], DrainTimeout: maxWait,
		}
		all.Go(func() { ended[i] = w.Run(ctx) })
	}
	defer all.Wait()
	defer stop()
	load := standardLoad
	load.runners, load.streams, load.operators, load.chains = 0, 0, 0, false
	c := newCrowd(s.u, load, "w", l.rng.Uint64())
	s.startErrands(c, 1)
	defer c.end()
	begun := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.begun)
	}
	for n := range kills {
		l.awaitLoad(s, c, 1)
		before := begun()
		l.wait(s, "handlers run", func() bool { return begun() > before })
		time.Sleep(l.between(20*time.Millisecond, 900*time.Millisecond)) // the load continues until the kill
		l.must(s, s.kill())
		l.must(s, s.start())
		l.progress("%d of %d kills", n+1, kills)
	}
	l.awaitLoad(s, c, 1)
	c.end()
	l.must(s, s.settle(func() error { // the workers complete the remaining jobs
		err := s.awaitEnds()
		stop()
		all.Wait()
		return errors.Join(append(ended, err)...)
	}, func() error { return l.outputs(s, r) }))
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	for _, problem := range s.h.wrong {
		l.Error(problem)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.h.count.Ended, s.h.count.Claimed = len(r.reported), r.sum()
	s.h.count.Checked, s.h.count.Operations = len(r.begun), r.events
	report.Add(&l.tally, s.h.count)
}

// sum returns the number of begun runs. The caller holds r.mu.
func (r *handled) sum() (n int) {
	for _, begun := range r.begun {
		n += begun
	}
	return n
}

// outputs compares the end of each job with the handlers' results.
func (l *lane) outputs(s *trial, r *handled) error {
	list := client.New(s.server.URL(), client.Options{Key: s.u.key})
	n := 0
	for j, err := range list.Jobs(context.Background(), client.JobsQuery{}) {
		if err != nil {
			return fmt.Errorf("list jobs: %w", err)
		}
		id, err := job.ParseID(j.ID)
		if err != nil {
			return err
		}
		n++
		d := document{Status: j.Status, RunAttempts: int32(j.RunAttempts), MaxAttempts: int32(j.MaxAttempts)}
		if why := r.verdict(id, &d, string(j.Output)); why != "" {
			s.h.problem("job %s is %s after %d runs of %d: %s", id, j.Status, j.RunAttempts, j.MaxAttempts, why)
		}
	}
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	for id, code := range r.reported {
		if s.h.postOf(id) == nil {
			return fmt.Errorf("job %s, which was reported as %s, was never posted", id, code)
		}
	}
	if n == 0 {
		return errors.New("the list of jobs is empty")
	}
	return nil
}

// TestRunsAreJudged: the lane notices if the server's state differs from a worker's results.
func TestRunsAreJudged(t *testing.T) {
	id := job.NewID(1, 2, 3)
	for name, tt := range map[string]struct {
		reported, status, output string
		attempts                 int32
		bad                      bool
	}{
		"completed with what a handler returned": {"completed", "completed", "out", 1, false},
		"completed, the report had no answer":    {"", "completed", "out", 1, false},
		"another output":                         {"completed", "completed", "other", 1, true},
		"an acknowledged report that is missing": {"completed", "failed", "", 3, true},
		"failed by itself":                       {"", "failed", "", 1, true},
		"abandoned at its last attempt":          {"", "failed", "", 3, false},
	} {
		r := &handled{outputs: map[job.ID]map[string]bool{id: {"out": true}}, fails: map[job.ID]bool{}, reported: map[job.ID]string{}}
		if tt.reported != "" {
			r.reported[id] = tt.reported
		}
		testkit.Equal(t, r.verdict(id, &document{Status: tt.status, RunAttempts: tt.attempts, MaxAttempts: 3}, tt.output) != "", tt.bad, name)
	}
}
