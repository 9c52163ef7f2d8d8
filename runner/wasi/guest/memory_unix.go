//go:build unix && !aix && !solaris

package guest

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// pages allocates regions of memory for runs, and keeps some for the next runs. A region reserves addresses for the
// maximum size of a memory, so that growing moves nothing. The system allocates pages when they are first used. They are
// given back after a run, so the next run finds zeros. Only one goroutine uses pages.
type pages struct{ free [][]byte }

// keptRegions bounds the regions kept for the next runs.
const keptRegions = 2

// take returns a region of zeros, or an error if the system lacks memory.
func (p *pages) take(size uint64) ([]byte, error) {
	for i, region := range p.free {
		if uint64(len(region)) == size {
			p.free = append(p.free[:i], p.free[i+1:]...)
			return region, nil
		}
	}
	if size == 0 {
		return []byte{}, nil
	}
	region, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|noReserve)
	if err != nil {
		return nil, fmt.Errorf("the system gave no %d bytes of addresses for the memory of a guest: %w", size, err)
	}
	return region, nil
}

// give takes a region back. Only the first used bytes were used.
func (p *pages) give(region []byte, used int) {
	switch {
	case len(region) == 0:
	case len(p.free) < keptRegions && emptied(region[:used]):
		p.free = append(p.free, region)
	default:
		unix.Munmap(region) // cannot fail for a region from Mmap
	}
}
