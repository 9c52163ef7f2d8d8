package guest

import "golang.org/x/sys/unix"

const noReserve = unix.MAP_NORESERVE

// emptied gives pages back to the system, which makes them zeros. It reports whether that succeeded.
func emptied(b []byte) bool { return len(b) == 0 || unix.Madvise(b, unix.MADV_DONTNEED) == nil }
