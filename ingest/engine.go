package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
)

// Options are how an engine is opened. Dir must be given; the zero value of the rest works.
type Options struct {
	// Dir is the data directory: the journal lies in its folder journal, the store in store.
	Dir string
	// JournalRetain is how many bytes of journal are kept although the store no longer needs them.
	JournalRetain int64
	// QueueIdle is how long a queue stays that has no jobs and is not paused; at least a minute. 0: for ever.
	QueueIdle time.Duration
	// AllowClockAhead starts although the journal's last time is more than a day ahead of the wall clock.
	AllowClockAhead bool
	// StoreFiles is about how many files the store keeps open; 0: see store.Options.
	StoreFiles int
	// Logger receives what happens; nil drops it.
	Logger *slog.Logger
	// Fatal is called when the store's engine cannot go on; it may not return. Nil panics.
	Fatal func(reason string)

	// Of the parts, for tests.
	Journal journal.Options
	Store   store.Options
	Statfs  func(path string) (free, total uint64, err error)
	// CommitWait is how long requests wait for a commit that Pebble holds back, and a stop for the store; 0: commitWait.
	CommitWait time.Duration
	// maxKeys and maxQueues bound idempotency keys and queues; 0: job.MaxKeys and job.MaxQueues.
	maxKeys   uint64
	maxQueues int
}

// Engine is the running queue. Open it, have Run going, then call the rest from any goroutine.
type Engine struct {
	o        Options
	log      *slog.Logger
	lock     *os.File
	store    *store.Store
	journal  *journal.Journal
	over     *handover
	parked   *parkedClaims
	underWay *underWay
	disk     *disk

	state     atomic.Pointer[stateNote]
	applied   broadcast          // of commits
	blocked   broadcast          // of the store's taking no commit, again and again as long as it does
	due       chan struct{}      // capacity 1: the next timer row may have changed
	accept    chan chan struct{} // to the timekeeper: accept the wall clock, and close the channel when that is done
	timeEnded chan struct{}      // closed when the timekeeper has ended
	flushed   chan struct{}      // capacity 1: the journal may be cut: Pebble wrote a memtable, or space is short

	// Written by one goroutine each, read by Stats.
	durable      atomic.Uint64 // seq that the store has on disk; written by maintain
	replayed     atomic.Uint64 // commands applied by the replay
	commits      atomic.Uint64
	ticks        atomic.Uint64
	tickTook     atomic.Int64 // ns that the last tick took to apply
	longestStep  atomic.Int64 // ns that the longest step of the applier took; a test sets it to 0
	graces       atomic.Uint64
	setAsideJobs atomic.Uint64 // whose payloads could not be read; written by the goroutines of claims
	overloaded   atomic.Uint64
	committing   atomic.Int64 // when the running commit began, unix ns; 0: none runs
	failing      atomic.Int64 // when the store's failing was last said, unix ns
	damaged      atomic.Int64 // when its damage was
	diskFree     atomic.Uint64
	diskLow      atomic.Bool

	// Claims that were applied for callers who had hung up, to be ungot.
	strayMu sync.Mutex
	strays  []job.ID
	stray   chan struct{} // capacity 1
}

// stateNote says whether requests are taken: nil is yes.
type stateNote struct{ err error }

var notReady = &stateNote{ErrNotReady}

// JournalDir and StoreDir are the two folders of a data directory.
func JournalDir(data string) string { return filepath.Join(data, "journal") }

// StoreDir is where the store of a data directory lies.
func StoreDir(data string) string { return filepath.Join(data, "store") }

// Open opens the store and the journal of a data directory, or makes them. Errors are those of store.Open and journal.Open: a
// directory in use (journal.ErrLocked), damage (*journal.CorruptError), parts that do not belong together.
func Open(o Options) (_ *Engine, err error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Statfs == nil {
		o.Statfs = statfs
	}
	if o.CommitWait == 0 {
		o.CommitWait = commitWait
	}
	o.maxKeys, o.maxQueues = cmp.Or(o.maxKeys, job.MaxKeys), cmp.Or(o.maxQueues, job.MaxQueues)
	e := &Engine{
		o: o, log: o.Logger, over: newHandover(), parked: newParkedClaims(), underWay: newUnderWay(), disk: &disk{data: o.Dir, statfs: o.Statfs, fallocate: unix.Fallocate},
		due: make(chan struct{}, 1), accept: make(chan chan struct{}), timeEnded: make(chan struct{}), flushed: make(chan struct{}, 1), stray: make(chan struct{}, 1),
	}
	e.state.Store(notReady)
	if o.Store.Logf == nil {
		o.Store.Logf = func(format string, args ...any) { e.log.Debug("pebble: " + fmt.Sprintf(format, args...)) }
	}
	if o.Store.Fatalf == nil && o.Fatal != nil {
		o.Store.Fatalf = func(format string, args ...any) { o.Fatal("store: " + fmt.Sprintf(format, args...)) }
	}
	o.Store.Flushed = func() { signal(e.flushed) }
	if o.Store.Damaged == nil {
		o.Store.Damaged = e.storeDamaged
	}
	if o.Store.Failing == nil {
		o.Store.Failing = e.storeFailing
	}

	// The journal judges its tail by the store's cursor, so that is read first. The store is opened when the journal has accepted it and no
	// sooner: that removes what an older state of it does not name. The lock keeps both to one process.
	if e.lock, err = Lock(o.Dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open data directory %s: %w", o.Dir, err), e.close())
		}
	}()
	peeked, err := store.Peek(StoreDir(o.Dir), o.Store)
	if err != nil {
		return nil, err
	}
	o.Journal.Dir = JournalDir(o.Dir)
	o.Journal.Applied, o.Journal.StoreJournal = peeked.Applied, peeked.Journal
	o.Journal.AllowClockAhead = o.AllowClockAhead
	o.Journal.Logger = o.Logger
	o.Journal.Deliver = e.over.put
	if e.journal, err = journal.Open(o.Journal); err != nil {
		if errors.Is(err, journal.ErrCursor) && peeked.Torn != "" {
			err = fmt.Errorf("%w; the store is older than it was, perhaps: %s", err, peeked.Torn)
		}
		return nil, err
	}
	o.Store.OpenFiles = o.StoreFiles
	if e.store, err = store.Open(StoreDir(o.Dir), o.Store); err != nil {
		return nil, err
	}
	if e.store.Applied() != peeked.Applied {
		return nil, fmt.Errorf("the store's cursor was %d, and is %d now that it is open", peeked.Applied, e.store.Applied())
	}
	if peeked.Torn != "" {
		e.log.Warn("the store's manifest breaks off; what it misses is in the journal", "applied", peeked.Applied, "reason", peeked.Torn)
	}
	if err := e.store.Adopt(e.journal.UUID()); err != nil {
		return nil, err
	}
	e.durable.Store(e.store.Applied())
	return e, nil
}

// close gives everything back, in the opposite order.
func (e *Engine) close() error {
	var errs []error
	if e.journal != nil {
		errs = append(errs, e.journal.Close())
	}
	if e.store != nil {
		errs = append(errs, e.store.CloseWithin(e.o.CommitWait))
	}
	if e.lock != nil {
		errs = append(errs, e.lock.Close())
	}
	return errors.Join(errs...)
}

// Run replays what the store has not applied yet, then serves until ctx is done, commits what was taken, and closes everything.
// An error means that the engine could not go on; the journal holds what was acknowledged, and a restart applies it. With ErrStuck the
// data directory stays in use until the process ends.
func (e *Engine) Run(ctx context.Context) (err error) {
	defer func() {
		if !errors.Is(err, ErrStuck) { // a part that is stuck still uses the files
			err = errors.Join(err, e.close())
		}
	}()
	if err := e.stoppable(ctx, func() error { return e.replay(ctx) }); err != nil {
		e.refuse(err)
		if errors.Is(err, context.Canceled) && !errors.Is(err, ErrStuck) {
			return nil
		}
		return fmt.Errorf("replay journal: %w", err)
	}

	// The applier outlives the journal, whose last groups it takes.
	var parts sync.WaitGroup
	var journalErr, applyErr error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	parts.Go(func() {
		journalErr = e.journal.Run(ctx)
		e.over.close()
	})
	parts.Go(func() {
		if applyErr = e.apply(); applyErr != nil {
			e.refuse(fmt.Errorf("%w: %w", ErrApply, applyErr))
			cancel()
			e.over.drain(applyErr)
		}
	})
	parts.Go(func() { e.keepTime(ctx) })
	parts.Go(func() { e.ungetStrays(ctx) })
	parts.Go(func() { e.parked.run(ctx, e.store) })
	parts.Go(func() { e.maintain(ctx) })
	parts.Go(func() { e.watchDisk(ctx) })
	parts.Go(func() { e.watchCommits(ctx) })
	ended := func() error { parts.Wait(); return errors.Join(journalErr, applyErr) }
	if err := e.begin(ctx); err != nil && ctx.Err() == nil {
		cancel()
		return fmt.Errorf("begin: %w", errors.Join(err, e.stoppable(ctx, ended)))
	}
	<-ctx.Done()
	e.refuse(ErrClosed)
	e.parked.close()
	if err := e.stoppable(ctx, ended); err != nil {
		return err
	}
	// The cursor on disk is the one witness of the journal's end that does not lie in the journal: with it, a start after this stop
	// notices whatever has become of the last records. It also has nothing to replay.
	if err := e.store.FlushWithin(e.o.CommitWait); err != nil {
		e.log.Warn("cannot flush the store; the next start replays more", "error", err)
	}
	return nil
}

// stoppable runs f, which ends when ctx is done unless the store takes no commit. Then it is left behind, with ErrStuck.
func (e *Engine) stoppable(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	for {
		since := e.committing.Load()
		timer := time.NewTimer(e.o.CommitWait)
		select {
		case err := <-done:
			timer.Stop()
			return err
		case <-timer.C:
		}
		if since != 0 && since == e.committing.Load() { // the same commit all the time
			return fmt.Errorf("%w: it has not taken a commit since %v; what was acknowledged is in the journal, and the next start applies it",
				ErrStuck, time.Unix(0, since).Format(time.TimeOnly))
		}
	}
}

// begin journals what a start owes: the level of this program, and a full lease to everyone who could not tickle meanwhile.
func (e *Engine) begin(ctx context.Context) error {
	var first []job.Command
	if e.store.Level() < job.Level {
		first = append(first, job.SetLevel{Level: job.Level})
	}
	if counts := e.store.Totals().Counts; counts[job.Active] > 0 {
		first = append(first, job.Grace{})
		e.graces.Add(1)
	}
	for _, cmd := range first {
		if _, _, err := e.decide(ctx, cmd); err != nil {
			return err
		}
	}
	e.state.CompareAndSwap(notReady, &stateNote{})
	e.log.Info("ready", "applied", e.store.Applied(), "replayed", e.replayed.Load())
	return nil
}

// Store returns the state, for those who look at all of it: a check, a digest, a checkpoint. Nobody but the engine may apply.
func (e *Engine) Store() *store.Store { return e.store }

// refuse has all requests answered with err from now on. The first reason stays.
func (e *Engine) refuse(err error) {
	for {
		now := e.state.Load()
		if now.err != nil && now != notReady || e.state.CompareAndSwap(now, &stateNote{err}) {
			return
		}
	}
}

// accepting is nil while requests are taken.
func (e *Engine) accepting() error {
	if err := e.state.Load().err; err != nil {
		return err
	}
	return e.commitBlocked()
}

// commitBlocked is an ErrStale when the store has been at work on a commit for too long.
func (e *Engine) commitBlocked() error {
	if began := e.committing.Load(); began != 0 && time.Since(time.Unix(0, began)) > e.o.CommitWait {
		return fmt.Errorf("%w: the store has not taken a commit since %v; is its disk full?", ErrStale, time.Unix(0, began).Format(time.TimeOnly))
	}
	return nil
}

// watchCommits has those who wait for a decision notice that the store takes no commit, until ctx is done.
func (e *Engine) watchCommits(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, e.o.CommitWait/10)
		if e.commitBlocked() != nil {
			e.blocked.tell()
		}
	}
}

// Ready is nil when the replay is done and the journal accepts; else the reason.
func (e *Engine) Ready() error {
	if err := e.accepting(); err != nil {
		return err
	}
	return e.journal.Health()
}

// storeFailing is told of each write that Pebble failed to do in the background and will try again at once: it is slowed down, and said
// now and then.
func (e *Engine) storeFailing(err error) {
	if last := e.failing.Load(); time.Since(time.Unix(0, last)) > sayFailing && e.failing.CompareAndSwap(last, time.Now().UnixNano()) {
		e.log.Error("the store cannot write; trying again", "error", err)
	}
	time.Sleep(slowFailing)
}

// storeDamaged says now and then that the store is damaged. Whoever reads what is gets the error.
func (e *Engine) storeDamaged(err error) {
	if last := e.damaged.Load(); time.Since(time.Unix(0, last)) > sayFailing && e.damaged.CompareAndSwap(last, time.Now().UnixNano()) {
		e.log.Error("the store is damaged", "error", err)
	}
}

const (
	sayFailing  = 10 * time.Second
	slowFailing = 100 * time.Millisecond
)

// commitWait is when a commit counts as blocked: Pebble on a full disk returns no error but waits. It also bounds, each by itself, what a
// stop waits for: a commit, the last flush, and Pebble's end.
const commitWait = 5 * time.Second

// signal wakes the one who waits on a channel of capacity 1, or will.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
