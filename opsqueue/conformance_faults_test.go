package opsqueue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/internal/wsframe/wsframetest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/opsqueue"
	"github.com/daybookq/daybook/opsqueue/wire"
	"github.com/daybookq/daybook/store/applied"
)

// faultyEngine delays or refuses calls of an engine. A nil hook does nothing.
type faultyEngine struct {
	opsqueue.Engine
	created    func()                              // after a create
	moving     func()                              // before a move
	claimed    func(ctx context.Context)           // after a claim that got chunks
	completing func(commands []job.Complete) error // before ends of runs are stored; an error refuses them
}

func (e *faultyEngine) Create(ctx context.Context, c *job.Create) (applied.Made, ingest.Receipt, error) {
	made, receipt, err := e.Engine.Create(ctx, c)
	if e.created != nil {
		e.created()
	}
	return made, receipt, err
}

func (e *faultyEngine) MoveAll(ctx context.Context, m job.Move) (applied.Swept, ingest.Receipt, error) {
	if e.moving != nil {
		e.moving()
	}
	return e.Engine.MoveAll(ctx, m)
}

func (e *faultyEngine) ClaimUntil(ctx context.Context, c job.Claim, stop <-chan struct{}, admit func(int64) error) (applied.Claimed, []runs.Run, ingest.Receipt, error) {
	claimed, handed, receipt, err := e.Engine.ClaimUntil(ctx, c, stop, admit)
	if e.claimed != nil && len(handed) > 0 {
		e.claimed(ctx)
	}
	return claimed, handed, receipt, err
}

func (e *faultyEngine) CompleteInOrder(ctx context.Context, commands []job.Complete) ([]applied.Ended, ingest.Receipt, error) {
	if e.completing != nil {
		if err := e.completing(commands); err != nil {
			return nil, ingest.Receipt{}, err
		}
	}
	return e.Engine.CompleteInOrder(ctx, commands)
}

// Exchange refuses all exchanges if there are hooks for claims or ends of runs. The server then calls CompleteInOrder and
// ClaimUntil, which call the hooks.
func (e *faultyEngine) Exchange(ctx context.Context, commands []job.Complete, c job.Claim) (*ingest.Exchange, error) {
	if e.claimed != nil || e.completing != nil {
		return nil, ingest.ErrDiskFull
	}
	return e.Engine.Exchange(ctx, commands, c)
}

// startFaulty is startHost with a faulty engine.
func startFaulty(t *testing.T, e *faultyEngine) *host {
	t.Helper()
	h := newHost(t)
	h.wrap = func(engine opsqueue.Engine) opsqueue.Engine { e.Engine = engine; return e }
	h.start()
	return h
}

// wait waits until a channel is closed or has a value.
func (h *host) wait(what string, c <-chan struct{}) {
	h.t.Helper()
	select {
	case <-c:
	case <-h.ctx.Done():
		h.t.Fatalf("it did not happen that %s", what)
	}
}

// TestConnectionEndsDuringClaim: if a connection ends between a claim and its reply, the reply's memory is released, and
// the chunks do not count as failed.
func TestConnectionEndsDuringClaim(t *testing.T) {
	const rounds = 3
	claimed := make(chan struct{}, rounds)
	var left atomic.Int64
	left.Store(rounds)
	h := startFaulty(t, &faultyEngine{claimed: func(ctx context.Context) {
		if left.Add(-1) >= 0 {
			claimed <- struct{}{}
			<-ctx.Done() // until the connection has ended
		}
	}})
	id := h.insert(stored("p", 1))
	for range rounds {
		r := h.raw()
		r.put(0, wire.WantToReserveChunks{Max: 1, Strategy: oldest})
		h.wait("the chunk is claimed", claimed)
		h.must(r.socket.CloseNow())
	}
	got := h.reserveOne(h.consumer())
	testkit.Equal(t, got.Chunk.SubmissionID, id, "after", rounds, "connections that got nothing")
	testkit.Equal(t, got.Chunk.Retries, 0, "after", rounds, "connections that got nothing")
	testkit.Eventually(h.t, "all of the memory for replies is free", h.server.RepliesFree)
}

// TestLongOutputsDoNotHoldUpOthers: if the engine refuses a long output because the disk is almost full, other reports
// and other consumers' reservations are not delayed. The output is stored when there is space.
func TestLongOutputsDoNotHoldUpOthers(t *testing.T) {
	const long = 100_000
	var low, refused atomic.Bool
	low.Store(true)
	h := startFaulty(t, &faultyEngine{completing: func(commands []job.Complete) error {
		n := 0
		for i := range commands {
			for j := range commands[i].Outcomes {
				n += len(commands[i].Outcomes[j].Output)
			}
		}
		if n >= long && low.Load() {
			refused.Store(true)
			return ingest.ErrDiskFull
		}
		return nil
	}})
	t.Cleanup(func() { low.Store(false) }) // before the server stops
	a, b := h.insert(stored("a", 2)), h.insert(stored("b", 3))
	r := h.raw()
	r.put(0, wire.CompleteChunk{ID: wire.ChunkID{SubmissionID: a}, OutputContent: make([]byte, long)})
	testkit.Eventually(h.t, "the long output is refused", refused.Load)
	r.put(1, wire.CompleteChunk{ID: wire.ChunkID{SubmissionID: b, Index: 2}}) // on the same connection
	h.waitDone(b, 1)                                                          // the newest chunk, which other would reserve otherwise
	other := h.raw()
	other.put(1, wire.WantToReserveChunks{Max: 1, Strategy: newest})
	got := other.decoded().(wire.ChunksReserved).Chunks[0].Chunk.ChunkID
	testkit.MustEqual(t, got.SubmissionID, b)
	other.put(2, wire.CompleteChunk{ID: got})
	h.waitDone(b, 2)
	h.waitDone(a, 0)
	low.Store(false)
	h.waitDone(a, 1)
}

// TestOneFailureForEachRun: a run that ends by both a report and an expiry counts as one failure, in either order.
func TestOneFailureForEachRun(t *testing.T) {
	const library = "Reservation expired" // the report of the original's library after an expiry
	for _, test := range []struct {
		name    string
		before  []string // failures reported before the expiry
		after   []string // failures reported after the server has sent the expiry
		expires bool
	}{
		{name: "report", before: []string{"error"}},
		{name: "expiry", after: []string{library}, expires: true},
		{name: "report under way", after: []string{"error", library}, expires: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := startHost(t, func(c *opsqueue.Config) {
				if test.expires {
					c.ReservationExpiration = 100 * time.Millisecond
				}
			})
			h.insert(stored("p", 1))
			r := h.raw()
			reserved := func() wire.Chunk {
				r.put(0, wire.WantToReserveChunks{Max: 1, Strategy: oldest})
				return r.decoded().(wire.ChunksReserved).Chunks[0].Chunk
			}
			chunk := reserved()
			fail := func(texts []string) {
				for _, text := range texts {
					r.put(0, wire.FailChunk{ID: chunk.ChunkID, Failure: text})
				}
			}
			fail(test.before)
			if test.expires {
				m, ok := r.decoded().(wire.ChunkReservationExpired)
				testkit.MustHold(t, ok && m.ID == chunk.ChunkID, "got", m)
			}
			fail(test.after)
			testkit.Equal(t, reserved().Retries, 1)
		})
	}
}

// TestCloseFrame: when the server is closed, it sends a close frame to each consumer.
func TestCloseFrame(t *testing.T) {
	h := startHost(t)
	ends := make(chan error)
	const consumers = 5
	for range consumers {
		r := h.raw()
		go func() { _, _, err := r.socket.Read(h.ctx); ends <- err }()
	}
	h.stop()
	for range consumers {
		testkit.Equal(t, websocket.CloseStatus(<-ends), websocket.StatusGoingAway, "the connection")
	}
}

// TestMistakesAreNamed: if the server refuses a consumer's message, the close frame says why.
func TestMistakesAreNamed(t *testing.T) {
	h := startHost(t)
	for name, c := range map[string]struct {
		kind    websocket.MessageType
		message []byte
	}{
		"text":                 {websocket.MessageText, []byte("hello")},
		"empty":                {websocket.MessageBinary, nil},
		"no CBOR":              {websocket.MessageBinary, []byte("\xff\xff")},
		"a number":             {websocket.MessageBinary, []byte{1}},
		"deeply nested":        {websocket.MessageBinary, bytes.Repeat([]byte{0x81}, 1_000_000)},
		"a text of 2^63 bytes": {websocket.MessageBinary, []byte{0x7b, 0x80, 0, 0, 0, 0, 0, 0, 0}},
		"an unknown message":   {websocket.MessageBinary, []byte("\xa2\x65nonce\x01\x68contents\x63Foo")},
	} {
		t.Run(name, func(t *testing.T) {
			r := h.raw()
			go func() { _ = r.socket.Write(h.ctx, c.kind, c.message) }() // the server may close the connection before it has read everything
			_, _, err := r.socket.Read(h.ctx)
			closed, ok := errors.AsType[websocket.CloseError](err)
			testkit.Holds(t, ok && closed.Code == websocket.StatusPolicyViolation && closed.Reason != "", "the connection ended with", err)
		})
	}
}

// TestFramesThatBreakTheRules: a consumer that breaks the WebSocket protocol, or sends too long a message, gets a close
// frame with the status and the reason.
func TestFramesThatBreakTheRules(t *testing.T) {
	h := startHost(t)
	for _, v := range wsframetest.Violations(wire.MaxMessageBytes) {
		status, reason, err := wsframetest.Closing(h.address, "GET /consumer HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", v.Bytes)
		testkit.Holds(t, status == v.Status && reason != "" && err == nil, v.Name, status, reason, err, "want", v.Status)
	}
}

// TestCloseAnswersInserts: an insert that is running when the server is closed is answered.
func TestCloseAnswersInserts(t *testing.T) {
	created, closing := make(chan struct{}, 1), make(chan struct{})
	h := startFaulty(t, &faultyEngine{created: func() { created <- struct{}{}; <-closing }})
	proceed := sync.OnceFunc(func() { close(closing) })
	t.Cleanup(proceed) // before the server stops
	answered := make(chan error, 1)
	var id wire.SubmissionID
	p := h.producer()
	go func() {
		var err error
		id, err = p.Insert(h.ctx, stored("p", 1), nil)
		answered <- err
	}()
	h.wait("the submission is created", created)
	stopped := make(chan struct{})
	go func() { h.stop(); close(stopped) }()
	testkit.Eventually(h.t, "the server accepts no more connections", func() bool {
		conn, err := net.Dial("tcp", h.address)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	proceed()
	err := <-answered
	h.wait("the server is closed", stopped)
	testkit.NoError(t, err)
	testkit.MustEqual(t, p.Retries(), 0, "the insert")
	h.start()
	testkit.Equal(t, kind(h.status(id)), "InProgress", "the submission")
}

// TestOneCancelOfTwo: of two concurrent cancels of a submission, one is granted. The second reports that the submission
// has ended.
func TestOneCancelOfTwo(t *testing.T) {
	var moves atomic.Int64
	h := startFaulty(t, &faultyEngine{moving: func() {
		// The first move waits for a second move. The wait is bounded, because there must be none.
		first := moves.Add(1) == 1
		for began := time.Now(); first && moves.Load() < 2 && time.Since(began) < 300*time.Millisecond; {
			time.Sleep(time.Millisecond) // real time: a second move would arrive by then
		}
	}})
	id := h.insert(stored("p", 10))
	var group sync.WaitGroup
	var errs [2]error
	for i := range errs {
		p := h.producer()
		group.Go(func() { errs[i] = p.Cancel(h.ctx, id) })
	}
	group.Wait()
	testkit.Holds(t, (errs[0] == nil) != (errs[1] == nil), "the two cancels were answered with", errs[0], "and", errs[1])
	testkit.Equal(t, moves.Load(), 1, "the engine was called")
	h.waitFor(id, "Cancelled")
}

// TestRunnersOfDaybookKeepTheirJobs: after a start, the server returns only claims from before the start, because a
// runner of Daybook's own API may have a name with the same prefix as connections.
func TestRunnersOfDaybookKeepTheirJobs(t *testing.T) {
	h := startHost(t)
	stale := h.claimAs("opsqueue/earlier/1")
	start := h.engine.Now()
	testkit.Eventually(h.t, "time has passed", func() bool { return h.engine.Now() > start })
	h.must(h.server.ReturnStale(start))
	testkit.Holds(t, !h.holds(stale), "an earlier connection still holds its job")
	mine := h.claimAs("opsqueue/mine")
	h.must(h.server.ReturnStale(start))
	testkit.Holds(t, h.holds(mine), "the job of another runner was returned")
}

// claimAs creates a job in a queue of its own and claims it. It returns the id of the job.
func (h *host) claimAs(runner string) job.ID {
	h.t.Helper()
	h.queues++
	typ := fmt.Sprint("t", h.queues)
	_, _, err := h.engine.Create(h.ctx, &job.Create{Groups: []job.Group{{Client: "other", Type: typ, Lines: 1, Attributes: job.Attributes{MaxAttempts: 1, LeaseMs: 600_000}}}})
	testkit.NoError(h.t, err)
	_, handed, _, err := h.engine.ClaimUntil(h.ctx, job.Claim{
		Runner: runner, Max: 1, Clients: []string{"other"}, Types: []string{typ}, LeaseMs: 600_000, MaxBytes: job.MaxClaimBytes,
	}, h.ctx.Done(), func(int64) error { return nil })
	testkit.NoError(h.t, err)
	return handed[0].ID(0)
}

// holds reports whether the runner that claimed a job still holds it.
func (h *host) holds(id job.ID) bool {
	h.t.Helper()
	h.must(h.engine.CatchUp(h.ctx, 0))
	return testkit.Must(h.engine.Queries().Job(id))(h.t).Status == job.Active
}

// unreadableState fails lookups for a while.
type unreadableState struct {
	opsqueue.Queries
	bad    atomic.Bool
	failed atomic.Int64
}

func (s *unreadableState) BatchOfSnowflake(snowflake int64) (job.ID, error) {
	if s.bad.Load() {
		s.failed.Add(1)
		return job.ID{}, errors.New("input/output error")
	}
	return s.Queries.BatchOfSnowflake(snowflake)
}

// TestReadErrorsLoseNoReport: if a disk error prevents the lookup of a chunk, the server tries the report again.
func TestReadErrorsLoseNoReport(t *testing.T) {
	h := newHost(t)
	var state unreadableState
	h.wrapState = func(q opsqueue.Queries) opsqueue.Queries { state.Queries = q; return &state }
	h.start()
	id := h.insert(stored("p", 1))
	r := h.raw()
	state.bad.Store(true)
	r.put(0, wire.CompleteChunk{ID: wire.ChunkID{SubmissionID: id}}) // the connection does not hold it
	testkit.Eventually(h.t, "lookups have failed", func() bool { return state.failed.Load() > 1 })
	state.bad.Store(false)
	h.waitFor(id, "Completed")
}

// createIncomplete creates a submission that is open or paused.
func (h *host) createIncomplete(open, paused bool) wire.SubmissionID {
	_, receipt, err := h.engine.Create(h.ctx, &job.Create{
		Submission: &job.Submission{OnFailure: job.CancelRest, ChunkSize: 1, Open: open, Paused: paused},
		Groups:     []job.Group{{Client: opsqueue.Client, Type: opsqueue.Type, Lines: 3, Attributes: job.Attributes{MaxAttempts: 3, LeaseMs: 600_000, RetentionMs: 600_000}}},
	})
	testkit.Check(h.t, err)
	return wire.SubmissionID(job.Snowflake(receipt.At, receipt.Seq))
}

// TestManyUnfilledSubmissions: a starting server cancels all submissions that an earlier server did not fill, also if they
// are more than a page.
func TestManyUnfilledSubmissions(t *testing.T) {
	testkit.OneByOne(t)
	h := startHost(t)
	var page sync.WaitGroup
	for range job.MaxPage {
		page.Go(func() { h.createIncomplete(true, true) })
	}
	page.Wait()
	last := h.createIncomplete(true, true)
	h.restart()
	h.waitFor(last, "Cancelled")
}

// TestUnfilledSubmissions: a starting server cancels a submission that an earlier server did not fill. It does not cancel
// a submission that is only paused or only open.
func TestUnfilledSubmissions(t *testing.T) {
	testkit.OneByOne(t)
	h := startHost(t)
	unfilled, paused, open := h.createIncomplete(true, true), h.createIncomplete(false, true), h.createIncomplete(true, false)
	h.wrap = func(e opsqueue.Engine) opsqueue.Engine { // a starting engine refuses commands for a moment
		starting := &startingEngine{Engine: e}
		starting.refusals.Store(2)
		return starting
	}
	h.restart()
	h.waitFor(unfilled, "Cancelled")
	for name, id := range map[string]wire.SubmissionID{"paused": paused, "open": open} {
		testkit.Equal(t, kind(h.status(id)), "InProgress", "the submission that is", name)
	}
}
