package worker_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/internal/clienttest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/worker"
)

func TestLeaseIsCountedFromTheAnswer(t *testing.T) {
	t.Run("a job that arrives late in a long poll", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			late := clienttest.HandOut(1, 2*time.Second)
			late.After = 19 * time.Second
			var ev events
			f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{"/jobs/claim": clienttest.Once(late)})
			w := &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", OnEvent: ev.add, Handler: func(ctx context.Context, _ *client.Job) (client.Outcome, error) {
				time.Sleep(200 * time.Millisecond)
				return client.Outcome{}, context.Cause(ctx)
			}}
			stop := start(t, w)
			time.Sleep(25 * time.Second)
			end, ok := ev.ends()[clienttest.TestID(0)]
			testkit.Holds(t, ok && end.Err == nil, end)
			testkit.Check(t, stop())
		})
	})
	for _, c := range []struct{ wait, lost time.Duration }{
		{0, 100 * time.Second},                            // counted from sending the claim
		{9 * time.Second, 100 * time.Second},              // the same
		{19 * time.Second, (19 + 100 - 10) * time.Second}, // counted from the answer, less a tenth
	} {
		t.Run(fmt.Sprintf("without a successful tickle it is lost, if the claim waited %v", c.wait), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ev events
				claimed := clienttest.HandOut(1, 100*time.Second)
				claimed.After = c.wait
				f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{
					"/jobs/claim": clienttest.Once(claimed), "/jobs/tickle": func(clienttest.Call) clienttest.Reply { return clienttest.LostAnswer },
				})
				ended, began := make(chan time.Time, 1), time.Now()
				stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", OnEvent: ev.add, Handler: until(ended)})
				testkit.Equal(t, (<-ended).Sub(began), c.lost, "lost")
				testkit.Check(t, stop()) // a lost lease is no error of Run
				testkit.Failed(t, ev.ends()[clienttest.TestID(0)].Err, worker.ErrLeaseLost)
				testkit.Holds(t, len(f.To("/jobs/complete")) <= 0, "a run without a lease was reported")
			})
		})
	}
	t.Run("a tickle counts from when it was sent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var sent time.Time
			f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{
				"/jobs/claim": clienttest.Once(clienttest.HandOut(1, 100*time.Second)),
				"/jobs/tickle": func(c clienttest.Call) clienttest.Reply {
					if sent.IsZero() {
						sent = c.At
						return clienttest.Reply{Status: 200, Body: `{"held":1}`, After: 10 * time.Second}
					}
					return clienttest.Reply{After: -1}
				},
			})
			ended := make(chan time.Time, 1)
			stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Handler: until(ended)})
			testkit.Equal(t, (<-ended).Sub(sent), 100*time.Second, "lost after the tickle was sent")
			testkit.Check(t, stop())
		})
	})
	t.Run("a claim whose first answer was lost is tickled at once, and lost early", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			repeated := clienttest.HandOut(1, 90*time.Second)
			repeated.Header, repeated.After = http.Header{"Idempotency-Replayed": {"true"}}, 80*time.Second
			f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{"/jobs/claim": clienttest.Once(repeated), "/jobs/tickle": func(clienttest.Call) clienttest.Reply { return clienttest.LostAnswer }})
			ended := make(chan time.Time, 1)
			stop := start(t, &worker.Worker{Client: f.Client(client.Options{Timeout: time.Hour}), RunnerID: "r", Handler: until(ended)})
			end := <-ended
			if claimed := f.To("/jobs/claim")[0].At.Add(80 * time.Second); end.Sub(claimed) != 30*time.Second || f.To("/jobs/tickle")[0].At.Sub(claimed) > 0 {
				t.Errorf("lost after %v, tickled after %v", end.Sub(claimed), f.To("/jobs/tickle")[0].At.Sub(claimed))
			}
			testkit.Check(t, stop())
		})
	})
	// tickled returns how long a handler continues if all tickles of the first minute get this answer, and later ones
	// get none.
	tickled := func(t *testing.T, answer clienttest.Reply) (lost time.Duration) {
		began := time.Now()
		f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{
			"/jobs/claim": clienttest.Once(clienttest.HandOut(1, 10*time.Second)),
			"/jobs/tickle": func(clienttest.Call) clienttest.Reply {
				if time.Since(began) < time.Minute {
					return answer
				}
				return clienttest.LostAnswer
			},
		})
		ended := make(chan time.Time, 1)
		stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Handler: until(ended)})
		lost = (<-ended).Sub(began)
		testkit.Check(t, stop())
		return lost
	}
	t.Run("a server that is starting gives it its full length again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := tickled(t, clienttest.Problem(503, "not_ready", "not_stored"))
			testkit.Holds(t, d >= 67*time.Second && d <= 70*time.Second, "lost after", d)
		})
	})
	for name, answer := range map[string]clienttest.Reply{
		"a refused connection": clienttest.RefusedConnection, "a server that stops": clienttest.Problem(503, "shutting_down", "not_stored"),
		"a failing journal": clienttest.Problem(503, "writes_failed", "not_stored"), "a proxy's 502": {Status: 502}, "silence": {After: -1},
	} {
		t.Run(name+" does not prove that no other runner gets the job", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testkit.Equal(t, tickled(t, answer), 10*time.Second, "lost") })
		})
	}
	t.Run("work that ends after that is reported, and the server checks the claim", func(t *testing.T) {
		for name, c := range map[string]struct {
			results string
			lost    bool
		}{
			"still held": {`{"job_id":%q,"status":"completed"}`, false}, "given to another": {`{"job_id":%q,"status":null,"code":"claim_lost","detail":"…"}`, true},
		} {
			synctest.Test(t, func(t *testing.T) {
				var ev events
				f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{
					"/jobs/claim":  clienttest.Once(clienttest.HandOut(1, 10*time.Second)),
					"/jobs/tickle": func(clienttest.Call) clienttest.Reply { return clienttest.RefusedConnection },
					"/jobs/complete": func(clienttest.Call) clienttest.Reply {
						return clienttest.Reply{Status: 200, Body: fmt.Sprintf(`{"results":[`+c.results+`]}`, clienttest.TestID(0))}
					},
				})
				stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", OnEvent: ev.add, Handler: func(ctx context.Context, _ *client.Job) (client.Outcome, error) {
					<-ctx.Done()
					time.Sleep(time.Second)
					return client.TextOutput("done all the same"), nil
				}})
				time.Sleep(20 * time.Second)
				testkit.Check(t, stop(), name)
				reports := f.To("/jobs/complete")
				testkit.MustEqual(t, len(reports), 1, name, "reported")
				testkit.Equal(t, reports[0].Body["outcomes"].([]any)[0].(map[string]any)["claim_id"], clienttest.TestClaim, name, "reported", reports)
				end := ev.ends()[clienttest.TestID(0)]
				testkit.Holds(t, errors.Is(end.Err, worker.ErrLeaseLost) == c.lost && (c.lost || end.Err == nil), name, end)
			})
		}
	})
	t.Run("work that ends after the server has taken the job back is reported, if it is final", func(t *testing.T) {
		retry, cancelled := client.Outcome{Code: "retry"}, fmt.Sprintf(`{"held":0,"lost":[{"job_id":%q,"code":"cancelled","detail":"…"}]}`, clienttest.TestID(0))
		waits, taken := `{"job_id":%q,"status":"completed"}`, `{"job_id":%q,"status":null,"code":"claim_lost","detail":"…"}`
		lost := clienttest.Problem(409, "claim_lost", "not_stored")
		for name, c := range map[string]struct {
			tickle   clienttest.Reply
			outcome  client.Outcome
			err      error
			result   string
			reported bool
			counts   bool
		}{
			"the job waits":              {lost, client.TextOutput("done"), nil, waits, true, true},
			"the job waits, and failed":  {lost, client.Outcome{ExitCode: 404}, nil, waits, true, true},
			"only this job was lost":     {clienttest.Reply{Status: 200, Body: strings.Replace(cancelled, "cancelled", "claim_lost", 1)}, client.TextOutput("done"), nil, waits, true, true},
			"another runner has the job": {lost, client.TextOutput("done"), nil, taken, true, false},
			"it returns an error":        {lost, client.Outcome{}, errors.New("no lease"), waits, false, false},
			"it is to be tried again":    {lost, retry, nil, waits, false, false},
			"the job is cancelled":       {clienttest.Reply{Status: 200, Body: cancelled}, client.TextOutput("done"), nil, waits, false, false},
			"the claim is cancelled":     {clienttest.Problem(409, "cancelled", "not_stored"), client.TextOutput("done"), nil, waits, true, false},
		} {
			if name == "the claim is cancelled" {
				c.result = `{"job_id":%q,"status":null,"code":"cancelled","detail":"…"}` // the tickle names no job, so no id is known
			}
			synctest.Test(t, func(t *testing.T) {
				var ev events
				f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{
					"/jobs/claim":  clienttest.Once(clienttest.HandOut(1, 10*time.Second)),
					"/jobs/tickle": func(clienttest.Call) clienttest.Reply { return c.tickle },
					"/jobs/complete": func(clienttest.Call) clienttest.Reply {
						return clienttest.Reply{Status: 200, Body: fmt.Sprintf(`{"results":[`+c.result+`]}`, clienttest.TestID(0))}
					},
				})
				stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", OnEvent: ev.add, Handler: func(ctx context.Context, _ *client.Job) (client.Outcome, error) {
					<-ctx.Done()
					time.Sleep(time.Minute)
					return c.outcome, c.err
				}})
				time.Sleep(30 * time.Second)
				began := time.Now()
				testkit.Check(t, stop(), name)
				took := time.Since(began)
				testkit.Holds(t, took <= time.Minute, name, "the end took", took)
				reports := f.To("/jobs/complete")
				if (len(reports) == 1) != c.reported || c.reported && reports[0].Body["outcomes"].([]any)[0].(map[string]any)["claim_id"] != clienttest.TestClaim {
					t.Errorf("%s: reported %+v", name, reports)
				}
				end := ev.ends()[clienttest.TestID(0)]
				testkit.Holds(t, errors.Is(end.Err, worker.ErrLeaseLost) != c.counts && (!c.counts || end.Err == nil), name, end)
				testkit.Holds(t, c.tickle.Status != 409 || len(f.To("/jobs/tickle")) == 1, name, "a lost claim is tickled")
			})
		}
	})
	t.Run("a claim that holds nothing is lost at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{
				"/jobs/claim":  clienttest.Once(clienttest.HandOut(1, time.Hour)),
				"/jobs/tickle": func(clienttest.Call) clienttest.Reply { return clienttest.Problem(409, "claim_lost", "not_stored") },
			})
			ended, began := make(chan time.Time, 1), time.Now()
			stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Handler: until(ended)})
			d := (<-ended).Sub(began)
			testkit.Holds(t, d <= 25*time.Minute, "lost after", d)
			testkit.Check(t, stop())
		})
	})
}
