package opsqueue_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/opsqueue"
	"github.com/daybookq/daybook/opsqueue/stockclient"
	"github.com/daybookq/daybook/opsqueue/wire"
)

var interleavingSeed = flag.Uint64("interleaving-seed", 0, "seed of TestRandomInterleavings; 0 draws one")

// TestRandomInterleavings: producers and consumers act at random, and the server restarts. Nothing breaks a client, no
// two consumers hold the same chunk, and every submission ends correctly.
func TestRandomInterleavings(t *testing.T) {
	steps, runs := 3000, 4
	if testing.Short() {
		steps, runs = 600, 2
	}
	for n := range runs {
		seed := *interleavingSeed
		if seed == 0 {
			seed = rand.Uint64()
		}
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			t.Logf("repeat with -interleaving-seed %d", seed)
			d := newDriver(t, seed)
			d.keeps = n%2 == 1
			for range steps {
				d.step()
			}
			d.finish()
			d.check()
		})
	}
}

const (
	drivenConsumers = 6
	drivenRetries   = 4
)

// driver performs random actions one after the other, and knows the results to expect. Only reservations run in separate
// goroutines.
type driver struct {
	*host
	rng         *rand.Rand
	producer    *stockclient.Producer
	consumers   [drivenConsumers]drivenConsumer
	submissions []*drivenSubmission
	byID        map[wire.SubmissionID]*drivenSubmission
	arrived     chan arrival
	keeps       bool // connections stay until finish, so that the failures of each chunk are known exactly
	done        map[string]int
}

type drivenConsumer struct {
	*stockclient.Consumer
	connection  int // counts the dropped connections
	outstanding int // reservations
	held        []wire.ChunkID
	completed   map[wire.ChunkID]bool // on this connection
}

type drivenSubmission struct {
	id        wire.SubmissionID
	cancelled bool
	chunks    []drivenChunk
}

type drivenChunk struct {
	holder    int // a consumer + 1; 0: none
	fails     int // failures sent
	completes int // completions sent
}

// arrival is the answer to a reservation.
type arrival struct {
	consumer, connection int
	chunks               []wire.ReservedChunk
	err                  error
}

func newDriver(t *testing.T, seed uint64) *driver {
	h := startHost(t, func(c *opsqueue.Config) { c.MaxChunkRetries = drivenRetries; c.HeartbeatInterval = 2 * time.Second })
	d := &driver{
		host: h, rng: rand.New(rand.NewPCG(seed, 0)), producer: h.producer(), byID: map[wire.SubmissionID]*drivenSubmission{},
		arrived: make(chan arrival, 1000), done: map[string]int{},
	}
	for i := range d.consumers {
		d.consumers[i] = drivenConsumer{Consumer: h.consumer(), completed: map[wire.ChunkID]bool{}}
	}
	return d
}

func (d *driver) step() {
	d.t.Helper()
	d.drain()
	what, c := "", d.rng.IntN(drivenConsumers)
	switch n := d.rng.IntN(1000); {
	case n < 120:
		what = "insert"
		d.insertSome()
	case n < 150 && len(d.submissions) > 0:
		what = "cancel"
		d.cancelOne(d.submissions[d.rng.IntN(len(d.submissions))])
	case n < 550:
		what = "reserve"
		d.reserveSome(c)
	case n < 800:
		what = "complete"
		d.completeHeld(c)
	case n < 810 && len(d.submissions) > 0:
		what = "complete another's"
		d.completeAny(c)
	case n < 900 || d.keeps && n < 916:
		what = "fail"
		d.failHeld(c)
	case n < 915 && !d.keeps:
		what = "disconnect"
		d.disconnect(c)
	case n < 916 && !d.keeps:
		what = "restart"
		d.restartServer()
	default:
		what = "pause"
		time.Sleep(time.Duration(d.rng.Int64N(int64(2 * time.Millisecond)))) // real time: vary the order of events
	}
	d.done[what]++
}

func (d *driver) insertSome() {
	n := d.rng.IntN(6)
	s := stored(fmt.Sprint("prefix ", len(d.submissions)), int64(n), "user", d.rng.IntN(3), "team", d.rng.IntN(2))
	if d.rng.IntN(3) == 0 {
		s = wire.InsertSubmission{Chunks: wire.ChunkContents{Direct: &wire.Direct{}}, StrategicMetadata: s.StrategicMetadata}
		for i := range n {
			s.Chunks.Direct.Contents = append(s.Chunks.Direct.Contents, make([]byte, i))
		}
	}
	id := testkit.Must(d.producer.Insert(d.ctx, s, nil))(d.t)
	one := &drivenSubmission{id: id, chunks: make([]drivenChunk, n)}
	testkit.MustHold(d.t, d.byID[id] == nil, "two submissions have the id", id)
	d.submissions = append(d.submissions, one)
	d.byID[id] = one
}

func (d *driver) cancelOne(s *drivenSubmission) {
	err := d.producer.Cancel(d.ctx, s.id)
	var reason *stockclient.NotCancellableError
	switch {
	case err == nil && s.cancelled:
		d.t.Errorf("submission %s was cancelled twice", s.id)
	case err == nil && len(s.chunks) == 0:
		d.t.Errorf("the empty submission %s was cancelled", s.id)
	case err == nil:
		s.cancelled = true
	case !errors.As(err, &reason):
		d.t.Errorf("cancel of %s: %v", s.id, err)
	case s.cancelled != (reason.Cancelled != nil):
		d.t.Errorf("submission %s: it was cancelled: %t; the reason is %+v", s.id, s.cancelled, reason)
	}
}

func (d *driver) strategy() wire.Strategy {
	s := wire.Strategy{Base: wire.Base(d.rng.IntN(3))}
	for range d.rng.IntN(3) {
		s.PreferDistinct = append(s.PreferDistinct, []string{"user", "team", "none"}[d.rng.IntN(3)])
	}
	return s
}

func (d *driver) reserveSome(c int) {
	consumer := &d.consumers[c]
	if consumer.outstanding == 3 {
		return
	}
	consumer.outstanding++
	max, strategy, connection := uint64(1+d.rng.IntN(3)), d.strategy(), consumer.connection
	go func() {
		chunks, err := consumer.Reserve(d.ctx, max, strategy)
		d.arrived <- arrival{c, connection, chunks, err}
	}()
}

// drain records the answers that have arrived.
func (d *driver) drain() {
	for {
		select {
		case a := <-d.arrived:
			d.note(a)
		default:
			return
		}
	}
}

func (d *driver) note(a arrival) {
	consumer := &d.consumers[a.consumer]
	consumer.outstanding--
	testkit.Holds(d.t, a.err == nil || errors.Is(a.err, stockclient.ErrConnection), "reservation", a.err)
	if a.connection != consumer.connection {
		return // the connection ended before its answer was read
	}
	testkit.Check(d.t, a.err, "a connection ended that nobody dropped")
	for _, chunk := range a.chunks {
		id := chunk.Chunk.ChunkID
		s := d.byID[id.SubmissionID]
		if s == nil || id.Index >= int64(len(s.chunks)) {
			d.t.Errorf("chunk %+v does not exist", id)
			continue
		}
		one := &s.chunks[id.Index]
		testkit.Equal(d.t, one.holder, 0, "consumer", a.consumer, "got chunk", id, "which consumer")
		testkit.Holds(d.t, !consumer.completed[id], "consumer", a.consumer, "got chunk", id, "which it has completed")
		one.holder = a.consumer + 1
		consumer.held = append(consumer.held, id)
	}
}

// pop removes and returns a chunk that consumer c holds.
func (d *driver) pop(c int) (id wire.ChunkID, chunk *drivenChunk) {
	held := &d.consumers[c].held
	if len(*held) == 0 {
		return id, nil
	}
	i := d.rng.IntN(len(*held))
	id = (*held)[i]
	*held = append((*held)[:i], (*held)[i+1:]...)
	chunk = &d.byID[id.SubmissionID].chunks[id.Index]
	chunk.holder = 0
	return id, chunk
}

func (d *driver) completeHeld(c int) {
	id, chunk := d.pop(c)
	if chunk == nil {
		return
	}
	chunk.completes++
	consumer := &d.consumers[c]
	consumer.completed[id] = true
	d.must(consumer.Complete(d.ctx, id, nil))
}

func (d *driver) completeAny(c int) {
	s := d.submissions[d.rng.IntN(len(d.submissions))]
	if len(s.chunks) == 0 {
		return
	}
	index := d.rng.IntN(len(s.chunks))
	s.chunks[index].completes++
	d.must(d.consumers[c].Complete(d.ctx, wire.ChunkID{SubmissionID: s.id, Index: int64(index)}, nil))
}

func (d *driver) failHeld(c int) {
	id, chunk := d.pop(c)
	if chunk == nil {
		return
	}
	chunk.fails++
	d.must(d.consumers[c].Fail(d.ctx, id, "boom"))
}

// forget records that the connection of a consumer has ended.
func (d *driver) forget(c int) {
	consumer := &d.consumers[c]
	consumer.connection++
	clear(consumer.completed)
	for len(consumer.held) > 0 {
		d.pop(c)
	}
}

func (d *driver) disconnect(c int) { d.forget(c); d.consumers[c].Disconnect() }

func (d *driver) restartServer() {
	for c := range d.consumers {
		d.forget(c)
	}
	d.stop()
	// A consumer may notice the end of its connection later. Until then, its messages are lost.
	for c := range d.consumers {
		d.consumers[c].Disconnect()
	}
	d.start()
}

// finish completes all remaining chunks.
func (d *driver) finish() {
	d.t.Helper()
	if d.keeps {
		for c := range d.consumers {
			d.settle(c)
		}
		d.checkFailures()
	}
	for c := range d.consumers {
		d.drain()
		for len(d.consumers[c].held) > 0 {
			d.completeHeld(c)
		}
		d.settle(c)
		d.disconnect(c)
	}
	for outstanding := true; outstanding; {
		outstanding = false
		for c := range d.consumers {
			outstanding = outstanding || d.consumers[c].outstanding > 0
		}
		if outstanding {
			d.note(<-d.arrived)
		}
	}
	last := d.consumer()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			got, err := last.Reserve(d.ctx, 1, oldest)
			if err != nil {
				return
			}
			if s := d.byID[got[0].Chunk.SubmissionID]; s != nil {
				s.chunks[got[0].Chunk.Index].completes++
			}
			if last.Complete(d.ctx, got[0].Chunk.ChunkID, nil) != nil {
				return
			}
		}
	}()
	testkit.Eventually(d.t, "no submission is in progress", func() bool { n := testkit.Must(d.producer.Count(d.ctx))(d.t); return n == 0 })
	last.Close()
	<-ended
}

// settle waits until the server has carried out all reports of a consumer.
func (d *driver) settle(c int) {
	d.t.Helper()
	id := d.insert(stored("settled", 1))
	one := &drivenSubmission{id: id, chunks: []drivenChunk{{completes: 1}}}
	d.submissions, d.byID[id] = append(d.submissions, one), one
	d.must(d.consumers[c].Complete(d.ctx, wire.ChunkID{SubmissionID: id}, nil))
	d.waitFor(id, "Completed")
}

// checkFailures checks that exactly those submissions have failed of which a chunk has failed often enough.
func (d *driver) checkFailures() {
	d.t.Helper()
	for _, s := range d.submissions {
		status := d.status(s.id)
		for i, c := range s.chunks {
			testkit.Holds(d.t, c.fails < drivenRetries || c.completes != 0 || status.Failed != nil || status.Cancelled != nil,
				"submission", s.id, "is", kind(status), "although its chunk", i, "has failed", c.fails, "times")
		}
		if status.Failed != nil {
			if chunk := status.Failed.Chunk; s.chunks[chunk.Index].fails < drivenRetries || chunk.Failure != "boom" {
				d.t.Errorf("submission %s failed for chunk %d, which failed %d times, with %q", s.id, chunk.Index, s.chunks[chunk.Index].fails, chunk.Failure)
			}
		}
	}
}

// check compares the end of every submission with the actions on it.
func (d *driver) check() {
	d.t.Helper()
	kinds := map[string]int{}
	for _, s := range d.submissions {
		status := d.status(s.id)
		kinds[kind(status)]++
		completed := int64(0)
		for _, c := range s.chunks {
			if c.completes > 0 {
				completed++
			}
		}
		testkit.Equal(d.t, s.cancelled, kind(status) == "Cancelled", "submission", s.id, "it was cancelled")
		switch {
		case status == nil:
			d.t.Errorf("submission %s is not there", s.id)
		case status.Completed != nil && (completed < int64(len(s.chunks)) || status.Completed.ChunksTotal != int64(len(s.chunks))):
			d.t.Errorf("submission %s is completed, although only %d of %d chunks were", s.id, completed, len(s.chunks))
		case status.Cancelled != nil && status.Cancelled.ChunksDone > completed:
			d.t.Errorf("submission %s has %d chunks done, although only %d were completed", s.id, status.Cancelled.ChunksDone, completed)
		case status.Failed != nil:
			failed := status.Failed.Submission
			testkit.Holds(d.t, failed.ChunksDone != nil && *failed.ChunksDone <= completed && failed.FailedChunkIndex < int64(len(s.chunks)),
				"submission", s.id, "failed with", failed, "although only", completed, "chunks were completed")
		}
	}
	d.t.Logf("%v: %d submissions: %v", d.done, len(d.submissions), kinds)
	testkit.Holds(d.t, kinds["Completed"] != 0 && d.done["reserve"] != 0 && d.done["complete"] != 0, "the test did not do what it must")
}
