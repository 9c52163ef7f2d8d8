package worker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/clienttest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/worker"
)

// byTake makes the tests of workers use Take. See tested.
var byTake bool

// tested returns the worker to test: unchanged, or with a Take that calls its Handler in a goroutine for each job.
func tested(w *worker.Worker) *worker.Worker {
	if handler := w.Handler; byTake && handler != nil {
		w.Handler, w.Take = nil, func(runs []*worker.Run) {
			for _, u := range runs {
				go func() { u.End(handler(u, u.Job)) }()
			}
		}
	}
	return w
}

// TestTakeDoesWhatHandlersDo: the tests of workers with a Handler also pass with Take.
func TestTakeDoesWhatHandlersDo(t *testing.T) {
	byTake = true
	defer func() { byTake = false }()
	for name, test := range map[string]func(*testing.T){
		"Claims": TestClaimsOfAWorker, "Drain": TestDrain, "DrainStrandsNothing": TestDrainStrandsNothing,
		"TimeOut": TestJobsWithATimeOutDoNotWait, "ClaimedAhead": TestJobsClaimedAheadDoNotWaitForLong,
		"Lease": TestLeaseIsCountedFromTheAnswer, "Reports": TestReports, "Session": TestWorkersSession, "Restart": TestWorkerOutlivesARestart,
	} {
		t.Run(name, test)
	}
}

func TestTake(t *testing.T) {
	t.Run("it gets the jobs that fit together, and may end them in any order", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{"/jobs/claim": clienttest.Once(clienttest.HandOut(10, time.Minute))})
			var ev events
			var calls [][]*worker.Run
			stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Concurrency: 6, Batch: 10, Prefetch: 4, OnEvent: ev.add, Take: func(runs []*worker.Run) { calls = append(calls, runs) }})
			synctest.Wait()
			testkit.MustHold(t, len(calls) == 1 && len(calls[0]) == 6, len(calls), "calls, the first of", len(calls[0]), "jobs")
			first := calls[0]
			for _, i := range []int{5, 2} {
				first[i].End(client.TextOutput(fmt.Sprint(i)), nil)
				first[i].End(client.Outcome{}, errors.New("the second end of a run")) // does not count
			}
			synctest.Wait()
			testkit.MustHold(t, len(calls) >= 2 && len(calls)+len(calls[1]) <= 4, len(calls), "calls after two jobs have ended")
			for _, i := range []int{0, 1, 3, 4} {
				first[i].End(client.Outcome{}, fmt.Errorf("job %d", i))
			}
			synctest.Wait()
			for _, runs := range calls[1:] {
				for _, u := range runs {
					u.End(client.Outcome{}, worker.ErrUnget)
				}
			}
			time.Sleep(time.Second) // reports wait for more ended jobs
			testkit.Check(t, stop())
			ends := ev.ends()
			for i := range 10 {
				end := ends[clienttest.TestID(i)]
				switch {
				case i > 5:
					testkit.Holds(t, errors.Is(end.Err, worker.ErrUnget), "job", i, end)
				case i == 2 || i == 5:
					testkit.Holds(t, end.Err == nil && string(end.Outcome.Output) == fmt.Sprint(i), "job", i, end)
				default:
					testkit.Holds(t, end.Err == nil && end.Outcome.Code == "error" &&
						end.Outcome.Error == fmt.Sprint("job ", i), "job", i, end)
				}
			}
		})
	})
	t.Run("a cause of the program does not change what End reports", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{"/jobs/claim": clienttest.Once(clienttest.HandOut(3, time.Minute))})
			var ev events
			stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Concurrency: 3, OnEvent: ev.add, Take: func(runs []*worker.Run) {
				for i, cause := range []error{worker.ErrLeaseLost, worker.ErrDraining, nil} {
					u := runs[i]
					u.Cancel(cause)
					err := u.Err()
					testkit.Holds(t, errors.Is(err, context.Canceled) && (cause == nil || errors.Is(err, cause)) && err.Error() != "", cause, err)
					u.End(client.Outcome{}, cause)
				}
			}})
			time.Sleep(time.Second)
			testkit.Check(t, stop())
			for id, end := range ev.ends() {
				want := map[bool]string{true: "", false: "error"}[id == clienttest.TestID(2)]
				testkit.Holds(t, end.Err == nil && end.Outcome.Code == want, id, end)
			}
		})
	})
	for name, take := range map[string]func(){
		"a panic is an error of the runs that have not ended": func() { panic("in Take") },
		"so is the end of the goroutine":                      runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{"/jobs/claim": clienttest.Once(clienttest.HandOut(5, time.Minute))})
				var ev events
				stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Concurrency: 2, Batch: 5, Prefetch: 3, OnEvent: ev.add, Take: func(runs []*worker.Run) {
					if runs[0].End(client.TextOutput("a"), nil); len(runs) > 1 {
						take()
					}
				}})
				time.Sleep(time.Second)
				testkit.Check(t, stop())
				ends, codes := ev.ends(), map[string]int{}
				for _, end := range ends {
					codes[fmt.Sprint(end.Outcome.Code, end.Err)]++
				}
				testkit.Holds(t, len(ends) == 5 && codes["error<nil>"] >= 1 && codes["error<nil>"]+codes["<nil>"] == 5, codes)
			})
		})
	}
	t.Run("Handler and Take, or neither", func(t *testing.T) {
		s := client.New("http://127.0.0.1:1", client.Options{})
		for _, w := range []worker.Worker{{Client: s}, {Client: s, Handler: well, Take: func([]*worker.Run) {}}} {
			testkit.Failed(t, w.Run(t.Context()))
		}
	})
}

// TestRunIsAContext: a Run ends as other contexts do.
func TestRunIsAContext(t *testing.T) {
	type key struct{}
	s := daybooktest.Start(t)
	got := make(chan *worker.Run, 4)
	for i := range cap(got) {
		testkit.Must(s.Client.Create(t.Context(), client.NewJob{Payload: fmt.Append(nil, i)}))(t)
	}
	w := worker.Worker{Client: s.Client, Concurrency: cap(got), Take: func(runs []*worker.Run) {
		for _, u := range runs {
			got <- u
		}
	}}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
	var working sync.WaitGroup
	working.Go(func() { testkit.Check(t, w.Run(ctx)) })
	defer working.Wait()
	defer cancel()
	u := <-got
	if _, limited := u.Deadline(); limited || u.Err() != nil || context.Cause(u) != nil || u.Value(key{}) != "value" {
		t.Errorf("a new run has the error %v and the value %v", u.Err(), u.Value(key{}))
	}
	derived, stop := context.WithCancel(u)
	defer stop()
	var after sync.WaitGroup
	after.Add(2)
	u.AfterFunc(after.Done)
	context.AfterFunc(u, after.Done)
	stopped := u.AfterFunc(func() { t.Error("a stopped function was called") })
	testkit.Holds(t, stopped() && !stopped(), "a function was not stopped, or twice")
	reason := errors.New("the reason")
	u.Cancel(reason)
	u.Cancel(errors.New("another one"))
	<-u.Done()
	<-derived.Done()
	late := make(chan struct{})
	stopped = u.AfterFunc(func() { close(late) })
	<-late
	after.Wait()
	for _, err := range []error{u.Err(), context.Cause(u), context.Cause(derived)} {
		testkit.Failed(t, err, context.Canceled, reason)
	}
	testkit.Holds(t, !stopped(), "a function that was called is stopped")
	u.End(client.Outcome{}, nil)

	ended := <-got
	ended.End(client.Outcome{}, nil)
	<-ended.Done() // as a Handler's context ends when it returns
	testkit.Failed(t, ended.Err(), context.Canceled)
	for range cap(got) - 2 {
		(<-got).End(client.Outcome{}, nil)
	}
}
