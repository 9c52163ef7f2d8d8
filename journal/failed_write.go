package journal

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"
)

// fail is called when a group, a mark or a new volume could not be written. The journal makes no more calls on the
// handle: after a failed fsync the kernel may discard the dirty pages, and the next fsync would succeed. The journal does
// not close the handle either, because Close of tidwall/wal begins with an fsync. The garbage collector closes the file.
//
// Instead, the journal opens new handles, truncates its files to the durable records, and continues in a new segment. If
// the truncation is proven, the group is not stored, and its seqs are used again. No caller has seen them, because Done
// and Deliver are called after the fsync. If the truncation is not proven, the group may or may not be stored. Writes are
// then down until a later repair succeeds.
func (j *Journal) fail(group []*Proposal, cause error) {
	j.c.wal = nil
	j.stats.fault(cause)
	j.c.repairWait = minRepairWait
	truncated, mark, err := j.repair()
	answer := ErrNotStored
	if !truncated {
		answer = ErrUnknown
	}
	if err != nil {
		j.log.Error("journal: writes are down", "cause", cause, "repair", err, "group", len(group), "truncated", truncated)
		j.down(fmt.Errorf("%w: %w (and its repair: %w)", ErrFailed, cause, err))
	} else {
		j.log.Warn("journal: a failed write was undone; the journal goes on in a new segment", "cause", cause, "group", len(group),
			"seq", j.synced.Load()+1)
	}
	j.answer(group, fmt.Errorf("%w: %w", answer, cause))
	j.deliver(mark)
}

// down makes Propose refuse commands, and answers the commands that were taken but not written.
func (j *Journal) down(err error) {
	taken := j.proposals.fail(err)
	j.answer(taken, fmt.Errorf("%w: %w", ErrNotStored, err))
}

// retry makes another attempt at the repair.
func (j *Journal) retry() {
	_, mark, err := j.repair()
	if err != nil {
		j.c.repairWait = min(2*j.c.repairWait, maxRepairWait)
		j.log.Warn("journal: writes are still down", "repair", err, "again_in", j.c.repairWait)
		return
	}
	cause := j.proposals.resume()
	j.log.Info("journal: writes are up again", "cause", cause, "seq", j.synced.Load()+1)
	j.deliver(mark)
}

// repair truncates the journal to c.tail, begins a new segment and writes a mark to it. The mark proves that the disk
// accepts writes again; a truncation would succeed even on a full disk. truncated reports whether the truncation is
// proven, even if a later step fails. The caller delivers the mark.
func (j *Journal) repair() (truncated bool, mark []Record, err error) {
	c := &j.c
	c.repairedAt = time.Now()
	c.wal = nil
	c.closeLast() // a new file may replace the segment
	if err := j.truncateBack(); err != nil {
		return false, nil, fmt.Errorf("truncate to seq %d: %w", j.synced.Load(), err)
	}
	c.room = 0
	j.appended.Store(j.synced.Load())
	next := j.synced.Load() + 1
	if err := createSegment(&j.o.Hooks, filepath.Join(j.o.Dir, seqName(c.tail.volume)), next); err != nil {
		return true, nil, err
	}
	c.tail.segment, c.tail.offset = next, 0
	if err := j.openTail(); err != nil {
		return true, nil, err
	}
	mark = j.stamp(nil)
	if err := j.write(mark); err != nil {
		c.wal = nil
		return true, nil, fmt.Errorf("write a mark: %w", err)
	}
	j.stats.repairs.Add(1)
	return true, mark, nil
}

// truncateBack makes the files end at c.tail again and proves it. Through new handles, it removes or truncates everything
// after c.tail, and syncs the files. Then it reads the last segment, which must end with the last durable record.
func (j *Journal) truncateBack() error {
	h, t := &j.o.Hooks, j.c.tail
	if err := j.removeUnusedVolume(); err != nil {
		return err
	}
	v := volumeDir{first: t.volume, path: filepath.Join(j.o.Dir, seqName(t.volume))}
	if err := v.load(); err != nil {
		return err
	}
	i, found := slices.BinarySearchFunc(v.segments, t.segment, func(s segment, first uint64) int {
		if s.first < first {
			return -1
		} else if s.first > first {
			return 1
		}
		return 0
	})
	if t.offset == 0 {
		// No record of this segment is durable. The caller makes a new file with its name.
		return removeSegments(h, &v, i)
	}
	if !found || v.segments[i].size < t.offset {
		return fmt.Errorf("segment %s of %s is missing, or shorter than the %d bytes that were durable", seqName(t.segment), v.path, t.offset)
	}
	if err := truncateTail(h, &v, i+1, t.offset); err != nil {
		return err
	}
	scan, _, err := scanSegment(v.segments[i], j.salt, nil, nil)
	if err != nil {
		return err
	}
	if synced := j.synced.Load(); scan.found.kind != clean || scan.end != t.offset || scan.next != synced+1 {
		return &CorruptError{
			File: v.segments[i].path, Offset: scan.end, Seq: scan.next, Case: "repair", Verdict: Refuse, Next: NextRestore,
			Reason: fmt.Sprintf("the segment does not end with record %d at offset %d (%s)", synced, t.offset, scan.found.reason),
		}
	}
	return nil
}

// removeUnusedVolume removes the volume that a failed roll has left after the tail volume. It contains no records. The
// journal continues in the tail volume, and the name of the next volume would say that the tail volume ends earlier.
func (j *Journal) removeUnusedVolume() error {
	vols, err := listVolumes(j.o.Dir)
	if err != nil {
		return err
	}
	removed := false
	for i := range vols {
		v := &vols[i]
		if v.first <= j.c.tail.volume {
			continue
		}
		if err := v.load(); err != nil {
			return err
		}
		if v.bytes() > 0 {
			return fmt.Errorf("volume %s has records, but the journal ends before it", v.path)
		}
		if err := removeSegments(&j.o.Hooks, v, 0); err != nil {
			return err
		}
		if err := j.o.Hooks.Remove(v.path); err != nil {
			return err
		}
		removed = true
	}
	if removed {
		return j.o.Hooks.syncPath(j.o.Dir)
	}
	return nil
}
