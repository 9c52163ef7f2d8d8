package journal

import (
	"errors"
	"fmt"
)

// Errors that a caller can distinguish with errors.Is. The text of the returned error adds the cause.
var (
	// ErrClosed: the journal is stopping or has stopped. The command was not taken.
	ErrClosed = errors.New("journal: closed")
	// ErrNotStored: the command is not in the journal and never will be. This is proven.
	ErrNotStored = errors.New("journal: not stored")
	// ErrUnknown: the write failed and could not be undone. After a restart the command may be in the journal.
	ErrUnknown = errors.New("journal: it is unknown whether the command was stored")
	// ErrFailed: the journal cannot write until a repair succeeds. The command was not taken. Reads still work.
	ErrFailed = errors.New("journal: writes are down")
	// ErrInvalid: the record format cannot express the proposal or record.
	ErrInvalid = errors.New("journal: invalid record")
	// ErrTooLarge: the proposal is larger than MaxRecordBytes.
	ErrTooLarge = errors.New("journal: record too large")
	// ErrCut: the requested record was removed with its volume.
	ErrCut = errors.New("journal: record was removed")
	// ErrForeign: the store belongs to a different journal.
	ErrForeign = errors.New("journal: not the journal of this store")
	// ErrCursor: the journal does not have the records that the store's cursor requires.
	ErrCursor = errors.New("journal: the store's cursor does not fit the journal")
	// ErrClockAhead: the last record is more than MaxClockAhead ahead of the wall clock.
	ErrClockAhead = errors.New("journal: the journal's time is far ahead of the wall clock")
	// ErrVersion: the record is intact, but this program does not know its version.
	ErrVersion = errors.New("journal: record of an unknown version")
)

// CorruptError reports where damage begins, how a start decides about it, and the operator's next step.
type CorruptError struct {
	File    string // the segment, or the directory if a file is missing
	Offset  int64  // offset of the first entry that is not intact
	Seq     uint64 // seq of the first record that is missing or damaged
	Reason  string
	Case    string  // the row of the tail table
	Verdict Verdict // the decision of Open: Discard or Refuse
	Next    string  // the operator's next step
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("journal: damaged at seq %d: %s (file %s, offset %d; case %q: %s); next step: %s",
		e.Seq, e.Reason, e.File, e.Offset, e.Case, e.Verdict, e.Next)
}

// RecordError reports the byte at which a record's text departs from the format.
type RecordError struct {
	Offset int
	Reason string
	Err    error // ErrVersion for an intact record of an unknown version; otherwise nil
	summed int   // bytes over which a checksum was computed that did not match; 0 if none was
}

func (e *RecordError) Error() string {
	return fmt.Sprintf("journal: record, byte %d: %s", e.Offset, e.Reason)
}

func (e *RecordError) Unwrap() error { return e.Err }
