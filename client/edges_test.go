package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
)

// TestDrainStrandsNothing: whatever moment a worker is told to stop at, the claim that is under way leaves no job to its lease.
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

// TestResumeOfAnotherCut: with another BodyBytes the bodies of before are not found again, and their lines must not be stored twice.
func TestResumeOfAnotherCut(t *testing.T) {
	s := daybooktest.Start(t)
	input := strings.Repeat("a line of some length\n", 300)
	o := client.AddOptions{BodyBytes: 200}
	cut := errors.New("the input broke off")
	known, err := s.Client.Add(t.Context(), io.MultiReader(strings.NewReader(input[:len(input)/2]), brokenOff{cut}), o)
	if !errors.Is(err, cut) || known.Jobs == 0 {
		t.Fatalf("%+v, %v", known, err)
	}
	o.Resume = &known
	again, err := s.Client.Add(t.Context(), brokenOff{cut}, o)
	if !errors.Is(err, cut) || again.Jobs != known.Jobs || again.Bytes != known.Bytes {
		t.Errorf("an Add that came to nothing tells of %d bytes, %d jobs; known are %d, %d", again.Bytes, again.Jobs, known.Bytes, known.Jobs)
	}
	o.BodyBytes = 333
	if _, err := s.Client.Add(t.Context(), strings.NewReader(input), o); !errors.Is(err, client.ErrBadRequest) {
		t.Errorf("error is %v, want ErrBadRequest", err)
	}
	o.BodyBytes = 200
	result, err := s.Client.Add(t.Context(), strings.NewReader(input), o)
	if err != nil || result.Jobs != 300 {
		t.Errorf("%d jobs, %v", result.Jobs, err)
	}
	q, err := s.Client.Queue(t.Context(), "default", "default")
	if err != nil || q.Counts["pending"] != 300 {
		t.Errorf("%v, %v: want each line once", q.Counts, err)
	}
}

type brokenOff struct{ err error }

func (b brokenOff) Read([]byte) (int, error) { return 0, b.err }
