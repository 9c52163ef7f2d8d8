package store

import (
	"time"

	"github.com/daybookq/daybook/store/lsm"
)

// Options configure how a store is opened. The zero value works.
type Options struct {
	// Journal is the UUID of the journal that the store is made from. A store remembers the UUID from its first
	// opening, and refuses a different one. Empty: the UUID that the store remembers.
	Journal string
	// ReadOnly opens an existing store for queries and Check.
	ReadOnly bool
	// Logf, Fatalf, Flushed, Failing, Damaged and OpenFiles are passed on to lsm.Options.
	Logf    func(format string, args ...any)
	Fatalf  func(format string, args ...any)
	Flushed func()
	Failing func(err error)
	Damaged func(err error)
	// QueueMemory is how much memory the queues may take. Open refuses a store with more with a QueuesError. 0: any.
	QueueMemory int64
	// OpenFiles is about how many files the store keeps open; 0: a thousand.
	OpenFiles int
	// FS replaces the file system in tests.
	FS lsm.FS
	// MemtableBytes and CacheBytes replace Pebble's sizes, in tests and in commands that only read.
	MemtableBytes, CacheBytes int
	// Patience is how long a query waits for the command that is being applied; 0: DefaultPatience.
	Patience time.Duration
	// BeforeApply, for tests, is called before Apply carries out the command of a seq.
	BeforeApply func(seq uint64)
	// Small, for tests, shrinks everything that is cached, paged or left for later, and how many sessions may be open,
	// so that a few jobs do what otherwise takes millions. A store that was made with it must be opened with it.
	Small  bool
	bounds *bounds // nil: standardBounds
}

func (o *Options) lsm() lsm.Options {
	return lsm.Options{
		ReadOnly: o.ReadOnly, Logf: o.Logf, Fatalf: o.Fatalf, Flushed: o.Flushed, Failing: o.Failing, Damaged: o.Damaged,
		OpenFiles: o.OpenFiles, FS: o.FS, MemtableBytes: o.MemtableBytes, CacheBytes: o.CacheBytes,
	}
}

// bounds are sizes beyond which the store drops something from memory, divides it, or leaves it for later. Tests shrink
// them, so that a few jobs do what otherwise takes millions.
type bounds struct {
	// Beyond these sizes the caches drop the entries that were not looked up lately. spanBytes is for spans, and
	// slotBytes for the slots of sessions. batchBytes is for batches, and again for their groups. rowBytes is for each
	// of claims, submissions, runners, cells, sessions and hints.
	spanBytes, batchBytes, rowBytes, slotBytes int
	// A window keeps at most maxWindow keys. Its first refill takes minWindow.
	minWindow, maxWindow int
	// windowKeys is how many keys, of about 100 bytes each, all windows together may hold. Beyond it all windows shrink
	// to minWindow.
	windowKeys int
	rules      *rules // replaces the level's rules
}

// cachedSpanBytes is about the memory that a span takes in the cache.
const cachedSpanBytes = 200

var standardBounds = bounds{
	spanBytes: 40 << 20, batchBytes: 16 << 20, rowBytes: 8 << 20, slotBytes: 16 << 20,
	minWindow: 4, maxWindow: 512, windowKeys: 1_000_000,
}

var smallBounds = bounds{
	spanBytes: 20 * cachedSpanBytes, batchBytes: 2000, rowBytes: 1500, slotBytes: 4000,
	minWindow: 1, maxWindow: 4, windowKeys: 40,
	rules: &rules{pageBytes: 100, groupPageBytes: 60, cellSpans: 2, commandRows: 30, claimRows: 100, queueRows: 5, claimBytes: 1000, sweepRows: 200, purgedGroups: 2, effectBytes: 1000, effectRowBytes: 100, listedClaims: 1, sessions: 500, handlers: 4, handlerVersions: 3, handlersBytes: 300, distinctStep: 2, distinctRows: 20, distinctBytes: 20_000, distinctNodes: 3, distinctLooks: 10, filesets: 4, filesetVersions: 3},
}

// rulesAt returns the rules of a level, or the rules that a test set.
func (b *bounds) rulesAt(level int) rules {
	if b.rules != nil {
		return *b.rules
	}
	return rulesAt(level)
}
