package store

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/daybookq/daybook/job"
)

// Options are how a store is opened. The zero value works.
type Options struct {
	// Journal is the UUID of the journal that the store is made from. A store remembers the one it was first opened with and
	// refuses another. Empty: whatever the store remembers.
	Journal string
	// ReadOnly opens an existing store for queries and Check.
	ReadOnly bool
	// Logf receives what Pebble has to say; nil drops it.
	Logf func(format string, args ...any)
	// Fatalf is called when Pebble cannot go on (a failed write of its manifest). It may not return normally; nil panics.
	Fatalf func(format string, args ...any)
	// Flushed, where given, is told whenever Pebble has written a memtable to disk, on a goroutine of Pebble's that must not be
	// held up.
	Flushed func()
	// Failing, where given, is told of each write that Pebble failed to do in the background. Pebble tries again at once, and holds a lock
	// meanwhile: returning late slows that down.
	Failing func(err error)
	// Damaged, where given, is told of each block that is not what was written, when it is met.
	Damaged func(err error)
	// OpenFiles is about how many files the store keeps open; 0: Pebble's thousand. Fewer than 74 are as good as 74.
	OpenFiles int
	// FS replaces the file system in tests.
	FS vfs.FS
	// MemtableBytes and CacheBytes replace the sizes below in tests.
	MemtableBytes, CacheBytes int
	// Small shrinks, in tests, all that is cached, paged or left for later, and how many sessions may be open, so that a few jobs do what
	// millions would. A store that was made with it must be opened with it.
	Small  bool
	bounds *bounds // nil: standardBounds
}

const (
	// memtableBytes: a smaller one halves bulk creates, because payload pages then go to disk in many small tables.
	memtableBytes = 64 << 20
	// cacheBytes is Pebble's block cache, which serves payload pages and spans that the caches here have dropped.
	cacheBytes = 64 << 20
	// filterBits is what each key adds to the filter of its table: one look in a hundred for a key that is absent reads the table in vain.
	// Most looks for unique keys, idempotency keys and batches that are gone find nothing, and would read a table of every level.
	filterBits = 10
	// maxRetainedBatch is above what a commit usually carries.
	maxRetainedBatch = 16 << 20
)

var (
	// ErrForeignJournal: the store was made from another journal.
	ErrForeignJournal = errors.New("the store belongs to another journal")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("the store is closed")
	// ErrNewerFormat: a newer version of the program wrote the store or the journal.
	ErrNewerFormat = errors.New("the data was written by a newer version of the program; start that version or a later one")
	// ErrOlderFormat: a version of the program wrote the store that came before its first release.
	ErrOlderFormat = errors.New("the store was written before the first release; make it again from the journal with `daybook rebuild`")
)

// Store keeps the state and its indexes. One goroutine applies and commits; any may query.
type Store struct {
	db       *pebble.DB
	cache    *pebble.Cache
	bounds   *bounds
	rules    rules       // of the level
	failing  func(error) // Options.Failing
	readers  gate        // of queries, for which Close waits
	flushing atomic.Bool // a Flush waits for Pebble to begin

	// applying is held through Apply and Commit, and by Close. No query takes it: Commit waits for Pebble under it.
	applying sync.Mutex

	// mu guards what both Apply and queries use. Invariant: nobody waits for Pebble to take a write with mu held, so that queries go on
	// while Pebble holds writers back. Apply holds it through reads that miss the caches.
	mu     sync.RWMutex
	meta   meta
	queues queues

	// The rest belongs to the goroutine that applies. Invariant: no query touches it, so that Commit may use it without mu.
	o        overlay
	outgoing *pebble.Batch // of Commit, which uses its memory again
	timers   window
	// unusedSessions and usedSessions are the idle rows of sessions that have carried out no request yet, and of all others.
	unusedSessions, usedSessions window
	windows                      *windows
	running                      []*sweep // those that have not ended, by seq
	seed                         uint64   // of the jitter: from the journal's UUID
	pending                      bool     // whether commands were applied since the last commit
	broken                       error    // why neither Apply nor Commit can go on: the overlay may hold half a command

	// Caches of rows, by key. What they answer never depends on what they hold. Spans are
	// written through; of the others the commit writes those in dirty.
	batches  recent[uint64, *batch]
	claims   recent[uint64, *claim]
	runners  recent[string, *runner]
	spans    recentLines[cachedSpan]
	dirty    []dirtyRow
	changed  []*queue // whose rows the running commit writes
	sessions recent[uint64, *session]
	slots    recent[slotName, *slot]
	cells    recent[string, *cell]
	hints    recent[string, *hintRow]
	// slotBytes is about what the younger generation of slots takes.
	slotBytes int
	// dirtyCells are written by the next commit, or before a draw reads them.
	dirtyCells []*cell

	// Of the command being applied.
	now     job.Now
	due     int64    // of a tick: what is due by then happens
	moved   []*queue // whose heads may have changed
	resized []*cell  // that may have too many spans, or too few
	leases  []*claim // whose held lines or references may be at an end
	effects []effect
	readied []*queue // that gained pending jobs, since the last TakeReadied
	// allReadied: all ready queues count as readied too.
	allReadied bool

	counts  job.Counts // over all queues
	pages   pageCache  // for what claims hand out
	applied atomic.Uint64
	nextDue atomic.Int64
	epochs  atomic.Pointer[[]epoch] // meta.epochs, for queries

	idleSince atomic.Int64
	totals    atomic.Pointer[Totals]

	damaged sync.Map // of damagedRow to the *Error of reading it
}

// Totals are sums over all queues.
type Totals struct {
	Counts   job.Counts
	Queues   int
	Level    int
	Keys     uint64 // idempotency keys
	Sessions uint64
	Sweeps   int  // that are under way
	Stopped  bool // by the switch
}

type cachedSpan struct {
	seq uint64
	span
}

// bounds are the sizes past which something is dropped, cut or left for later. Tests shrink them, so that a few jobs do what
// millions would.
type bounds struct {
	// Caches drop, beyond these, what was not looked up lately.
	cachedSpans, cachedBatches, cachedClaims int
	// cachedSlotBytes bounds the slots of sessions, which differ much in size: one that remembers a create may hold a thousand ids.
	cachedSlotBytes int
	// Windows keep at most maxWindow keys; the first refill takes minWindow.
	minWindow, maxWindow int
	// windowKeys is how many keys, of about 100 bytes, all windows may hold. Past it all shrink to minWindow.
	windowKeys int
	rules      *rules // in place of the level's
}

var standardBounds = bounds{
	cachedSpans: 200_000, cachedBatches: 50_000, cachedClaims: 50_000, cachedSlotBytes: 32 << 20,
	minWindow: 4, maxWindow: 512, windowKeys: 1_000_000,
}

var smallBounds = bounds{
	cachedSpans: 20, cachedBatches: 5, cachedClaims: 5, cachedSlotBytes: 4000,
	minWindow: 1, maxWindow: 4, windowKeys: 40,
	rules: &rules{pageBytes: 100, cellSpans: 2, commandRows: 30, claimRows: 100, sweepRows: 200, effectBytes: 1000, sessions: 500},
}

// Open opens the store in dir, or makes it.
func Open(dir string, o Options) (_ *Store, err error) {
	defer catch(&err)
	standard := &standardBounds
	if o.Small {
		standard = &smallBounds
	}
	s := &Store{
		bounds:   cmp.Or(o.bounds, standard),
		failing:  o.Failing,
		batches:  newRecent[uint64, *batch](),
		claims:   newRecent[uint64, *claim](),
		runners:  newRecent[string, *runner](),
		sessions: newRecent[uint64, *session](),
		slots:    newRecent[slotName, *slot](),
		cells:    newRecent[string, *cell](),
		hints:    newRecent[string, *hintRow](),
	}
	s.queues = newQueues()
	s.windows = &windows{bounds: s.bounds, limit: s.bounds.windowKeys}
	s.spans = newRecentLines(func(a, b cachedSpan) bool { return a.seq < b.seq || a.seq == b.seq && a.last < b.last })
	s.pages.recent = newRecentLines(func(a, b cachedPage) bool { return a.seq < b.seq || a.seq == b.seq && a.last < b.last })
	size := func(given, standard int) int64 {
		if given > 0 {
			return int64(given)
		}
		return int64(standard)
	}
	s.cache = pebble.NewCache(size(o.CacheBytes, cacheBytes))
	options := &pebble.Options{
		FS:                          ordered{cmp.Or(o.FS, vfs.Default)},
		Cache:                       s.cache,
		ReadOnly:                    o.ReadOnly,
		ErrorIfNotExists:            o.ReadOnly,
		DisableWAL:                  true, // the journal is the log
		MaxOpenFiles:                o.OpenFiles,
		MemTableSize:                uint64(size(o.MemtableBytes, memtableBytes)),
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       24,
		FormatMajorVersion:          pebble.FormatNewest,
		Logger:                      logger{o.Logf, o.Fatalf},
	}
	for i := range options.Levels {
		options.Levels[i].FilterPolicy = bloom.FilterPolicy(filterBits)
	}
	options.EventListener = &pebble.EventListener{
		FlushEnd: func(i pebble.FlushInfo) {
			if i.Err == nil && o.Flushed != nil {
				o.Flushed()
			}
		},
		// By default it would end the process. Whoever reads the block gets an error; here it is only said, once by each.
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			if o.Damaged != nil {
				o.Damaged(&Error{"read", fmt.Errorf("file %s: %w", i.Path, i.Details)})
			}
		},
		BackgroundError: func(err error) {
			if o.Failing != nil {
				o.Failing(&Error{"write in the background", err})
			}
		},
	}
	if err = checkMark(options.FS, dir); err == nil {
		s.db, err = pebble.Open(dir, options)
	}
	if err != nil {
		s.cache.Unref()
		return nil, openError(options.FS, dir, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	s.o.db = s.db
	s.outgoing = s.db.NewBatch(pebble.WithMaxRetainedSizeBytes(maxRetainedBatch))
	if err := s.load(o); err != nil {
		return nil, err
	}
	s.publish()
	return s, nil
}

// load reads what is kept in memory: the meta row and the queues.
func (s *Store) load(o Options) (err error) {
	defer catch(&err)
	s.meta = meta{version: formatVersion, journal: o.Journal, nextQueue: 1}
	if value := s.o.get(metaKey); value != nil {
		s.meta = decodeMeta(value)
	}
	if err := s.meta.known(); err != nil {
		return err
	}
	if s.meta.journal == "" {
		s.meta.journal = o.Journal
	}
	if o.Journal != "" && s.meta.journal != o.Journal {
		return fmt.Errorf("open store: it was made from journal %s, not %s: %w", s.meta.journal, o.Journal, ErrForeignJournal)
	}
	s.reseed()
	s.followLevel()
	s.publishEpochs()
	var all []*queue
	s.o.scan(string(queueTable), string(queueTable+1), func(key string, value []byte) bool {
		all = append(all, decodeQueue(u32At(key, 1), value, s.windows))
		return true
	})
	for _, q := range all {
		q.show()
		for status, n := range q.counts {
			s.counts[status] += n
		}
		if q.idleAt != 0 {
			s.queues.idle.Set(q)
		}
	}
	s.queues.fill(all)
	s.o.scan(string(sweepTable), string(sweepTable+1), func(key string, value []byte) bool {
		if w := decodeSweep(seqOfKey(key), value); w.finishedAt == 0 {
			s.running = append(s.running, w)
		}
		return true
	})
	s.timers = storedWindow(s.windows, string(timerTable), string(timerTable+1))
	s.unusedSessions = storedWindow(s.windows, idlePrefix(false), idlePrefix(true))
	s.usedSessions = storedWindow(s.windows, idlePrefix(true), string(idleTable+1))
	return nil
}

func (s *Store) reseed() {
	h := fnv.New64a()
	h.Write([]byte(s.meta.journal))
	s.seed = h.Sum64()
}

// Adopt tells a new store the UUID of the journal that it will be made from.
func (s *Store) Adopt(journal string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.meta.journal != "" && s.meta.journal != journal {
		return fmt.Errorf("store of journal %s, not %s: %w", s.meta.journal, journal, ErrForeignJournal)
	}
	s.meta.journal = journal
	s.reseed()
	return nil
}

// logger gives Pebble's voice to ours. Pebble calls Fatalf when it cannot go on, and by default ends the process there.
type logger struct{ infof, fatalf func(string, ...any) }

func (l logger) Infof(format string, args ...any) {
	if l.infof != nil {
		l.infof(format, args...)
	}
}

func (l logger) Errorf(format string, args ...any) { l.Infof(format, args...) }

func (l logger) Fatalf(format string, args ...any) {
	if l.fatalf != nil {
		l.fatalf(format, args...)
	}
	panic(fmt.Sprintf("store: "+format, args...))
}

// Journal returns the UUID of the journal that the store is made from; "" when it is new.
func (s *Store) Journal() string { s.mu.RLock(); defer s.mu.RUnlock(); return s.meta.journal }

// Applied returns the seq of the last command whose effects queries can see.
func (s *Store) Applied() uint64 { return s.applied.Load() }

// Level returns the level of what Apply decides.
func (s *Store) Level() int { s.mu.RLock(); defer s.mu.RUnlock(); return s.meta.level }

// At returns the time of the last command applied, unix ms.
func (s *Store) At() int64 { s.mu.RLock(); defer s.mu.RUnlock(); return s.meta.at }

// NextDue returns the time, unix ms, at which a tick will find something to look at; 0 for never.
func (s *Store) NextDue() int64 { return s.nextDue.Load() }

// Totals returns sums over all queues as of the last commit, without waiting.
func (s *Store) Totals() Totals { return *s.totals.Load() }

// Available reports whether a claim for these clients and types would find a job.
func (s *Store) Available(clients, types []string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return !s.meta.stopped && s.queues.best(s.queues.heads, s.queues.choice(clients, types)) != nil
}

// QueueExists reports whether there is a queue, how many there are, and how many there ever were.
func (s *Store) QueueExists(client, typ string) (exists bool, queues int, ever uint32) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.queues.byName[queueName{client, typ}] != nil, len(s.queues.byID), s.meta.nextQueue - 1
}
