package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const (
	// roomBytes is the number of zero bytes that the committer writes at a time after the end of the last segment. A
	// group that overwrites them needs about 0.6 times as long to fsync as a group that extends the file, because neither
	// the length of the file nor its blocks change. With 128 KiB some twenty groups of a busy server share one longer
	// fsync.
	roomBytes = 128 << 10
	// Room ends at a multiple of pageBytes, so that two pieces of room never write the same page to the disk twice.
	pageBytes = 4 << 10
	// maxRoomGroupBytes is the size above which a group gets no room: writing its bytes twice would take longer than its
	// fsync saves.
	maxRoomGroupBytes = 32 << 10
	// maxRoom bounds the zero bytes that a killed process can leave: the room for one group and the room after it.
	maxRoom = maxRoomGroupBytes + roomBytes
)

var zeroBytes [roomBytes]byte

// makeRoom is called before a group that ends at t is written. If the group is small and stays in its segment, but
// exceeds the room of the segment, makeRoom makes room for this group and later ones. A group that fills the segment
// overwrites all of its room, because room ends where a segment is full.
func (j *Journal) makeRoom(t tail) error {
	c := &j.c
	if t.segment != c.tail.segment {
		c.room = 0
		return nil
	}
	from, end := max(c.room, c.tail.offset), min((t.offset+roomBytes)&^(pageBytes-1), int64(j.o.SegmentBytes))
	if t.offset <= c.room || t.offset-c.tail.offset > maxRoomGroupBytes || end <= t.offset || t.segment == c.withoutRoom {
		return nil
	}
	c.room = end
	err := j.writeZeros(from, end)
	if err == nil {
		return nil
	}
	// The group may still fit on a disk that lacks space for the room.
	j.log.Warn("journal: no room could be made; groups are appended to the last segment", "segment", seqName(t.segment), "err", err)
	c.withoutRoom = t.segment
	if failed := j.removeRoom(); failed != nil {
		return fmt.Errorf("make room for records: %w", errors.Join(err, failed))
	}
	return nil
}

// writeZeros writes zero bytes to the last segment, from offset from to offset end.
func (j *Journal) writeZeros(from, end int64) error {
	f, err := j.openLast(j.c.tail)
	if err != nil {
		return err
	}
	for from < end {
		n := min(end-from, roomBytes)
		if err := j.o.Hooks.WriteAt(f, zeroBytes[:n], from); err != nil {
			return err
		}
		from += n
	}
	return nil
}

// removeRoom makes the last segment durably end with its last durable record. This happens before a later volume is made.
func (j *Journal) removeRoom() error {
	c := &j.c
	if c.room > c.tail.offset {
		if err := truncateSegment(&j.o.Hooks, j.segmentPath(c.tail), c.tail.offset); err != nil {
			return fmt.Errorf("remove room for records: %w", err)
		}
	}
	c.room = 0
	return nil
}

// segmentPath is the file of the segment of t.
func (j *Journal) segmentPath(t tail) string {
	return filepath.Join(j.o.Dir, seqName(t.volume), seqName(t.segment))
}

// openLast opens the segment of t for writing, in addition to the handle of tidwall/wal. It keeps the handle, so that a
// group needs a new file descriptor only in a new segment. The caller must not close it.
func (j *Journal) openLast(t tail) (*os.File, error) {
	c := &j.c
	path := j.segmentPath(t)
	if c.last != nil && c.last.Name() == path {
		return c.last, nil
	}
	c.closeLast()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	c.last = f
	return f, nil
}

// closeLast closes the handle of openLast, if it is open. An error of close is irrelevant: the bytes written through the
// handle are already fsynced, or are not part of the journal.
func (c *committer) closeLast() {
	if c.last != nil {
		_ = c.last.Close()
		c.last = nil
	}
}
