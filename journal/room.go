package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const (
	// roomBytes is how many zero bytes the committer writes at a time after the end of the last segment. To fsync a
	// group that overwrites them takes about 0.6 times as long as to fsync one that makes the file longer, because
	// neither the length of the file nor its blocks change. With 128 KiB some twenty groups of a busy server share one
	// longer fsync.
	roomBytes = 128 << 10
	// pageBytes is a multiple at which room ends, so that no page is written twice to the disk for two pieces of room.
	pageBytes = 4 << 10
	// maxRoomGroupBytes is the size of a group above which no room is made: to write its bytes twice would take longer
	// than its fsync gains.
	maxRoomGroupBytes = 32 << 10
	// maxRoom is the most zero bytes that a killed process can leave: the room for one group, and that after it.
	maxRoom = maxRoomGroupBytes + roomBytes
)

var zeroBytes [roomBytes]byte

// makeRoom is called before a group is written, which ends at t. If the group is small and stays in its segment, but
// does not fit into the room of the segment, makeRoom makes room for it and for others. A group that fills the segment
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
	// The group may fit onto a disk that has no space for the room.
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

// removeRoom makes the last segment durably end with its last durable record. A later volume is not made before.
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

// openLast opens the segment of t for writing, beside the handle of tidwall/wal. It keeps the handle, so that a group
// needs a new file descriptor only in a new segment. The caller does not close it.
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

// closeLast closes the handle of openLast, if there is one. An error of close says nothing here: what was written
// through the handle is fsynced, or is no part of the journal.
func (c *committer) closeLast() {
	if c.last != nil {
		_ = c.last.Close()
		c.last = nil
	}
}
