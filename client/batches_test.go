package client_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/testkit"
)

// chunks yields n jobs.
func chunks(n int) iter.Seq[client.NewJob] {
	return func(yield func(client.NewJob) bool) {
		for i := range n {
			if !yield(client.TextJob("chunk", fmt.Sprint(i))) {
				return
			}
		}
	}
}

// doubling is a worker that answers each chunk with its payload twice, except the one that it fails.
func doubling(t *testing.T, c *client.Client, fail string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	w := client.Worker{Client: c, Types: []string{"chunk"}, Concurrency: 8, Handler: func(_ context.Context, j *client.Job) (client.Outcome, error) {
		if string(j.Payload) == fail {
			return client.Outcome{}, client.Fail(errors.New("no"))
		}
		return client.TextOutput(strings.Repeat(string(j.Payload), 2)), nil
	}}
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("worker: %v", err)
		}
	})
}

// TestSubmit submits jobs in several requests, and reads their results in order while a worker runs them.
func TestSubmit(t *testing.T) {
	c := daybooktest.Start(t).Client
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	doubling(t, c, "")
	const n = 2500
	s, err := c.Submit(ctx, client.NewBatch{Name: "numbers", Meta: map[string]any{"user": 42, "model": "a b"}, Metadata: []byte{0, 0xff}}, chunks(n))
	if err != nil || s.Count != n {
		t.Fatalf("%+v, %v", s, err)
	}
	line := int64(0)
	for r, err := range s.Results(ctx) {
		testkit.NoError(t, err)
		if want := strings.Repeat(fmt.Sprint(line), 2); r.Line != line || r.Status != "completed" || r.OutputKind != client.Text || string(r.Output) != want || r.Meta["user"] != "42" {
			t.Fatalf("result %d: %+v", line, r)
		}
		line++
	}
	if line != n {
		t.Errorf("%d results", line)
	}
	b, err := s.Wait(ctx)
	if err != nil || b.Status != "completed" || b.Count != n || b.Counts["completed"] != n || b.EndedAt == 0 || b.Open || b.Progress != nil || string(b.Meta["user"]) != "42" || b.Snowflake == 0 {
		t.Errorf("%+v, %v", b, err)
	}
	if metadata, err := c.BatchMetadata(ctx, s.ID); err != nil || string(metadata) != "\x00\xff" {
		t.Errorf("metadata %q, %v", metadata, err)
	}
	if err := s.Cancel(ctx); !errors.Is(err, client.ErrConflict) {
		t.Errorf("cancel of a completed submission: %v", err)
	}
	for from, want := range map[int64]int64{n - 1: 1, n: 0} {
		got := int64(0)
		for _, err := range c.Results(ctx, s.ID, client.ResultsQuery{From: from}) {
			testkit.NoError(t, err)
			got++
		}
		if got != want {
			t.Errorf("%d results from %d on", got, from)
		}
	}
}

// TestSubmitSlowly: the jobs of an iterator are sent while it is silent for a while.
func TestSubmitSlowly(t *testing.T) {
	c := daybooktest.Start(t).Client
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s, err := c.Submit(ctx, client.NewBatch{Type: "slow"}, func(yield func(client.NewJob) bool) {
		for i := range 3 {
			if !yield(client.TextJob("", fmt.Sprint(i))) {
				return
			}
			claim, err := c.Claim(ctx, client.ClaimRequest{RunnerID: "r", Types: []string{"slow"}, Wait: time.Minute})
			if err != nil || len(claim.Jobs) != 1 || string(claim.Jobs[0].Payload) != fmt.Sprint(i) {
				t.Errorf("claim %d: %+v, %v", i, claim, err)
				cancel()
				return
			}
		}
	})
	if err != nil || s.Count != 3 {
		t.Errorf("%+v, %v", s, err)
	}
	if b, err := c.Batch(ctx, s.ID); err != nil || b.Open || b.Counts["active"] != 3 {
		t.Errorf("%+v, %v", b, err)
	}
}

// TestBatches creates, fills, resumes, closes, lists and ends batches.
func TestBatches(t *testing.T) {
	c := daybooktest.Start(t).Client
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	made, err := c.CreateBatch(ctx, client.NewBatch{Name: "fragile", Type: "chunk", OnFailure: client.CancelRest, Open: true, Paused: true}, []client.NewJob{{Payload: []byte("1")}})
	if err != nil || made.Count != 1 {
		t.Fatalf("%+v, %v", made, err)
	}
	added, err := c.AddToBatch(ctx, made.BatchID, []client.NewJob{{Payload: []byte("2")}, {Payload: []byte("3")}}, client.CreateOptions{})
	if err != nil || added.Count != 2 || added.BatchID != made.BatchID || added.FirstID == made.FirstID {
		t.Errorf("%+v, %v", added, err)
	}
	if b, err := c.CloseBatch(ctx, made.BatchID); err != nil || b.Status != "paused" || b.Open || b.Count != 3 {
		t.Errorf("closed: %+v, %v", b, err)
	}
	if _, err := c.AddToBatch(ctx, made.BatchID, []client.NewJob{{}}, client.CreateOptions{}); !errors.Is(err, client.ErrConflict) {
		t.Errorf("add to a closed batch: %v", err)
	}
	if b, err := c.ResumeBatch(ctx, made.BatchID); err != nil || b.Status != "in_progress" {
		t.Errorf("resumed: %+v, %v", b, err)
	}
	claim, err := c.Claim(ctx, client.ClaimRequest{RunnerID: "r", Types: []string{"chunk"}})
	if err != nil || claim == nil {
		t.Fatal(err)
	}
	testkit.Must(c.Complete(ctx, claim.Jobs[0].ID, claim.ID, client.Outcome{Code: "failed", Error: "no"}))(t)
	b, err := c.AwaitBatch(ctx, made.BatchID)
	if err != nil || b.Status != "failed" || b.FailedJobID != made.FirstID || b.Error != "no" || b.Counts["cancelled"] != 2 {
		t.Errorf("ended: %+v, %v", b, err)
	}
	if _, err := c.ResumeBatch(ctx, made.BatchID); !errors.Is(err, client.ErrConflict) {
		t.Errorf("resume of a failed batch: %v", err)
	}
	for _, name := range []string{"list a", "list b"} {
		testkit.Must(c.CreateBatch(ctx, client.NewBatch{Name: name, Meta: map[string]any{"n": 1}}, nil))(t)
	}
	var names []string
	for b, err := range c.Batches(ctx, client.BatchesQuery{NamePrefix: "list", Status: "completed", Meta: map[string]any{"n": 1}, PageSize: 1}) {
		testkit.NoError(t, err)
		names = append(names, b.Name)
	}
	if !slices.Equal(names, []string{"list a", "list b"}) {
		t.Errorf("listed %q", names)
	}
	for _, err := range c.Results(ctx, added.FirstID, client.ResultsQuery{}) {
		if !errors.Is(err, client.ErrNotFound) {
			t.Errorf("results of no batch: %v", err)
		}
	}
}
