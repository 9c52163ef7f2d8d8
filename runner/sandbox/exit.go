package sandbox

import (
	"fmt"
	"syscall"
	"time"
)

// Exit describes how a process ended, and its resource usage.
type Exit struct {
	// Code is the exit status, or -1 if a signal ended the process.
	Code   int
	Signal syscall.Signal // 0 unless a signal ended the process

	// Processor time of the program and of the processes that it has waited for, and the most memory that any of them
	// had. All are zero if Kill ended the process.
	User, System     time.Duration
	MaxResidentBytes int64
}

// Status returns the exit status as shells report it: if a signal ended the process, 128 plus the signal's number.
func (e Exit) Status() int {
	if e.Signal != 0 {
		return 128 + int(e.Signal)
	}
	return e.Code
}

// OK reports whether the process ended with status 0.
func (e Exit) OK() bool { return e.Code == 0 && e.Signal == 0 }

// String returns a text such as "exit status 1" or "signal 9 (killed)".
func (e Exit) String() string {
	if e.Signal != 0 {
		return fmt.Sprintf("signal %d (%s)", int(e.Signal), e.Signal)
	}
	return fmt.Sprintf("exit status %d", e.Code)
}
