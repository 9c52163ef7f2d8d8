package journal

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/tidwall/wal"
)

const (
	// defaultSegmentBytes is 4 MiB because tidwall/wal keeps the tail segment in memory, and copies it when it grows.
	// With the heap of a server, 4 MiB are as fast as 20 MiB; with 1 MiB every group begins a new file (measured with
	// BenchmarkSegmentBytes).
	defaultSegmentBytes = 4 << 20
	// maxSegmentOption bounds Options.SegmentBytes, because readers read a whole segment into memory.
	maxSegmentOption = 256 << 20
	// defaultVolumeBytes is the space that removing one volume frees, and that one removal must unlink. Up to this much
	// of the journal remains on disk although the store no longer needs it. Beginning a volume takes some fsyncs.
	defaultVolumeBytes = 256 << 20

	// maxGroupBytes bounds the bulk commands of a group: they fill it up to this size, or up to one record if that is
	// larger. Larger groups bring no gain, because thousands of records already share the fsync, but every command in
	// them waits longer.
	maxGroupBytes = 4 << 20
	// MaxInFlightBytes bounds the memory of bulk commands from Propose to the return of their Deliver. It is sixteen
	// full groups, about half a second of the disk's work.
	MaxInFlightBytes = 64 << 20
	// MaxControlInFlightBytes is the same bound for control commands, which never wait for bulk commands. They are small:
	// this many of them wait only if the disk no longer answers.
	MaxControlInFlightBytes = 16 << 20

	// idleMark is the time after a group at which the committer writes a mark, unless another group follows. The mark
	// proves that the group was durable.
	idleMark = 5 * time.Millisecond
	// minRepairWait and maxRepairWait bound the time between two attempts at a repair. It starts at minRepairWait and
	// doubles after each failure. A proposal that arrives after minRepairWait triggers an attempt.
	minRepairWait = 100 * time.Millisecond
	maxRepairWait = 5 * time.Second
)

// Options are the settings of a journal. Dir must be given; the zero value of every other field works.
type Options struct {
	Dir          string // the directory with the volumes; Open makes it if it does not exist
	SegmentBytes int    // size at which a segment is full; default 4 MiB
	VolumeBytes  int64  // size at which a volume is full; default 256 MiB

	// Clock returns journal time in unix ms. Nil means a Clock of this package, as servers use. If Clock returns a time
	// before the last record, the committer uses the time of the last record.
	Clock func() int64
	// Wall is the wall clock that the journal's own Clock follows; nil means time.Now.
	Wall func() time.Time

	// Deliver gets every durable group, in the order of seqs. The committer calls it after all Done callbacks of the
	// group. From then on the records, and all that they point to, belong to the receiver. Deliver may block: the
	// committer then waits, and Propose waits when its lane is full. The committer calls Deliver until Run returns, so
	// the receiver must not end before Run. With nil, the groups are dropped.
	Deliver func([]Record)

	Applied         uint64 // the store's cursor, which is evidence for the tail table
	StoreJournal    string // UUID of the journal that the store belongs to; "" when the store is new
	AllowClockAhead bool   // start even if the last record is more than MaxClockAhead in the future

	Archive string       // directory to which Cut moves volumes; with "" it deletes them
	Logger  *slog.Logger // nil discards the log

	Hooks Hooks // for tests; the zero value is the real file system

	inFlightBytes int64 // for tests; 0 means MaxInFlightBytes
}

// validate checks the options and fills in the defaults.
func (o *Options) validate() error {
	if o.Dir == "" {
		return errors.New("journal options: Dir is empty")
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = defaultSegmentBytes
	}
	if o.SegmentBytes < 1 || o.SegmentBytes > maxSegmentOption {
		return fmt.Errorf("journal options: SegmentBytes is %d; it must be from 1 to %d", o.SegmentBytes, maxSegmentOption)
	}
	if o.VolumeBytes == 0 {
		o.VolumeBytes = defaultVolumeBytes
	}
	if o.VolumeBytes < 1 {
		return fmt.Errorf("journal options: VolumeBytes is %d; it must be positive", o.VolumeBytes)
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

// Journal is an open journal. Its methods are safe for concurrent use, except Run, which is called once.
type Journal struct {
	// These do not change after Open.
	o     Options
	uuid  string
	salt  uint32    // of its records; see identity.go
	lock  io.Closer // of the directory
	clock *Clock    // nil when Options.Clock is given
	log   *slog.Logger

	watermarks
	stats     stats
	proposals proposals  // from Propose to the committer
	volumes   volumeList // for readers, Cut and the committer
	life      lifecycle
	c         committer
}

// watermarks are the progress of the journal. The committer writes them, and any goroutine reads them.
//
// Invariant: appended >= synced. Both only grow, with one exception: when a failed group is truncated, appended falls
// back to synced.
type watermarks struct {
	appended, synced atomic.Uint64
	lastAt           atomic.Int64
}

// committer is the state that only the committer's goroutine uses. Open uses it before that goroutine starts, and Close
// after it has ended.
type committer struct {
	wal        *wal.Log // nil while writes are down
	batch      wal.Batch
	tail       tail   // the end of the durable records
	lastVerb   string // of the last record: after a mark, no further mark is due
	group      []*Proposal
	text       []byte        // one record's text
	buffer     segmentBuffer // of the last segment
	repairWait time.Duration // from the last attempt at a repair to the next
	repairedAt time.Time     // time of the last attempt

	// See room.go.
	last        *os.File // the last segment; nil until it is needed
	room        int64    // length of the last segment with the zero bytes after its records; without room, at most tail.offset
	withoutRoom uint64   // the segment in which no room could be made
}

// tail is a place in the journal: the end of the last durable record.
//
// Invariant: while writes are up, `segment` is the last segment of the tail volume, and `offset` is its length without
// the room for more records.
type tail struct {
	volume  uint64 // first seq of the tail volume
	segment uint64 // first seq of the segment
	offset  int64  // length of the segment
	bytes   int64  // length of the whole volume
}

// UUID identifies this journal. A copy in another directory has the same UUID.
func (j *Journal) UUID() string { return j.uuid }

// Appended is the last seq that was written. It is greater than Synced while a group is being synced.
func (j *Journal) Appended() uint64 { return j.appended.Load() }

// Synced is the last durable seq. When Done of a proposal is called, Synced has reached the seq of the proposal.
func (j *Journal) Synced() uint64 { return j.synced.Load() }

// LastAt is the time of the last record, unix ms.
func (j *Journal) LastAt() int64 { return j.lastAt.Load() }

// AcceptTime sets the journal's time to the wall clock if the wall clock is later; see Clock.Accept. It does nothing when
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

// Now is the journal's time in unix ms. A record that is written now gets this time or a later one.
func (j *Journal) Now() int64 { return max(j.lastAt.Load(), min(j.o.Clock(), maxAt)) }
