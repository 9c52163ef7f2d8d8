package opsqueue

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/opsqueue/wire"
)

// holding are the chunks that a connection has reserved.
type holding struct {
	mu     sync.Mutex
	chunks map[wire.ChunkID]*reservation
	// expired has the chunks whose reservation has expired, and how often. For each the consumer's library sends a
	// FailChunk, which must not end the reservation of somebody who has the chunk by then.
	expired map[wire.ChunkID]int
	ended   bool // the connection has ended
}

// reservation is a chunk that a connection holds.
type reservation struct {
	chunk wire.ChunkID
	job   job.ID
	claim job.ID
	since time.Time
	timer *time.Timer // ends it
}

// maxHeld bounds the chunks that a connection holds, and those whose expiry it has not noticed.
const maxHeld = 100_000

var errHoldsTooMuch = fmt.Errorf("the consumer holds %d chunks, which is the limit", maxHeld)

func (h *holding) init() {
	h.chunks, h.expired = map[wire.ChunkID]*reservation{}, map[wire.ChunkID]int{}
}

// hold adds the chunks of a claim. It fails if the connection has ended, or holds too many.
func (c *consumer) hold(list []*reservation) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended:
		return errors.New("the connection has ended")
	case len(c.chunks)+len(list) > maxHeld || len(c.expired) > maxHeld:
		return errHoldsTooMuch
	}
	for _, r := range list {
		r.timer = time.AfterFunc(c.s.config.ReservationExpiration, func() { c.expire(r) })
		c.chunks[r.chunk] = r
	}
	c.s.metrics.reserved.Add(float64(len(list)))
	return nil
}

// take ends a reservation, because the consumer has reported how the chunk ended. It returns nil if the connection does
// not hold the chunk.
func (c *consumer) take(chunk wire.ChunkID) *reservation {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.chunks[chunk]
	if r != nil {
		r.timer.Stop()
		c.drop(r)
	}
	return r
}

// drop removes a reservation. The caller holds c.mu.
func (c *consumer) drop(r *reservation) {
	delete(c.chunks, r.chunk)
	c.s.metrics.reserved.Add(-1)
}

// expire ends a reservation whose time is over. The run counts as a failure, and the chunk goes back at once.
func (c *consumer) expire(r *reservation) {
	c.mu.Lock()
	if c.chunks[r.chunk] != r {
		c.mu.Unlock()
		return
	}
	c.drop(r)
	c.expired[r.chunk]++
	c.mu.Unlock()
	c.s.endings.add(ending{claim: r.claim, outcome: failure(r.job, "the reservation expired"), since: r.since})
	if err := c.send(wire.ChunkReservationExpired{ID: r.chunk}); err != nil {
		c.cut()
	}
}

// noticed reports whether a FailChunk is the answer to an expiry.
func (c *consumer) noticed(chunk wire.ChunkID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.expired[chunk]
	if n > 1 {
		c.expired[chunk] = n - 1
	} else {
		delete(c.expired, chunk)
	}
	return n > 0
}

// releaseAll ends all reservations at the end of the connection. Each counts as a failure of the chunk: otherwise one
// that kills its consumers would run for ever. If the server stops, the chunks stay reserved.
func (c *consumer) releaseAll() {
	c.mu.Lock()
	c.ended = true
	list := make([]*reservation, 0, len(c.chunks))
	for _, r := range c.chunks {
		r.timer.Stop()
		list = append(list, r)
	}
	for _, r := range list {
		c.drop(r)
	}
	c.mu.Unlock()
	if c.s.running.Err() != nil {
		return
	}
	for _, r := range list {
		c.s.endings.add(ending{claim: r.claim, outcome: failure(r.job, "the connection of the consumer ended"), since: r.since})
	}
}

func (c *consumer) complete(m wire.CompleteChunk) error {
	o := job.Outcome{Code: job.OK, ExitCode: job.OK.DefaultExitCode(), DelayMs: -1}
	switch n := len(m.OutputContent); {
	case n > job.MaxOutputBytes:
		return c.end(m.ID, failure(job.ID{}, fmt.Sprintf("output_content has %d bytes; the maximum is %d", n, job.MaxOutputBytes)))
	case n > 0:
		o.OutputKind, o.Output = job.Bytes, m.OutputContent
	}
	return c.end(m.ID, o)
}

func (c *consumer) fail(m wire.FailChunk) error {
	if c.noticed(m.ID) {
		return nil
	}
	return c.end(m.ID, failure(job.ID{}, briefFailure(m.Failure)))
}

// end reports how a chunk ended. The connection need not hold it.
func (c *consumer) end(chunk wire.ChunkID, o job.Outcome) error {
	e := ending{chunk: chunk, outcome: o, arrived: time.Now()}
	if r := c.take(chunk); r != nil {
		e.outcome.ID, e.held, e.since = r.job, r.claim, r.since
	}
	c.s.endings.add(e)
	return nil
}

// failure is the outcome of a run that failed. The chunk is available again at once, or has failed for good.
func failure(id job.ID, reason string) job.Outcome {
	return job.Outcome{ID: id, Code: job.Retry, ExitCode: job.Retry.DefaultExitCode(), Error: reason}
}
