package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
)

// server is one life of the server.
type server struct {
	w      *world
	number int
	plan   plan
	engine *ingest.Engine
	cancel context.CancelFunc
	ran    chan error

	openedAt int64 // journal time, ms
	stopping atomic.Bool

	mu sync.Mutex
	injection
	up    bool // it was opened, and runs
	ended bool
	remains
	gone  chan struct{} // closed when the life ends, even if the server still does something
	quiet chan struct{} // closed when users must send no more requests
}

// remains are the data that a server leaves for the next one.
type remains struct {
	nextDisk *disk
	nextMem  *vfs.MemFS
}

// injection is the state of the faults that are injected into a server. The server's lock guards it.
type injection struct {
	random       *rand.Rand // for faults of the journal
	delays       *rand.Rand // for delays of the journal's fsyncs
	storeRandom  *rand.Rand
	calls        int // of the journal
	storeCalls   int // of the store, writes only
	storeFaults  int // that still have to happen
	storeTrouble int // how often a series of store faults began
	faults       int // that were injected
	troubleUntil time.Time
	troubled     error
}

// plan says what goes wrong in a life.
type plan struct {
	ending    ending
	after     time.Duration // when the life ends at the latest
	call      int           // the life ends at this call of the journal; 0: at no call
	storeCall int           // the life ends at this call of the store; 0: at no call
	trouble   int           // one in so many calls begins a period of faults; 0: none
	slow      bool          // some fsyncs take seconds
}

func (w *world) plan(calm bool) plan {
	p := plan{after: time.Duration(200+w.random.IntN(pick(w.random, 1000, 6000))) * time.Millisecond, slow: w.random.IntN(4) == 0}
	if calm { // a disk that stalls all the time would renew all leases all the time
		p.after, p.slow = time.Hour, false
		return p
	}
	p.ending = pick(w.random, stopped, killed, powerLost, powerLost, powerLost)
	if w.random.IntN(2) == 0 && p.ending != stopped {
		p.call = 1 + w.random.IntN(pick(w.random, 12, 100, 300))
	}
	if w.random.IntN(4) == 0 && p.ending != stopped {
		p.storeCall = 1 + w.random.IntN(pick(w.random, 20, 120))
	}
	if w.random.IntN(3) == 0 {
		// The first case can hit the start.
		p.trouble = pick(w.random, 3+w.random.IntN(20), 20+w.random.IntN(300), 20+w.random.IntN(300))
	}
	return p
}

// start begins a life. If it returns neither a server nor an error, the life ended before the server was up.
func (w *world) start(number int, p plan) (*server, error) {
	source := func(kind uint64) *rand.Rand { return rand.New(rand.NewPCG(w.seed, kind*1000+uint64(number))) }
	s := &server{w: w, number: number, plan: p, injection: injection{random: source(1), delays: source(3), storeRandom: source(4)}, gone: make(chan struct{}), quiet: make(chan struct{}), ran: make(chan error, 1)}
	w.disk.fault = s.journalFault
	o := ingest.Options{Dir: w.root(), JournalRetain: w.retain, QueueIdle: time.Minute, RunnerHeartbeat: heartbeatEvery, Journal: w.shape, Space: s.statfs, Logger: slog.New(logTo{s})}
	history := source(5)
	o.History, o.HistoryAge = pick(history, int64(0), job.MinHistoryBytes, 2*job.MinHistoryBytes), pick(history, time.Hour, 2*time.Hour)
	o.Journal.Hooks = w.disk.hooks()
	o.Journal.Wall = w.now
	o.Journal.Archive = filepath.Join(w.root(), "archive")
	o.Store = w.storeOptions(errorfs.Wrap(w.mem, errorfs.InjectorFunc(s.storeFault)))
	o.Store.Failing = func(error) {} // no pause between attempts to write, since the injected faults soon end
	o.Fatal = func(reason string) { w.violation(fmt.Errorf("the store ends the process: %s", reason)) }
	engine, err := ingest.Open(o)
	if errors.Is(err, journal.ErrClockAhead) {
		w.log("the clock is ahead by more than a day: started with the flag")
		o.AllowClockAhead = true
		engine, err = ingest.Open(o)
	}
	if err != nil {
		if !s.isGone() && s.injected() == 0 {
			return nil, fmt.Errorf("start %d is refused after an honest crash: %w", number, err)
		}
		w.log("start %d: %v", number, err)
		w.account.figures.Refused++
		s.end(killed)
		s.ran <- nil
		return nil, s.cleanUp()
	}
	s.engine, s.openedAt = engine, engine.Now()
	s.mu.Lock()
	s.up = true
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go func() {
		err := engine.Run(ctx)
		if err != nil && !s.isGone() && s.injected() == 0 {
			w.violation(fmt.Errorf("life %d: the server ends by itself: %w", number, err))
		}
		if err == nil && s.stopping.Load() {
			s.end(stopped)
		} else {
			s.end(killed)
		}
		s.ran <- err
	}()
	return s, nil
}

func (w *world) storeOptions(fs vfs.FS) store.Options {
	// Memtables are so large that they hardly ever fill, since chance within Pebble decides when one is full. The seed
	// decides when they are flushed.
	return store.Options{FS: fs, Small: w.small, MemtableBytes: 4 << 20, CacheBytes: 1 << 20}
}

// isGone reports whether the life is over. Nobody sees anything that the server does afterwards, and the next life does
// not find it.
func (s *server) isGone() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

// log writes to the world's log during the life.
func (s *server) log(format string, args ...any) {
	if !s.isGone() {
		s.w.log(format, args...)
	}
}

// end ends the life immediately, in the middle of any work. It decides which data the next life finds.
func (s *server) end(how ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	w := s.w
	if s.up {
		w.endedAt.Store(s.engine.Now())
	}
	var err error
	root := filepath.Join(w.base, fmt.Sprintf("life-%d", s.number+1))
	random := rand.New(rand.NewPCG(w.seed, 2000+uint64(s.number)))
	switch how {
	case stopped:
		s.nextDisk, s.nextMem = w.disk, w.mem
		w.account.figures.Stops++
	case killed:
		w.account.figures.Kills++
		s.nextDisk, err = w.disk.afterKill(root, random)
		s.nextMem = w.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: random})
	case powerLost:
		w.account.figures.PowerLosses++
		s.nextDisk, err = w.disk.afterPowerLoss(root, random)
		s.nextMem = w.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: random.IntN(101), RNG: random})
	}
	if err != nil {
		w.violation(fmt.Errorf("simulate %v: %w", how, err))
	}
	w.log("life %d: %v after %d calls of the journal", s.number, how, s.calls)
	close(s.gone)
}

// cleanUp waits for everything of a life that still runs, and puts the disk of the next life in place.
func (s *server) cleanUp() error {
	if s.cancel != nil {
		s.cancel()
	}
	err := <-s.ran
	s.end(killed) // if it has not ended yet
	w := s.w
	if s.nextDisk == nil {
		return w.failed()
	}
	if s.nextDisk != w.disk {
		if err := os.RemoveAll(w.root()); err != nil {
			return err
		}
		if err := os.Rename(s.nextDisk.root, w.root()); err != nil {
			return err
		}
		s.nextDisk.root = w.root()
	}
	w.disk, w.mem = s.nextDisk, s.nextMem
	w.account.figures.Faults += s.faults
	if err != nil {
		w.log("life %d ended with: %v", s.number, err)
	}
	return nil
}

// stop ends the life cleanly. A server that cannot write may fail to stop cleanly; then the life ends like a killed one.
func (s *server) stop() {
	s.stopping.Store(true)
	s.cancel()
	<-s.gone
}

// settle waits until all goroutines wait for time or for each other. No time passes.
func settle() { synctest.Wait() }

// logTo writes the server's own log to the world's log.
type logTo struct{ s *server }

func (logTo) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (l logTo) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l logTo) WithGroup(string) slog.Handler { return l }

func (l logTo) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	l.s.log("server: %s", text)
	return nil
}
