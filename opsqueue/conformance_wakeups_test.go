package opsqueue_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/opsqueue"
	"github.com/daybookq/daybook/opsqueue/stockclient"
	"github.com/daybookq/daybook/opsqueue/wire"
)

// wakeupTries is how often each cause must wake a parked reservation. The original misses 24 to 30 of 30.
const wakeupTries = 30

// TestParkedReservations: a reservation that waits gets a chunk as soon as one is available, whatever the cause. The
// random pause before the cause lets it also happen while the reservation is being parked.
func TestParkedReservations(t *testing.T) {
	pause := func() { time.Sleep(rand.N(6 * time.Millisecond)) } // real time: vary the order of events
	for _, c := range []struct {
		cause  string
		expiry time.Duration // of reservations; 0: the default
		try    func(h *host, holder, waiter *stockclient.Consumer) (want wire.SubmissionID, got []wire.ReservedChunk)
	}{
		{"insert", 0, func(h *host, _, waiter *stockclient.Consumer) (wire.SubmissionID, []wire.ReservedChunk) {
			parked := h.later(waiter, 1, oldest)
			pause()
			id := h.insert(stored("p", 1))
			return id, <-parked
		}},
		{"own failure before", 0, func(h *host, _, waiter *stockclient.Consumer) (wire.SubmissionID, []wire.ReservedChunk) {
			id := h.insert(stored("p", 1))
			chunk := h.reserveOne(waiter)
			h.must(waiter.Fail(h.ctx, chunk.Chunk.ChunkID, "boom"))
			return id, h.reserve(waiter, 1, oldest)
		}},
		{"own failure after", 0, func(h *host, _, waiter *stockclient.Consumer) (wire.SubmissionID, []wire.ReservedChunk) {
			id := h.insert(stored("p", 1))
			chunk := h.reserveOne(waiter)
			parked := h.later(waiter, 1, random)
			pause()
			h.must(waiter.Fail(h.ctx, chunk.Chunk.ChunkID, "boom"))
			return id, <-parked
		}},
		{"failure of another", 0, func(h *host, holder, waiter *stockclient.Consumer) (wire.SubmissionID, []wire.ReservedChunk) {
			id := h.insert(stored("p", 1))
			chunk := h.reserveOne(holder)
			parked := h.later(waiter, 1, newest)
			pause()
			h.must(holder.Fail(h.ctx, chunk.Chunk.ChunkID, "boom"))
			return id, <-parked
		}},
		{"disconnect", 0, func(h *host, holder, waiter *stockclient.Consumer) (wire.SubmissionID, []wire.ReservedChunk) {
			id := h.insert(stored("p", 1))
			h.reserveOne(holder)
			parked := h.later(waiter, 1, preferDistinct(wire.Oldest, "user"))
			pause()
			holder.Disconnect()
			return id, <-parked
		}},
		{"expiry", 30 * time.Millisecond, func(h *host, holder, waiter *stockclient.Consumer) (wire.SubmissionID, []wire.ReservedChunk) {
			id := h.insert(stored("p", 1))
			h.reserveOne(holder)
			return id, h.reserve(waiter, 1, oldest)
		}},
	} {
		t.Run(c.cause, func(t *testing.T) {
			t.Parallel()
			h := startHost(t, func(config *opsqueue.Config) {
				config.MaxChunkRetries = 1000 // a try may take so long that reservations expire several times
				if c.expiry > 0 {
					config.ReservationExpiration = c.expiry
				}
			})
			holder, waiter := h.consumer(), h.consumer()
			for n := range wakeupTries {
				id, got := c.try(h, holder, waiter)
				if len(got) != 1 || got[0].Chunk.SubmissionID != id {
					t.Fatalf("try %d: got %+v, not the chunk of %s", n, got, id)
				}
				h.must(waiter.Complete(h.ctx, got[0].Chunk.ChunkID, nil))
				h.waitFor(id, "Completed")
			}
		})
	}
}

// TestInsertWakesAll: one insert wakes as many parked reservations as it has chunks, on several connections and with
// several on one connection.
func TestInsertWakesAll(t *testing.T) {
	h := startHost(t)
	var parked []<-chan []wire.ReservedChunk
	for range 4 {
		c := h.consumer()
		for range 5 {
			parked = append(parked, h.later(c, 1, random))
		}
	}
	id := h.insert(stored("p", 20))
	seen := map[int64]bool{}
	for _, p := range parked {
		got := <-p
		if len(got) != 1 || got[0].Chunk.SubmissionID != id || seen[got[0].Chunk.Index] {
			t.Fatalf("got %+v, after %v", got, seen)
		}
		seen[got[0].Chunk.Index] = true
	}
}

// TestParkedReservationOfGoneConsumer: a parked reservation gets no chunk after its connection has ended. If only its
// caller has gone, the chunk goes back.
func TestParkedReservationOfGoneConsumer(t *testing.T) {
	h := startHost(t)
	for range 10 {
		gone := h.raw()
		gone.put(0, wire.WantToReserveChunks{Max: 1})
		testkit.NoError(t, gone.socket.CloseNow())
	}
	id := h.insert(stored("p", 3))
	c := h.consumer()
	for range 3 {
		if got := h.reserveOne(c); got.Chunk.SubmissionID != id {
			t.Fatalf("got %+v", got.Chunk.ChunkID)
		} else {
			h.must(c.Complete(h.ctx, got.Chunk.ChunkID, nil))
		}
	}
	h.waitFor(id, "Completed")
}
