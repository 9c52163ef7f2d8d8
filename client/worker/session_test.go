package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
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

// The requests of a worker have numbers in a session, so the server does not keep a row for each of them.
func TestWorkersSession(t *testing.T) {
	t.Run("claims and reports have numbers, each higher than the one before it in its slot", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			const jobs = 200
			var ev events
			f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{"/jobs/claim": clienttest.EachByItself(jobs)})
			stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r7", Concurrency: 16, Batch: 1, OnEvent: ev.add, Handler: well})
			time.Sleep(time.Second)
			testkit.Check(t, stop())
			opens := f.To("/sessions")
			testkit.Holds(t, len(opens) == 1 && opens[0].Body["runner_id"] == "r7", "opened", opens)
			last, texts := map[string]int{}, map[string]string{}
			for _, c := range f.All() {
				if c.Route != "/jobs/claim" && c.Route != "/jobs/complete" {
					continue
				}
				number := 0
				fmt.Sscan(c.Header.Get("Daybook-Session-Number"), &number)
				slot := c.Header.Get("Daybook-Session-Slot")
				repeat := number == last[slot] && string(c.Text) == texts[slot] // a repeat of the claim that is outstanding when the worker stops
				testkit.Holds(t, c.Header.Get("Daybook-Session") == clienttest.TestID(9000) && c.Header.Get("Idempotency-Key") == "" &&
					(number > last[slot] || repeat), c.Route, c.Header, "after", last[slot])
				last[slot], texts[slot] = number, string(c.Text)
			}
			ends := f.To("/sessions/{id}")
			testkit.Holds(t, len(ends) == 1 && ends[0].Method == http.MethodDelete && ends[0].Id == clienttest.TestID(9000), "ended", ends)
			testkit.Equal(t, len(ev.ends()), jobs, "jobs have ended")
		})
	})
	t.Run("a claim whose answer was lost is repeated under its number", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			lost := true
			answer := clienttest.Once(clienttest.HandOut(1, time.Minute))
			f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{"/jobs/claim": func(c clienttest.Call) clienttest.Reply {
				if lost {
					lost = false
					return clienttest.LostAnswer
				}
				return answer(c)
			}})
			stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Handler: well})
			time.Sleep(time.Second)
			testkit.Check(t, stop())
			claims := f.To("/jobs/claim")
			for _, name := range []string{"Daybook-Session", "Daybook-Session-Slot", "Daybook-Session-Number"} {
				first, again := claims[0].Header.Get(name), claims[1].Header.Get(name)
				testkit.Holds(t, first != "" && first == again, name, "is", first, "and", again, "in the repeat")
			}
			testkit.Equal(t, string(claims[0].Text), string(claims[1].Text), "in the repeat")
		})
	})
	t.Run("when the server has deleted the session, another is opened", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			sessions, forgotten := 0, map[string]bool{}
			var ev events
			known := func(answer func(clienttest.Call) clienttest.Reply) func(clienttest.Call) clienttest.Reply {
				return func(c clienttest.Call) clienttest.Reply {
					if forgotten[c.Header.Get("Daybook-Session")] {
						return clienttest.Problem(404, "session_not_found", "not_stored")
					}
					return answer(c)
				}
			}
			f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{
				"/sessions":      func(clienttest.Call) clienttest.Reply { sessions++; return clienttest.Opened(sessions) },
				"/jobs/claim":    known(clienttest.EachByItself(2)),
				"/jobs/complete": known(clienttest.Completed),
			})
			stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Concurrency: 1, OnEvent: ev.add, Handler: func(_ context.Context, j *client.Job) (client.Outcome, error) {
				f.Serial(func() { forgotten[clienttest.TestID(9000+sessions)] = true })
				return client.Outcome{}, nil
			}})
			time.Sleep(time.Second)
			testkit.Check(t, stop())
			ends := ev.ends()
			testkit.Holds(t, len(ends) == 2 && ends[clienttest.TestID(0)].Err == nil && ends[clienttest.TestID(1)].Err == nil, ends)
			testkit.Holds(t, sessions >= 2 && sessions <= 3, sessions, "sessions were opened")
		})
	})
	t.Run("while the server has no room for a session, requests have no numbers, and later they have", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			const jobs = 100
			var ev events
			opens := 0
			f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{
				"/sessions": func(clienttest.Call) clienttest.Reply {
					if opens++; opens == 1 {
						return clienttest.Problem(429, "too_many_sessions", "not_stored")
					}
					return clienttest.Opened(0)
				},
				"/jobs/claim": clienttest.EachByItself(jobs),
			})
			stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Concurrency: 1, Batch: 1, OnEvent: ev.add, Handler: func(context.Context, *client.Job) (client.Outcome, error) {
				time.Sleep(time.Second)
				return client.Outcome{}, nil
			}})
			time.Sleep(2 * jobs * time.Second)
			testkit.Check(t, stop())
			with, without := 0, 0
			for _, c := range append(f.To("/jobs/claim"), f.To("/jobs/complete")...) {
				if c.Header.Get("Daybook-Session") == "" {
					without++
				} else {
					with++
				}
			}
			testkit.Holds(t, with != 0 && without != 0 && opens == 2 && len(ev.ends()) == jobs,
				with, "requests with a number and", without, "without one", opens, "sessions were asked for", len(ev.ends()), "jobs have ended")
		})
	})
	t.Run("a session is deleted while there is no room for another", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var ev events
			opens := 0
			claims := clienttest.EachByItself(3)
			forgotten := func(answer func(clienttest.Call) clienttest.Reply) func(clienttest.Call) clienttest.Reply {
				return func(c clienttest.Call) clienttest.Reply {
					if c.Header.Get("Daybook-Session") != "" {
						return clienttest.Problem(404, "session_not_found", "not_stored")
					}
					return answer(c)
				}
			}
			f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{
				"/sessions": func(clienttest.Call) clienttest.Reply {
					if opens++; opens == 1 {
						return clienttest.Opened(0)
					}
					return clienttest.Problem(429, "too_many_sessions", "not_stored")
				},
				"/sessions/{id}": func(clienttest.Call) clienttest.Reply {
					return clienttest.Problem(404, "session_not_found", "not_stored")
				},
				"/jobs/claim": forgotten(claims), "/jobs/complete": forgotten(clienttest.Completed),
			})
			stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Concurrency: 1, Batch: 1, OnEvent: ev.add, Handler: well})
			time.Sleep(10 * time.Second)
			testkit.Check(t, stop())
			ends := ev.ends()
			testkit.Holds(t, len(ends) == 3 && ends[clienttest.TestID(0)].Err == nil, ends)
		})
	})
	t.Run("after a drain the server has no key and no session", func(t *testing.T) {
		const jobs = 500
		s := daybooktest.Start(t)
		testkit.Must(s.Client.AddLines(t.Context(), []byte(strings.Repeat("x\n", jobs)), client.AddOptions{}))(t)
		all := make(chan struct{})
		var left atomic.Int32
		left.Store(jobs)
		var during sync.Once
		w := &worker.Worker{Client: s.Client, NoStream: true, Concurrency: 8, Batch: 3, Handler: func(context.Context, *client.Job) (client.Outcome, error) {
			during.Do(func() {
				stats := totals(t, s)
				testkit.Holds(t, stats.Sessions == 1 && stats.Keys == 0, "while it works", stats)
			})
			return client.Outcome{}, nil
		}, OnEvent: func(e worker.Event) {
			if e.Job != nil && left.Add(-1) == 0 {
				close(all)
			}
		}}
		stop := start(t, w)
		<-all
		testkit.Check(t, stop())
		stats := totals(t, s)
		testkit.Holds(t, stats.Sessions == 0 && stats.Keys == 0, "after it", stats)
		got := counts(t, s)
		testkit.Equal(t, got["completed"], jobs, got)
	})
}

type storeTotals struct {
	Keys     int `json:"idempotency_keys"`
	Sessions int `json:"sessions"`
}

func totals(t *testing.T, s *daybooktest.Server) (stats storeTotals) {
	t.Helper()
	answer, err := http.Get(s.URL + "/stats")
	if err != nil {
		t.Error(err)
		return stats
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil {
		err = json.Unmarshal(text, &stats)
	}
	testkit.Check(t, err)
	return stats
}
