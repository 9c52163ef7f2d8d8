package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
)

// events gathers what a worker tells.
type events struct {
	mu   sync.Mutex
	list []client.Event
}

func (e *events) tell(ev client.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, ev)
}

// ends returns the ends of runs, by job.
func (e *events) ends() map[string]client.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	ends := map[string]client.Event{}
	for _, ev := range e.list {
		if ev.Job != nil {
			ends[ev.Job.ID] = ev
		}
	}
	return ends
}

// start runs a worker in the background; stop has it drain, and returns what Run does.
func start(t *testing.T, w *client.Worker) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}

func well(context.Context, *client.Job) (client.Outcome, error) { return client.Outcome{}, nil }

// until is a handler that goes on until its context ends, and tells when.
func until(ended chan<- time.Time) client.Handler {
	return func(ctx context.Context, j *client.Job) (client.Outcome, error) {
		<-ctx.Done()
		ended <- time.Now()
		return client.Outcome{}, context.Cause(ctx)
	}
}

func TestLeaseIsCountedFromTheAnswer(t *testing.T) {
	t.Run("a job that comes late in a long poll", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			late := handOut(1, 2*time.Second)
			late.after = 19 * time.Second
			var ev events
			f := runner(t, map[string]func(call) reply{"/jobs/claim": once(late)})
			w := &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", OnEvent: ev.tell, Handler: func(ctx context.Context, _ *client.Job) (client.Outcome, error) {
				time.Sleep(200 * time.Millisecond)
				return client.Outcome{}, context.Cause(ctx)
			}}
			stop := start(t, w)
			time.Sleep(25 * time.Second)
			if end, ok := ev.ends()[testID(0)]; !ok || end.Err != nil {
				t.Errorf("%+v", end)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("without a tickle that succeeds it is lost, a tenth earlier", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var ev events
			f := runner(t, map[string]func(call) reply{
				"/jobs/claim": once(handOut(1, 100*time.Second)), "/jobs/tickle": func(call) reply { return lostAnswer },
			})
			ended, began := make(chan time.Time, 1), time.Now()
			stop := start(t, &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", OnEvent: ev.tell, Handler: until(ended)})
			if d := (<-ended).Sub(began); d != 90*time.Second {
				t.Errorf("lost after %v", d)
			}
			if err := stop(); err != nil { // a lost lease is no failure of Run
				t.Error(err)
			}
			if err := ev.ends()[testID(0)].Err; !errors.Is(err, client.ErrLeaseLost) {
				t.Error(err)
			}
			if len(f.to("/jobs/complete")) > 0 {
				t.Error("a run without a lease was reported")
			}
		})
	})
	t.Run("a tickle counts from when it was sent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var sent time.Time
			f := runner(t, map[string]func(call) reply{
				"/jobs/claim": once(handOut(1, 100*time.Second)),
				"/jobs/tickle": func(c call) reply {
					if sent.IsZero() {
						sent = c.at
						return reply{status: 200, body: `{"held":1}`, after: 10 * time.Second}
					}
					return reply{after: -1}
				},
			})
			ended := make(chan time.Time, 1)
			stop := start(t, &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", Handler: until(ended)})
			if d := (<-ended).Sub(sent); d != 100*time.Second {
				t.Errorf("lost %v after the tickle was sent", d)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	})
	for name, down := range map[string]reply{"connection refused": refusedConnection, "not_ready": problem(503, "not_ready", "not_stored")} {
		t.Run("a server that starts gives all of it back: "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				f := runner(t, map[string]func(call) reply{
					"/jobs/claim": once(handOut(1, 10*time.Second)),
					"/jobs/tickle": func(call) reply {
						if time.Since(began) < time.Minute {
							return down
						}
						return lostAnswer
					},
				})
				ended := make(chan time.Time, 1)
				stop := start(t, &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", Handler: until(ended)})
				if d := (<-ended).Sub(began); d < 67*time.Second || d > 70*time.Second {
					t.Errorf("lost after %v", d)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
	t.Run("a claim that holds nothing is lost at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := runner(t, map[string]func(call) reply{
				"/jobs/claim":  once(handOut(1, time.Hour)),
				"/jobs/tickle": func(call) reply { return problem(409, "claim_lost", "not_stored") },
			})
			ended, began := make(chan time.Time, 1), time.Now()
			stop := start(t, &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", Handler: until(ended)})
			if d := (<-ended).Sub(began); d > 25*time.Minute {
				t.Errorf("lost after %v", d)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	})
}

// together is a handler which ends n runs at the same time, so that they are reported together.
func together(n int, end client.Handler) client.Handler {
	var gate sync.WaitGroup
	gate.Add(n)
	return func(ctx context.Context, j *client.Job) (client.Outcome, error) {
		gate.Done()
		gate.Wait()
		return end(ctx, j)
	}
}

// work has a worker run n jobs of a real server, and returns what it told and what Run returned.
func work(t *testing.T, n int, handler client.Handler) (s *daybooktest.Server, ends map[string]client.Event, err error) {
	s = daybooktest.Start(t)
	if _, err := s.Client.AddLines(t.Context(), []byte(strings.Repeat("x\n", n)), client.AddOptions{}); err != nil {
		t.Fatal(err)
	}
	var ev events
	all := make(chan struct{})
	var left atomic.Int32
	left.Store(int32(n))
	w := &client.Worker{Client: s.Client, Concurrency: n, Prefetch: -1, Handler: handler, OnEvent: func(e client.Event) {
		ev.tell(e)
		if e.Job != nil && left.Add(-1) == 0 {
			close(all)
		}
	}}
	stop := start(t, w)
	<-all
	err = stop()
	return s, ev.ends(), err
}

func counts(t *testing.T, s *daybooktest.Server) map[string]int64 {
	t.Helper()
	q, err := s.Client.Queue(t.Context(), "default", "default")
	if err != nil {
		t.Fatal(err)
	}
	return q.Counts
}

func TestReports(t *testing.T) {
	t.Run("that are together larger than a body may be", func(t *testing.T) {
		s, _, err := work(t, 12, together(12, func(context.Context, *client.Job) (client.Outcome, error) {
			return client.TextOutput(strings.Repeat("o", 1<<20)), nil
		}))
		if got := counts(t, s); err != nil || got["completed"] != 12 {
			t.Errorf("%v, %v", got, err)
		}
	})
	for name, o := range map[string]client.Outcome{
		"malformed":     {ExitCode: 999},
		"too large":     client.TextOutput(strings.Repeat("o", 9<<20)),
		"not JSON":      client.JSONOutput([]byte("{")),
		"not UTF-8":     {OutputAddr: "\xff"},
		"of no kind":    {Output: []byte("x"), OutputKind: "yaml"},
		"contradictory": {Code: "ok", ExitCode: 500},
	} {
		t.Run("of which one is "+name, func(t *testing.T) {
			var n atomic.Int32
			var bad atomic.Value
			s, ends, err := work(t, 5, together(5, func(_ context.Context, j *client.Job) (client.Outcome, error) {
				if n.Add(1) == 3 {
					bad.Store(j.ID)
					return o, nil
				}
				return client.Outcome{}, nil
			}))
			if err == nil || !strings.Contains(err.Error(), "reported: 1;") {
				t.Errorf("Run: %v", err)
			}
			if got := counts(t, s); got["completed"] != 4 {
				t.Errorf("%v", got)
			}
			j, err := s.Client.Job(t.Context(), bad.Load().(string))
			if err != nil || len(j.Attempts) != 1 || j.Attempts[0].Code != "error" || !strings.Contains(j.Attempts[0].Error, "cannot be reported") {
				t.Errorf("%+v, %v", j, err)
			}
			for id, end := range ends {
				if (end.Err != nil) != (id == j.ID) {
					t.Errorf("%s: %v", id, end.Err)
				}
			}
		})
	}
	for name, again := range map[string]reply{"500": problem(500, "internal", "unknown"), "507": problem(507, "disk_full", "not_stored"), "502": {status: 502}} {
		t.Run("are repeated after "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var ev events
				f := runner(t, map[string]func(call) reply{"/jobs/claim": once(handOut(1, time.Minute)), "/jobs/complete": func(c call) reply {
					if time.Since(began) < 50*time.Second {
						return again
					}
					return completed(c)
				}})
				stop := start(t, &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", OnEvent: ev.tell, Handler: well})
				time.Sleep(49 * time.Second)
				if len(ev.ends()) > 0 {
					t.Error("an end was told of before it was reported")
				}
				time.Sleep(10 * time.Second)
				if end, ok := ev.ends()[testID(0)]; !ok || end.Err != nil {
					t.Errorf("%+v", end)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
	t.Run("that fail for a lease are Run's error, which is bounded", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var ev events
			f := runner(t, map[string]func(call) reply{
				"/jobs/claim": once(handOut(40, time.Minute)), "/jobs/complete": func(call) reply { return problem(507, "disk_full", "not_stored") },
			})
			stop := start(t, &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", Batch: 40, Concurrency: 40, OnEvent: ev.tell, Handler: well})
			time.Sleep(5 * time.Minute)
			if n := len(ev.ends()); n != 40 {
				t.Errorf("%d ends", n)
			}
			err := stop()
			if !errors.Is(err, client.ErrOverloaded) || !strings.Contains(err.Error(), "reported: 40;") || strings.Count(err.Error(), "disk_full") != 10 {
				t.Error(err)
			}
		})
	})
	t.Run("of a claim that has lost some are asked for one by one", func(t *testing.T) {
		for name, whole := range map[string]reply{
			"fewer ended": {status: 200, body: `{"ended":0,"results":[]}`}, "claim lost": problem(409, "claim_lost", "not_stored"),
		} {
			synctest.Test(t, func(t *testing.T) {
				var ev events
				f := runner(t, map[string]func(call) reply{"/jobs/claim": once(handOut(1, time.Minute)), "/jobs/complete": func(c call) reply {
					if c.body["outcomes"] == nil {
						return whole
					}
					return reply{status: 200, body: fmt.Sprintf(`{"results":[{"job_id":%q,"status":null,"code":"claim_lost","detail":"…"}]}`, testID(0))}
				}})
				stop := start(t, &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", OnEvent: ev.tell, Handler: well})
				time.Sleep(time.Second)
				if err := stop(); err != nil { // what is lost runs again
					t.Errorf("%s: %v", name, err)
				}
				if err := ev.ends()[testID(0)].Err; !errors.Is(err, client.ErrLeaseLost) {
					t.Errorf("%s: %v", name, err)
				}
				if asked := f.to("/jobs/complete"); len(asked) != 2 || asked[1].body["claim_id"] != testClaim {
					t.Errorf("%s: %d requests", name, len(asked))
				}
			})
		}
	})
	// gathered has a worker end n runs while the report of the first is under way, so that they are reported together.
	gathered := func(t *testing.T, n int, o func(id string) client.Outcome, complete func(call) reply) (f *fake, ev *events, err error) {
		ev = &events{}
		first := true
		f = runner(t, map[string]func(call) reply{"/jobs/claim": once(handOut(n+1, time.Minute)), "/jobs/complete": func(c call) reply {
			r := complete(c)
			if first {
				first, r.after = false, time.Second
			}
			return r
		}})
		stop := start(t, &client.Worker{
			Client: f.client(client.Options{}), RunnerID: "r", Concurrency: n + 1, OnEvent: ev.tell,
			Handler: func(_ context.Context, j *client.Job) (client.Outcome, error) {
				if j.ID == testID(n) {
					return client.Outcome{}, nil
				}
				time.Sleep(time.Second / 2)
				return o(j.ID), nil
			},
		})
		time.Sleep(20 * time.Second)
		return f, ev, stop()
	}
	t.Run("are split at 4 MiB", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			large := func(string) client.Outcome { return client.TextOutput(strings.Repeat("o", 1<<20)) }
			f, ev, err := gathered(t, 8, large, completed)
			var per []int
			for _, c := range f.to("/jobs/complete") {
				list, _ := c.body["outcomes"].([]any)
				per = append(per, len(list))
				if len(c.text) > 4<<20+1000 {
					t.Errorf("a body of %d bytes", len(c.text))
				}
			}
			if fmt.Sprint(per) != "[1 3 3 2]" || len(ev.ends()) != 9 || err != nil {
				t.Errorf("reported %v, %d ends, %v", per, len(ev.ends()), err)
			}
		})
	})
	for _, status := range []int{400, 413} {
		t.Run(fmt.Sprintf("are split around an outcome that is refused with %d", status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bad := map[string]bool{testID(2): true, testID(7): true}
				took := map[string]string{}
				_, ev, err := gathered(t, 20, func(string) client.Outcome { return client.Outcome{ExitCode: 299} }, func(c call) reply {
					list, _ := c.body["outcomes"].([]any)
					for _, o := range list {
						if o := o.(map[string]any); bad[o["job_id"].(string)] && o["code"] != "error" {
							return problem(status, "bad_request", "not_stored")
						}
					}
					for _, o := range list {
						o := o.(map[string]any)
						took[o["job_id"].(string)], _ = o["error"].(string)
					}
					return completed(c)
				})
				if len(took) != 21 || err == nil || !strings.Contains(err.Error(), "reported: 2;") {
					t.Errorf("%d outcomes arrived, %v", len(took), err)
				}
				for id, end := range ev.ends() {
					if (end.Err != nil) != bad[id] || strings.Contains(took[id], "bad_request") != bad[id] {
						t.Errorf("%s: %v, reported %q", id, end.Err, took[id])
					}
				}
			})
		})
	}
	t.Run("of jobs that are gone once they have ended", func(t *testing.T) {
		s := daybooktest.Start(t)
		none := int64(0)
		o := client.AddOptions{Attributes: client.Attributes{RetentionMs: &none}}
		if _, err := s.Client.AddLines(t.Context(), []byte("a\nb\n"), o); err != nil {
			t.Fatal(err)
		}
		claim, err := s.Client.Claim(t.Context(), client.ClaimRequest{RunnerID: "r", Max: 2})
		if err != nil {
			t.Fatal(err)
		}
		ended, _, err := s.Client.CompleteClaim(t.Context(), claim.ID, client.Outcome{})
		if ended != 2 || err != nil {
			t.Fatalf("ended %d, %v", ended, err)
		}
		if ended, _, err = s.Client.CompleteClaim(t.Context(), claim.ID, client.Outcome{}); ended != 0 || !errors.Is(err, client.ErrClaimLost) {
			t.Errorf("again: ended %d, %v", ended, err)
		}
		_, err = s.Client.Complete(t.Context(), claim.Jobs[0].ID, claim.ID, client.Outcome{})
		if !errors.Is(err, client.ErrNotFound) && !errors.Is(err, client.ErrClaimLost) {
			t.Errorf("again: %v", err)
		}
	})
}

func TestHandlersErrors(t *testing.T) {
	oops := errors.New("oops")
	for name, c := range map[string]struct {
		end   client.Handler
		code  string
		delay any
	}{
		"error":       {func(context.Context, *client.Job) (client.Outcome, error) { return client.Outcome{}, oops }, "error", nil},
		"Fail":        {func(context.Context, *client.Job) (client.Outcome, error) { return client.Outcome{}, client.Fail(oops) }, "failed", nil},
		"Fail of nil": {func(context.Context, *client.Job) (client.Outcome, error) { return client.Outcome{}, client.Fail(nil) }, "", nil},
		"RetryAfter": {func(context.Context, *client.Job) (client.Outcome, error) {
			return client.Outcome{}, client.RetryAfter(time.Second, oops)
		}, "retry", 1000.0},
		"RetryAfter of nil": {func(context.Context, *client.Job) (client.Outcome, error) {
			return client.Outcome{}, client.RetryAfter(time.Second, nil)
		}, "", nil},
		"negative RetryAfter": {func(context.Context, *client.Job) (client.Outcome, error) {
			return client.Outcome{}, client.RetryAfter(-time.Second, oops)
		}, "retry", 0.0},
		"panic": {func(context.Context, *client.Job) (client.Outcome, error) { panic(oops) }, "error", nil},
		"runtime.Goexit": {func(context.Context, *client.Job) (client.Outcome, error) {
			runtime.Goexit()
			return client.Outcome{}, nil
		}, "error", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := runner(t, map[string]func(call) reply{"/jobs/claim": once(handOut(2, time.Minute))})
				stop := start(t, &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", Batch: 2, Handler: c.end})
				time.Sleep(time.Second)
				if err := stop(); err != nil {
					t.Error(err)
				}
				seen := 0
				for _, done := range f.to("/jobs/complete") {
					list, _ := done.body["outcomes"].([]any)
					for _, o := range list {
						seen++
						o := o.(map[string]any)
						if want := c.code; o["code"] != want && !(want == "" && o["code"] == "ok") || o["delay_ms"] != c.delay {
							t.Errorf("reported %v", o)
						}
						if (o["error"] != nil) != (c.code != "") {
							t.Errorf("reported %v", o)
						}
					}
				}
				if seen != 2 {
					t.Errorf("%d reports", seen)
				}
			})
		})
	}
}

func TestClaimsOfAWorker(t *testing.T) {
	for name, refusal := range map[string]reply{
		"400": problem(400, "bad_request", "not_stored"), "403": problem(403, "forbidden_host", "not_stored"), "404": problem(404, "route_not_found", "not_stored"),
	} {
		refusal.after = time.Second // when the first job has been begun
		t.Run("a refusal for good ends Run: "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				claim := once(handOut(1, time.Minute))
				first := true
				f := runner(t, map[string]func(call) reply{"/jobs/claim": func(c call) reply {
					if first {
						first = false
						return claim(c)
					}
					return refusal
				}})
				w := &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", Handler: func(context.Context, *client.Job) (client.Outcome, error) {
					time.Sleep(10 * time.Second) // what has begun is ended and reported
					return client.Outcome{}, nil
				}}
				err := w.Run(t.Context())
				var refused *client.Error
				if !errors.As(err, &refused) || len(f.to("/jobs/claim")) != 2 || len(f.to("/jobs/complete")) != 1 {
					t.Errorf("%v", err)
				}
			})
		})
	}
	t.Run("a malformed type ends Run", func(t *testing.T) {
		w := &client.Worker{Client: daybooktest.Start(t).Client, Types: []string{"no/name"}, Handler: well}
		if err := w.Run(t.Context()); !errors.Is(err, client.ErrBadRequest) {
			t.Error(err)
		}
	})
	for name, passing := range map[string]reply{"500": problem(500, "internal", "unknown"), "502": {status: 502}, "404 of a proxy": {status: 404}, "nobody listens": refusedConnection} {
		t.Run("a failure that may pass does not: "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				f := runner(t, nil)
				f.answer = func(c call) reply {
					if time.Since(began) < 10*time.Minute {
						return passing
					}
					return nothing(c)
				}
				stop := start(t, &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", Handler: well})
				time.Sleep(11 * time.Minute)
				calls := f.to("/jobs/claim")
				if last := calls[len(calls)-1]; last.at.Sub(began) < 10*time.Minute {
					t.Error("it was given up")
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
	for _, c := range []struct{ concurrency, batch, prefetch, held int }{{2, 3, 0, 5}, {2, 3, -1, 2}, {2, 3, 1, 3}, {1, 0, 0, 2}, {4, 2, 7, 11}} {
		t.Run(fmt.Sprintf("Concurrency %d, Batch %d and Prefetch %d hold %d", c.concurrency, c.batch, c.prefetch, c.held), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got int
				f := runner(t, map[string]func(call) reply{"/jobs/claim": func(call call) reply {
					n := int(call.body["max"].(float64))
					if n > max(c.batch, 1) {
						t.Errorf("claimed %d", n)
					}
					r := handOut(got+n, time.Hour)
					if got > 0 { // each job once
						r.body = strings.Replace(r.body, strings.Join(jobTexts(0, got), ",")+",", "", 1)
					}
					got += n
					return r
				}})
				ended := make(chan time.Time, c.concurrency)
				w := &client.Worker{
					Client: f.client(client.Options{}), RunnerID: "r", Concurrency: c.concurrency, Batch: c.batch, Prefetch: c.prefetch,
					DrainTimeout: time.Second, Handler: until(ended),
				}
				stop := start(t, w)
				synctest.Wait()
				if got != c.held {
					t.Errorf("%d are held", got)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
				if n := len(f.to("/jobs/{id}/release")); n != c.held {
					t.Errorf("%d were given back", n)
				}
			})
		})
	}
	t.Run("answers that are too large have it claim less", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var asked []float64
			f := runner(t, map[string]func(call) reply{"/jobs/claim": func(c call) reply {
				asked = append(asked, c.body["max"].(float64))
				switch len(asked) {
				case 1, 2:
					return reply{status: 200, stream: endless{}}
				}
				return nothing(c)
			}})
			stop := start(t, &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", Batch: 100, Prefetch: 1000, Handler: well})
			time.Sleep(90 * time.Second)
			if err := stop(); err != nil {
				t.Error(err)
			}
			if got := fmt.Sprint(asked); !strings.HasPrefix(got, "[100 50 25 50 100") {
				t.Errorf("asked for %s", got)
			}
		})
	})
	t.Run("a server that never answers does not keep it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := runner(t, nil)
			hung := true
			f.answer = func(c call) reply {
				if hung {
					hung = false
					return reply{after: -1}
				}
				return nothing(c)
			}
			stop := start(t, &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", Handler: well})
			time.Sleep(time.Minute)
			if n := len(f.to("/jobs/claim")); n != 2 {
				t.Errorf("%d claims", n)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	})
}

// jobTexts are the jobs that handOut writes.
func jobTexts(from, to int) (list []string) {
	for i := from; i < to; i++ {
		list = append(list, fmt.Sprintf(`{"job_id":%q,"status":"active"}`, testID(i)))
	}
	return list
}

func TestWorkerOutlivesARestart(t *testing.T) {
	s := daybooktest.Start(t)
	if _, err := s.Client.AddLines(t.Context(), []byte("a\nb\n"), client.AddOptions{}); err != nil {
		t.Fatal(err)
	}
	begun, restarted, ended := make(chan struct{}, 2), make(chan struct{}), make(chan error, 2)
	w := &client.Worker{
		Client: s.Client, Prefetch: -1,
		Handler: func(ctx context.Context, _ *client.Job) (client.Outcome, error) {
			begun <- struct{}{}
			<-restarted
			return client.Outcome{}, context.Cause(ctx)
		},
		OnEvent: func(e client.Event) {
			if e.Job != nil {
				ended <- e.Err
			}
		},
	}
	stop := start(t, w)
	<-begun
	s.Restart()
	close(restarted)
	for range 2 { // the one that was under way, and one that is claimed from the new server
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := counts(t, s); got["completed"] != 2 {
		t.Errorf("%v", got)
	}
}

func TestDrain(t *testing.T) {
	t.Run("gives back in parallel, within bounds", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var ev events
			slow := func(c call) reply {
				return reply{status: 200, body: fmt.Sprintf(`{"job_id":%q}`, c.id), after: time.Second}
			}
			f := runner(t, map[string]func(call) reply{"/jobs/claim": once(handOut(66, time.Minute)), "/jobs/{id}/release": slow})
			w := &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", Batch: 66, DrainTimeout: time.Second, OnEvent: ev.tell, Handler: until(make(chan time.Time, 1))}
			stop := start(t, w)
			synctest.Wait()
			began := time.Now()
			if err := stop(); err != nil {
				t.Error(err)
			}
			if d := time.Since(began); d < 5*time.Second || d > 7*time.Second {
				t.Errorf("66 jobs, 16 at once, took %v", d)
			}
			ends := ev.ends()
			for id, end := range ends {
				if !errors.Is(end.Err, client.ErrDraining) {
					t.Errorf("%s: %v", id, end.Err)
				}
			}
			if len(ends) != 66 {
				t.Errorf("%d ends", len(ends))
			}
		})
	})
	t.Run("a job that is lost is back already", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var ev events
			f := runner(t, map[string]func(call) reply{
				"/jobs/claim": once(handOut(1, time.Minute)), "/jobs/{id}/release": func(call) reply { return problem(http.StatusConflict, "claim_lost", "not_stored") },
			})
			w := &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", DrainTimeout: time.Second, OnEvent: ev.tell, Handler: until(make(chan time.Time, 1))}
			stop := start(t, w)
			synctest.Wait()
			if err := stop(); err != nil {
				t.Error(err)
			}
			if err := ev.ends()[testID(0)].Err; !errors.Is(err, client.ErrDraining) || errors.Is(err, client.ErrClaimLost) {
				t.Error(err)
			}
		})
	})
	t.Run("jobs go back to where they were", func(t *testing.T) {
		s := daybooktest.Start(t)
		if _, err := s.Client.AddLines(t.Context(), []byte("a\nb\nc\n"), client.AddOptions{}); err != nil {
			t.Fatal(err)
		}
		begun := make(chan string, 3)
		w := &client.Worker{Client: s.Client, Batch: 3, DrainTimeout: time.Millisecond, Handler: func(ctx context.Context, j *client.Job) (client.Outcome, error) {
			begun <- string(j.Payload)
			<-ctx.Done()
			return client.Outcome{}, context.Cause(ctx)
		}}
		stop := start(t, w)
		if first := <-begun; first != "a" {
			t.Errorf("the first job is %q", first)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		claim, err := s.Client.Claim(t.Context(), client.ClaimRequest{RunnerID: "r", Max: 3})
		if err != nil || len(claim.Jobs) != 3 || claim.Jobs[0].RunAttempts != 1 || string(claim.Jobs[0].Payload) != "a" {
			t.Errorf("%+v, %v", claim, err)
		}
	})
}
