//go:build unix && !aix && !solaris

package guest

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// pages are regions of memory for runs. A region has the addresses for all that a memory may become, so that growing
// moves nothing. The system gives pages when they are first used. After a run it gets them back, and the next run finds
// zeros. One goroutine uses them.
type pages struct{ free [][]byte }

// keptRegions bounds the regions that wait for the next run.
const keptRegions = 2

// take returns a region of zeros. The error says that the system has none.
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

// give takes a region back, of which the first bytes were used.
func (p *pages) give(region []byte, used int) {
	switch {
	case len(region) == 0:
	case len(p.free) < keptRegions && emptied(region[:used]):
		p.free = append(p.free, region)
	default:
		unix.Munmap(region) // it came from Mmap, which is all that could be wrong
	}
}
