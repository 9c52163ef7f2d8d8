package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/daybookq/daybook/internal/filelock"
)

// Open opens the journal in o.Dir, or makes a new one, in these steps:
//
//  1. It locks the directory (filelock.ErrLocked).
//  2. It compares the identity of the journal with the store's record of it (ErrForeign).
//  3. It surveys the tail. By the tail table it accepts the tail, discards part of it, or refuses to start
//     (*CorruptError, ErrCursor).
//  4. It starts the clock (ErrClockAhead).
//  5. It discards the records that were never acknowledged.
//  6. It rewrites all records that are not proven to be durable, and calls fsync on every accepted segment and on
//     every directory. Records that a killed process has written but not synced may only be in the page cache, where
//     they read back correctly. If the caller applied them before they are durable, a power cut could leave the store
//     ahead of its journal.
//  7. It opens the tail volume for appending.
//
// The caller may read and apply records only after Open has returned. A refused start changes no file.
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
	if _, err := os.Stat(o.Dir); errors.Is(err, fs.ErrNotExist) {
		if err := o.checkIdentity(""); err != nil {
			return nil, err
		}
	}
	if err := MakeDir(o.Dir, o.Hooks.syncPath); err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	if j.lock, err = filelock.Open(o.Dir); err != nil {
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
	id, err := j.identify(vols)
	if err != nil {
		return nil, err
	}
	j.uuid, j.salt = id.uuid, id.salt
	if err := j.recover(vols); err != nil {
		return nil, err
	}
	return j, nil
}

// identify returns the journal's UUID and salt. It makes them for a new journal.
func (j *Journal) identify(vols []volumeDir) (identity, error) {
	id, err := readIdentity(j.o.Dir)
	if errors.Is(err, errIdentity) || err == nil && id.uuid == "" && len(vols) > 0 {
		return id, lostIdentity(j.o.Dir, j.o.StoreJournal, vols, err)
	} else if err != nil {
		return id, err
	}
	if err := j.o.checkIdentity(id.uuid); err != nil {
		return id, err
	}
	switch {
	case id.uuid == "":
		return createIdentity(&j.o.Hooks, j.o.Dir)
	case len(vols) == 0:
		// The process that made the file may have been killed before the file's name was durable. A power cut must not
		// remove the name and leave a volume.
		return id, j.o.Hooks.syncPath(j.o.Dir)
	}
	return id, nil
}

// checkIdentity returns ErrForeign if the journal does not belong to the store. uuid is "" for a new journal.
func (o *Options) checkIdentity(uuid string) error {
	switch {
	case uuid == "" && o.StoreJournal != "":
		return fmt.Errorf("%w: the store belongs to journal %s, and there is no journal in %s; next step: %s",
			ErrForeign, o.StoreJournal, o.Dir, nextPair)
	case uuid != o.StoreJournal && o.StoreJournal != "":
		return fmt.Errorf("%w: the store belongs to journal %s, and the journal in %s is %s; next step: %s",
			ErrForeign, o.StoreJournal, o.Dir, uuid, nextPair)
	case uuid == "" && o.Applied > 0:
		return fmt.Errorf("%w: the store's cursor is %d, and there is no journal in %s; next step: %s",
			ErrCursor, o.Applied, o.Dir, nextPair)
	}
	return nil
}

// recover takes the steps of Open from step 3 on.
func (j *Journal) recover(vols []volumeDir) error {
	t := tailState{at: -1, finding: finding{seq: 1, first: 1, byCursor: j.o.Applied, file: j.o.Dir}}
	if len(vols) > 0 {
		var err error
		if t, err = surveyTail(vols, j.salt, j.o.Applied); err != nil {
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
		j.log.Warn("journal: discarding the end of the journal; no request was answered with it", "case", c.name, "seq", f.seq, "file", f.file, "offset", f.offset,
			"reason", f.reason)
		j.stats.setDiscarded(fmt.Sprintf("the records from seq %d on: %s (file %s, offset %d; case %q)", f.seq, f.reason, f.file, f.offset, c.name))
	}
	if f.kind == room {
		j.log.Info("journal: removing the room for records that a server left which did not stop cleanly", "file", f.file, "offset", f.offset)
	}
	if c.verdict == Discard || f.kind == room {
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
	if err := rewriteTail(&j.o.Hooks, v, j.salt, max(f.byRecord, f.byCursor)); err != nil {
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
	j.c.lastVerb = MarkVerb // this process has written nothing, so no mark is due
	return j.openTail()
}

// startClock starts journal time at `last`, the time of the last record, or at the wall clock if that is later.
func (j *Journal) startClock(last int64) error {
	clock := &Clock{Wall: j.o.Wall}
	wall, _ := clock.read()
	wall /= int64(time.Millisecond)
	if j.o.Clock != nil {
		wall = j.o.Clock()
	}
	if ahead := last - wall; ahead > MaxClockAhead.Milliseconds() && !j.o.AllowClockAhead {
		return fmt.Errorf("%w: the last record has the time %s, %d hours ahead; next step: correct the wall clock, or start with the flag that allows this",
			ErrClockAhead, time.UnixMilli(last).UTC().Format(time.RFC3339), ahead/time.Hour.Milliseconds())
	}
	if j.o.Clock == nil {
		j.clock = clock
		j.clock.Start(max(last, 0))
		j.o.Clock = j.clock.Now
	}
	return nil
}

// clearRemoved deletes the volumes that an interrupted Cut has renamed but not deleted.
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

// truncateTail removes the segments of v after the first keep segments, last first. Then it truncates the last segment
// that it keeps to offset. After a crash in between, the next start makes the same decision about the rest.
func truncateTail(h *Hooks, v *volumeDir, keep int, offset int64) error {
	if err := removeSegments(h, v, keep); err != nil || keep == 0 {
		return err
	}
	return truncateSegment(h, v.segments[keep-1].path, offset)
}

// removeSegments durably removes the segments of v after the first keep segments, last first.
func removeSegments(h *Hooks, v *volumeDir, keep int) error {
	for i := len(v.segments) - 1; i >= keep; i-- {
		if err := h.Remove(v.segments[i].path); err != nil {
			return err
		}
	}
	return h.syncPath(v.path)
}

// truncateSegment durably truncates the file to offset, through a new handle.
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

// rewriteTail rewrites the records of v after seq proven with the same bytes, so that the next fsync covers them. An
// earlier process may have ended because an fsync failed. The kernel then marks the pages clean although they are not on
// the disk: they read back correctly, a new fsync does not write them, and a power cut loses them. The records up to
// proven need no rewrite: the process that synced them continued afterwards.
func rewriteTail(h *Hooks, v *volumeDir, salt uint32, proven uint64) error {
	var buf []byte
	for i := len(v.segments) - 1; i >= 0; i-- {
		s := v.segments[i]
		var err error
		if buf, err = readSegment(s.path, buf); err != nil {
			return err
		}
		sc := scanner{data: buf, salt: salt, next: s.first}
		for sc.next <= proven && sc.step() {
		}
		if sc.off < len(buf) {
			if err := writeAgain(h, s.path, buf[sc.off:], int64(sc.off)); err != nil {
				return err
			}
		}
		if s.first <= proven {
			return nil // proven covers all earlier segments
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

// openTail opens the tail volume for appending. It checks that tidwall/wal will append after the last durable record.
func (j *Journal) openTail() error {
	path := filepath.Join(j.o.Dir, seqName(j.c.tail.volume))
	log, err := j.o.Hooks.OpenLog(path, j.o.SegmentBytes)
	if err != nil {
		return fmt.Errorf("open volume %s: %w", path, err)
	}
	last, err := log.LastIndex()
	if err != nil || last != j.synced.Load() {
		return errors.Join(fmt.Errorf("open volume %s: tidwall/wal ends with index %d, and the journal with record %d (%v)", path, last, j.synced.Load(), err), log.Close())
	}
	j.c.wal = log
	return nil
}
