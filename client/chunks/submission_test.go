package chunks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/chunks"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/worker"
)

// TestSubmitLargeJobs: payloads that a create of one job accepts can be submitted, also if they are much longer in a
// request than in memory.
func TestSubmitLargeJobs(t *testing.T) {
	c := daybooktest.Start(t).Client
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	bytesOf := func(n int) client.NewJob {
		return client.NewJob{Payload: bytes.Repeat([]byte{0xff}, n), Kind: client.Bytes}
	}
	control := client.NewJob{Payload: bytes.Repeat([]byte{1}, 4<<10), Kind: client.Text} // each byte is escaped as six
	for name, jobs := range map[string][]client.NewJob{
		"one after another": {bytesOf(2<<20 - 1), bytesOf(4 << 20), bytesOf(1)},
		"escaped":           slices.Repeat([]client.NewJob{control}, 600),
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			s := testkit.Must(chunks.Submit(ctx, c, client.NewBatch{Paused: true}, slices.Values(jobs), nil))(t)
			testkit.MustEqual(t, s.Count, int64(len(jobs)), s)
			b := testkit.Must(c.Batch(ctx, s.ID))(t)
			testkit.Holds(t, !b.Open && b.Count == int64(len(jobs)), b)
		})
	}
}

// manyChunks yields n jobs.
func manyChunks(n int) iter.Seq[client.NewJob] {
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
	w := worker.Worker{Client: c, Types: []string{"chunk"}, Concurrency: 8, Handler: func(_ context.Context, j *client.Job) (client.Outcome, error) {
		if string(j.Payload) == fail {
			return client.Outcome{}, worker.Fail(errors.New("no"))
		}
		return client.TextOutput(strings.Repeat(string(j.Payload), 2)), nil
	}}
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() { cancel(); testkit.Check(t, <-done, "worker") })
}

// TestSubmit submits jobs in several requests, and reads their results in order while a worker runs them.
func TestSubmit(t *testing.T) {
	c := daybooktest.Start(t).Client
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	doubling(t, c, "")
	const n = 2500
	s, err := chunks.Submit(ctx, c, client.NewBatch{Name: "numbers", Meta: map[string]any{"user": 42, "model": "a b"}, Metadata: []byte{0, 0xff}}, manyChunks(n), nil)
	testkit.NoError(t, err)
	testkit.MustEqual(t, s.Count, n, s)
	line := int64(0)
	for r, err := range s.Results(ctx) {
		testkit.NoError(t, err)
		testkit.MustHold(t, r.Line == line && r.Status == "completed" && r.OutputKind == client.Text &&
			string(r.Output) == strings.Repeat(fmt.Sprint(line), 2) && r.Meta["user"] == "42", "result", line, r)
		line++
	}
	testkit.Equal(t, line, n, "results")
	b, err := s.Wait(ctx)
	testkit.Holds(t, err == nil && b.Status == "completed" && b.Count == n && b.Counts["completed"] == n && b.EndedAt != 0 && !b.Open &&
		b.Progress == nil && string(b.Meta["user"]) == "42" && b.Snowflake != 0, b, err)
	testkit.Equal(t, string(testkit.Must(c.BatchMetadata(ctx, s.ID))(t)), "\x00\xff", "metadata")
	testkit.Failed(t, s.Cancel(ctx), client.ErrConflict)
	for from, want := range map[int64]int64{n - 1: 1, n: 0} {
		got := int64(0)
		for _, err := range c.Results(ctx, s.ID, client.ResultsQuery{From: from}) {
			testkit.NoError(t, err)
			got++
		}
		testkit.Equal(t, got, want, "results from", from, "on")
	}
}

// TestSubmitSlowly: the jobs of an iterator are sent while it is silent for a while.
func TestSubmitSlowly(t *testing.T) {
	c := daybooktest.Start(t).Client
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s := testkit.Must(chunks.Submit(ctx, c, client.NewBatch{Type: "slow"}, func(yield func(client.NewJob) bool) {
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
	}, nil))(t)
	testkit.Equal(t, s.Count, 3, s)
	b := testkit.Must(c.Batch(ctx, s.ID))(t)
	testkit.Holds(t, !b.Open && b.Counts["active"] == 3, b)
}
