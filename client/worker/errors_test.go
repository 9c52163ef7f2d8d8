package worker_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/internal/clienttest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/worker"
)

func TestHandlersErrors(t *testing.T) {
	oops := errors.New("oops")
	for name, c := range map[string]struct {
		end   worker.Handler
		code  string
		delay any
	}{
		"error":       {func(context.Context, *client.Job) (client.Outcome, error) { return client.Outcome{}, oops }, "error", nil},
		"Fail":        {func(context.Context, *client.Job) (client.Outcome, error) { return client.Outcome{}, worker.Fail(oops) }, "failed", nil},
		"Fail of nil": {func(context.Context, *client.Job) (client.Outcome, error) { return client.Outcome{}, worker.Fail(nil) }, "", nil},
		"RetryAfter": {func(context.Context, *client.Job) (client.Outcome, error) {
			return client.Outcome{}, worker.RetryAfter(time.Second, oops)
		}, "retry", 1000.0},
		"RetryAfter of nil": {func(context.Context, *client.Job) (client.Outcome, error) {
			return client.Outcome{}, worker.RetryAfter(time.Second, nil)
		}, "", nil},
		"negative RetryAfter": {func(context.Context, *client.Job) (client.Outcome, error) {
			return client.Outcome{}, worker.RetryAfter(-time.Second, oops)
		}, "retry", 0.0},
		"panic": {func(context.Context, *client.Job) (client.Outcome, error) { panic(oops) }, "error", nil},
		"runtime.Goexit": {func(context.Context, *client.Job) (client.Outcome, error) {
			runtime.Goexit()
			return client.Outcome{}, nil
		}, "error", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{"/jobs/claim": clienttest.Once(clienttest.HandOut(2, time.Minute))})
				stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Batch: 2, Handler: c.end})
				time.Sleep(time.Second)
				testkit.Check(t, stop())
				seen := 0
				for _, done := range f.To("/jobs/complete") {
					list, _ := done.Body["outcomes"].([]any)
					for _, o := range list {
						seen++
						o := o.(map[string]any)
						want := c.code
						testkit.Holds(t, (o["code"] == want || want == "" && o["code"] == "ok") && o["delay_ms"] == c.delay, "reported", o)
						testkit.Equal(t, o["error"] != nil, c.code != "", "reported", o)
					}
				}
				testkit.Equal(t, seen, 2, "reports")
			})
		})
	}
}
