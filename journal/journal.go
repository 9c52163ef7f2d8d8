package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/wal"
)

const (
	// defaultSegmentBytes: tidwall/wal keeps the tail segment in memory and grows it by reallocation, so a segment
	// bounds what one growth copies at once, and what the process keeps for a reader it does not have.
	// BenchmarkSegmentBytes: in a heap of a server's size 4 MiB is as fast as 20 MiB; 1 MiB begins a file with every
	// group.
	defaultSegmentBytes = 4 << 20
	// maxSegmentOption: a segment is read into memory whole.
	maxSegmentOption = 256 << 20
	// defaultVolumeBytes: what one Cut can give back, and what one removal has to unlink at once.
	defaultVolumeBytes = 1 << 30

	// maxGroupBytes: bulk fills a group up to this or one record. Larger groups gain nothing (the fsync is shared by
	// thousands of records already) and make everybody in them wait longer.
	maxGroupBytes = 4 << 20
	// MaxInFlightBytes bounds the memory of bulk commands between Propose and the end of their Deliver: sixteen full
	// groups, about half a second of the disk's work.
	MaxInFlightBytes = 64 << 20
	// MaxControlInFlightBytes bounds the same for control commands, which never wait for bulk. They are small; a server
	// that has this many waiting has lost its disk.
	MaxControlInFlightBytes = 16 << 20

	// idleMark is how long after a group without a successor its proof, a mark, is written.
	idleMark = 5 * time.Millisecond
	// A failed repair is tried again after minRepairWait, then twice as long, up to maxRepairWait. A proposal
	// after minRepairWait has it tried at once.
	minRepairWait = 100 * time.Millisecond
	maxRepairWait = 5 * time.Second
)

// Options of Open. Dir must be given; the zero value of everything else works.
type Options struct {
	Dir          string // holds the volumes; made if need be
	SegmentBytes int    // size at which a segment is full; default 4 MiB
	VolumeBytes  int64  // size at which a volume is full; default 1 GiB

	// Clock gives journal time in unix ms; nil means a Clock of this package, which is what a server needs.
	// The committer never lets `at` decrease, whatever it says.
	Clock func() int64
	// Wall is the wall clock that the journal's own Clock follows; nil means time.Now.
	Wall func() time.Time

	// Deliver takes every durable group, in seq order, from the committer's goroutine, after all Done callbacks of the
	// group. The records and all they point to are the receiver's from then on. It may block: the committer then waits,
	// and soon Propose does. It is called until Run returns, so whoever receives must outlive Run. Nil means nobody.
	Deliver func([]Record)

	Applied         uint64 // the store's cursor: evidence for the tail table, and a bound
	StoreJournal    string // UUID of the journal that the store remembers; "" when the store is new
	AllowClockAhead bool   // start although the last record is more than MaxClockAhead in the future

	Archive string       // where Cut moves volumes to; "" means it removes them
	Logger  *slog.Logger // nil means silence

	Hooks Hooks // for tests; the zero value is the real file system

	inFlightBytes int64 // MaxInFlightBytes, for tests smaller
}

// validate checks o and fills in the defaults.
func (o *Options) validate() error {
	if o.Dir == "" {
		return errors.New("journal options: no Dir")
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = defaultSegmentBytes
	}
	if o.SegmentBytes < 1 || o.SegmentBytes > maxSegmentOption {
		return fmt.Errorf("journal options: SegmentBytes %d is not within 1 and %d", o.SegmentBytes, maxSegmentOption)
	}
	if o.VolumeBytes == 0 {
		o.VolumeBytes = defaultVolumeBytes
	}
	if o.VolumeBytes < 1 {
		return fmt.Errorf("journal options: VolumeBytes %d is not positive", o.VolumeBytes)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.inFlightBytes == 0 {
		o.inFlightBytes = MaxInFlightBytes
	}
	o.Hooks.fill()
	return nil
}

// Journal is the open journal. All methods may be called from any goroutine; Run from one, once.
type Journal struct {
	// Immutable after Open.
	o     Options
	uuid  string
	lock  *os.File
	clock *Clock // nil when Options.Clock is given
	log   *slog.Logger

	// Watermarks. Written by the committer, read by anybody. Invariant: appended >= synced, both only ever grow, except
	// that appended falls back to synced when a failed group is truncated.
	appended, synced atomic.Uint64
	lastAt           atomic.Int64
	stats            stats

	// Shared by proposers and the committer.
	mu      sync.Mutex
	lanes   [2]lane
	closed  bool  // nothing is taken any more
	failed  error // why writes are down; nil when they are up
	running bool  // Run was called

	wake    chan struct{} // capacity 1: something waits in a lane, or a repair is needed
	quit    chan struct{} // closed by Close
	stopped chan struct{} // closed when Run has returned
	closing sync.Once
	closeEr error // of the first Close

	// The list of volumes, for readers and Cut; the committer keeps the last one's size up to date.
	vmu     sync.Mutex
	volumes []Volume   // ascending; the last is the tail
	cutMu   sync.Mutex // held by one Cut at a time, through its I/O

	c committer
}

// committer is what the committer's goroutine alone touches (Open before it runs, Close after it has ended).
type committer struct {
	wal        *wal.Log // nil while writes are down
	batch      wal.Batch
	tail       tail   // the end of what is durable
	lastVerb   string // of the last record: whether a mark is due
	group      []*Proposal
	text       []byte        // one record's text
	repairWait time.Duration // until the next attempt
	repairedAt time.Time     // of the last attempt
}

// tail is a place in the journal: the end of the last durable record.
// Invariant: while writes are up, the tail volume's last segment is `segment` and its length is `offset`.
type tail struct {
	volume  uint64 // first seq of the tail volume
	segment uint64 // first seq of the segment
	offset  int64  // length of the segment
	bytes   int64  // of the whole volume
}

// UUID identifies this journal, whatever its directory.
func (j *Journal) UUID() string { return j.uuid }

// Appended is the last seq written; above Synced while a group is on its way.
func (j *Journal) Appended() uint64 { return j.appended.Load() }

// Synced is the last durable seq. Whoever was called back by Done sees it at or above its seq.
func (j *Journal) Synced() uint64 { return j.synced.Load() }

// LastAt is the `at` of the last record.
func (j *Journal) LastAt() int64 { return j.lastAt.Load() }

// AcceptTime sets the journal's time to the wall clock at once if that is later; see Clock.Accept. It does nothing when
// Options.Clock is given.
func (j *Journal) AcceptTime() {
	if j.clock != nil {
		j.clock.Accept()
	}
}

// ClockOffset is how far the journal's time is ahead of the wall clock; 0 when Options.Clock is given.
func (j *Journal) ClockOffset() time.Duration {
	if j.clock == nil {
		return 0
	}
	return j.clock.Offset()
}

// Now is the journal's time in unix ms: what a record written now would be stamped with, at least.
func (j *Journal) Now() int64 { return max(j.lastAt.Load(), min(j.o.Clock(), maxAt)) }

// First is the first seq that can still be read; Synced()+1 when there is none.
func (j *Journal) First() uint64 {
	j.vmu.Lock()
	defer j.vmu.Unlock()
	return j.volumes[0].First
}
