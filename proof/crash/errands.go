package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/daybookq/daybook/client"
)

// errands is a user of the Go client with queues that nobody else touches. It takes one job at a time from its create to
// its end, with numbered requests of a session. Since nobody else touches its queues, it can predict each answer, and
// checks it immediately.
//
// A step without an answer is repeated until it is answered, with the same number if it has a number: through kills and
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
	ownHandler
	ownBlobs
	ownFileset
	ownChain
	ownBatch
	ownLoss

	todo []step
	open bool // the first of todo was begun and is not answered: the server may have carried it out
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

// ownHandler is the newest version of a user's handler; version 0: there is none.
type ownHandler struct {
	handler  client.StoredHandler
	programs int // versions that the user has tried to store
}

// ownFileset is the newest version of a user's fileset; version 0: there is none.
type ownFileset struct {
	fileset client.Fileset
	tree    string // the contents of its files
	trees   int    // versions that the user has tried to store
}

// ownSession is the session of a user, and the numbers of its requests.
type ownSession struct {
	session *client.Session // nil: it must be opened
	last    map[int]uint64  // for each slot of the session, the number that was carried out last
	held    []heldNumber
}

// step is one action. do may be called again after an error for which again returns true.
type step struct {
	what string
	do   func(ctx context.Context) error
}

// ownJob is the state of the latest job that the server must show.
type ownJob struct {
	id, key, payload, errand string
	gone                     bool
	status                   string
	priority, runs, max      int
	claim, output            string
}

func (j *ownJob) String() string {
	return fmt.Sprintf("%s (key %q, gone %t, %s, priority %d, run %d of %d, claim %s)", j.id, j.key, j.gone, j.status, j.priority, j.runs, j.max, j.claim)
}

// heldNumber is a number that is still in use although its request was answered: a repeat must get the same answer.
type heldNumber struct {
	n      client.Number
	ask    func(context.Context, *client.Client) (string, error)
	answer string
}

// idleQueue is a queue without jobs that --queue-idle is to delete.
type idleQueue struct {
	queue string
	since int64 // it became empty after this time
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
	o := client.Options{RetryFor: maxWait}
	e := &errands{h: u.h, raw: u, c: client.New(u.url, o), rng: rand.New(rand.NewPCG(seed, 0)), name: name, ownLoss: ownLoss{every: runnerHeartbeat, patience: maxWait}}
	o.RetryFor = -1
	e.once = client.New(u.url, o)
	return e
}

// again reports whether a step that ended with err must be repeated, because its answer decides nothing, or because the
// server cannot serve it now. An answer that the server has forgotten the session or the number is impossible.
func (e *errands) again(err error) bool {
	var refused *client.Error
	var wrong impossible
	switch {
	case errors.As(err, &wrong), errors.Is(err, client.ErrSessionNotFound), errors.Is(err, client.ErrNumberPassed), errors.Is(err, client.ErrKeyReused):
		return false
	case errors.Is(err, errNoAnswer), errors.Is(err, client.ErrUnknown), errors.Is(err, client.ErrUnavailable), errors.Is(err, client.ErrOverloaded), errors.Is(err, context.Canceled):
		return true
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

// advance takes the next step, and reports whether it is done.
func (e *errands) advance(ctx context.Context) bool {
	s := e.todo[0]
	err := s.do(ctx)
	switch {
	case err == nil:
		e.todo, e.open = e.todo[1:], false
		return true
	case e.again(err):
		e.open = true
	case errors.Is(err, errUndecided):
		e.err = err
	default:
		e.err = fmt.Errorf("errands of %s, %s, job %v: %w", e.name, s.what, &e.job, err)
		e.h.problem("%v", e.err)
	}
	return false
}

// all takes all steps. The server must be up.
func (e *errands) all(ctx context.Context) error {
	for since := time.Now(); len(e.todo) > 0 && e.err == nil; {
		what := e.todo[0].what
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
		e.todo = append([]step{e.readJob()}, e.todo...)
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
	e.todo = append(e.todo, e.readJob(), e.repeatLate(), e.countQueue(1), e.checkSession(), e.readHandler(), e.readBlobs(), e.readFileset(), e.readEndedBatch(), e.deleteBatch(), e.deleteJob(), e.readJob(), e.countQueue(0), e.deleteQueue())
	for _, queue := range e.deleted {
		e.todo = append(e.todo, e.queueIsGone(queue))
	}
	for range e.idle {
		e.todo = append(e.todo, e.checkIdleQueue(waitIdle))
	}
	e.todo = append(e.todo, e.endSession())
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
		s.h.mu.Lock()
		s.h.count.Errands += e.done
		s.h.mu.Unlock()
	}
	return nil
}
