package chunks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/chunks"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/worker"
)

// consuming runs Consume until the test ends, or until stop is called.
func consuming(t *testing.T, c *client.Client, o chunks.ConsumeOptions, work func(context.Context, *chunks.Chunk) (client.Outcome, error)) (stop func()) {
	t.Helper()
	o.Worker.Client = c
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- chunks.Consume(ctx, o, work) }()
	stop = sync.OnceFunc(func() { cancel(); testkit.Check(t, <-done, "consume") })
	t.Cleanup(stop)
	return stop
}

// TestConsume: chunks of several batches, which many requests filled, have their lines and their batches' attributes;
// work that fails runs again, or fails for good.
func TestConsume(t *testing.T) {
	for _, noStream := range []bool{false, true} {
		t.Run(fmt.Sprintf("noStream=%v", noStream), func(t *testing.T) {
			c := daybooktest.Start(t).Client
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			var made []*chunks.Submission
			const n = 2100
			for _, name := range []string{"a", "b"} {
				s, err := chunks.Submit(ctx, c, client.NewBatch{Name: name, ChunkSize: 7, Meta: map[string]any{"of": name}, Metadata: []byte("all of " + name)}, manyChunks(n), nil)
				testkit.NoError(t, err)
				made = append(made, s)
			}
			o := chunks.ConsumeOptions{Worker: worker.Worker{Types: []string{"chunk"}, Strategy: client.PreferDistinct("of", client.Random), Concurrency: 16, Batch: 100, NoStream: noStream}}
			consuming(t, c, o, func(_ context.Context, chunk *chunks.Chunk) (client.Outcome, error) {
				b := chunk.Batch
				if b == nil || b.ID != chunk.BatchID || b.Name != chunk.Meta["of"] || string(b.Metadata) != "all of "+b.Name || string(b.Meta["of"]) != `"`+b.Name+`"` || b.ChunkSize != 7 || b.CreatedAt == 0 {
					return client.Outcome{}, worker.Fail(fmt.Errorf("batch %+v of %s", b, chunk.ID))
				}
				switch {
				case fmt.Sprint(chunk.Line) != string(chunk.Payload):
					return client.Outcome{}, worker.Fail(fmt.Errorf("line %d of %q", chunk.Line, chunk.Payload))
				case chunk.Line == 5 && chunk.RunAttempts == 1:
					return client.Outcome{}, worker.RetryAfter(0, errors.New("again"))
				case chunk.Line == 6:
					return client.Outcome{}, worker.Fail(errors.New("no"))
				}
				return client.TextOutput(fmt.Sprint(chunk.RunAttempts)), nil
			})
			for _, s := range made {
				line := int64(0)
				for r, err := range s.Results(ctx) {
					want := client.BatchResult{Line: line, Status: "completed", Output: []byte("1")}
					switch line {
					case 5:
						want.Output = []byte("2")
					case 6:
						want.Status, want.Output, want.Error = "failed", nil, "no"
					}
					testkit.MustHold(t, err == nil && r.Line == want.Line && r.Status == want.Status && bytes.Equal(r.Output, want.Output) &&
						r.Error == want.Error, r, err, "want", want)
					line++
				}
				testkit.Equal(t, line, n, "results")
			}
		})
	}
}

// TestConsumeAnyJob: jobs of batches without attributes have lines and batches too; a job without a batch has neither.
func TestConsumeAnyJob(t *testing.T) {
	c := daybooktest.Start(t).Client
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	alone := testkit.Must(c.Create(ctx, client.TextJob("x", "alone")))(t)
	created := testkit.Must(c.CreateMany(ctx, []client.NewJob{client.TextJob("x", "0"), client.TextJob("x", "1")}, client.CreateOptions{}))(t)
	consuming(t, c, chunks.ConsumeOptions{Worker: worker.Worker{Types: []string{"x"}}}, func(_ context.Context, chunk *chunks.Chunk) (client.Outcome, error) {
		if chunk.Batch == nil {
			return client.TextOutput(fmt.Sprint(chunk.BatchID == "", chunk.Line)), nil
		}
		return client.TextOutput(fmt.Sprint(chunk.Batch.ID == created.BatchID, chunk.Line)), nil
	})
	for id, want := range map[string]string{alone.ID: "true 0", created.FirstID: "true 0", created.LastID: "true 1"} {
		o := testkit.Must(c.Output(ctx, id, time.Minute))(t)
		testkit.Holds(t, string(o.Bytes) == want, "job", id, o, "want", want)
	}
	p, err := c.JobPlace(ctx, created.LastID)
	testkit.Holds(t, err == nil && p.Line == 1 && p.BatchID == created.BatchID && p.JobID == created.LastID, p, err)
	p = testkit.Must(c.JobPlace(ctx, alone.ID))(t)
	testkit.Equal(t, p.BatchID, "", p)
	testkit.Fails(c.JobPlace(ctx, strings.Replace(alone.ID, alone.ID[:8], "00000000", 1)))(t, client.ErrNotFound)
}

// TestConsumeDrains: when the context ends, Consume finishes the chunk that runs, and returns.
func TestConsumeDrains(t *testing.T) {
	c := daybooktest.Start(t).Client
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := testkit.Must(chunks.Submit(ctx, c, client.NewBatch{}, manyChunks(3), nil))(t)
	began, finish := make(chan struct{}, 3), make(chan struct{})
	running, end := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		done <- chunks.Consume(running, chunks.ConsumeOptions{Worker: worker.Worker{Client: c}}, func(context.Context, *chunks.Chunk) (client.Outcome, error) {
			began <- struct{}{}
			<-finish
			return client.Outcome{}, nil
		})
	}()
	<-began
	end()
	close(finish)
	testkit.NoError(t, <-done)
	b := testkit.Must(c.Batch(ctx, s.ID))(t)
	testkit.Holds(t, b.Counts["completed"] == int64(1+len(began)) && b.Counts["active"] == 0, b.Counts, 1+len(began), "began")
	for _, o := range []chunks.ConsumeOptions{
		{Worker: worker.Worker{Client: c, Handler: func(context.Context, *client.Job) (client.Outcome, error) { return client.Outcome{}, nil }}},
		{Worker: worker.Worker{Client: c, Take: func([]*worker.Run) {}}},
	} {
		err := chunks.Consume(ctx, o, func(context.Context, *chunks.Chunk) (client.Outcome, error) { return client.Outcome{}, nil })
		testkit.Holds(t, err != nil, o.Worker, "was taken")
	}
}

// TestCancelWaits: the cancel of a batch with more jobs than one command cancels can be waited for.
func TestCancelWaits(t *testing.T) {
	c := daybooktest.Start(t).Client
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	const n = 6000
	submit := func() *chunks.Submission {
		t.Helper()
		return testkit.Must(chunks.Submit(ctx, c, client.NewBatch{}, func(yield func(client.NewJob) bool) {
			for i := range n { // neighbours differ, so the server cannot cancel them together
				j, priority := client.TextJob("chunk", "x"), i%2
				if j.Priority = &priority; !yield(j) {
					return
				}
			}
		}, nil))(t)
	}
	allEnded := func(id string) {
		t.Helper()
		b := testkit.Must(c.Batch(ctx, id))(t)
		testkit.Holds(t, b.Status == "cancelled" && b.Counts["cancelled"] == n, b)
	}
	s := submit()
	testkit.NoError(t, s.Cancel(ctx))
	allEnded(s.ID)
	s = submit()
	sweep, err := c.CancelBatch(ctx, s.ID, "")
	testkit.MustHold(t, err == nil && !sweep.Done && sweep.ID == "", sweep, err) // otherwise this test shows nothing
	steps := 0
	sweep, err = c.WaitSweep(ctx, sweep, func(client.Sweep) { steps++ })
	testkit.Holds(t, err == nil && sweep.Done && sweep.Moved == n && steps != 0, sweep, err)
	allEnded(s.ID)
	testkit.Check(t, s.Cancel(ctx), "cancel again")
	s = submit()
	sweep = testkit.Must(c.DeleteBatch(ctx, s.ID, ""))(t)
	sweep, err = c.WaitSweep(ctx, sweep, nil)
	testkit.Holds(t, err == nil && sweep.Done, sweep, err)
	testkit.Fails(c.Batch(ctx, s.ID))(t, client.ErrNotFound)
}
