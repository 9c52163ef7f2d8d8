package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Open opens the journal in o.Dir, or makes one. In this order:
//
//  1. lock the directory (ErrLocked);
//  2. read the identity, compare it with the store's (ErrForeign);
//  3. survey the tail and decide by the tail table: accept, discard, or refuse (*CorruptError, ErrCursor);
//  4. discard what no request was answered with;
//  5. write again what nobody proves durable, and fsync every accepted segment and every directory. What a killed
//     process had written but not synced may sit in the page cache and read back fine; were it applied before it is
//     durable, a power cut would leave the store ahead of its journal;
//  6. start the clock (ErrClockAhead), open the tail volume for appending.
//
// Only then may the caller read and apply. A refused start changes nothing on disk.
func Open(o Options) (_ *Journal, err error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	j := &Journal{
		o: o, log: o.Logger,
		proposals: proposals{wake: make(chan struct{}, 1)},
		life:      lifecycle{quit: make(chan struct{}), stopped: make(chan struct{})},
	}
	j.proposals.lanes[Control].limit, j.proposals.lanes[Bulk].limit = MaxControlInFlightBytes, o.inFlightBytes
	if err := MakeDir(o.Dir, o.Hooks.syncPath); err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	if j.lock, err = LockDir(o.Dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, j.lock.Close())
		}
	}()
	vols, err := loadVolumes(o.Dir)
	if err != nil {
		return nil, err
	}
	if j.uuid, err = j.identify(len(vols)); err != nil {
		return nil, err
	}
	if err := j.recover(vols); err != nil {
		return nil, err
	}
	return j, nil
}

// identify returns the journal's UUID; it makes one for a journal that holds nothing yet.
func (j *Journal) identify(volumes int) (string, error) {
	uuid, err := readIdentity(j.o.Dir)
	if err != nil {
		return "", err
	}
	switch {
	case uuid == "" && volumes > 0:
		return "", fmt.Errorf("%w: %s holds volumes but no file %q; next step: restore that file from a copy",
			ErrForeign, j.o.Dir, identityName)
	case uuid != j.o.StoreJournal && j.o.StoreJournal != "":
		return "", fmt.Errorf("%w: the store remembers %s, %s holds %q; next step: %s",
			ErrForeign, j.o.StoreJournal, j.o.Dir, uuid, nextPair)
	case uuid == "" && j.o.Applied > 0:
		return "", fmt.Errorf("%w: its cursor is %d, %s holds no journal; next step: %s",
			ErrCursor, j.o.Applied, j.o.Dir, nextPair)
	case uuid == "":
		return createIdentity(&j.o.Hooks, j.o.Dir)
	case volumes == 0: // whoever made it may have been ended before its name was durable, and no volume may outlive it
		return uuid, j.o.Hooks.syncPath(j.o.Dir)
	}
	return uuid, nil
}

// recover does steps 3 to 6 of Open.
func (j *Journal) recover(vols []volumeDir) error {
	t := tailState{at: -1, finding: finding{seq: 1, first: 1, byCursor: j.o.Applied, file: j.o.Dir}}
	if len(vols) > 0 {
		var err error
		if t, err = surveyTail(vols, j.o.Applied); err != nil {
			return err
		}
	}
	f := &t.finding
	c := decide(f)
	if c.verdict == Refuse {
		return c.refusal(f)
	}
	if err := j.startClock(t.at); err != nil {
		return err
	}
	if err := j.clearRemoved(); err != nil {
		return err
	}
	if len(vols) == 0 {
		if err := createVolume(&j.o.Hooks, j.o.Dir, 1); err != nil {
			return err
		}
		vols = []volumeDir{{first: 1, path: filepath.Join(j.o.Dir, seqName(1))}}
	}
	v := &vols[len(vols)-1]
	if c.verdict == Discard {
		j.log.Warn("journal: discarding a tail that no request was answered with", "case", c.name, "seq", f.seq, "file", f.file, "offset", f.offset,
			"reason", f.reason)
		j.stats.setDiscarded(fmt.Sprintf("seq %d on: %s (file %s, offset %d; case %q)", f.seq, f.reason, f.file, f.offset, c.name))
		if err := truncateTail(&j.o.Hooks, v, t.keep, t.offset); err != nil {
			return fmt.Errorf("discard tail: %w", err)
		}
	}
	if t.keep == 0 {
		if err := createSegment(&j.o.Hooks, v.path, v.first); err != nil {
			return err
		}
	}
	if err := v.load(); err != nil {
		return err
	}
	if err := rewriteTail(&j.o.Hooks, v, max(f.byRecord, f.byCursor)); err != nil {
		return fmt.Errorf("write the tail again: %w", err)
	}
	if err := syncVolumes(&j.o.Hooks, j.o.Dir, vols); err != nil {
		return err
	}
	last := v.segments[len(v.segments)-1]
	j.c.tail = tail{volume: v.first, segment: last.first, offset: last.size, bytes: v.bytes()}
	j.appended.Store(f.seq - 1)
	j.synced.Store(f.seq - 1)
	j.lastAt.Store(max(t.at, 0))
	for i := range vols {
		last := f.seq - 1
		if i+1 < len(vols) {
			last = vols[i+1].first - 1
		}
		j.volumes.add(Volume{First: vols[i].first, Last: last, Bytes: vols[i].bytes(), Path: vols[i].path})
	}
	j.c.lastVerb = MarkVerb // nothing was written by this process, so there is nothing to prove
	return j.openTail()
}

// startClock begins journal time at max(last at, wall).
func (j *Journal) startClock(last int64) error {
	clock := &Clock{Wall: j.o.Wall}
	wall, _ := clock.read()
	wall /= int64(time.Millisecond)
	if j.o.Clock != nil {
		wall = j.o.Clock()
	}
	if ahead := last - wall; ahead > MaxClockAhead.Milliseconds() && !j.o.AllowClockAhead {
		return fmt.Errorf("%w: the last record is of %s, %d hours ahead; next step: set the wall clock right, or start with the flag that allows it",
			ErrClockAhead, time.UnixMilli(last).UTC().Format(time.RFC3339), ahead/time.Hour.Milliseconds())
	}
	if j.o.Clock == nil {
		j.clock = clock
		j.clock.Start(max(last, 0))
		j.o.Clock = j.clock.Now
	}
	return nil
}

// clearRemoved deletes the volumes that a Cut which was interrupted had removed from the list.
func (j *Journal) clearRemoved() error {
	entries, err := os.ReadDir(j.o.Dir)
	if err != nil {
		return fmt.Errorf("clear removed volumes: %w", err)
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), removedSuffix); ok {
			if _, ok := parseSeqName(name); !ok {
				continue
			}
			if err := os.RemoveAll(filepath.Join(j.o.Dir, e.Name())); err != nil {
				return fmt.Errorf("clear removed volumes: %w", err)
			}
		}
	}
	return nil
}

// truncateTail removes v's segments after the first keep, the last one first, and what the last one kept holds after
// offset. In this order a crash in between leaves a tail about which the next start decides the same.
func truncateTail(h *Hooks, v *volumeDir, keep int, offset int64) error {
	if err := removeSegments(h, v, keep); err != nil || keep == 0 {
		return err
	}
	return truncateSegment(h, v.segments[keep-1].path, offset)
}

// removeSegments removes v's segments after the first keep, the last one first, durably.
func removeSegments(h *Hooks, v *volumeDir, keep int) error {
	for i := len(v.segments) - 1; i >= keep; i-- {
		if err := h.Remove(v.segments[i].path); err != nil {
			return err
		}
	}
	return h.syncPath(v.path)
}

// truncateSegment truncates the file to offset, durably, through a handle of its own.
func truncateSegment(h *Hooks, path string, offset int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err = h.Truncate(f, offset); err == nil {
		err = h.SyncFile(f)
	}
	return errors.Join(err, f.Close())
}

// rewriteTail writes the records of v after seq proven again, as they are, so that the fsync which follows covers them.
// A process before this one may have had an fsync fail, and ended for it. The kernel calls the pages clean then, though
// they are not on the disk: they read back well, a new fsync has nothing to write, and they vanish with the power. What
// proven covers was fsynced by somebody who went on.
func rewriteTail(h *Hooks, v *volumeDir, proven uint64) error {
	var buf []byte
	for i := len(v.segments) - 1; i >= 0; i-- {
		s := v.segments[i]
		var err error
		if buf, err = readSegment(s.path, buf); err != nil {
			return err
		}
		sc := scanner{data: buf, next: s.first}
		for sc.next <= proven && sc.step() {
		}
		if sc.off < len(buf) {
			if err := writeAgain(h, s.path, buf[sc.off:], int64(sc.off)); err != nil {
				return err
			}
		}
		if s.first <= proven {
			return nil // what is before it is covered
		}
	}
	return nil
}

func writeAgain(h *Hooks, path string, b []byte, offset int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(h.WriteAt(f, b, offset), f.Close())
}

// syncVolumes makes all segments and all directories durable.
func syncVolumes(h *Hooks, dir string, vols []volumeDir) error {
	for i := range vols {
		for _, s := range vols[i].segments {
			if err := h.syncPath(s.path); err != nil {
				return fmt.Errorf("sync segment %s: %w", s.path, err)
			}
		}
		if err := h.syncPath(vols[i].path); err != nil {
			return fmt.Errorf("sync volume %s: %w", vols[i].path, err)
		}
	}
	for _, d := range []string{filepath.Join(dir, identityName), dir, filepath.Dir(dir)} {
		if err := h.syncPath(d); err != nil {
			return fmt.Errorf("sync directory %s: %w", d, err)
		}
	}
	return nil
}

// openTail opens the tail volume for appending and checks that tidwall/wal and this package mean the same place.
func (j *Journal) openTail() error {
	path := filepath.Join(j.o.Dir, seqName(j.c.tail.volume))
	log, err := j.o.Hooks.OpenLog(path, j.o.SegmentBytes)
	if err != nil {
		return fmt.Errorf("open volume %s: %w", path, err)
	}
	last, err := log.LastIndex()
	if err != nil || last != j.synced.Load() {
		return errors.Join(fmt.Errorf("open volume %s: its last index is %d, ours %d (%v)", path, last, j.synced.Load(), err), log.Close())
	}
	j.c.wal = log
	return nil
}
