package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/clienttest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/worker"
)

func TestReports(t *testing.T) {
	t.Run("that are together larger than a body may be", func(t *testing.T) {
		s, _, err := work(t, 12, together(12, func(context.Context, *client.Job) (client.Outcome, error) {
			return client.TextOutput(strings.Repeat("o", 1<<20)), nil
		}))
		got := counts(t, s)
		testkit.Holds(t, err == nil && got["completed"] == 12, got, err)
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
			testkit.Failed(t, err, "report 1 outcomes;")
			got := counts(t, s)
			testkit.Equal(t, got["completed"], 4, got)
			j, err := s.Client.Job(t.Context(), bad.Load().(string))
			testkit.Holds(t, err == nil && len(j.Attempts) == 1 && j.Attempts[0].Code == "error" &&
				strings.Contains(j.Attempts[0].Error, "cannot be reported"), j, err)
			for id, end := range ends {
				testkit.Equal(t, end.Err != nil, id == j.ID, id, end.Err)
			}
		})
	}
	for name, again := range map[string]clienttest.Reply{"500": clienttest.Problem(500, "internal", "unknown"), "507": clienttest.Problem(507, "disk_full", "not_stored"), "502": {Status: 502}} {
		t.Run("are repeated after "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var ev events
				f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{"/jobs/claim": clienttest.Once(clienttest.HandOut(1, time.Minute)), "/jobs/complete": func(c clienttest.Call) clienttest.Reply {
					if time.Since(began) < 50*time.Second {
						return again
					}
					return clienttest.Completed(c)
				}})
				stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", OnEvent: ev.add, Handler: well})
				time.Sleep(49 * time.Second)
				testkit.Holds(t, len(ev.ends()) <= 0, "an event of an end came before its report")
				time.Sleep(10 * time.Second)
				end, ok := ev.ends()[clienttest.TestID(0)]
				testkit.Holds(t, ok && end.Err == nil, end)
				testkit.Check(t, stop())
			})
		})
	}
	t.Run("that fail for the length of a lease are Run's error, which is bounded", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var ev events
			f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{
				"/jobs/claim": clienttest.Once(clienttest.HandOut(40, time.Minute)), "/jobs/complete": func(clienttest.Call) clienttest.Reply { return clienttest.Problem(507, "disk_full", "not_stored") },
			})
			stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Batch: 40, Concurrency: 40, OnEvent: ev.add, Handler: well})
			time.Sleep(5 * time.Minute)
			testkit.Equal(t, len(ev.ends()), 40, "ends")
			err := stop()
			testkit.Holds(t, errors.Is(err, client.ErrOverloaded) &&
				strings.Contains(err.Error(), "report 40 outcomes;") && strings.Count(err.Error(), "disk_full") == 10, err)
		})
	})
	t.Run("of a whole claim are one small request", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			const n = 20
			var ev events
			f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{"/jobs/claim": clienttest.Once(clienttest.HandOut(n, time.Minute)), "/jobs/complete": func(c clienttest.Call) clienttest.Reply {
				return clienttest.Reply{Status: 200, Body: fmt.Sprintf(`{"ended":%d,"results":[]}`, n)}
			}})
			stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Concurrency: n, OnEvent: ev.add, Handler: well})
			time.Sleep(time.Second)
			testkit.Check(t, stop())
			asked := f.To("/jobs/complete")
			testkit.Holds(t, len(asked) == 1 && asked[0].Body["claim_id"] == clienttest.TestClaim && asked[0].Body["outcomes"] == nil &&
				len(ev.ends()) == n, len(ev.ends()), "ends in", len(asked), "requests", asked[0].Text)
		})
	})
	t.Run("of several claims are joined", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			const n = 40
			var ev events
			first := true
			f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{"/jobs/claim": clienttest.EachByItself(n), "/jobs/complete": func(c clienttest.Call) clienttest.Reply {
				r := clienttest.Completed(c)
				if first {
					first, r.After = false, 20*time.Millisecond // other jobs end during this time
				}
				return r
			}})
			stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Concurrency: n, Batch: 1, OnEvent: ev.add, Handler: func(_ context.Context, j *client.Job) (client.Outcome, error) {
				if j.ID != clienttest.TestID(0) {
					time.Sleep(5 * time.Millisecond)
				}
				return client.Outcome{}, nil
			}})
			time.Sleep(time.Second)
			testkit.Check(t, stop())
			reports, claims := f.To("/jobs/complete"), map[any]bool{}
			for _, c := range reports {
				for _, o := range c.Body["outcomes"].([]any) {
					claims[o.(map[string]any)["claim_id"]] = true
				}
			}
			testkit.Holds(t, len(ev.ends()) == n && len(claims) == n &&
				len(reports) <= 3, len(ev.ends()), "ends of", len(claims), "claims in", len(reports), "requests")
		})
	})
	t.Run("of a claim that has lost some jobs are repeated with an outcome each", func(t *testing.T) {
		const n = 10
		for name, whole := range map[string]clienttest.Reply{
			"fewer ended": {Status: 200, Body: `{"ended":9,"results":[]}`}, "claim lost": clienttest.Problem(409, "claim_lost", "not_stored"),
		} {
			synctest.Test(t, func(t *testing.T) {
				var ev events
				f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{"/jobs/claim": clienttest.Once(clienttest.HandOut(n, time.Minute)), "/jobs/complete": func(c clienttest.Call) clienttest.Reply {
					if c.Body["outcomes"] == nil {
						return whole
					}
					r := clienttest.Completed(c)
					r.Body = strings.Replace(r.Body, fmt.Sprintf(`{"job_id":%q,"status":"completed"}`, clienttest.TestID(3)),
						fmt.Sprintf(`{"job_id":%q,"status":null,"code":"claim_lost","detail":"…"}`, clienttest.TestID(3)), 1)
					return r
				}})
				stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Concurrency: n, OnEvent: ev.add, Handler: well})
				time.Sleep(time.Second)
				testkit.Check(t, stop(), name) // lost jobs run again
				for id, end := range ev.ends() {
					testkit.Equal(t, errors.Is(end.Err, worker.ErrLeaseLost), id == clienttest.TestID(3), name, id, end.Err)
				}
				asked := f.To("/jobs/complete")
				testkit.Holds(t, len(asked) == 2 && len(ev.ends()) == n, name, len(asked), "requests", len(ev.ends()), "ends")
			})
		}
	})
	// gathered runs a worker that ends n runs while the report of the first is outstanding, so that they are reported
	// together.
	gathered := func(t *testing.T, n int, o func(id string) client.Outcome, complete func(clienttest.Call) clienttest.Reply) (f *clienttest.Fake, ev *events, err error) {
		ev = &events{}
		first := true
		f = clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{"/jobs/claim": clienttest.Once(clienttest.HandOut(n+1, time.Minute)), "/jobs/complete": func(c clienttest.Call) clienttest.Reply {
			r := complete(c)
			if first {
				first, r.After = false, time.Second
			}
			return r
		}})
		stop := start(t, &worker.Worker{
			Client: f.Client(client.Options{}), RunnerID: "r", Concurrency: n + 1, OnEvent: ev.add,
			Handler: func(_ context.Context, j *client.Job) (client.Outcome, error) {
				if j.ID == clienttest.TestID(n) {
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
			f, ev, err := gathered(t, 8, large, clienttest.Completed)
			var per []int
			for _, c := range f.To("/jobs/complete") {
				list, _ := c.Body["outcomes"].([]any)
				per = append(per, len(list))
				testkit.Holds(t, len(c.Text) <= 4<<20+1000, "a body of", len(c.Text), "bytes")
			}
			testkit.Holds(t, fmt.Sprint(per) == "[1 3 3 2]" && len(ev.ends()) == 9 &&
				err == nil, "reported", per, len(ev.ends()), "ends", err)
		})
	})
	for _, status := range []int{400, 413} {
		t.Run(fmt.Sprintf("are split around an outcome that is refused with %d", status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bad := map[string]bool{clienttest.TestID(2): true, clienttest.TestID(7): true}
				took := map[string]string{}
				_, ev, err := gathered(t, 20, func(string) client.Outcome { return client.Outcome{ExitCode: 299} }, func(c clienttest.Call) clienttest.Reply {
					list, _ := c.Body["outcomes"].([]any)
					for _, o := range list {
						if o := o.(map[string]any); bad[o["job_id"].(string)] && o["code"] != "error" {
							return clienttest.Problem(status, "bad_request", "not_stored")
						}
					}
					for _, o := range list {
						o := o.(map[string]any)
						took[o["job_id"].(string)], _ = o["error"].(string)
					}
					return clienttest.Completed(c)
				})
				testkit.Holds(t, len(took) == 21 && err != nil &&
					strings.Contains(err.Error(), "report 2 outcomes;"), len(took), "outcomes arrived", err)
				for id, end := range ev.ends() {
					testkit.Holds(t, (end.Err != nil) == bad[id] && strings.Contains(took[id], "bad_request") == bad[id], id, end.Err, took[id])
				}
			})
		})
	}
	t.Run("of jobs that are purged when they end", func(t *testing.T) {
		s := daybooktest.Start(t)
		none := int64(0)
		o := client.AddOptions{Attributes: client.Attributes{RetentionMs: &none}}
		testkit.Must(s.Client.AddLines(t.Context(), []byte("a\nb\n"), o))(t)
		claim := testkit.Must(s.Client.Claim(t.Context(), client.ClaimRequest{RunnerID: "r", Max: 2}))(t)
		ended, _, err := s.Client.CompleteClaim(t.Context(), claim.ID, client.Outcome{})
		testkit.MustHold(t, ended == 2 && err == nil, "ended", ended, err)
		ended, _, err = s.Client.CompleteClaim(t.Context(), claim.ID, client.Outcome{})
		testkit.Holds(t, ended == 2 && err == nil, "again: ended", ended, err)
		_, err = s.Client.Complete(t.Context(), claim.Jobs[0].ID, claim.ID, client.Outcome{})
		testkit.Check(t, err, "again")
		_, err = s.Client.Complete(t.Context(), claim.Jobs[0].ID, claim.ID, client.Outcome{Code: "error", Error: "another"})
		testkit.Holds(t, errors.Is(err, client.ErrOutcomeDiffers), "again, with another outcome", err)
	})
}
