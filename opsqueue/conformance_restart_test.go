package opsqueue_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/opsqueue"
	"github.com/daybookq/daybook/opsqueue/stockclient"
	"github.com/daybookq/daybook/opsqueue/wire"
	"github.com/daybookq/daybook/store/applied"
)

// TestRestart: after a restart, everything that was answered is still there, and consumers continue.
func TestRestart(t *testing.T) {
	h := startHost(t, func(c *opsqueue.Config) { c.HeartbeatInterval = time.Second })
	c, p := h.consumer(), h.producer()
	running := h.insert(stored("running", 4, "user", 1))
	ended := h.insert(stored("ended", 1))
	for range 2 {
		h.must(c.Complete(h.ctx, h.reserveOne(c).Chunk.ChunkID, nil))
	}
	h.waitDone(running, 2)
	held := h.reserveOne(c)
	h.must(c.Complete(h.ctx, wire.ChunkID{SubmissionID: ended}, nil))
	before := string(wire.EncodeJSON(h.waitFor(ended, "Completed")))
	cancelled := h.insert(stored("cancelled", 3))
	h.must(p.Cancel(h.ctx, cancelled))
	h.restart()
	testkit.Equal(t, string(wire.EncodeJSON(h.status(ended))), before)
	testkit.Equal(t, kind(h.status(cancelled)), "Cancelled", "the cancelled submission")
	s := h.status(running)
	testkit.Holds(t, kind(s) == "InProgress" && s.InProgress.ChunksDone == 2, kind(s), s.InProgress)
	id, ok, err := p.LookupByPrefix(h.ctx, "running")
	testkit.Holds(t, ok && err == nil && id == running, id, ok, err)
	// The consumer reconnects and has forgotten its reservation. The completion of the run that continued counts.
	h.must(c.Complete(h.ctx, held.Chunk.ChunkID, nil))
	h.waitDone(running, 3)
	last := h.reserveOne(c)
	testkit.Equal(t, last.Chunk.ChunkID, wire.ChunkID{SubmissionID: running, Index: 3})
	h.must(c.Complete(h.ctx, last.Chunk.ChunkID, nil))
	h.waitFor(running, "Completed")
	testkit.Equal(t, c.Connects(), 2)
}

// TestRestartReturnsChunks: if consumers do not reconnect after a restart, their chunks are handed out again. The restart
// does not count as a failure.
func TestRestartReturnsChunks(t *testing.T) {
	h := startHost(t, func(c *opsqueue.Config) { c.HeartbeatInterval = time.Second; c.MaxChunkRetries = 1 })
	id := h.insert(stored("p", 3))
	gone := h.consumer()
	testkit.MustEqual(t, len(h.reserve(gone, 2, oldest)), 2)
	h.stop()
	gone.Close()
	h.start()
	c := h.consumer()
	for range 3 {
		got := h.reserveOne(c)
		h.must(c.Complete(h.ctx, got.Chunk.ChunkID, nil))
	}
	h.waitFor(id, "Completed")
}

// TestRestartsWhileRunning: submissions complete although the server restarts twice while producers wait for them.
func TestRestartsWhileRunning(t *testing.T) {
	h := startHost(t, func(c *opsqueue.Config) { c.HeartbeatInterval = time.Second })
	var runs atomic.Int64
	h.runConsumers([]wire.Strategy{oldest, newest, random, preferDistinct(wire.Random, "user")}, func(c wire.ReservedChunk, input []byte) ([]byte, error) {
		runs.Add(1)
		return upper(c, input)
	})
	const producers, chunks = 3, 300
	ended := make(chan error, producers)
	for n := range producers {
		p := h.producer()
		go func() {
			got, err := p.Run(h.ctx, h.objects, stockclient.Work{Chunks: chunksOf(chunks), Strategic: metadata("user", n)})
			if err == nil {
				checkResults(t, got, chunks)
			}
			ended <- err
		}()
	}
	for restarts := range int64(2) {
		testkit.Eventually(h.t, "some chunks have run", func() bool { return runs.Load() > (restarts+1)*producers*chunks/4 })
		h.restart()
	}
	for range producers {
		h.must(<-ended)
	}
	n := runs.Load()
	testkit.Holds(t, n <= producers*chunks*2, n, "runs of", producers*chunks, "chunks")
}

// startingEngine refuses the first claims and cancellations, because it is not ready.
type startingEngine struct {
	opsqueue.Engine
	refusals atomic.Int64
}

func (e *startingEngine) ClaimUntil(ctx context.Context, c job.Claim, stop <-chan struct{}, admit func(int64) error) (applied.Claimed, []runs.Run, ingest.Receipt, error) {
	if e.refusals.Add(-1) >= 0 {
		return applied.Claimed{}, nil, ingest.Receipt{}, ingest.ErrNotReady
	}
	return e.Engine.ClaimUntil(ctx, c, stop, admit)
}

func (e *startingEngine) MoveAll(ctx context.Context, m job.Move) (applied.Swept, ingest.Receipt, error) {
	if e.refusals.Add(-1) >= 0 {
		return applied.Swept{}, ingest.Receipt{}, ingest.ErrNotReady
	}
	return e.Engine.MoveAll(ctx, m)
}

// TestReservationsWaitForTheStart: consumers that reconnect before the server has replayed its journal wait. They get no
// empty reply.
func TestReservationsWaitForTheStart(t *testing.T) {
	h := startHost(t)
	id := h.insert(stored("p", 1))
	var starting *startingEngine
	h.wrap = func(e opsqueue.Engine) opsqueue.Engine {
		starting = &startingEngine{Engine: e}
		starting.refusals.Store(3)
		return starting
	}
	h.restart()
	testkit.Equal(t, h.reserveOne(h.consumer()).Chunk.SubmissionID, id)
	left := starting.refusals.Load()
	testkit.Holds(t, left < 0, left, "refusals are left")
}

// TestManyChunks: several consumers share 100,000 chunks, and each chunk is handed out once.
func TestManyChunks(t *testing.T) {
	testkit.OneByOne(t)
	chunks := int64(40_000)
	if testing.Short() {
		chunks = 10_000
	}
	h := startHost(t)
	h.ctx = t.Context() // without a time limit
	start := time.Now()
	id := h.insert(stored("p", chunks))
	inserted := time.Since(start)
	const consumers = 8
	seen := make([]atomic.Int32, chunks)
	ended := make(chan error, consumers)
	var left atomic.Int64
	left.Store(chunks)
	for n := range consumers {
		c := h.consumer()
		go func() {
			ended <- func() error {
				for {
					if left.Add(-1) < 0 {
						return nil
					}
					got, err := c.Reserve(h.ctx, 1, []wire.Strategy{oldest, newest, random, preferDistinct(wire.Oldest, "user")}[n%4])
					if err != nil {
						return err
					}
					if again := seen[got[0].Chunk.Index].Add(1); again != 1 {
						return fmt.Errorf("chunk %d was handed out %d times", got[0].Chunk.Index, again)
					}
					if err := c.Complete(h.ctx, got[0].Chunk.ChunkID, nil); err != nil {
						return err
					}
				}
			}()
		}()
	}
	for range consumers {
		h.must(<-ended)
	}
	h.waitFor(id, "Completed")
	t.Logf("%d chunks were inserted in %s, and reserved and completed one at a time by %d consumers in %s", chunks, inserted, consumers, time.Since(start)-inserted)
}
