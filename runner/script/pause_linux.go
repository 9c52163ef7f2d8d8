package script

import (
	"time"

	"golang.org/x/sys/unix"
)

// pause waits for less than a millisecond. A timer of Go would wait for a whole one when nothing else runs.
func pause(d time.Duration) {
	t := unix.NsecToTimespec(d.Nanoseconds())
	unix.Nanosleep(&t, nil) // a signal may end it early
}
