package journal

import (
	"errors"
	"fmt"
)

// What a caller can switch on with errors.Is. The text after the sentinel carries the cause.
var (
	// ErrClosed: the journal is stopping or stopped; nothing was taken.
	ErrClosed = errors.New("journal: closed")
	// ErrNotStored: the command is not in the journal and never will be. Proven, not presumed.
	ErrNotStored = errors.New("journal: not stored")
	// ErrUnknown: the write failed and so did its removal. The command may or may not be there after a restart.
	ErrUnknown = errors.New("journal: stored or not is unknown")
	// ErrFailed: writes are down until a repair succeeds; reads go on. Nothing was taken.
	ErrFailed = errors.New("journal: writes are down")
	// ErrInvalid: a proposal or record that the format cannot hold.
	ErrInvalid = errors.New("journal: invalid record")
	// ErrTooLarge: a proposal larger than MaxRecordBytes.
	ErrTooLarge = errors.New("journal: record too large")
	// ErrLocked: another process, or something else in this one, has the directory.
	ErrLocked = errors.New("another process has it")
	// ErrCut: the record that is asked for was removed with its volume.
	ErrCut = errors.New("journal: record was removed")
	// ErrForeign: the store remembers another journal.
	ErrForeign = errors.New("journal: not the journal of this store")
	// ErrCursor: the store's cursor does not fit what the journal holds.
	ErrCursor = errors.New("journal: the store's cursor does not fit the journal")
	// ErrClockAhead: the last record is more than MaxClockAhead ahead of the wall clock.
	ErrClockAhead = errors.New("journal: the journal's time is far ahead of the wall clock")
	// ErrVersion: a record that is intact but of a version this program does not know.
	ErrVersion = errors.New("journal: record of an unknown version")
)

// CorruptError says where the journal stops being readable, what the tail table makes of it, and what to do next.
type CorruptError struct {
	File    string // the segment (or the directory, when a file is missing)
	Offset  int64  // of the first byte that is not an intact entry
	Seq     uint64 // the first seq that is not there intact
	Reason  string
	Case    string  // the row of the tail table
	Verdict Verdict // what Open does with it: Discard or Refuse
	Next    string  // the operator's next step
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("journal: damaged at seq %d: %s (file %s, offset %d; case %q: %s); next step: %s",
		e.Seq, e.Reason, e.File, e.Offset, e.Case, e.Verdict, e.Next)
}

// RecordError says which byte of a record's text is not as the format demands.
type RecordError struct {
	Offset int
	Reason string
	Err    error // ErrVersion for an intact record of an unknown version, else nil
	summed int   // how many bytes went through the checksum before it failed
}

func (e *RecordError) Error() string {
	return fmt.Sprintf("journal: record, byte %d: %s", e.Offset, e.Reason)
}

func (e *RecordError) Unwrap() error { return e.Err }
