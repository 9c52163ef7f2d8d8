package store

import (
	"time"

	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/memory"
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
	// Small is for tests. It shrinks all caches, pages and bounds of a command, and the number of open sessions, so
	// that a few jobs have the effects that otherwise take millions. A store that was made with it must be opened with
	// it.
	Small  bool
	bounds *memory.Bounds // nil: StandardBounds
}

func (o *Options) lsm() lsm.Options {
	return lsm.Options{
		ReadOnly: o.ReadOnly, Logf: o.Logf, Fatalf: o.Fatalf, Flushed: o.Flushed, Failing: o.Failing, Damaged: o.Damaged,
		OpenFiles: o.OpenFiles, FS: o.FS, MemtableBytes: o.MemtableBytes, CacheBytes: o.CacheBytes,
	}
}
