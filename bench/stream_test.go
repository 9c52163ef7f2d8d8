package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookq/daybook/bench/matrix"
	"github.com/daybookq/daybook/internal/load"
	"github.com/daybookq/daybook/internal/load/works"
	"github.com/daybookq/daybook/internal/testkit"
)

// streamWork sets the round of a point in streams. Each stream has as many outstanding jobs as a batch has. The work
// create sends creates of single jobs. A lifecycle begins with a create, and ends with the answer to the completion of a
// job that the server has sent. In a drain the jobs exist before; the server sends them in runs, one claim for all the
// credit, and one request completes the claim. The time of a call is the time of the create, of the lifecycle, or of the
// completion.
func streamWork(tb testing.TB, p matrix.Point, l *Load, w *matrix.Workload) {
	tb.Helper()
	if p.Work != "drain" { // a round costs as much as single jobs do
		w.Calls = min(w.Calls, max(p.Conns, maxStreamJobs/p.Batch))
	}
	var r streamRound
	streams := make([]*Stream, p.Conns)
	for i := range streams {
		streams[i] = testkit.Must(l.DialStream(tb.Context(), p.Work == "drain", p.Size, func(claim string, jobs int) {
			began := time.Now()
			streams[i].Send("complete", `{"claim_id":"`+claim+`","status":"completed"}`, func(err error) { r.completed(i, jobs, time.Since(began), err) })
		}))(tb)
		tb.Cleanup(streams[i].Close)
		if p.Work != "create" {
			testkit.NoError(tb, streams[i].Subscribe(tb.Context(), "load", 0))
		}
	}
	payload := string(works.Lines(1, p.Size)[:p.Size])
	var created atomic.Int64
	w.Round = func(ctx context.Context, callers []*matrix.Caller) error {
		jobs := w.Calls * p.Batch
		ctx, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		r.begin(p.Work == "drain", callers, int64(jobs), stop)
		for _, s := range streams {
			if p.Work != "create" {
				if err := s.Credit(ctx, p.Batch); err != nil && !errors.Is(err, errAllDone) { // a drain may end while others get their credit
					return err
				}
			}
		}
		var err error
		if p.Work == "drain" {
			<-ctx.Done()
		} else {
			times := make([]matrix.Latencies, p.Conns*p.Batch)
			err = load.Share(context.WithoutCancel(ctx), len(times), jobs, func(_ context.Context, i int) error {
				return times[i].Time(func() error {
					client, typ := p.Queue(int(created.Add(1)))
					err := streams[i%p.Conns].Create(ctx, `{"client":"`+client+`","type":"`+typ+`","payload":"`+payload+`"}`)
					if err == nil && p.Work == "lifecycle" {
						err = r.take(ctx)
					}
					return err
				})
			})
			for i, t := range times {
				callers[i%p.Conns].Latencies = append(callers[i%p.Conns].Latencies, t...)
			}
		}
		if ended := context.Cause(ctx); err == nil && ended != nil && !errors.Is(ended, errAllDone) {
			err = ended
		}
		r.end()
		for _, s := range streams { // without credit they get no jobs, so that a backlog stays
			if p.Work != "create" && err == nil {
				err = s.Credit(tb.Context(), 0)
			}
		}
		if err == nil {
			_, err = applied(tb.Context(), l)
		}
		return err
	}
}

// maxStreamJobs bounds the jobs of a round in which each job is created by a separate request.
const maxStreamJobs = 10_000

var errAllDone = errors.New("all jobs of the round are done")

// streamRound counts the completions of a round.
type streamRound struct {
	mu      sync.Mutex
	timed   bool             // completions are the calls
	callers []*matrix.Caller // by stream; nil between rounds
	ended   chan struct{}    // a token for each job that is completed, by whichever stream got it
	left    int64
	stop    func(error)
}

func (r *streamRound) begin(timed bool, callers []*matrix.Caller, jobs int64, stop func(error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timed, r.callers, r.left, r.stop, r.ended = timed, callers, jobs, stop, make(chan struct{}, jobs)
}

// end leaves later completions, of a backlog, out.
func (r *streamRound) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.callers = nil
}

// take waits until a job is completed.
func (r *streamRound) take(ctx context.Context) error {
	select {
	case <-r.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// completed records that the jobs of a claim are completed.
func (r *streamRound) completed(stream, jobs int, took time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.callers == nil:
		return
	case err != nil:
		r.stop(fmt.Errorf("complete a claim: %w", err))
	case r.timed:
		r.callers[stream].Latencies = append(r.callers[stream].Latencies, took)
		if r.left -= int64(jobs); r.left <= 0 {
			r.stop(errAllDone)
		}
	default:
		for range jobs {
			select {
			case r.ended <- struct{}{}:
			default: // more jobs of a backlog than the round has
			}
		}
	}
}
