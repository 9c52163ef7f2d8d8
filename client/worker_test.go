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

// events gathers what a worker reports.
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

// until is a handler that works until its context ends, and signals that.
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
	for _, c := range []struct{ wait, lost time.Duration }{
		{0, 100 * time.Second},                            // counted from sending the claim
		{9 * time.Second, 100 * time.Second},              // the same
		{19 * time.Second, (19 + 100 - 10) * time.Second}, // counted from the answer, less a tenth
	} {
		t.Run(fmt.Sprintf("without a tickle that succeeds it is lost, when the claim waited %v", c.wait), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ev events
				claimed := handOut(1, 100*time.Second)
				claimed.after = c.wait
				f := runner(t, map[string]func(call) reply{
					"/jobs/claim": once(claimed), "/jobs/tickle": func(call) reply { return lostAnswer },
				})
				ended, began := make(chan time.Time, 1), time.Now()
				stop := start(t, &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", OnEvent: ev.tell, Handler: until(ended)})
				if d := (<-ended).Sub(began); d != c.lost {
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
	}
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
	t.Run("a claim whose answer was lost before is tickled at once, and lost early", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			repeated := handOut(1, 90*time.Second)
			repeated.header, repeated.after = http.Header{"Idempotency-Replayed": {"true"}}, 80*time.Second
			f := runner(t, map[string]func(call) reply{"/jobs/claim": once(repeated), "/jobs/tickle": func(call) reply { return lostAnswer }})
			ended := make(chan time.Time, 1)
			stop := start(t, &client.Worker{Client: f.client(client.Options{Timeout: time.Hour}), RunnerID: "r", Handler: until(ended)})
			end := <-ended
			if claimed := f.to("/jobs/claim")[0].at.Add(80 * time.Second); end.Sub(claimed) != 30*time.Second || f.to("/jobs/tickle")[0].at.Sub(claimed) > 0 {
				t.Errorf("lost after %v, tickled after %v", end.Sub(claimed), f.to("/jobs/tickle")[0].at.Sub(claimed))
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	})
	// tickled returns how long a handler goes on when all tickles of the first minute are answered so, and none after
	// it.
	tickled := func(t *testing.T, answer reply) (lost time.Duration) {
		began := time.Now()
		f := runner(t, map[string]func(call) reply{
			"/jobs/claim": once(handOut(1, 10*time.Second)),
			"/jobs/tickle": func(call) reply {
				if time.Since(began) < time.Minute {
					return answer
				}
				return lostAnswer
			},
		})
		ended := make(chan time.Time, 1)
		stop := start(t, &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", Handler: until(ended)})
		lost = (<-ended).Sub(began)
		if err := stop(); err != nil {
			t.Error(err)
		}
		return lost
	}
	t.Run("a server that says that it starts will give all of it back", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			if d := tickled(t, problem(503, "not_ready", "not_stored")); d < 67*time.Second || d > 70*time.Second {
				t.Errorf("lost after %v", d)
			}
		})
	})
	for name, answer := range map[string]reply{
		"a refused connection": refusedConnection, "a server that stops": problem(503, "shutting_down", "not_stored"),
		"a failing journal": problem(503, "writes_failed", "not_stored"), "a proxy's 502": {status: 502}, "silence": {after: -1},
	} {
		t.Run(name+" does not prove that nobody else gets the job", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if d := tickled(t, answer); d != 10*time.Second {
					t.Errorf("lost after %v", d)
				}
			})
		})
	}
	t.Run("work that is done after that is reported, and the claim decides", func(t *testing.T) {
		for name, c := range map[string]struct {
			results string
			lost    bool
		}{
			"still held": {`{"job_id":%q,"status":"completed"}`, false}, "given to another": {`{"job_id":%q,"status":null,"code":"claim_lost","detail":"…"}`, true},
		} {
			synctest.Test(t, func(t *testing.T) {
				var ev events
				f := runner(t, map[string]func(call) reply{
					"/jobs/claim":  once(handOut(1, 10*time.Second)),
					"/jobs/tickle": func(call) reply { return refusedConnection },
					"/jobs/complete": func(call) reply {
						return reply{status: 200, body: fmt.Sprintf(`{"results":[`+c.results+`]}`, testID(0))}
					},
				})
				stop := start(t, &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", OnEvent: ev.tell, Handler: func(ctx context.Context, _ *client.Job) (client.Outcome, error) {
					<-ctx.Done()
					time.Sleep(time.Second)
					return client.TextOutput("done all the same"), nil
				}})
				time.Sleep(20 * time.Second)
				if err := stop(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				reports := f.to("/jobs/complete")
				if len(reports) != 1 || reports[0].body["outcomes"].([]any)[0].(map[string]any)["claim_id"] != testClaim {
					t.Errorf("%s: reported %+v", name, reports)
				}
				if end := ev.ends()[testID(0)]; errors.Is(end.Err, client.ErrLeaseLost) != c.lost || !c.lost && end.Err != nil {
					t.Errorf("%s: %+v", name, end)
				}
			})
		}
	})
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

// work has a worker run n jobs of a real server, and returns what it reported and what Run returned.
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
					t.Error("an event of an end came before its report")
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
	t.Run("of a whole claim are one small request", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			const n = 20
			var ev events
			f := runner(t, map[string]func(call) reply{"/jobs/claim": once(handOut(n, time.Minute)), "/jobs/complete": func(c call) reply {
				return reply{status: 200, body: fmt.Sprintf(`{"ended":%d,"results":[]}`, n)}
			}})
			stop := start(t, &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", Concurrency: n, OnEvent: ev.tell, Handler: well})
			time.Sleep(time.Second)
			if err := stop(); err != nil {
				t.Error(err)
			}
			asked := f.to("/jobs/complete")
			if len(asked) != 1 || asked[0].body["claim_id"] != testClaim || asked[0].body["outcomes"] != nil || len(ev.ends()) != n {
				t.Errorf("%d ends in %d requests: %s", len(ev.ends()), len(asked), asked[0].text)
			}
		})
	})
	t.Run("of several claims are joined", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			const n = 40
			var ev events
			first := true
			f := runner(t, map[string]func(call) reply{"/jobs/claim": eachByItself(n), "/jobs/complete": func(c call) reply {
				r := completed(c)
				if first {
					first, r.after = false, 20*time.Millisecond // the next gather meanwhile
				}
				return r
			}})
			stop := start(t, &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", Concurrency: n, Batch: 1, OnEvent: ev.tell, Handler: func(_ context.Context, j *client.Job) (client.Outcome, error) {
				if j.ID != testID(0) {
					time.Sleep(5 * time.Millisecond)
				}
				return client.Outcome{}, nil
			}})
			time.Sleep(time.Second)
			if err := stop(); err != nil {
				t.Error(err)
			}
			reports, claims := f.to("/jobs/complete"), map[any]bool{}
			for _, c := range reports {
				for _, o := range c.body["outcomes"].([]any) {
					claims[o.(map[string]any)["claim_id"]] = true
				}
			}
			if len(ev.ends()) != n || len(claims) != n || len(reports) > 3 {
				t.Errorf("%d ends of %d claims in %d requests", len(ev.ends()), len(claims), len(reports))
			}
		})
	})
	t.Run("of a claim that has lost some are asked for one by one", func(t *testing.T) {
		const n = 10
		for name, whole := range map[string]reply{
			"fewer ended": {status: 200, body: `{"ended":9,"results":[]}`}, "claim lost": problem(409, "claim_lost", "not_stored"),
		} {
			synctest.Test(t, func(t *testing.T) {
				var ev events
				f := runner(t, map[string]func(call) reply{"/jobs/claim": once(handOut(n, time.Minute)), "/jobs/complete": func(c call) reply {
					if c.body["outcomes"] == nil {
						return whole
					}
					r := completed(c)
					r.body = strings.Replace(r.body, fmt.Sprintf(`{"job_id":%q,"status":"completed"}`, testID(3)),
						fmt.Sprintf(`{"job_id":%q,"status":null,"code":"claim_lost","detail":"…"}`, testID(3)), 1)
					return r
				}})
				stop := start(t, &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", Concurrency: n, OnEvent: ev.tell, Handler: well})
				time.Sleep(time.Second)
				if err := stop(); err != nil { // what is lost runs again
					t.Errorf("%s: %v", name, err)
				}
				for id, end := range ev.ends() {
					if errors.Is(end.Err, client.ErrLeaseLost) != (id == testID(3)) {
						t.Errorf("%s: %s: %v", name, id, end.Err)
					}
				}
				if asked := f.to("/jobs/complete"); len(asked) != 2 || len(ev.ends()) != n {
					t.Errorf("%s: %d requests, %d ends", name, len(asked), len(ev.ends()))
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
				if claims, reports := len(f.to("/jobs/claim")), len(f.to("/jobs/complete")); !errors.As(err, &refused) || claims != 2 || reports != 1 {
					t.Errorf("%d claims, %d reports, %v", claims, reports, err)
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
				up := f.answer
				f.answer = func(c call) reply {
					if time.Since(began) < 10*time.Minute {
						return passing
					}
					return up(c)
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
	for _, c := range []struct{ concurrency, batch, prefetch, held int }{{2, 3, 0, 2}, {2, 3, -1, 2}, {2, 3, 1, 3}, {1, 0, 0, 1}, {4, 2, 8, 12}, {4, 2, 7, 10}} {
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
	t.Run("quick handlers have several claims under way, of which one waits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			const jobs = 5000
			var mu sync.Mutex
			given, underWay, most, waiting := 0, 0, 0, 0
			sizes := map[int]int{}
			var ev events
			f := runner(t, map[string]func(call) reply{"/jobs/claim": func(c call) reply {
				mu.Lock()
				n := min(int(c.body["max"].(float64)), jobs-given)
				underWay++
				most = max(most, underWay)
				waits := c.body["wait_ms"] != nil
				if waits {
					if waiting++; waiting > 1 {
						t.Errorf("%d claims wait", waiting)
					}
				}
				r := nothing(c)
				if n > 0 {
					sizes[n]++
					r = handOutFrom(given, n, time.Hour)
					r.after = 5 * time.Millisecond
					given += n
				}
				mu.Unlock()
				time.Sleep(r.after)
				r.after = 0
				mu.Lock()
				underWay--
				if waits {
					waiting--
				}
				mu.Unlock()
				return r
			}, "/jobs/complete": func(c call) reply {
				if c.body["outcomes"] == nil {
					return reply{status: 200, body: `{"ended":1000,"results":[]}`}
				}
				return completed(c)
			}})
			f.oneByOne = false
			stop := start(t, &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", Concurrency: 16, Batch: 100, OnEvent: ev.tell, Handler: func(context.Context, *client.Job) (client.Outcome, error) {
				time.Sleep(50 * time.Microsecond)
				return client.Outcome{}, nil
			}})
			time.Sleep(time.Second)
			if err := stop(); err != nil {
				t.Error(err)
			}
			if n := len(ev.ends()); n != jobs {
				t.Errorf("%d jobs have ended", n)
			}
			if most < 3 || sizes[100] < 40 {
				t.Errorf("%d claims were under way at once, of these sizes: %v", most, sizes)
			}
		})
	})
	t.Run("a queue without jobs has one claim, which waits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := runner(t, nil)
			stop := start(t, &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", Concurrency: 64, Batch: 1, Handler: well})
			time.Sleep(time.Minute)
			if err := stop(); err != nil {
				t.Error(err)
			}
			if n := len(f.to("/jobs/claim")); n < 3 || n > 4 { // at 0, 20 and 40 s, and perhaps when it stops
				t.Errorf("%d claims in a minute", n)
			}
		})
	})
	t.Run("slow handlers have no job claimed ahead", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			given, ended := 0, 0
			f := runner(t, map[string]func(call) reply{"/jobs/claim": func(c call) reply {
				n := int(c.body["max"].(float64))
				if held := given - ended; held+n > 4 {
					t.Errorf("%d jobs are held, and %d more are claimed", held, n)
				}
				given += n
				return handOutFrom(given-n, n, time.Hour)
			}})
			stop := start(t, &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", Concurrency: 4, Batch: 100, Handler: func(_ context.Context, j *client.Job) (client.Outcome, error) {
				time.Sleep(time.Second)
				f.serial(func() { ended++ })
				return client.Outcome{}, nil
			}})
			time.Sleep(time.Minute)
			if err := stop(); err != nil {
				t.Error(err)
			}
			if ended < 4*55 {
				t.Errorf("%d jobs in a minute", ended)
			}
		})
	})
	t.Run("a server that takes no reports is not asked for more jobs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			given := 0
			f := runner(t, map[string]func(call) reply{"/jobs/claim": func(c call) reply {
				given += int(c.body["max"].(float64))
				return handOutFrom(given-int(c.body["max"].(float64)), int(c.body["max"].(float64)), time.Hour)
			}, "/jobs/complete": func(call) reply { return problem(507, "disk_full", "not_stored") }})
			stop := start(t, &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", Concurrency: 2, ReportTimeout: time.Second, Handler: well})
			time.Sleep(time.Minute)
			f.serial(func() {
				if given > 60 {
					t.Errorf("%d jobs were claimed, and none can be reported", given)
				}
			})
			if err := stop(); !errors.Is(err, client.ErrOverloaded) {
				t.Error(err)
			}
		})
	})
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
			hung := true
			f := runner(t, map[string]func(call) reply{"/jobs/claim": func(c call) reply {
				if hung {
					hung = false
					return reply{after: -1}
				}
				return nothing(c)
			}})
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

// A job with a timeout_ms is given back before the wait for a handler takes much of it: the server counts from the
// claim.
func TestJobsWithATimeOutDoNotWait(t *testing.T) {
	limited := func(n int, timeout time.Duration) reply {
		r := handOut(n, time.Hour)
		r.body = strings.ReplaceAll(r.body, `"status":"active"`, fmt.Sprintf(`"status":"active","timeout_ms":%d`, timeout.Milliseconds()))
		return r
	}
	t.Run("they are given back after a twentieth of it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			f := runner(t, map[string]func(call) reply{"/jobs/claim": once(limited(3, time.Minute))})
			var ev events
			stop := start(t, &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", Batch: 3, Prefetch: 5, OnEvent: ev.tell, Handler: func(context.Context, *client.Job) (client.Outcome, error) {
				time.Sleep(50 * time.Second)
				return client.Outcome{}, nil
			}})
			time.Sleep(time.Minute)
			back := f.to("/jobs/{id}/release")
			if len(back) != 2 || back[0].at.Sub(began).Truncate(10*time.Millisecond) != 3*time.Second || back[0].body["how"] != "unget" || back[0].body["claim_id"] != testClaim {
				t.Errorf("given back: %+v", back)
			}
			for _, c := range f.to("/jobs/claim") {
				if at := c.at.Sub(began); at >= 3*time.Second && c.body["max"] != 1.0 {
					t.Errorf("after %v it claimed %v, with one handler", at, c.body["max"])
				}
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
			for id, end := range ev.ends() {
				if (end.Err == nil) != (id == testID(0)) || errors.Is(end.Err, client.ErrDraining) {
					t.Errorf("%s: %v", id, end.Err)
				}
			}
		})
	})
	t.Run("a handler's context ends with it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			began, ended := time.Now(), make(chan time.Time, 1)
			f := runner(t, map[string]func(call) reply{"/jobs/claim": once(limited(1, 7*time.Second))})
			var ev events
			stop := start(t, &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", OnEvent: ev.tell, Handler: until(ended)})
			if d := (<-ended).Sub(began); d != 7*time.Second {
				t.Errorf("it ended after %v", d)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
			if end := ev.ends()[testID(0)]; !errors.Is(end.Err, client.ErrLeaseLost) {
				t.Error(end.Err)
			}
		})
	})
	t.Run("none loses an attempt", func(t *testing.T) {
		const jobs = 6
		s := daybooktest.Start(t)
		added, err := s.Client.AddLines(t.Context(), []byte(strings.Repeat("x\n", jobs)), client.AddOptions{Attributes: client.Attributes{TimeoutMs: 4000}})
		if err != nil {
			t.Fatal(err)
		}
		back, all := make(chan struct{}, jobs), make(chan struct{})
		var left atomic.Int32
		left.Store(jobs)
		var first atomic.Bool
		w := &client.Worker{Client: s.Client, Batch: jobs, Prefetch: jobs, Handler: func(context.Context, *client.Job) (client.Outcome, error) {
			if !first.Swap(true) {
				for range jobs - 1 { // as long as the others are held
					<-back
				}
			}
			return client.Outcome{}, nil
		}, OnEvent: func(e client.Event) {
			switch {
			case e.Job == nil:
			case e.Err != nil:
				back <- struct{}{}
			case left.Add(-1) == 0:
				close(all)
			}
		}}
		stop := start(t, w)
		<-all
		if err := stop(); err != nil {
			t.Error(err)
		}
		for _, id := range added.JobIDs {
			if j, err := s.Client.Job(t.Context(), id); err != nil || j.Status != "completed" || j.RunAttempts != 1 || len(j.Attempts) > 0 {
				t.Errorf("%+v, %v", j, err)
			}
		}
	})
}

// What was claimed ahead for quick handlers, and waits for slow ones, is given back.
func TestJobsClaimedAheadDoNotWaitForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		given := 0
		f := runner(t, map[string]func(call) reply{"/jobs/claim": func(c call) reply {
			n := min(int(c.body["max"].(float64)), 2000-given)
			if n == 0 {
				return nothing(c)
			}
			given += n
			return handOutFrom(given-n, n, time.Hour)
		}})
		slow := testID(1000)
		stop := start(t, &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", Batch: 50, Handler: func(_ context.Context, j *client.Job) (client.Outcome, error) {
			time.Sleep(time.Microsecond)
			if j.ID == slow {
				time.Sleep(time.Minute)
			}
			return client.Outcome{}, nil
		}})
		time.Sleep(time.Minute)
		back := f.to("/jobs/{id}/release")
		if len(back) == 0 || back[0].at.Sub(began) < 9*time.Second || back[len(back)-1].at.Sub(began) > 12*time.Second {
			t.Errorf("%d were given back", len(back))
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
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
	for _, c := range []struct{ down, timeout, took time.Duration }{{90 * time.Second, 0, 90 * time.Second}, {time.Hour, 0, 2 * time.Minute}, {time.Hour, 10 * time.Second, 10 * time.Second}} {
		t.Run(fmt.Sprintf("reports wait for a server that is down for %v when ReportTimeout is %v", c.down, c.timeout), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, answer := time.Now(), once(handOut(2, time.Minute))
				f := runner(t, nil)
				up := f.answer
				f.answer = func(call call) reply {
					if d := time.Since(began); d > time.Second && d < time.Second+c.down {
						return refusedConnection
					}
					if call.route == "/jobs/claim" {
						return answer(call)
					}
					return up(call)
				}
				var ev events
				stop := start(t, &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", Concurrency: 2, ReportTimeout: c.timeout, OnEvent: ev.tell, Handler: func(context.Context, *client.Job) (client.Outcome, error) {
					time.Sleep(2 * time.Second)
					return client.Outcome{}, nil
				}})
				time.Sleep(1500 * time.Millisecond)
				err := stop()
				if d := time.Since(began); d < c.took || d > c.took+10*time.Second {
					t.Errorf("it took %v", d)
				}
				if back := c.down <= c.took; (err == nil) != back {
					t.Error(err)
				} else if reports := len(ev.ends()); reports != 2 || (ev.ends()[testID(1)].Err == nil) != back {
					t.Errorf("%d ends, %v", reports, ev.ends()[testID(1)].Err)
				}
			})
		})
	}
	t.Run("server and runner are deployed together", func(t *testing.T) {
		const jobs = 20
		s := daybooktest.Start(t)
		if _, err := s.Client.AddLines(t.Context(), []byte(strings.Repeat("x\n", jobs)), client.AddOptions{}); err != nil {
			t.Fatal(err)
		}
		begun, finish := make(chan struct{}, jobs), make(chan struct{})
		w := &client.Worker{Client: s.Client, Concurrency: jobs / 2, Prefetch: jobs, Handler: func(context.Context, *client.Job) (client.Outcome, error) {
			begun <- struct{}{}
			<-finish
			return client.TextOutput("done"), nil
		}}
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- w.Run(ctx) }()
		for range jobs / 2 {
			<-begun
		}
		s.Stop()
		cancel()
		close(finish)
		s.Restart()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		// What was begun is done, and the rest is not held by a worker that is gone.
		if got := counts(t, s); got["completed"] != jobs/2 || got["pending"] != jobs/2 {
			t.Errorf("%v", got)
		}
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
