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
)

var zeroBytes [roomBytes]byte

// makeRoom is called before a group is written, which ends at t. If the group is small and stays in its segment, but
// does not fit into the room of the segment, makeRoom makes room for it and for others. If the group fills the segment,
// makeRoom removes the room: a full segment ends with its last record.
func (j *Journal) makeRoom(t tail) error {
	c := &j.c
	if t.segment != c.tail.segment {
		return j.removeRoom()
	}
	from, end := max(c.room, c.tail.offset), min((t.offset+roomBytes)&^(pageBytes-1), int64(j.o.SegmentBytes))
	if t.offset <= c.room || t.offset-c.tail.offset > maxRoomGroupBytes || end <= t.offset {
		return nil
	}
	err := j.changeTail(func(f *os.File) error {
		for from < end {
			n := min(end-from, roomBytes)
			if err := j.o.Hooks.WriteAt(f, zeroBytes[:n], from); err != nil {
				return err
			}
			from += n
		}
		return nil
	})
	if err == nil {
		c.room = end
		return nil
	}
	// The group may fit onto a disk that has no space for the room.
	c.room = end
	if failed := j.removeRoom(); failed != nil {
		return fmt.Errorf("make room for records: %w", errors.Join(err, failed))
	}
	return nil
}

// removeRoom makes the last segment durably end with its last durable record: a later segment or volume is not made before.
func (j *Journal) removeRoom() error {
	c := &j.c
	if c.room > c.tail.offset {
		err := j.changeTail(func(f *os.File) error {
			if err := j.o.Hooks.Truncate(f, c.tail.offset); err != nil {
				return err
			}
			return j.o.Hooks.SyncFile(f)
		})
		if err != nil {
			return fmt.Errorf("remove room for records: %w", err)
		}
	}
	c.room = 0
	return nil
}

// changeTail calls change with the last segment.
func (j *Journal) changeTail(change func(*os.File) error) error {
	f, err := os.OpenFile(filepath.Join(j.o.Dir, seqName(j.c.tail.volume), seqName(j.c.tail.segment)), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(change(f), f.Close())
}
