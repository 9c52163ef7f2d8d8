package client_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/internal/testkit"
)

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
				testkit.Check(t, stop())
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
