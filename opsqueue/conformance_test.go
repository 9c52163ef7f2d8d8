// The conformance tests see the server as the original's clients do. They are based on a description of the original's
// protocol, and know nothing of the server's implementation.
package opsqueue_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/opsqueue"
	"github.com/daybookq/daybook/opsqueue/stockclient"
	"github.com/daybookq/daybook/opsqueue/wire"
)

// upper is the work that the consumers of these tests do on a chunk.
func upper(_ wire.ReservedChunk, input []byte) ([]byte, error) { return bytes.ToUpper(input), nil }

// runConsumers starts one consumer for each strategy. They run every chunk until the test ends or stop is called.
func (h *host) runConsumers(strategies []wire.Strategy, fn func(wire.ReservedChunk, []byte) ([]byte, error)) (stop func()) {
	h.t.Helper()
	ended := make(chan error, len(strategies))
	consumers := make([]*stockclient.Consumer, len(strategies))
	for i, s := range strategies {
		c := h.consumer()
		consumers[i] = c
		go func() { ended <- c.RunEachChunk(h.ctx, h.objects, s, fn) }()
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		for _, c := range consumers {
			c.Close()
		}
		for range consumers {
			testkit.Failed(h.t, <-ended, stockclient.ErrClosed)
		}
	}
	h.t.Cleanup(stop)
	return stop
}

func chunksOf(n int) [][]byte {
	chunks := make([][]byte, n)
	for i := range chunks {
		chunks[i] = fmt.Appendf(nil, "chunk %d", i)
	}
	return chunks
}

func checkResults(t testing.TB, got [][]byte, n int) {
	t.Helper()
	testkit.MustEqual(t, len(got), n)
	for i := range got {
		testkit.MustEqual(t, string(got[i]), fmt.Sprintf("CHUNK %d", i))
	}
}

// TestInsertAndRun: a producer inserts a submission and gets the results in order.
func TestInsertAndRun(t *testing.T) {
	h := startHost(t)
	h.runConsumers([]wire.Strategy{random}, upper)
	got, err := h.producer().Run(h.ctx, h.objects, stockclient.Work{Chunks: chunksOf(50), Metadata: []byte("m"), Strategic: metadata("id", 42)})
	h.must(err)
	checkResults(t, got, 50)
}

// TestConsumersOfEachStrategy: four consumers of each strategy share submissions of several producers.
func TestConsumersOfEachStrategy(t *testing.T) {
	h := startHost(t)
	var strategies []wire.Strategy
	for range 4 {
		strategies = append(strategies, oldest, newest, random, preferDistinct(wire.Oldest, "id"), preferDistinct(wire.Random, "id", "user"), preferDistinct(wire.Newest, "a", "b", "c", "d"))
	}
	h.runConsumers(strategies, upper)
	const producers, chunks = 4, 100
	ended := make(chan error, producers)
	for n := range producers {
		p := h.producer()
		go func() {
			got, err := p.Run(h.ctx, h.objects, stockclient.Work{Chunks: chunksOf(chunks), Strategic: metadata("id", n, "user", n%2)})
			if err == nil {
				checkResults(t, got, chunks)
			}
			ended <- err
		}()
	}
	for range producers {
		h.must(<-ended)
	}
}

// TestEmptySubmission: a submission without chunks is completed when the insert is answered.
func TestEmptySubmission(t *testing.T) {
	h := startHost(t)
	for name, s := range map[string]wire.InsertSubmission{"stored": stored("p", 0), "direct": direct()} {
		id := h.insert(s)
		status := h.status(id)
		testkit.Holds(t, kind(status) == "Completed" && status.Completed.ChunksTotal == 0 && !status.Completed.CompletedAt.IsZero(),
			name, "status", kind(status), status)
	}
	testkit.Equal(t, testkit.Must(h.producer().CountCompleted(h.ctx))(t), 2)
	testkit.Equal(t, len(testkit.Must(h.producer().Run(h.ctx, h.objects, stockclient.Work{}))(t)), 0)
}

// TestDirectContents: chunks that are in the request reach the consumer byte for byte, and its output is returned in the
// message.
func TestDirectContents(t *testing.T) {
	h := startHost(t)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	contents := [][]byte{every, {}, []byte("a"), bytes.Repeat([]byte{200}, 100_000)}
	id := h.insert(direct(contents...))
	s := h.status(id)
	testkit.MustHold(t, kind(s) == "InProgress" && s.InProgress.Prefix == nil && s.InProgress.ChunksTotal == 4, "status", s)
	c := h.consumer()
	for i, want := range contents {
		got := h.reserveOne(c)
		testkit.Holds(t, got.Chunk.ChunkID == (wire.ChunkID{SubmissionID: id, Index: int64(i)}) && got.Chunk.InputContent != nil &&
			bytes.Equal(got.Chunk.InputContent, want), "chunk", got.Chunk.ChunkID, "has", len(got.Chunk.InputContent), "bytes, not", len(want))
		h.must(c.Complete(h.ctx, got.Chunk.ChunkID, bytes.ToUpper(want)))
	}
	s = h.waitFor(id, "Completed")
	testkit.Holds(t, s.Completed.Prefix == nil && s.Completed.ChunksTotal == 4, "status", s.Completed)
}

// TestOrderOfStrategies: each strategy hands out the chunks of three submissions in the right order. Within one reply,
// chunks may have any order, since the original's consumers reserve one at a time.
func TestOrderOfStrategies(t *testing.T) {
	testkit.OneByOne(t)
	for _, c := range []struct {
		name     string
		strategy wire.Strategy
		want     string
	}{
		{"Oldest", oldest, "0/0 0/1 0/2 1/0 1/1 1/2 2/0 2/1 2/2"},
		{"Newest", newest, "2/2 2/1 2/0 1/2 1/1 1/0 0/2 0/1 0/0"},
	} {
		for _, max := range []uint64{1, 4} {
			t.Run(fmt.Sprintf("%s %d", c.name, max), func(t *testing.T) {
				h := startHost(t)
				ids := []wire.SubmissionID{h.insert(stored("a", 3)), h.insert(stored("b", 3)), h.insert(stored("c", 3))}
				testkit.MustHold(t, slices.IsSorted(ids), "ids", ids, "are not in the order of creation")
				consumer := h.consumer()
				var got []wire.ReservedChunk
				for len(got) < 9 {
					reply := h.reserve(consumer, max, c.strategy)
					slices.SortFunc(reply, func(a, b wire.ReservedChunk) int {
						return cmp.Or(cmp.Compare(a.Chunk.SubmissionID, b.Chunk.SubmissionID), cmp.Compare(a.Chunk.Index, b.Chunk.Index))
					})
					if c.strategy.Base == wire.Newest {
						slices.Reverse(reply)
					}
					got = append(got, reply...)
				}
				testkit.Equal(t, idsOf(got, ids...), c.want)
			})
		}
	}
}

// TestRandomOrder: Random does not follow the order of creation, and hands out each chunk once.
func TestRandomOrder(t *testing.T) {
	testkit.OneByOne(t)
	h := startHost(t)
	id := h.insert(stored("a", 200))
	consumer := h.consumer()
	seen := map[int64]bool{}
	inOrder := 0
	for n := range int64(200) {
		c := h.reserve(consumer, 1, random)[0]
		testkit.MustHold(t, !seen[c.Chunk.Index], "chunk", c.Chunk.Index, "was handed out twice")
		seen[c.Chunk.Index] = true
		if c.Chunk.Index == n {
			inOrder++
		}
	}
	testkit.Holds(t, inOrder <= 100, inOrder, "of 200 chunks of submission", id, "were handed out in the order of their indexes")
}

// TestPreferDistinct: the submissions whose value has the fewest chunks in flight come first. Completions and failures
// change the counts.
func TestPreferDistinct(t *testing.T) {
	h := startHost(t)
	ids := []wire.SubmissionID{
		h.insert(stored("a", 5, "user", 1)), h.insert(stored("b", 5, "user", 1)), h.insert(stored("c", 5, "user", 2)), h.insert(stored("d", 5)),
	}
	strategy := preferDistinct(wire.Oldest, "user")
	consumer := h.consumer()
	var held []wire.ReservedChunk
	take := func(want string) wire.ReservedChunk {
		t.Helper()
		got := h.reserve(consumer, 1, strategy)
		testkit.MustEqual(t, idsOf(got, ids...), want)
		held = append(held, got[0])
		return got[0]
	}
	first := take("0/0") // all are idle: the oldest submission
	take("2/0")          // user 2 is idle, and so is the submission without a user
	take("3/0")          // it always counts as idle
	take("3/1")
	h.must(consumer.Complete(h.ctx, first.Chunk.ChunkID, nil))
	h.reported(consumer)
	take("0/1") // user 1 is idle again
	take("3/2")
	h.must(consumer.Fail(h.ctx, held[1].Chunk.ChunkID, "boom"))
	h.reported(consumer)
	take("2/0") // user 2 is idle again
	take("3/3")
}

// TestPreferDistinctAfterDisconnect: when a connection ends, its chunks no longer count as in flight. The original
// continues to count them.
func TestPreferDistinctAfterDisconnect(t *testing.T) {
	h := startHost(t)
	ids := []wire.SubmissionID{h.insert(stored("a", 2, "user", 2)), h.insert(stored("b", 1, "user", 1))}
	gone, c := h.consumer(), h.consumer()
	testkit.MustEqual(t, idsOf(h.reserve(gone, 1, newest), ids...), "1/0")
	gone.Disconnect()
	strategy := preferDistinct(wire.Oldest, "user")
	for held := 0; held < 3; {
		held += len(h.reserve(c, 3, strategy))
	}
	h.must(c.Fail(h.ctx, wire.ChunkID{SubmissionID: ids[0], Index: 1}, "boom"))
	h.must(c.Fail(h.ctx, wire.ChunkID{SubmissionID: ids[1], Index: 0}, "boom"))
	h.reported(c)
	// User 2 has one chunk in flight, and user 1 has none.
	testkit.Equal(t, idsOf(h.reserve(c, 1, strategy), ids...), "1/0")
}

// TestPreferDistinctOfNewest: submissions that rank the same are in the order of the base strategy.
func TestPreferDistinctOfNewest(t *testing.T) {
	h := startHost(t)
	ids := []wire.SubmissionID{h.insert(stored("a", 3)), h.insert(stored("b", 3))}
	consumer := h.consumer()
	for n := range 6 {
		testkit.Equal(t, h.reserve(consumer, 1, preferDistinct(wire.Newest, "user"))[0].Chunk.SubmissionID, ids[1-n/3], "chunk", n)
	}
}

// TestPreferDistinctNested: the outer key ranks before the inner key.
func TestPreferDistinctNested(t *testing.T) {
	h := startHost(t)
	ids := []wire.SubmissionID{
		h.insert(stored("a", 2, "team", 1, "user", 1)), h.insert(stored("b", 2, "team", 1, "user", 2)),
		h.insert(stored("c", 2, "team", 2, "user", 1)), h.insert(stored("d", 2, "team", 2, "user", 3)),
	}
	var got []wire.ReservedChunk
	consumer := h.consumer()
	for len(got) < 4 {
		got = append(got, h.reserve(consumer, 1, preferDistinct(wire.Oldest, "team", "user"))...)
	}
	// After 0/0 (team 1, user 1), team 2 is idle. Of its users, user 1 has a chunk in flight and user 3 has none. Then
	// both teams have one chunk in flight, and user 2 has none. Then team 2 has one and team 1 has two. Users 1 and 3
	// have one each, and the submission of user 1 is older.
	testkit.Equal(t, idsOf(got, ids...), "0/0 3/0 1/0 2/0")
}

// TestMetadataReachesConsumers: consumers and statuses get the producer's metadata, strategic metadata, chunk size and
// trace.
func TestMetadataReachesConsumers(t *testing.T) {
	h := startHost(t)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	size := int64(20)
	strategic := wire.Metadata{"least": math.MinInt64, "most": math.MaxInt64, "ünï": 0, "beyond floats": 1<<53 + 1}
	s := stored("prefix", 2)
	s.Metadata, s.StrategicMetadata, s.ChunkSize = every, strategic, &size
	const trace = "0af7651916cd43dd8448eb211c80319c"
	before := time.Now().Add(-time.Millisecond)
	id, err := h.producer().Insert(h.ctx, s, http.Header{"Traceparent": {"00-" + trace + "-b7ad6b7169203331-01"}, "Tracestate": {"vendor=1"}, "Baggage": {"user=7"}})
	h.must(err)
	if at := time.UnixMilli(id.UnixMS()); at.Before(before.Truncate(time.Millisecond)) || at.After(time.Now().Add(time.Second)) {
		t.Errorf("id %s is of %s, and now it is %s", id, at, time.Now())
	}
	carrier := func(of, text string) {
		t.Helper()
		var values map[string]string
		testkit.Check(t, json.Unmarshal([]byte(text), &values), of, "carrier", text)
		if parts := strings.Split(values["traceparent"], "-"); len(parts) != 4 || parts[1] != trace || values["tracestate"] != "vendor=1" || values["baggage"] != "user=7" {
			t.Errorf("%s: carrier %q", of, text)
		}
	}
	check := func(of string, s wire.Submission, done int64) {
		t.Helper()
		testkit.Holds(t, s.ID == id && s.Prefix != nil && *s.Prefix == "prefix" && s.ChunksTotal == 2 &&
			s.ChunksDone == done && s.ChunkSize == 20 && bytes.Equal(s.Metadata, every) && maps.Equal(s.StrategicMetadata, strategic), of, s)
		carrier(of, s.OtelTraceCarrier)
	}
	status := h.status(id)
	check("status", *status.InProgress, 0)
	c := h.consumer()
	chunk := h.reserveOne(c)
	check("chunk", chunk.Submission, 0)
	testkit.Holds(t, chunk.Chunk.InputContent == nil && chunk.Chunk.Retries == 0, chunk.Chunk)
	h.must(c.Complete(h.ctx, chunk.Chunk.ChunkID, nil))
	h.waitDone(id, 1)
	chunk = h.reserveOne(c)
	check("second chunk", chunk.Submission, 1)
	h.must(c.Complete(h.ctx, chunk.Chunk.ChunkID, nil))
	ended := h.waitFor(id, "Completed").Completed
	check("completed", wire.Submission{
		ID: ended.ID, Prefix: ended.Prefix, ChunksTotal: ended.ChunksTotal, ChunkSize: ended.ChunkSize, Metadata: ended.Metadata,
		StrategicMetadata: ended.StrategicMetadata, OtelTraceCarrier: ended.OtelTraceCarrier,
	}, 0)
	testkit.Holds(t, !ended.CompletedAt.Before(before) && !ended.CompletedAt.After(time.Now().Add(time.Second)),
		"completed at", ended.CompletedAt, "and now it is", time.Now())

	plain := h.status(h.insert(stored("plain", 1))).InProgress
	testkit.Holds(t, plain.Metadata == nil && len(plain.StrategicMetadata) == 0 && plain.ChunkSize == 1, "a plain submission", plain)
	testkit.Equal(t, plain.OtelTraceCarrier, "{}", "the carrier without a trace")
}

// TestCancel: a cancel gets the right answers, and a cancelled submission is no longer worked on.
func TestCancel(t *testing.T) {
	h := startHost(t)
	p, c := h.producer(), h.consumer()
	id := h.insert(stored("cancelled", 3, "user", 1))
	first := h.reserveOne(c)
	h.must(c.Complete(h.ctx, first.Chunk.ChunkID, nil))
	h.waitDone(id, 1)
	held := h.reserveOne(c)
	h.must(p.Cancel(h.ctx, id)) // checks that the body is empty
	s := h.status(id)
	testkit.MustEqual(t, kind(s), "Cancelled")
	if x := s.Cancelled; x.ID != id || *x.Prefix != "cancelled" || x.ChunksTotal != 3 || x.ChunksDone != 1 || x.CancelledAt.IsZero() || !maps.Equal(x.StrategicMetadata, metadata("user", 1)) {
		t.Errorf("%+v", x)
	}
	refused := func(id wire.SubmissionID, want string) {
		t.Helper()
		var reason *stockclient.NotCancellableError
		err := p.Cancel(h.ctx, id)
		testkit.MustHold(t, errors.As(err, &reason), "cancel of a submission that is", want, err)
		got := &wire.SubmissionStatus{Completed: reason.Completed, Failed: reason.Failed, Cancelled: reason.Cancelled}
		testkit.Equal(t, kind(got), want, "cancel of a submission that")
		body, is := wire.EncodeJSON(got), wire.EncodeJSON(h.status(id))
		testkit.Holds(t, bytes.Equal(body, is), "the reason is", body, "and the status", is)
	}
	refused(id, "Cancelled")
	// Reports of its consumers are ignored, their connections stay, and no chunk is handed out.
	h.must(c.Complete(h.ctx, held.Chunk.ChunkID, nil))
	h.must(c.Fail(h.ctx, wire.ChunkID{SubmissionID: id, Index: 2}, "boom"))
	other := h.insert(stored("other", 1))
	next := h.reserveOne(c)
	testkit.Equal(t, next.Chunk.SubmissionID, other, "the consumer got", next.Chunk.ChunkID, "after")
	testkit.Equal(t, c.Connects(), 1, "the consumer got", next.Chunk.ChunkID, "after")
	if s := h.status(id); kind(s) != "Cancelled" || s.Cancelled.ChunksDone != 1 {
		t.Errorf("status after late reports: %s", wire.EncodeJSON(s))
	}
	h.must(c.Complete(h.ctx, next.Chunk.ChunkID, nil))
	h.waitFor(other, "Completed")
	refused(other, "Completed")

	failed := h.insert(direct([]byte("in")))
	for range h.config.MaxChunkRetries {
		h.must(c.Fail(h.ctx, h.reserveOne(c).Chunk.ChunkID, "boom"))
	}
	h.waitFor(failed, "Failed")
	refused(failed, "Failed")
	testkit.Failed(t, p.Cancel(h.ctx, 0), stockclient.ErrNotFound) // cancel of an unknown submission
}

// TestLookups: lookups by prefix and by strategic metadata, and counts, give the right answers.
func TestLookups(t *testing.T) {
	h := startHost(t, func(c *opsqueue.Config) { c.MaxSubmissionsReturned = 3; c.MaxChunkRetries = 1 })
	p, c := h.producer(), h.consumer()
	completed := h.insert(stored("completed", 1, "user", 1))
	h.must(c.Complete(h.ctx, h.reserveOne(c).Chunk.ChunkID, nil))
	h.waitFor(completed, "Completed")
	failed := h.insert(stored("failed", 1, "user", 1))
	h.must(c.Fail(h.ctx, h.reserveOne(c).Chunk.ChunkID, "boom"))
	h.waitFor(failed, "Failed")
	cancelled := h.insert(stored("cancelled", 1, "user", 1))
	h.must(p.Cancel(h.ctx, cancelled))
	first := h.insert(stored("a/b c", 1, "user", 1, "team", 1))
	second := h.insert(stored("prefix", 1, "user", 1, "team", 2))
	third := h.insert(stored("prefix of another", 1, "user", -1))

	for prefix, want := range map[string]wire.SubmissionID{
		"completed": completed, "failed": failed, "a/b c": first, "prefix": second, "prefix of another": third,
		"cancelled": 0, "pref": 0, "prefix o": 0, "unknown": 0,
	} {
		id, ok := testkit.Must2(p.LookupByPrefix(h.ctx, prefix))(t)
		testkit.Holds(t, ok == (want != 0) && id == want, "prefix", prefix, id, ok, "not", want)
	}
	lookup := func(pairs wire.Metadata, want ...wire.SubmissionID) {
		t.Helper()
		ids, err := p.LookupByMetadata(h.ctx, pairs)
		testkit.Holds(t, err == nil && slices.Equal(ids, want), pairs, ids, err, "not", want)
	}
	lookup(metadata("user", 1), first, second)
	lookup(metadata("user", 1, "team", 2), second)
	lookup(metadata("user", -1), third)
	lookup(metadata("user", 1, "team", 3))
	lookup(metadata("other", 1))
	lookup(nil, first, second, third)
	testkit.Equal(t, testkit.Must(p.Count(h.ctx))(t), 3)
	testkit.Equal(t, testkit.Must(p.CountCompleted(h.ctx))(t), 1)
	h.insert(stored("one too many", 1, "user", 2))
	testkit.Fails(p.LookupByMetadata(h.ctx, nil))(t, stockclient.TooManyError(3)) // more than the limit
	lookup(metadata("user", 1), first, second)
	testkit.Equal(t, testkit.Must(p.ServerVersion(h.ctx))(t), "v0.40.1")
}

// TestOldSubmissionsAreRemoved: MaxSubmissionAge after its end, a submission has the status null. A submission in
// progress stays.
func TestOldSubmissionsAreRemoved(t *testing.T) {
	testkit.OneByOne(t)
	h := startHost(t, func(c *opsqueue.Config) { c.MaxSubmissionAge = 100 * time.Millisecond; c.MaxChunkRetries = 1 })
	p, c := h.producer(), h.consumer()
	ids := map[string]wire.SubmissionID{}
	for _, end := range []string{"completed", "failed", "cancelled"} {
		ids[end] = h.insert(stored(end, 2, "user", 1))
		chunks := h.reserve(c, 2, oldest)
		testkit.MustEqual(t, len(chunks), 2)
		h.must(c.Complete(h.ctx, chunks[0].Chunk.ChunkID, nil))
		switch end {
		case "completed":
			h.must(c.Complete(h.ctx, chunks[1].Chunk.ChunkID, nil))
		case "failed":
			h.must(c.Fail(h.ctx, chunks[1].Chunk.ChunkID, "boom"))
		case "cancelled":
			h.must(p.Cancel(h.ctx, ids[end]))
		}
	}
	ids["empty"] = h.insert(stored("empty", 0))
	running := h.insert(stored("running", 1, "user", 1))
	for end, id := range ids {
		h.waitFor(id, "null")
		_, ok, err := p.LookupByPrefix(h.ctx, end)
		testkit.Holds(t, !ok && err == nil, end, "the prefix is still found", err)
		err = p.Cancel(h.ctx, id)
		testkit.Holds(t, errors.Is(err, stockclient.ErrNotFound), end, "cancel", err)
	}
	testkit.Eventually(h.t, "no completed submission is counted", func() bool {
		n, err := p.CountCompleted(h.ctx)
		h.must(err)
		return n == 0
	})
	testkit.Equal(t, kind(h.status(running)), "InProgress", "the submission in progress")
	testkit.Equal(t, h.reserveOne(c).Chunk.SubmissionID, running)
}
