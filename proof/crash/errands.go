package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/daybookq/daybook/client"
)

// errands is a user of the Go client with queues that nobody else touches. It takes one job at a time from its create to
// its end, with numbered requests of a session. Since nobody else touches its queues, it can predict each answer, and
// checks it immediately.
//
// A request without an answer is repeated until it is answered, with the same number if it has a number: through kills and
// power cuts, and after the load has ended.
type errands struct {
	h    *history
	raw  *user          // sends headers that the Go client does not offer
	c    *client.Client // repeats a request through kills
	once *client.Client // does not repeat, so that a 404 after a lost answer differs from a 404 without a lost answer
	rng  *rand.Rand
	name string // its runner id; its queues and unique keys begin with it
	ownSession
	ownQueues
	ownDocuments
	ownKeys
	ownChain
	ownBatch
	ownLoss

	todo []row
	progress
	err  error
	done int // finished errands
}

// ownQueues are the queues of this user, and its current job.
type ownQueues struct {
	queue   string // the type; the client is "default"
	jobs    int    // how many it has created
	queues  int    // how many it has used
	job     ownJob
	emptied int64 // when it last sent a request that left its queue without jobs
	idle    []idleQueue
	deleted []string // queues that were deleted because they were idle
}

// ownSession is the session of a user, and the numbers of its requests.
type ownSession struct {
	session *client.Session // nil: it must be opened
	last    map[int]uint64  // for each slot of the session, the number that was carried out last
	held    []heldNumber
}

// heldNumber is a number that is still in use although its request was answered: a repeat must get the same answer.
type heldNumber struct {
	n       client.Number
	request func(call) (any, error)
	shows   func(any) string // shows the part of the answer that must be equal
	answer  string
}

const (
	ownClient = "default"
	// ownLeaseMs is longer than any lane.
	ownLeaseMs = 3_600_000
	// lastKey ends the unique key of leaveOneJob's job.
	lastKey = " last"
	// queueIdle is the shortest time that --queue-idle accepts.
	queueIdle = time.Minute
	// idleSlack is how much earlier than queueIdle a queue may be deleted by the clock of the history, since the server's
	// times are whole milliseconds of another clock.
	idleSlack = time.Second
)

// impossible is an answer that a right server cannot give.
type impossible string

func (i impossible) Error() string { return string(i) }

func impossiblef(format string, args ...any) error { return impossible(fmt.Sprintf(format, args...)) }

// errNoAnswer means that a request of raw got no answer and must be repeated.
var errNoAnswer = errors.New("no answer")

func newErrands(u *user, name string, seed uint64) *errands {
	o := client.Options{RetryFor: maxWait, Key: u.key}
	e := &errands{h: u.h, raw: u, c: client.New(u.url, o), rng: rand.New(rand.NewPCG(seed, 0)), name: name, ownLoss: ownLoss{every: runnerHeartbeat, patience: maxWait}}
	o.RetryFor = -1
	e.once = client.New(u.url, o)
	return e
}

// again reports whether a request that ended with err must be repeated, because its answer decides nothing, or because the
// server cannot serve it now. An answer that the server has forgotten the session or the number is impossible.
func (e *errands) again(err error) bool {
	var refused *client.Error
	var wrong impossible
	switch {
	case errors.As(err, &wrong), errors.Is(err, client.ErrSessionNotFound), errors.Is(err, client.ErrNumberPassed), errors.Is(err, client.ErrKeyReused):
		return false
	case errors.Is(err, errNoAnswer), errors.Is(err, client.ErrUnknown), errors.Is(err, client.ErrUnavailable), errors.Is(err, client.ErrOverloaded), errors.Is(err, context.Canceled):
		return true
	case e.raw.badDisk && errors.Is(err, client.ErrBlobDamaged):
		// The disk cannot read. After the next start, a damaged blob cannot be read either.
		return strings.Contains(err.Error(), syscall.EIO.Error())
	case errors.As(err, &refused):
		return refused.Status == http.StatusServiceUnavailable || refused.Status == http.StatusTooManyRequests ||
			refused.Status == http.StatusInternalServerError && e.raw.badDisk
	}
	return false
}

// run does one errand after another until ctx ends or an answer is impossible.
func (e *errands) run(ctx context.Context) {
	for ctx.Err() == nil && e.err == nil {
		if len(e.todo) == 0 {
			e.plan()
		}
		if !e.advance(ctx) {
			pause(ctx, retryPause)
		}
	}
}

// advance takes the next row, and reports whether it is done.
func (e *errands) advance(ctx context.Context) bool {
	r := &e.todo[0]
	verb, err := r.verb, e.do(ctx, r)
	switch {
	case err == nil:
		e.todo, e.progress = e.todo[1:], progress{}
		return true
	case e.again(err):
		e.open = true
	case errors.Is(err, errUndecided):
		e.err = err
	default:
		e.err = fmt.Errorf("errands of %s, %s, job %v: %w", e.name, verb, &e.job, err)
		e.h.problem("%v", e.err)
	}
	return false
}

// all takes all rows. The server must be up.
func (e *errands) all(ctx context.Context) error {
	for since := time.Now(); len(e.todo) > 0 && e.err == nil; {
		what := e.todo[0].verb
		if e.advance(ctx) {
			since = time.Now()
		} else if time.Since(since) > maxWait {
			return undecided("errands of %s: %s had no answer for %v", e.name, what, maxWait)
		} else {
			pause(ctx, retryPause)
		}
	}
	return e.err
}

// leaveOneJob ends the current errands, beginning with the state that was acknowledged last, and leaves one ended job.
func (e *errands) leaveOneJob(ctx context.Context) error {
	if !e.open && e.job.id != "" {
		e.todo = append([]row{e.readJob()}, e.todo...)
	}
	if e.session == nil && len(e.todo) == 0 {
		e.todo = append(e.todo, e.openSession())
	}
	if e.queue == "" {
		e.newQueue()
	}
	e.todo = append(e.todo, e.waitForLoss(true), e.create(e.name+lastKey, true), e.claim(), e.complete(), e.readJob())
	return e.all(ctx)
}

// check compares the server's state with the job that leaveOneJob has left, and deletes the job. With waitIdle, it waits
// until --queue-idle has deleted the user's queues.
func (e *errands) check(ctx context.Context, waitIdle bool) error {
	add := func(rows ...row) { e.todo = append(e.todo, rows...) }
	add(e.readJob(), e.repeatLate(), e.countQueue(1), e.checkSession(), e.readHandler(), e.useKeys(), e.readBlobs(), e.readFileset(), e.readEndedBatch())
	add(e.deleteBatch()...)
	add(e.deleteJob(), e.readJob(), e.countQueue(0))
	add(e.deleteQueue()...)
	for _, queue := range e.deleted {
		add(e.queueIsGone(func() string { return queue }))
	}
	for range e.idle {
		add(e.checkIdleQueue(waitIdle))
	}
	add(e.endSession()...)
	return e.all(ctx)
}

// startErrands adds users with errands to a crowd.
func (s *trial) startErrands(c *crowd, n int) {
	for i := range n {
		e := newErrands(s.u, fmt.Sprintf("errand-%s-%d", c.name, i), c.seed+uint64(i))
		s.errands = append(s.errands, e)
		c.all.Go(func() { e.run(c.ctx) })
	}
}

// finishErrands ends all errands, each with one ended job. The crowd must have ended.
func (s *trial) finishErrands() error {
	for _, e := range s.errands {
		if err := e.leaveOneJob(context.Background()); err != nil {
			return err
		}
	}
	return nil
}

// checkErrands compares the server's state with the jobs that the errands have left, and deletes them.
func (s *trial) checkErrands() error {
	for _, e := range s.errands {
		if err := e.check(context.Background(), s.waitIdle); err != nil {
			return err
		}
		s.h.tally(func(t *tally) { t.Errands += e.done })
	}
	return nil
}
