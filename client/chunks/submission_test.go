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
			s, err := chunks.Submit(ctx, c, client.NewBatch{Paused: true}, slices.Values(jobs), nil)
			if err != nil || s.Count != int64(len(jobs)) {
				t.Fatalf("%+v, %v", s, err)
			}
			if b, err := c.Batch(ctx, s.ID); err != nil || b.Open || b.Count != int64(len(jobs)) {
				t.Errorf("%+v, %v", b, err)
			}
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
	s, err := chunks.Submit(ctx, c, client.NewBatch{Name: "numbers", Meta: map[string]any{"user": 42, "model": "a b"}, Metadata: []byte{0, 0xff}}, manyChunks(n), nil)
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
	s, err := chunks.Submit(ctx, c, client.NewBatch{Type: "slow"}, func(yield func(client.NewJob) bool) {
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
	}, nil)
	if err != nil || s.Count != 3 {
		t.Errorf("%+v, %v", s, err)
	}
	if b, err := c.Batch(ctx, s.ID); err != nil || b.Open || b.Counts["active"] != 3 {
		t.Errorf("%+v, %v", b, err)
	}
}
