package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/testkit"
)

func TestClaimsOfAWorker(t *testing.T) {
	for name, refusal := range map[string]reply{
		"400": problem(400, "bad_request", "not_stored"), "403": problem(403, "forbidden_host", "not_stored"), "404": problem(404, "route_not_found", "not_stored"),
	} {
		refusal.after = time.Second // the first job has begun by then
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
					time.Sleep(10 * time.Second) // a job that has begun ends and is reported
					return client.Outcome{}, nil
				}}
				err := tested(w).Run(t.Context())
				var refused *client.Error
				if claims, reports := len(f.to("/jobs/claim")), len(f.to("/jobs/complete")); !errors.As(err, &refused) || claims != 2 || reports != 1 {
					t.Errorf("%d claims, %d reports, %v", claims, reports, err)
				}
			})
		})
	}
	t.Run("a malformed type ends Run", func(t *testing.T) {
		w := &client.Worker{Client: daybooktest.Start(t).Client, Types: []string{"no/name"}, Handler: well}
		if err := tested(w).Run(t.Context()); !errors.Is(err, client.ErrBadRequest) {
			t.Error(err)
		}
	})
	for name, passing := range map[string]reply{"500": problem(500, "internal", "unknown"), "502": {status: 502}, "404 of a proxy": {status: 404}, "nobody listens": refusedConnection} {
		t.Run("a failure that may be over soon does not end Run: "+name, func(t *testing.T) {
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
				testkit.Check(t, stop())
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
					if got > 0 { // each job is handed out once
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
				testkit.Check(t, stop())
				if n := len(f.to("/jobs/{id}/release")); n != c.held {
					t.Errorf("%d were given back", n)
				}
			})
		})
	}
	t.Run("quick handlers have several claims under way, and one of them waits", func(t *testing.T) {
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
			stop := start(t, &client.Worker{Client: f.client(client.Options{}), RunnerID: "r", Concurrency: 16, Batch: 100, OnEvent: ev.add, Handler: func(context.Context, *client.Job) (client.Outcome, error) {
				time.Sleep(50 * time.Microsecond)
				return client.Outcome{}, nil
			}})
			time.Sleep(time.Second)
			testkit.Check(t, stop())
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
			testkit.Check(t, stop())
			if n := len(f.to("/jobs/claim")); n < 3 || n > 4 { // at 0, 20 and 40 s, and perhaps when the worker stops
				t.Errorf("%d claims in a minute", n)
			}
		})
	})
	t.Run("no job is claimed in advance for slow handlers", func(t *testing.T) {
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
			testkit.Check(t, stop())
			if ended < 4*55 {
				t.Errorf("%d jobs in a minute", ended)
			}
		})
	})
	t.Run("while the server takes no reports, no more jobs are claimed", func(t *testing.T) {
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
	t.Run("after an answer that is too large, fewer jobs are claimed", func(t *testing.T) {
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
			testkit.Check(t, stop())
			if got := fmt.Sprint(asked); !strings.HasPrefix(got, "[100 50 25 50 100") {
				t.Errorf("asked for %s", got)
			}
		})
	})
	t.Run("a server that never answers does not delay a stop", func(t *testing.T) {
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
			testkit.Check(t, stop())
		})
	})
}
