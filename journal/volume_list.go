package journal

import (
	"slices"
	"sync"
)

// volumeList is the list of the volumes of an open journal.
type volumeList struct {
	// cutting is held by one Cut at a time, including while it changes files.
	cutting sync.Mutex

	mu sync.Mutex // guards volumes
	// Invariant: after Open, volumes is never empty. It is ascending, and its last element is the tail volume.
	volumes []Volume
}

// all returns a copy of the list.
func (l *volumeList) all() []Volume {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := slices.Clone(l.volumes)
	out[len(out)-1].Tail = true
	return out
}

// first returns the first seq of the oldest volume.
func (l *volumeList) first() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.volumes[0].First
}

// size returns the number of volumes and the number of bytes in them.
func (l *volumeList) size() (n int, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.volumes {
		bytes += l.volumes[i].Bytes
	}
	return len(l.volumes), bytes
}

// add adds a new tail volume.
func (l *volumeList) add(v Volume) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.volumes = append(l.volumes, v)
}

// grow records the last seq and the length of the tail volume.
func (l *volumeList) grow(last uint64, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := &l.volumes[len(l.volumes)-1]
	v.Last, v.Bytes = last, bytes
}

// removable returns the volumes that Cut may remove, oldest first. All their records are at or below applied. The newest
// of these volumes are left out, so that at least retain bytes of them stay. The tail volume always stays, and so does
// the last volume that has a record.
func (l *volumeList) removable(applied uint64, retain int64) []Volume {
	l.mu.Lock()
	defer l.mu.Unlock()
	covered, bytes := 0, int64(0)
	for covered+1 < len(l.volumes) && l.volumes[covered].Last <= applied && l.volumes[covered+1].Last >= l.volumes[covered+1].First {
		bytes += l.volumes[covered].Bytes
		covered++
	}
	removed := 0
	for removed < covered && bytes-l.volumes[removed].Bytes >= retain {
		bytes -= l.volumes[removed].Bytes
		removed++
	}
	return slices.Clone(l.volumes[:removed])
}

// removeFirst removes the oldest volume from the list.
func (l *volumeList) removeFirst() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.volumes = l.volumes[1:]
}

// putBack undoes removeFirst.
func (l *volumeList) putBack(v Volume) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.volumes = append([]Volume{v}, l.volumes...)
}

// Volumes lists the volumes of this journal.
func (j *Journal) Volumes() []Volume { return j.volumes.all() }

// First is the seq of the oldest record that can still be read; Synced()+1 when there is none.
func (j *Journal) First() uint64 { return j.volumes.first() }
