package worker_test

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
	"github.com/daybookq/daybook/client/internal/clienttest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/worker"
)

func TestClaimsOfAWorker(t *testing.T) {
	for name, refusal := range map[string]clienttest.Reply{
		"400": clienttest.Problem(400, "bad_request", "not_stored"), "403": clienttest.Problem(403, "forbidden_host", "not_stored"), "404": clienttest.Problem(404, "route_not_found", "not_stored"),
	} {
		refusal.After = time.Second // the first job has begun by then
		t.Run("a refusal for good ends Run: "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				claim := clienttest.Once(clienttest.HandOut(1, time.Minute))
				first := true
				f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{"/jobs/claim": func(c clienttest.Call) clienttest.Reply {
					if first {
						first = false
						return claim(c)
					}
					return refusal
				}})
				w := &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Handler: func(context.Context, *client.Job) (client.Outcome, error) {
					time.Sleep(10 * time.Second) // a job that has begun ends and is reported
					return client.Outcome{}, nil
				}}
				err := tested(w).Run(t.Context())
				var refused *client.Error
				claims, reports := len(f.To("/jobs/claim")), len(f.To("/jobs/complete"))
				testkit.Holds(t, errors.As(err, &refused) && claims == 2 && reports == 1, claims, "claims", reports, "reports", err)
			})
		})
	}
	t.Run("a malformed type ends Run", func(t *testing.T) {
		w := &worker.Worker{Client: daybooktest.Start(t).Client, Types: []string{"no/name"}, Handler: well}
		testkit.Failed(t, tested(w).Run(t.Context()), client.ErrBadRequest)
	})
	for name, passing := range map[string]clienttest.Reply{"500": clienttest.Problem(500, "internal", "unknown"), "502": {Status: 502}, "404 of a proxy": {Status: 404}, "nobody listens": clienttest.RefusedConnection} {
		t.Run("a failure that may be over soon does not end Run: "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				f := clienttest.Runner(t, nil)
				up := f.Answer
				f.Answer = func(c clienttest.Call) clienttest.Reply {
					if time.Since(began) < 10*time.Minute {
						return passing
					}
					return up(c)
				}
				stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Handler: well})
				time.Sleep(11 * time.Minute)
				calls := f.To("/jobs/claim")
				testkit.Holds(t, calls[len(calls)-1].At.Sub(began) >= 10*time.Minute, "it was given up")
				testkit.Check(t, stop())
			})
		})
	}
	for _, c := range []struct{ concurrency, batch, prefetch, held int }{{2, 3, 0, 2}, {2, 3, -1, 2}, {2, 3, 1, 3}, {1, 0, 0, 1}, {4, 2, 8, 12}, {4, 2, 7, 10}} {
		t.Run(fmt.Sprintf("Concurrency %d, Batch %d and Prefetch %d hold %d", c.concurrency, c.batch, c.prefetch, c.held), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got int
				f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{"/jobs/claim": func(call clienttest.Call) clienttest.Reply {
					n := int(call.Body["max"].(float64))
					testkit.Holds(t, n <= max(c.batch, 1), "claimed", n)
					r := clienttest.HandOut(got+n, time.Hour)
					if got > 0 { // each job is handed out once
						r.Body = strings.Replace(r.Body, strings.Join(jobTexts(0, got), ",")+",", "", 1)
					}
					got += n
					return r
				}})
				ended := make(chan time.Time, c.concurrency)
				w := &worker.Worker{
					Client: f.Client(client.Options{}), RunnerID: "r", Concurrency: c.concurrency, Batch: c.batch, Prefetch: c.prefetch,
					DrainTimeout: time.Second, Handler: until(ended),
				}
				stop := start(t, w)
				synctest.Wait()
				testkit.Equal(t, got, c.held, "are held")
				testkit.Check(t, stop())
				testkit.Equal(t, len(f.To("/jobs/{id}/release")), c.held, "were given back")
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
			f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{"/jobs/claim": func(c clienttest.Call) clienttest.Reply {
				mu.Lock()
				n := min(int(c.Body["max"].(float64)), jobs-given)
				underWay++
				most = max(most, underWay)
				waits := c.Body["wait_ms"] != nil
				if waits {
					waiting++
					testkit.Holds(t, waiting <= 1, waiting, "claims wait")
				}
				r := clienttest.Nothing(c)
				if n > 0 {
					sizes[n]++
					r = clienttest.HandOutFrom(given, n, time.Hour)
					r.After = 5 * time.Millisecond
					given += n
				}
				mu.Unlock()
				time.Sleep(r.After)
				r.After = 0
				mu.Lock()
				underWay--
				if waits {
					waiting--
				}
				mu.Unlock()
				return r
			}, "/jobs/complete": func(c clienttest.Call) clienttest.Reply {
				if c.Body["outcomes"] == nil {
					return clienttest.Reply{Status: 200, Body: `{"ended":1000,"results":[]}`}
				}
				return clienttest.Completed(c)
			}})
			f.OneByOne = false
			stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Concurrency: 16, Batch: 100, OnEvent: ev.add, Handler: func(context.Context, *client.Job) (client.Outcome, error) {
				time.Sleep(50 * time.Microsecond)
				return client.Outcome{}, nil
			}})
			time.Sleep(time.Second)
			testkit.Check(t, stop())
			testkit.Equal(t, len(ev.ends()), jobs, "jobs have ended")
			testkit.Holds(t, most >= 3 && sizes[100] >= 40, most, "claims were under way at once, of these sizes", sizes)
		})
	})
	t.Run("a queue without jobs has one claim, which waits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := clienttest.Runner(t, nil)
			stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Concurrency: 64, Batch: 1, Handler: well})
			time.Sleep(time.Minute)
			testkit.Check(t, stop())
			n := len(f.To("/jobs/claim"))
			testkit.Holds(t, n >= 3 && n <= 4, n, "claims in a minute") // at 0, 20 and 40 s, and perhaps when the worker stops
		})
	})
	t.Run("no job is claimed in advance for slow handlers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			given, ended := 0, 0
			f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{"/jobs/claim": func(c clienttest.Call) clienttest.Reply {
				n := int(c.Body["max"].(float64))
				held := given - ended
				testkit.Holds(t, held+n <= 4, held, "jobs are held, and", n, "more are claimed")
				given += n
				return clienttest.HandOutFrom(given-n, n, time.Hour)
			}})
			stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Concurrency: 4, Batch: 100, Handler: func(_ context.Context, j *client.Job) (client.Outcome, error) {
				time.Sleep(time.Second)
				f.Serial(func() { ended++ })
				return client.Outcome{}, nil
			}})
			time.Sleep(time.Minute)
			testkit.Check(t, stop())
			testkit.Holds(t, ended >= 4*55, ended, "jobs in a minute")
		})
	})
	t.Run("while the server takes no reports, no more jobs are claimed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			given := 0
			f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{"/jobs/claim": func(c clienttest.Call) clienttest.Reply {
				given += int(c.Body["max"].(float64))
				return clienttest.HandOutFrom(given-int(c.Body["max"].(float64)), int(c.Body["max"].(float64)), time.Hour)
			}, "/jobs/complete": func(clienttest.Call) clienttest.Reply { return clienttest.Problem(507, "disk_full", "not_stored") }})
			stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Concurrency: 2, ReportTimeout: time.Second, Handler: well})
			time.Sleep(time.Minute)
			f.Serial(func() { testkit.Holds(t, given <= 60, given, "jobs were claimed, and none can be reported") })
			testkit.Failed(t, stop(), client.ErrOverloaded)
		})
	})
	t.Run("after an answer that is too large, fewer jobs are claimed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var asked []float64
			f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{"/jobs/claim": func(c clienttest.Call) clienttest.Reply {
				asked = append(asked, c.Body["max"].(float64))
				switch len(asked) {
				case 1, 2:
					return clienttest.Reply{Status: 200, Stream: clienttest.Endless{}}
				}
				return clienttest.Nothing(c)
			}})
			stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Batch: 100, Prefetch: 1000, Handler: well})
			time.Sleep(90 * time.Second)
			testkit.Check(t, stop())
			got := fmt.Sprint(asked)
			testkit.Holds(t, strings.HasPrefix(got, "[100 50 25 50 100"), "asked for", got)
		})
	})
	t.Run("a server that never answers does not delay a stop", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			hung := true
			f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{"/jobs/claim": func(c clienttest.Call) clienttest.Reply {
				if hung {
					hung = false
					return clienttest.Reply{After: -1}
				}
				return clienttest.Nothing(c)
			}})
			stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Handler: well})
			time.Sleep(time.Minute)
			testkit.Equal(t, len(f.To("/jobs/claim")), 2, "claims")
			testkit.Check(t, stop())
		})
	})
}

// TestRefusedKey: a worker whose key is refused asks once more, with the key that it has then. If that is refused, too, the contexts
// of its handlers end, and Run returns the refusal.
func TestRefusedKey(t *testing.T) {
	refusal := clienttest.Problem(401, "key_refused", "not_stored")
	for name, rotated := range map[string]bool{"twice": false, "once": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				claims := 0
				fake := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{
					"/jobs/claim": func(c clienttest.Call) clienttest.Reply {
						claims++
						switch {
						case claims == 1:
							return clienttest.HandOut(1, time.Hour)
						case claims == 2 || !rotated:
							return refusal
						}
						return clienttest.Nothing(c)
					},
				})
				ended := make(chan error, 1)
				done := make(chan error, 1)
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					done <- tested(&worker.Worker{Client: fake.Client(client.Options{}), NoStream: true, Concurrency: 2, DrainTimeout: time.Hour, Handler: func(ctx context.Context, _ *client.Job) (client.Outcome, error) {
						<-ctx.Done()
						ended <- context.Cause(ctx)
						return client.Outcome{}, context.Cause(ctx)
					}}).Run(ctx)
				}()
				if rotated {
					time.Sleep(time.Minute)
					testkit.Equal(t, len(ended), 0, "handlers that ended")
					cancel()
					testkit.Failed(t, <-ended, worker.ErrDraining)
					testkit.NoError(t, <-done)
					return
				}
				testkit.Failed(t, <-ended, worker.ErrLeaseLost, client.ErrForbidden)
				testkit.Failed(t, <-done, client.ErrForbidden)
				cancel()
				testkit.Equal(t, claims, 3, "claims")
			})
		})
	}
}
