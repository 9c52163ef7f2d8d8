package ingest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/daybookq/daybook/ingest/registry"
	"github.com/daybookq/daybook/internal/diskspace"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
)

// Options are the settings of an engine. Dir must be given; the zero value of every other field works.
type Options struct {
	// Dir is the data directory. The journal is in its folder journal, the store in its folder store.
	Dir string
	// JournalRetain is the number of bytes of the journal to keep although the store no longer needs them.
	JournalRetain int64
	// History is how many bytes of the history of jobs are kept, and HistoryAge how long, if these bytes suffice. The process that
	// leads the log proposes them as a command. History may be HistoryOfDisk; 0: the bounds of the log stay as they are. HistoryAge 0 is
	// job.DefaultHistoryMs.
	History    int64
	HistoryAge time.Duration
	// QueueIdle is the time after which the engine deletes a queue that is without jobs and not paused. It is at least a
	// minute. 0: never.
	QueueIdle time.Duration
	// RunnerHeartbeat is the time between two heartbeats of a runner. 0: registry.DefaultHeartbeat.
	RunnerHeartbeat time.Duration
	// OnLost, if not nil, is called for each runner that was declared lost. It must not wait.
	OnLost func(registry.Runner)
	// OnRunEnds, if not nil, is called after each commit with the ends of the runs in it. It does not get the ends from
	// commands that the log had when the engine started. Of nodes that share a log, only the leader calls it. It must not
	// wait, and must not keep the list. Calls do not overlap.
	OnRunEnds func([]job.RunEnd)
	// OnBatchEnds is like OnRunEnds, for the ends of batches with attributes, at all nodes.
	OnBatchEnds func([]job.BatchEnd)
	// MetricsQueues is the number of queues that QueueFigures counts individually, at most job.MaxMetricsQueues. 0: it
	// counts nothing.
	MetricsQueues int
	// QueueMemory bounds the memory of all queues in bytes; requests that would exceed it are refused. An existing store
	// may use one and a half times as much, so that a server can start with less memory than the server before it had. 0:
	// only the number of queues is bounded, by job.MaxQueues.
	QueueMemory int64
	// AllowClockAhead lets the engine start even if the journal's last time is more than a day ahead of the wall clock.
	AllowClockAhead bool
	// StoreFiles is the approximate number of files that the store keeps open; 0: see store.Options.
	StoreFiles int
	// Logger receives events and warnings; nil discards them.
	Logger *slog.Logger
	// OpenLog opens the log. Nil: the journal of the data directory.
	OpenLog func(LogOptions) (Log, error)
	// Fatal is called when Pebble cannot continue. It need not return. Nil panics.
	Fatal func(reason string)

	// The fields below are for tests.

	Journal journal.Options
	Store   store.Options
	Space   diskspace.FreeFunc
	// CommitWait is the longest time that requests wait for a blocked command or commit, and that a stop waits for the
	// store; 0: commitWait.
	CommitWait time.Duration
	// maxKeyBytes bounds the rows of idempotency keys, and maxQueues the queues; 0: job.MaxKeyRowBytes and job.MaxQueues.
	maxKeyBytes uint64
	// maxSessionBytes bounds the rows of sessions; 0: job.MaxSessionRowBytes.
	maxSessionBytes uint64
	maxQueues       int
	// maxDocuments and maxDocumentBytes bound what the clients of a key have a share of; 0: the rules of the kind.
	maxDocuments     int
	maxDocumentBytes int64
	// closeWait is how long close waits for the store. 0: CommitWait.
	closeWait time.Duration
}

// Engine is the queue server without HTTP. After Open, one goroutine calls Run. The other methods are safe for concurrent
// use.
type Engine struct {
	o      Options
	logger *slog.Logger
	lock   io.Closer // lock of the data directory
	store  *store.Store
	log    Log
	shared Replicated // the log, if several nodes share it; otherwise nil

	applyQueue *applyQueue
	commits    commits
	parked     *parkedClaims
	underWay   *underWay
	strays     *strayClaims
	silences   *silences
	joined     joinedCreates
	making     makingQueues
	runners    *registry.Registry
	large      *semaphore.Weighted // of largeInFlight
	time       *timekeeper
	disk       *diskspace.Watch
	history    history
	counters   counters

	snapshots sync.Mutex // held while a Snapshot is open

	// endConnections is called when a runner is lost; see WhenLost.
	endConnections atomic.Pointer[func(runner string) (returned <-chan struct{})]

	state     atomic.Pointer[stateNote]
	keysKnown atomic.Bool // see KeysKnown
	// reportsEnds is set when the state includes all commands that the log had when the engine started.
	reportsEnds atomic.Bool
	// Owned by the applier. talliedAfter is the seq after which QueueFigures counts. talliesAreNew means that the counts
	// exclude all commands that the log had when the engine started.
	talliedAfter  uint64
	talliesAreNew bool
}

// counters count events since the start, for Stats.
type counters struct {
	replayed     atomic.Uint64 // commands that the start applied
	overloaded   atomic.Uint64 // creates that were refused because the applier lags
	setAsideJobs atomic.Uint64 // jobs whose payloads cannot be read
	ticks        atomic.Uint64
	graces       atomic.Uint64
	tickTook     atomic.Int64 // ns that the last tick took to apply
	longestStep  atomic.Int64 // ns that the applier's longest step took; tests reset it
	commands     commandTimes
}

// Open opens the store and the log of a data directory, or makes new ones. The error is ErrInUse if another process uses
// the directory. Otherwise it is an error of store.Open or journal.Open, such as a *journal.CorruptError for damage, or
// journal.ErrForeign if the journal and the store do not belong together.
func Open(o Options) (_ *Engine, err error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.OpenLog == nil {
		o.OpenLog = openLocalLog
	}
	o.CommitWait = cmp.Or(o.CommitWait, commitWait)
	o.maxSessionBytes = cmp.Or(o.maxSessionBytes, job.MaxSessionRowBytes)
	o.maxKeyBytes, o.maxQueues = cmp.Or(o.maxKeyBytes, job.MaxKeyRowBytes), cmp.Or(o.maxQueues, job.MaxQueues)
	e := &Engine{
		o: o, logger: o.Logger, applyQueue: newApplyQueue(), underWay: newUnderWay(), strays: newStrayClaims(), silences: newSilences(),
		joined: joinedCreates{proposing: make(chan struct{}, 1)}, large: semaphore.NewWeighted(largeInFlight),
	}
	e.commits.wait = o.CommitWait
	e.runners = registry.New(cmp.Or(o.RunnerHeartbeat, registry.DefaultHeartbeat))
	e.time = newTimekeeper(e)
	e.history.flushed = make(chan struct{}, 1)
	e.disk = diskspace.NewWatch(o.Dir, o.Space, o.Logger, func(low bool) {
		if low {
			signal(e.history.flushed) // cutting the log may free enough space for creates
		}
	})
	e.history.worked = make(chan struct{}, 1)
	e.state.Store(notReady)
	if e.lock, err = Lock(o.Dir); err != nil {
		return nil, err
	}
	finished, err := finishRebuild(o.Dir)
	if finished {
		e.logger.Info("the store of a rebuild that was killed is now in its place", "store", StoreDir(o.Dir))
	}
	if err == nil {
		err = os.RemoveAll(checkpointDir(o.Dir)) // a killed process may have left it
	}
	if err == nil {
		err = e.open()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open data directory %s: %w", o.Dir, err), e.close())
	}
	return e, nil
}

// open opens the log and the store. It first reads the store's cursor, which the log needs to decide about its tail. It
// opens the store after the log has accepted the cursor, because opening the store deletes files that its current
// manifest does not list. The lock of the data directory keeps other processes away from both.
func (e *Engine) open() error {
	options := e.storeOptions()
	peeked, err := store.Peek(StoreDir(e.o.Dir), options)
	if err != nil {
		return err
	}
	logOptions := e.o.Journal
	logOptions.Dir, logOptions.AllowClockAhead, logOptions.Logger = JournalDir(e.o.Dir), e.o.AllowClockAhead, e.logger
	logOptions.Applied, logOptions.StoreJournal = peeked.Applied, peeked.Journal
	if e.log, err = e.o.OpenLog(LogOptions{Journal: logOptions, Cluster: peeked.Cluster, Seq: peeked.Applied, At: peeked.At, Refuse: e.refuseAsLeader, Answer: e.answerErrand, Level: func() int { return e.store.Level() }}); err != nil {
		if errors.Is(err, journal.ErrCursor) && peeked.Torn != "" {
			err = fmt.Errorf("%w; the store may have lost its latest changes: %s", err, peeked.Torn)
		}
		return err
	}
	e.shared, _ = e.log.(Replicated)
	if e.store, err = store.Open(StoreDir(e.o.Dir), options); err != nil {
		return err
	}
	if e.store.Applied() != peeked.Applied {
		return fmt.Errorf("the store's cursor was %d before the store was opened and is %d now; does another process change its files?", peeked.Applied, e.store.Applied())
	}
	if peeked.Torn != "" {
		e.logger.Warn("the end of the store's manifest is missing; the journal has the changes that it misses", "applied", peeked.Applied, "reason", peeked.Torn)
	}
	e.parked = newParkedClaims(e.store.Queries)
	if err := e.store.Adopt(e.log.UUID()); err != nil {
		return err
	}
	e.history.durable.Store(e.store.Applied())
	return nil
}

// storeOptions returns the options of the store, including the functions that it calls on events.
func (e *Engine) storeOptions() store.Options {
	o := e.o.Store
	o.OpenFiles, o.Patience, o.QueueMemory = e.o.StoreFiles, e.o.CommitWait, e.o.QueueMemory+e.o.QueueMemory/2
	if o.Logf == nil {
		o.Logf = func(format string, args ...any) { e.logger.Debug("pebble: " + fmt.Sprintf(format, args...)) }
	}
	if o.Fatalf == nil && e.o.Fatal != nil {
		o.Fatalf = func(format string, args ...any) { e.o.Fatal("store: " + fmt.Sprintf(format, args...)) }
	}
	o.Flushed = func() { signal(e.history.flushed) }
	if o.Damaged == nil {
		var shown throttle
		o.Damaged = func(err error) { // the reader of the damaged rows gets the error too
			if shown.pass() {
				e.logger.Error("the store is damaged", "error", err)
			}
		}
	}
	if o.Failing == nil {
		var shown throttle
		o.Failing = func(err error) { // Pebble retries a failed write in the background immediately
			e.disk.Met(err)
			if shown.pass() {
				e.logger.Error("the store cannot write; trying again", "error", err)
			}
			time.Sleep(slowFailing)
		}
	}
	return o
}

const (
	// showEvery is the least time between two log entries of the same kind.
	showEvery = 10 * time.Second
	// slowFailing is the time between Pebble's attempts to write.
	slowFailing = 100 * time.Millisecond
)

// throttle limits log entries to one per showEvery.
type throttle struct{ passed atomic.Int64 } // unix ns

func (t *throttle) pass() bool {
	last := t.passed.Load()
	return time.Since(time.Unix(0, last)) > showEvery && t.passed.CompareAndSwap(last, time.Now().UnixNano())
}

// close closes the log and the store, and unlocks the data directory.
func (e *Engine) close() error {
	var errs []error
	if e.log != nil {
		errs = append(errs, e.log.Close())
	}
	if e.store != nil {
		errs = append(errs, e.store.CloseWithin(cmp.Or(e.o.closeWait, e.o.CommitWait)))
	}
	if e.lock != nil {
		errs = append(errs, e.lock.Close())
	}
	return errors.Join(errs...)
}
