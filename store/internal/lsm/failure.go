package lsm

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
)

// Error is a failure of the database: a file that cannot be read, or a row with wrong contents. After an Error from
// Commit the database must be closed; its state is then the state of the last commit.
type Error struct {
	Op  string
	Err error
}

var (
	// ErrDamaged: a file of the database is missing, or its contents have changed. The rows that could be read are
	// right, because every block has a checksum.
	ErrDamaged = errors.New("the store is damaged")
	// ErrClosed: the database was closed.
	ErrClosed = errors.New("the store is closed")

	// ErrShortRow: a value or key ends early.
	ErrShortRow = errors.New("a row is shorter than its form")
	// ErrContradiction: one row contradicts another row, or itself.
	ErrContradiction = errors.New("rows contradict each other")
)

// nextRebuild is the operator's next step.
const nextRebuild = "next step: stop the server and put that file back from a copy, or run `daybook rebuild`, which makes the store again from the journal and keeps this one; if the journal no longer begins at 1, it needs a backup of the store as --base"

func (e *Error) Unwrap() error { return e.Err }

// Is reports an error of reading damaged files or rows as ErrDamaged.
func (e *Error) Is(target error) bool {
	return target == ErrDamaged && (pebble.IsCorruptionError(e.Err) || errors.Is(e.Err, ErrShortRow) || errors.Is(e.Err, ErrContradiction))
}

// Error returns what failed. For damage it also names the file and the next step.
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

// Fail panics with an *Error, which the nearest Catch returns. If err is nil, it does nothing.
func Fail(op string, err error) {
	if err != nil {
		panic(&Error{Op: op, Err: err})
	}
}

// Contradict is Fail for rows that cannot both be right. It counts as damage.
func Contradict(op, format string, args ...any) {
	Fail(op, fmt.Errorf("%w: %s", ErrContradiction, fmt.Sprintf(format, args...)))
}

// Catch turns a Fail into the error of the function that deferred Catch.
func Catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case *Error:
		*err = r
	default:
		panic(r)
	}
}

// Try calls do, and returns the error that do fails with.
func Try(do func()) (err error) {
	defer Catch(&err)
	do()
	return nil
}

// Unreadable reports whether err means that a block on disk is damaged. Rows that contradict each other do not mean
// damage of the disk.
func Unreadable(err error) bool {
	return errors.Is(err, ErrDamaged) && !errors.Is(err, ErrContradiction)
}

// environmental reports whether an open failed for a reason other than damage, such as permissions, a full disk or too
// few file descriptors.
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
