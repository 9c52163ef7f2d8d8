package daybook

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookq/daybook/bench"
	"github.com/daybookq/daybook/bench/peers/measure"
)

// streams is a session of streams. The callers share at most measure.Connections of them: with more callers, each stream
// has several outstanding requests.
type streams struct {
	streamServer
	runs bool // creates and jobs travel in runs

	mu   sync.Mutex
	open map[int]*bench.Stream // by number
}

// streamServer is a process that serves streams.
type streamServer interface {
	Pid() int
	Fill(ctx context.Context, jobs int) error
	Close() error
	URL() string
}

func openStreams(s *server) measure.Session { return newStreams(s, false) }

func openStreamsInRuns(s *server) measure.Session { return newStreams(s, true) }

func newStreams(s streamServer, runs bool) *streams {
	return &streams{streamServer: s, runs: runs, open: map[int]*bench.Stream{}}
}

func streamDoes(w measure.Work) bool {
	return w.Kind == measure.Lifecycle || w.Kind == measure.Create && w.Batch == 1
}

// Dial gives a caller a stream that it may share.
func (s *streams) Dial(ctx context.Context, caller int) (measure.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	number := caller % measure.Connections
	if s.open[number] == nil {
		opened, err := bench.NewLoad(s.URL(), 1).DialStream(ctx, s.runs, measure.PayloadBytes, nil)
		if err != nil {
			return nil, err
		}
		s.open[number] = opened
	}
	return streamConn{s.open[number]}, nil
}

func (s *streams) Close() error {
	for _, opened := range s.open {
		opened.Close()
	}
	return s.streamServer.Close()
}

// streamConn creates jobs. Jobs are not claimed in a stream but sent by the server: see Run.
type streamConn struct{ *bench.Stream }

func (c streamConn) Create(ctx context.Context, _ int) error {
	return c.Stream.Create(ctx, createBody)
}

func (streamConn) Claim(context.Context, int) (int, error) { return 0, measure.ErrUnsupported }

func (streamConn) Complete(context.Context) error { return measure.ErrUnsupported }

func (streamConn) Close() error { return nil }

var createBody = fmt.Sprintf(`{"payload":"%s"}`, lines(1)[:measure.PayloadBytes])

func (s *streams) Runs(w measure.Work) bool { return w.Kind == measure.Lifecycle }

// Run lets each stream subscribe with as many jobs of credit as callers share it. A caller creates a job, and continues
// when its stream has completed a job: there are as many outstanding jobs as callers.
func (s *streams) Run(ctx context.Context, t *measure.Turn) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	done := errors.New("all jobs are done")
	finish := sync.OnceFunc(func() {
		t.End()
		stop(done)
	})
	var left, completed atomic.Int64
	left.Store(int64(t.Jobs))
	perStream := max(t.Work.Callers/measure.Connections, 1)
	all := make([]*bench.Stream, t.Work.Callers/perStream)
	ended := make([]chan struct{}, len(all)) // a token for each job that the stream has completed
	for i := range all {
		ended[i] = make(chan struct{}, t.Jobs)
		var err error
		all[i], err = bench.NewLoad(s.URL(), 1).DialStream(ctx, s.runs, measure.PayloadBytes, func(claim string, jobs int) {
			// The answer arrives in the goroutine that calls this function, so the function must not wait for it.
			all[i].Send("complete", `{"claim_id":"`+claim+`","status":"completed"}`, func(err error) {
				if err != nil {
					stop(err)
				}
				for range jobs {
					select {
					case ended[i] <- struct{}{}:
					case <-ctx.Done():
					}
				}
				if completed.Add(int64(jobs)) >= int64(t.Jobs) { // more if other jobs wait in the queue
					finish()
				}
			})
		})
		if err != nil {
			return err
		}
		defer all[i].Close()
		if err := all[i].Subscribe(ctx, runnerID(i), perStream); err != nil {
			return err
		}
	}
	t.Begin()
	var group sync.WaitGroup
	for caller := range t.Work.Callers {
		group.Go(func() {
			for left.Add(-1) >= 0 && ctx.Err() == nil {
				began := time.Now()
				if err := all[caller/perStream].Create(ctx, createBody); err != nil {
					stop(err)
					return
				}
				select {
				case <-ended[caller/perStream]:
					t.Add(time.Since(began))
				case <-ctx.Done():
				}
			}
		})
	}
	<-ctx.Done()
	group.Wait()
	if err := context.Cause(ctx); !errors.Is(err, done) {
		return err
	}
	return nil
}
