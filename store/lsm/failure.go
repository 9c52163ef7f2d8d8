package lsm

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
)

// Error is a failure of the database: a file that cannot be read, or a row that is not what it should be. After an
// Error from Commit the database must be closed; its state is that of the last commit.
type Error struct {
	Op  string
	Err error
}

var (
	// ErrDamaged: a file of the database is missing, or its contents have changed. Whatever could be read is right:
	// every block has a checksum.
	ErrDamaged = errors.New("the store is damaged")
	// ErrClosed: the database was closed.
	ErrClosed = errors.New("the store is closed")

	// ErrShortRow: a value or key ends before its form does.
	ErrShortRow = errors.New("a row is shorter than its form")
	// ErrContradiction: what one row says contradicts another, or itself.
	ErrContradiction = errors.New("rows contradict each other")
)

// nextRebuild is the operator's next step.
const nextRebuild = "next step: stop the server and put that file back from a copy, or run `daybook rebuild`, which makes the store again from the journal and keeps this one; if the journal no longer begins at 1, it needs a backup of the store as --base"

func (e *Error) Unwrap() error { return e.Err }

// Is reports an error of reading damaged files or rows as ErrDamaged.
func (e *Error) Is(target error) bool {
	return target == ErrDamaged && (pebble.IsCorruptionError(e.Err) || errors.Is(e.Err, ErrShortRow) || errors.Is(e.Err, ErrContradiction))
}

// Error says what failed. For damage it names the file and the next step.
func (e *Error) Error() string {
	text := fmt.Sprintf("store: %s: %v", e.Op, e.Err)
	if !errors.Is(e, ErrDamaged) {
		return text
	}
	if info := pebble.ExtractDataCorruptionInfo(e.Err); info != nil {
		text = fmt.Sprintf("store: %s: file %s: %v", e.Op, info.Path, info.Details)
	}
	return text + "; " + nextRebuild
}

// Fail unwinds to the nearest Catch with an *Error, if err is not nil.
func Fail(op string, err error) {
	if err != nil {
		panic(&Error{Op: op, Err: err})
	}
}

// Contradict is Fail for rows that cannot both be right. It counts as damage.
func Contradict(op, format string, args ...any) {
	Fail(op, fmt.Errorf("%w: %s", ErrContradiction, fmt.Sprintf(format, args...)))
}

// Catch turns a Fail into the error of the function that deferred it.
func Catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case *Error:
		*err = r
	default:
		panic(r)
	}
}

// Try returns the error that do fails with.
func Try(do func()) (err error) {
	defer Catch(&err)
	do()
	return nil
}

// Unreadable reports whether err says that a block on disk is damaged. Rows that contradict each other are no damage of
// the disk.
func Unreadable(err error) bool {
	return errors.Is(err, ErrDamaged) && !errors.Is(err, ErrContradiction)
}

// environmental reports whether an open failed for a reason that is not damage, such as permissions, a full disk or too
// few descriptors.
func environmental(err error) bool {
	for _, reason := range []error{
		syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM,
	} {
		if errors.Is(err, reason) {
			return true
		}
	}
	return false
}
