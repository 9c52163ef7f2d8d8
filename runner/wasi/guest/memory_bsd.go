//go:build unix && !linux && !aix && !solaris

package guest

const noReserve = 0

// emptied returns false: these systems do not guarantee that pages that were given back are zeros.
func emptied(b []byte) bool { return len(b) == 0 }
