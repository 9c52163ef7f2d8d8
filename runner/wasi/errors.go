package wasi

import (
	"errors"
	"fmt"
)

// Reasons for which a run is stopped.
var (
	errTimeout = errors.New("the time is over")
	errStopped = errors.New("nobody waits for the job any more")
)

// refusal is a permanent error: the job fails without another run.
type refusal struct{ text string }

func (e *refusal) Error() string { return e.text }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// awayError is an error of the server or the network. The job goes back to its queue.
type awayError struct{ err error }

func (e *awayError) Error() string { return e.err.Error() }
func (e *awayError) Unwrap() error { return e.err }

// machineError is an error of the runner's machine, such as a full disk or a lack of memory. The job goes back to its
// queue, and for a while the runner claims no other job in its place.
type machineError struct{ err error }

func (e *machineError) Error() string { return e.err.Error() }
func (e *machineError) Unwrap() error { return e.err }

// goneError reports that a process ended during a run.
type goneError struct {
	reason string // ended, memory or protocol, as in Stats
	text   string
}

func (e *goneError) Error() string { return e.text }

// reasonOf returns the name that Stats uses for the error of a run or process.
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
