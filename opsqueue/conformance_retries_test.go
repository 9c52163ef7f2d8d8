package opsqueue_test

import (
	"fmt"
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
	if got := h.reserve(other, 2, newest); len(got) != 2 || got[0].Chunk.Index+got[1].Chunk.Index != 5 {
		t.Fatalf("got %+v", got)
	}
	for n := range int64(10) {
		got := h.reserveOne(c)
		testkit.MustEqual(t, got.Chunk.Index, 1)
		testkit.MustEqual(t, got.Chunk.Retries, n)
		if status := h.status(id); kind(status) != "InProgress" {
			t.Fatalf("after %d failures the submission is %s", n, kind(status))
		}
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
		if want := int64(1); i < 3 && chunk.Chunk.Retries != want || i >= 3 && chunk.Chunk.Retries != 0 {
			t.Errorf("chunk %d has %d retries", i, chunk.Chunk.Retries)
		}
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
				if got := kind(h.status(id)); got != "InProgress" {
					t.Fatalf("after %d failures the submission is %s", n, got)
				}
				h.must(consumer.Fail(h.ctx, h.reserveOne(consumer).Chunk.ChunkID, "boom"))
			}
			if failed := h.waitFor(id, "Failed").Failed; failed.Chunk.Index != 0 || failed.Chunk.Failure != "boom" {
				t.Errorf("%+v", failed)
			}
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
	if failed.Submission.FailedChunkIndex != 0 || failed.Chunk.Failure == "" {
		t.Errorf("%+v", failed)
	}
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
	if failed, ok := err.(*stockclient.SubmissionFailedError); !ok || failed.Chunk.Index != 7 || failed.Chunk.Failure != "cannot run chunk 7" {
		t.Errorf("%v", err)
	}
	got, err := h.producer().Run(h.ctx, h.objects, stockclient.Work{Chunks: chunksOf(7)})
	h.must(err)
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
