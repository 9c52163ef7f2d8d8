package opsqueue

import (
	"container/list"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/opsqueue/wire"
)

// holding has the chunks that a connection has reserved.
type holding struct {
	mu     sync.Mutex
	chunks map[wire.ChunkID]*reservation
	// expired counts the expired reservations by chunk. The consumer's library sends a FailChunk for each, which must not
	// end the reservation of the chunk's next holder.
	expired map[wire.ChunkID]int
	order   *list.List  // of *reservation, in the order of expiry
	timer   *time.Timer // for the first of them; nil: there was none yet
	ended   bool        // the connection has ended
}

// reservation is a chunk that a connection holds.
type reservation struct {
	chunk wire.ChunkID
	job   job.ID
	claim job.ID
	since time.Time
	until time.Time
	place *list.Element // in holding.order
}

// maxHeld bounds the chunks that a connection holds, and the expired chunks for which its FailChunk has not arrived.
const maxHeld = 100_000

var errHoldsTooMuch = fmt.Errorf("the consumer holds %d chunks, which is the limit", maxHeld)

func (h *holding) init() {
	h.chunks, h.expired, h.order = map[wire.ChunkID]*reservation{}, map[wire.ChunkID]int{}, list.New()
}

// hold adds the chunks of a claim. It returns an error if the connection has ended or holds too many chunks.
func (c *consumer) hold(chunks []*reservation) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended:
		return errors.New("the connection has ended")
	case len(c.chunks)+len(chunks) > maxHeld || len(c.expired) > maxHeld:
		return errHoldsTooMuch
	}
	lasts := c.s.config.ReservationExpiration
	until := time.Now().Add(lasts)
	if c.timer == nil {
		c.timer = time.AfterFunc(lasts, c.expire)
	} else if c.order.Len() == 0 {
		c.timer.Reset(lasts)
	}
	for _, r := range chunks {
		r.until = until
		r.place = c.order.PushBack(r)
		c.chunks[r.chunk] = r
	}
	c.s.metrics.reserved.Add(float64(len(chunks)))
	return nil
}

// take removes and returns the reservation of a chunk that the consumer has reported. It returns nil if the connection
// does not hold the chunk.
func (c *consumer) take(chunk wire.ChunkID) *reservation {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.chunks[chunk]
	if r != nil {
		c.drop(r)
	}
	return r
}

// drop removes a reservation. The caller holds c.mu.
func (c *consumer) drop(r *reservation) {
	delete(c.chunks, r.chunk)
	c.order.Remove(r.place)
	c.s.metrics.reserved.Add(-1)
}

// expire ends the expired reservations one after the other. Each run counts as a failure, and the chunk is available
// again immediately.
func (c *consumer) expire() {
	for r := c.overdue(); r != nil; r = c.overdue() {
		c.s.end(ending{claim: r.claim, outcome: failure(r.job, "the reservation expired"), since: r.since})
		if err := c.send(wire.ChunkReservationExpired{ID: r.chunk}); err != nil {
			c.cut() // releaseAll ends the remaining reservations
			return
		}
	}
}

// overdue removes and returns an expired reservation. If there is none, it sets the timer for the next.
func (c *consumer) overdue() *reservation {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.order.Front()
	if first == nil {
		return nil
	}
	r := first.Value.(*reservation)
	if left := time.Until(r.until); left > 0 {
		c.timer.Reset(left)
		return nil
	}
	c.drop(r)
	c.expired[r.chunk]++
	return r
}

// expiredText is the failure that the consumer's library reports after the expiry of a reservation.
const expiredText = "Reservation expired"

// isAfterExpiry reports whether a FailChunk is about an expired reservation. Such a report is the library's answer to the
// expiry, or was sent before the consumer received it.
func (c *consumer) isAfterExpiry(m *wire.FailChunk) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.expired[m.ID]
	switch {
	case n == 0:
		return false
	case m.Failure != expiredText:
		return c.chunks[m.ID] == nil
	case n == 1:
		delete(c.expired, m.ID)
	default:
		c.expired[m.ID] = n - 1
	}
	return true
}

// releaseAll ends all reservations after the end of the connection. Each counts as a failure of the chunk: otherwise a
// chunk that kills its consumers would run for ever. If the server is closing, the chunks stay reserved.
func (c *consumer) releaseAll() {
	c.mu.Lock()
	c.ended = true
	if c.timer != nil {
		c.timer.Stop()
	}
	chunks := make([]*reservation, 0, len(c.chunks))
	for _, r := range c.chunks {
		chunks = append(chunks, r)
		c.drop(r)
	}
	c.mu.Unlock()
	if c.s.isClosing() {
		return
	}
	for _, r := range chunks {
		c.s.end(ending{claim: r.claim, outcome: failure(r.job, "the connection of the consumer ended"), since: r.since})
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
	if c.isAfterExpiry(&m) {
		return nil
	}
	return c.end(m.ID, failure(job.ID{}, briefFailure(m.Failure)))
}

// end reports the end of a chunk's run. The connection need not hold the chunk.
func (c *consumer) end(chunk wire.ChunkID, o job.Outcome) error {
	e := ending{chunk: chunk, outcome: o, arrived: time.Now()}
	if r := c.take(chunk); r != nil {
		e.outcome.ID, e.held, e.since = r.job, r.claim, r.since
	}
	if e.isLong() {
		e.stored = make(chan struct{})
		c.long.Store(&e.stored)
	}
	c.s.end(e)
	return nil
}

// failure returns the outcome of a failed run. The chunk becomes available again immediately, unless it has failed for
// good.
func failure(id job.ID, reason string) job.Outcome {
	return job.Outcome{ID: id, Code: job.Retry, ExitCode: job.Retry.DefaultExitCode(), Error: reason}
}
