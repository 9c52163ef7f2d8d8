package opsqueue

import (
	"errors"
	"fmt"
	"time"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/opsqueue/wire"
	"github.com/daybookq/daybook/store/applied"
)

// overheadBytes bounds the part of a reply besides the contents of chunks: a submission's metadata and its other texts.
// Together with the contents, a reply stays below 16 MiB, the longest frame that clients accept.
const overheadBytes = job.MaxBatchMetadataBytes + 64<<10

// readyPoll is the interval at which a request checks whether the engine has replayed its journal.
const readyPoll = 20 * time.Millisecond

var errTooManyRequests = fmt.Errorf("the consumer has %d requests of chunks, which is the limit", maxRequests)

// want starts a request for chunks.
func (c *consumer) want(nonce uint64, m wire.WantToReserveChunks) error {
	if m.Max == 0 {
		return c.send(wire.ChunksReserved{Nonce: nonce, MaxIsZero: true})
	}
	select {
	case c.requests <- struct{}{}:
	default:
		return errTooManyRequests
	}
	cmd := job.Claim{
		Runner: c.runner, Max: int(min(m.Max, job.MaxClaimJobs)), Clients: []string{Client}, Types: []string{Type},
		LeaseMs: c.s.config.leaseMs(), MaxBytes: job.MaxClaimBytes, Strategy: strategyOf(m.Strategy),
	}
	long := c.long.Load()
	c.waiting.Go(func() {
		defer func() { <-c.requests }()
		if long != nil {
			select {
			case <-*long:
			case <-c.ctx.Done():
			}
		}
		c.reserve(nonce, &cmd)
	})
	return nil
}

// reserve waits for chunks and sends them. Each request gets exactly one reply, unless the connection ends. If chunks
// cannot be claimed, the reply is empty, and the consumer's library waits and tries again.
func (c *consumer) reserve(nonce uint64, cmd *job.Claim) {
	began := time.Now()
	for c.ctx.Err() == nil {
		reply, err := c.claim(cmd)
		if c.ctx.Err() != nil {
			if reply != nil { // the consumer has not received them
				c.s.replies.Release(reply.bytes)
				c.giveBack(reply.claim, reply.held)
			}
			return
		}
		if errors.Is(err, ingest.ErrNotReady) { // the server has just started, and consumers reconnect
			select {
			case <-time.After(readyPoll):
			case <-c.ctx.Done():
			}
			continue
		}
		if err != nil {
			c.s.log.Warn("chunks cannot be reserved", "conn_id", c.name, "error", err)
			c.s.metrics.reservationsFailed.Inc()
			reply = &reservedChunks{}
		}
		if reply == nil { // the claimed chunks belong to submissions that have ended
			continue
		}
		c.s.metrics.observeReserve(began, cmd)
		err = c.send(wire.ChunksReserved{Nonce: nonce, Chunks: reply.chunks})
		c.s.replies.Release(reply.bytes)
		if err != nil { // the consumer has not received them
			c.giveBack(reply.claim, reply.held)
			c.cut()
		}
		return
	}
}

// reservedChunks are the chunks of a reply.
type reservedChunks struct {
	chunks []wire.ReservedChunk
	claim  job.ID
	held   []*reservation
	bytes  int64 // taken from Server.replies, to be released
}

// claim waits for chunks. It returns nil if it claimed chunks but cannot hand out any of them.
func (c *consumer) claim(cmd *job.Claim) (_ *reservedChunks, err error) {
	bytes := int64(0)
	claimed, handed, err := c.s.endings.claim(c.ctx, *cmd, func(payloadBytes int64) error {
		n := min(payloadBytes+overheadBytes, maxReplyBytes)
		err := c.s.replies.Acquire(c.ctx, n)
		if err == nil {
			bytes += n
		}
		return err
	})
	defer func() {
		if bytes > 0 {
			c.s.replies.Release(bytes)
		}
	}()
	if err != nil || len(handed) == 0 {
		return nil, err
	}
	b := replyBuilder{c: c, claimed: &claimed, claim: claimed.Claim, room: bytes, since: time.Now()}
	if err = b.add(handed); err == nil && len(b.held) > 0 {
		err = c.hold(b.held)
	}
	if err != nil {
		c.giveBack(b.claim, b.held)
		return nil, err
	}
	if len(b.held) == 0 {
		return nil, nil
	}
	c.s.metrics.reservationsSucceeded.Inc()
	reply := &reservedChunks{b.chunks, b.claim, b.held, bytes}
	bytes = 0
	return reply, nil
}

// giveBack returns all chunks of a claim, none of which has reached the consumer.
func (c *consumer) giveBack(claim job.ID, held []*reservation) {
	for _, r := range held {
		c.take(r.chunk)
	}
	c.s.end(release(claim, job.ID{}))
}

// release returns an ending for one job of a claim, or for all jobs that the claim still holds. It undoes the
// reservation.
func release(claim, id job.ID) ending {
	return ending{claim: claim, outcome: job.Outcome{ID: id, Code: job.Unget, DelayMs: -1}}
}

// replyBuilder builds the reply from the jobs of a claim.
type replyBuilder struct {
	c       *consumer
	claimed *applied.Claimed
	claim   job.ID
	room    int64 // bytes left for the reply
	since   time.Time
	batch   job.ID // of the last job
	about   *about // of that batch; nil: it is not a submission
	now     wire.Submission
	chunks  []wire.ReservedChunk
	held    []*reservation
}

// add adds jobs. It returns jobs that do not fit to the queue.
func (b *replyBuilder) add(handed []runs.Run) error {
	for i := range handed {
		run := &handed[i]
		payloads := run.Payloads()
		for line := range run.N {
			payload, err := payloads.Next()
			if err == nil {
				err = b.addJob(&run.First, run.ID(line), payload)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *replyBuilder) addJob(first *job.Job, id job.ID, payload []byte) error {
	switch err := b.of(first.Batch); {
	case errors.Is(err, job.BatchNotFound):
		b.c.s.end(release(b.claim, id))
		return nil
	case err != nil:
		return err
	case b.about == nil:
		o := failure(id, "the job is in the queue of chunks, and belongs to no batch with attributes that is in this queue, too")
		o.Code, o.ExitCode = job.Fail, job.Fail.DefaultExitCode()
		b.c.s.end(ending{claim: b.claim, outcome: o})
		return nil
	}
	size := int64(b.about.bytes() + len(payload))
	if b.room < size && len(b.chunks) > 0 {
		b.c.s.end(release(b.claim, id))
		return nil
	}
	b.room -= size
	index := int64(id.Line())
	if id.WithLine(0) != first.Batch { // the job is in a later part of the submission
		var err error
		if _, index, err = b.c.s.state.LineOf(id); err != nil {
			return err
		}
	}
	chunk := wire.ChunkID{SubmissionID: b.now.ID, Index: index}
	b.chunks = append(b.chunks, wire.ReservedChunk{
		Chunk:      wire.Chunk{ChunkID: chunk, InputContent: inputContent(first.Kind, payload), Retries: int64(first.RunAttempts - 1)},
		Submission: b.now,
	})
	b.held = append(b.held, &reservation{chunk: chunk, job: id, claim: b.claim, since: b.since})
	return nil
}

// of loads the batch of the next job.
func (b *replyBuilder) of(id job.ID) error {
	if b.batch == id && !id.IsZero() {
		return nil
	}
	b.batch, b.about = id, b.c.s.cache.get(id)
	chunks, done, ok := b.claimed.Progress(id)
	if !ok {
		return nil
	}
	if b.about == nil {
		doc, err := b.c.s.state.Batch(id)
		if err != nil || !isSubmission(&doc) {
			return err
		}
		if b.about, err = b.c.s.about(&doc); err != nil {
			return err
		}
	}
	b.now = b.about.at(chunks, done)
	return nil
}
