package load

import (
	"time"

	"golang.org/x/sys/unix"
)

// Sleep sleeps in the kernel, which wakes the thread about 50 µs late. In an otherwise idle process, a Go timer is up to
// a millisecond late.
func Sleep(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil) // a signal may interrupt it; the caller checks the clock
}
