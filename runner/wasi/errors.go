package wasi

import (
	"errors"
	"fmt"
)

// Why a run was ended.
var (
	errTimeout = errors.New("the time is over")
	errStopped = errors.New("nobody waits for the job any more")
)

// refusal is an error that no repetition changes: the job has failed for good.
type refusal struct{ text string }

func (e *refusal) Error() string { return e.text }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// awayError is an error of the server or the network: the job goes back to its queue.
type awayError struct{ err error }

func (e *awayError) Error() string { return e.err.Error() }
func (e *awayError) Unwrap() error { return e.err }

// machineError is an error of the runner's machine, such as a disk that is full or memory that the system does not give. The
// job goes back to its queue, and the runner takes no other one in its place for a while.
type machineError struct{ err error }

func (e *machineError) Error() string { return e.err.Error() }
func (e *machineError) Unwrap() error { return e.err }

// goneError is the end of a process before that of its run.
type goneError struct {
	reason string // ended by itself, memory or protocol
	text   string
}

func (e *goneError) Error() string { return e.text }

// reasonOf returns the name of an error with which a run or a process has ended, as Stats has it.
func reasonOf(err error) string {
	gone, isGone := errors.AsType[*goneError](err)
	_, machine := errors.AsType[*machineError](err)
	switch {
	case errors.Is(err, errTimeout):
		return "timeout"
	case errors.Is(err, errStopped):
		return "stopped"
	case isGone:
		return gone.reason
	case machine:
		return "machine"
	}
	return "blob"
}
