package opsqueue_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/opsqueue"
	"github.com/daybookq/daybook/opsqueue/stockclient"
	"github.com/daybookq/daybook/opsqueue/wire"
)

// TestRetries: a chunk that failed is handed out again immediately, with the number of its failures. After ten failures
// the submission has failed, its other chunks are not handed out any more, and its status has all details.
func TestRetries(t *testing.T) {
	h := startHost(t)
	size := int64(4)
	s := direct([]byte{1}, []byte{2, 3}, []byte{4}, []byte{5})
	s.Metadata, s.StrategicMetadata, s.ChunkSize = []byte{9}, metadata("user", 1), &size
	id := h.insert(s)
	c, other := h.consumer(), h.consumer()
	h.must(c.Complete(h.ctx, h.reserveOne(c).Chunk.ChunkID, nil))
	h.waitDone(id, 1)
	held := wire.ChunkID{SubmissionID: id, Index: 3}
	got := h.reserve(other, 2, newest)
	testkit.MustHold(t, len(got) == 2 && got[0].Chunk.Index+got[1].Chunk.Index == 5, "got", got)
	for n := range int64(10) {
		got := h.reserveOne(c)
		testkit.MustEqual(t, got.Chunk.Index, 1)
		testkit.MustEqual(t, got.Chunk.Retries, n)
		testkit.MustEqual(t, kind(h.status(id)), "InProgress", "after", n, "failures the submission")
		h.must(c.Fail(h.ctx, got.Chunk.ChunkID, fmt.Sprintf("boom %d", n)))
	}
	status := h.waitFor(id, "Failed")
	want := fmt.Sprintf(`{"Failed":[{"id":%[1]s,"prefix":null,"chunks_total":4,"chunk_size":4,"metadata":[9],"strategic_metadata":{"user":1},"failed_at":"TIME","failed_chunk_id":1,"otel_trace_carrier":"{}","chunks_done":1},`+
		`{"submission_id":%[1]s,"chunk_index":1,"input_content":[2,3],"failure":"boom 9","failed_at":"TIME"}]}`, id)
	testkit.Equal(t, sortedFields(withoutTimes(wire.EncodeJSON(status))), sortedFields(want))
	if at := status.Failed.Submission.FailedAt; time.Since(at) > time.Minute || time.Until(at) > time.Second { // real time: the date must be the present
		t.Errorf("failed at %s", at)
	}
	// The remaining chunks are skipped: they are not handed out, and reports of their holders change nothing.
	h.must(other.Complete(h.ctx, held, nil))
	h.must(other.Fail(h.ctx, held, "late"))
	next := h.insert(stored("next", 1))
	testkit.Equal(t, h.reserveOne(other).Chunk.SubmissionID, next)
	testkit.Equal(t, string(wire.EncodeJSON(h.status(id))), string(wire.EncodeJSON(status)))
	testkit.Equal(t, testkit.Must(h.producer().Count(h.ctx))(t), 1)
}

// TestRetriedChunksKeepTheirPlace: a failed chunk is handed out before chunks with a greater index.
func TestRetriedChunksKeepTheirPlace(t *testing.T) {
	h := startHost(t)
	id := h.insert(stored("p", 5))
	c := h.consumer()
	for _, chunk := range h.reserve(c, 3, oldest) {
		h.must(c.Fail(h.ctx, chunk.Chunk.ChunkID, "boom"))
	}
	h.reported(c)
	var got []wire.ReservedChunk
	for range 5 {
		got = append(got, h.reserveOne(c))
	}
	testkit.Equal(t, idsOf(got, id), "0/0 0/1 0/2 0/3 0/4")
	for i, chunk := range got {
		testkit.Holds(t, (i >= 3 || chunk.Chunk.Retries == 1) && (i < 3 || chunk.Chunk.Retries == 0),
			"chunk", i, "has", chunk.Chunk.Retries, "retries")
	}
}

var timesOfJSON = regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.(\d{3}|\d{6}|\d{9}))?Z"`)

func withoutTimes(body []byte) string { return timesOfJSON.ReplaceAllString(string(body), `"TIME"`) }

// TestMaxChunkRetries: with 0 or 1, the first failure is the last.
func TestMaxChunkRetries(t *testing.T) {
	for _, c := range []struct {
		retries  uint32
		failures int
	}{{0, 1}, {1, 1}, {2, 2}, {25, 25}} {
		t.Run(fmt.Sprint(c.retries), func(t *testing.T) {
			h := startHost(t, func(config *opsqueue.Config) { config.MaxChunkRetries = c.retries })
			id := h.insert(stored("p", 2))
			consumer := h.consumer()
			for n := range c.failures {
				testkit.MustEqual(t, kind(h.status(id)), "InProgress", "after", n, "failures the submission")
				h.must(consumer.Fail(h.ctx, h.reserveOne(consumer).Chunk.ChunkID, "boom"))
			}
			failed := h.waitFor(id, "Failed").Failed
			testkit.Holds(t, failed.Chunk.Index == 0 && failed.Chunk.Failure == "boom", failed)
		})
	}
}

// TestFailureTexts: the status shows failure texts of any length and with any characters.
func TestFailureTexts(t *testing.T) {
	h := startHost(t, func(c *opsqueue.Config) { c.MaxChunkRetries = 1 })
	c := h.consumer()
	long := make([]byte, 3000)
	for i := range long {
		long[i] = byte('a' + i%26)
	}
	for _, text := range []string{"", "x", "Traceback:\n  \"quoted\" \\ \x00 \u2028", "ünï \U0001F493", string(long)} {
		id := h.insert(stored("p", 1))
		h.must(c.Fail(h.ctx, h.reserveOne(c).Chunk.ChunkID, text))
		testkit.Equal(t, h.waitFor(id, "Failed").Failed.Chunk.Failure, text)
	}
}

// TestPoisonChunk: a chunk that kills each consumer fails its submission after the maximum number of runs. The original
// retries such chunks for ever.
func TestPoisonChunk(t *testing.T) {
	h := startHost(t, func(c *opsqueue.Config) { c.MaxChunkRetries = 4 })
	id := h.insert(stored("poison", 2))
	c, holder := h.consumer(), h.consumer()
	poison := h.reserveOne(c).Chunk.ChunkID
	h.reserveOne(holder) // no other chunk may be left: the next request of c may arrive before its connection ends
	for range h.config.MaxChunkRetries - 1 {
		c.Disconnect()
		testkit.MustEqual(t, h.reserveOne(c).Chunk.ChunkID, poison)
	}
	c.Disconnect()
	failed := h.waitFor(id, "Failed").Failed
	testkit.Holds(t, failed.Submission.FailedChunkIndex == 0 && failed.Chunk.Failure != "", failed)
	other := h.insert(stored("other", 1))
	testkit.Equal(t, h.reserveOne(c).Chunk.SubmissionID, other)
}

// TestRunFails: the producer that waits for a submission gets the failure. Other submissions continue.
func TestRunFails(t *testing.T) {
	h := startHost(t)
	h.runConsumers([]wire.Strategy{random, oldest, newest}, func(_ wire.ReservedChunk, input []byte) ([]byte, error) {
		if string(input) == "chunk 7" {
			return nil, fmt.Errorf("cannot run %s", input)
		}
		return upper(wire.ReservedChunk{}, input)
	})
	_, err := h.producer().Run(h.ctx, h.objects, stockclient.Work{Chunks: chunksOf(20)})
	failed, ok := err.(*stockclient.SubmissionFailedError)
	testkit.Holds(t, ok && failed.Chunk.Index == 7 && failed.Chunk.Failure == "cannot run chunk 7", err)
	got := testkit.Must(h.producer().Run(h.ctx, h.objects, stockclient.Work{Chunks: chunksOf(7)}))(h.t)
	checkResults(t, got, 7)
}

// TestLongFailureIsStoredFirst: if a consumer fails a chunk with a long text and requests another chunk, it gets the same
// chunk again, as with a short text, because failed chunks are before chunks that never ran.
func TestLongFailureIsStoredFirst(t *testing.T) {
	h := startHost(t, func(c *opsqueue.Config) { c.MaxChunkRetries = 20 })
	h.insert(stored("p", 3))
	c := h.consumer()
	for n := range 19 {
		got := h.reserveOne(c)
		testkit.MustEqual(t, got.Chunk.Index, 0)
		testkit.MustEqual(t, got.Chunk.Retries, int64(n))
		h.must(c.Fail(h.ctx, got.Chunk.ChunkID, strings.Repeat("x", 60_000)))
	}
}

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
				testkit.MustHold(t, len(got) == 1 && got[0].Chunk.SubmissionID == id, "try", n, "got", got, "not the chunk of", id)
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
		testkit.MustHold(t, len(got) == 1 && got[0].Chunk.SubmissionID == id && !seen[got[0].Chunk.Index], "got", got, "after", seen)
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
