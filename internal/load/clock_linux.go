package load

import (
	"time"

	"golang.org/x/sys/unix"
)

// Sleep sleeps in the kernel, which wakes the thread some 50 µs after the time. A timer of Go is up to a millisecond late
// in a process that does nothing else.
func Sleep(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil) // a signal may interrupt it; the caller looks at the clock
}
