package client_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
)

// TestDrainStrandsNothing: at whatever moment a worker is stopped, the claim that is under way leaves no job to its
// lease.
func TestDrainStrandsNothing(t *testing.T) {
	s := daybooktest.Start(t)
	var lines strings.Builder
	for i := range 20_000 {
		fmt.Fprintln(&lines, i)
	}
	if _, err := s.Client.AddLines(t.Context(), []byte(lines.String()), client.AddOptions{}); err != nil {
		t.Fatal(err)
	}
	for round := range 60 {
		ctx, cancel := context.WithCancel(t.Context())
		var done atomic.Int32
		w := client.Worker{Client: s.Client, Concurrency: 2, Batch: 10, Handler: func(context.Context, *client.Job) (client.Outcome, error) {
			if done.Add(1) == int32(5+round*3) {
				cancel()
			}
			return client.Outcome{}, nil
		}}
		if err := w.Run(ctx); err != nil {
			t.Fatal(err)
		}
		q, err := s.Client.Queue(t.Context(), "default", "default")
		if err != nil {
			t.Fatal(err)
		}
		if n := q.Counts["active"]; n != 0 {
			t.Fatalf("round %d: %d jobs stay claimed by a worker that has ended", round, n)
		}
	}
}

// TestErrorThatPanics: a typed nil is an error, and panics when it is read.
func TestErrorThatPanics(t *testing.T) {
	s := daybooktest.Start(t)
	added, err := s.Client.AddLines(t.Context(), []byte("x\n"), client.AddOptions{Attributes: client.Attributes{MaxAttempts: 1}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	w := client.Worker{Client: s.Client,
		Handler: func(context.Context, *client.Job) (client.Outcome, error) {
			var e *client.Error
			return client.Outcome{}, e
		},
		OnEvent: func(e client.Event) {
			if e.Jobs == 0 {
				cancel()
			}
		}}
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	j, err := s.Client.Job(t.Context(), added.JobIDs[0])
	if err != nil || j.Status != "failed" || !strings.Contains(j.Error, "panic") {
		t.Errorf("%+v, %v", j, err)
	}
}
