package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"time"
)

// Run is the committer. It takes the waiting commands, writes them as one batch, syncs once, answers all of them and
// delivers them. It repeats this until ctx is done or Close is called. Then it commits the commands that Propose has
// taken, refuses all others with ErrClosed, writes a last mark and returns. It returns an error if writes were down at
// the end. The receiver of Deliver must not end before Run has returned.
//
// Group commit uses no timer and no setting: while one group is synced, the commands of the next group arrive. Callers
// that were just answered propose their next command, so the committer lets other goroutines run before it takes a group,
// and again as long as that brings more commands and the group is not full. After it has answered a group, it lets the
// callers send their answers before Deliver wakes its receiver. Otherwise the scheduler would run the receiver first,
// because it was woken last.
func (j *Journal) Run(ctx context.Context) error {
	if !j.life.begin() {
		return fmt.Errorf("run journal: %w, or Run was called before", ErrClosed)
	}
	defer close(j.life.stopped)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil && !j.life.quitting() {
		if j.commitWaiting() {
			continue
		}
		timer.Stop()
		if wait, ok := j.due(); ok {
			timer.Reset(wait)
		}
		select {
		case <-j.proposals.wake:
			if j.c.wal == nil && time.Since(j.c.repairedAt) >= minRepairWait {
				j.retry()
			}
		case <-timer.C:
			if j.c.wal == nil {
				j.retry()
			} else {
				j.commit(nil)
			}
		case <-ctx.Done():
		case <-j.life.quit:
		}
	}
	return j.stop()
}

// commitWaiting commits one group if commands are waiting, and reports whether it did.
func (j *Journal) commitWaiting() bool {
	if j.proposals.gather(runtime.Gosched) == 0 {
		return false
	}
	group := j.proposals.takeGroup(j.c.group[:0])
	if filled := j.fill(group); len(filled) > 0 {
		j.commit(filled)
	}
	clear(group)
	j.c.group = group[:0]
	return true
}

// fill calls Fill for the commands of a group that have one. It answers commands whose Fill failed, and returns the rest.
func (j *Journal) fill(group []*Proposal) []*Proposal {
	filled := group[:0]
	for _, p := range group {
		if err := p.Complete(); err != nil {
			j.answer([]*Proposal{p}, err)
			continue
		}
		filled = append(filled, p)
	}
	return filled
}

// due returns the time after which the committer must act even if nobody proposes: it retries a repair, or writes a mark
// that proves the last group. ok is false if neither is necessary.
func (j *Journal) due() (wait time.Duration, ok bool) {
	switch {
	case j.c.wal == nil:
		return j.c.repairWait - time.Since(j.c.repairedAt), true
	case j.c.lastVerb != MarkVerb:
		return idleMark, true
	}
	return 0, false
}

// commit makes a group durable, answers it and delivers it. For an empty group it writes a mark.
func (j *Journal) commit(group []*Proposal) {
	records := j.stamp(group)
	if err := j.write(records); err != nil {
		j.fail(group, fmt.Errorf("write group of %d records from seq %d: %w", len(records), records[0].Seq, err))
		return
	}
	for i, p := range group {
		p.Done(records[i].Seq, records[i].At, nil)
	}
	if len(group) > 0 {
		runtime.Gosched() // see Run
	}
	j.deliver(records)
	j.proposals.release(group)
	if j.c.tail.bytes >= j.o.VolumeBytes {
		if err := j.roll(); err != nil {
			j.fail(nil, fmt.Errorf("begin volume: %w", err))
		}
	}
}

func (j *Journal) deliver(records []Record) {
	if j.o.Deliver != nil && len(records) > 0 {
		j.o.Deliver(records)
	}
}

// stamp makes the records of a group, or one mark for an empty group. It returns a new slice each time, because the
// receiver of Deliver keeps it.
func (j *Journal) stamp(group []*Proposal) []Record {
	synced, at := j.synced.Load(), j.Now()
	if len(group) == 0 {
		return []Record{{Verb: MarkVerb, Salt: j.salt, Seq: synced + 1, At: at, Synced: synced}}
	}
	records := make([]Record, len(group))
	for i, p := range group {
		records[i] = Record{
			Verb: p.Verb, Salt: j.salt, Seq: synced + 1 + uint64(i), At: at, Synced: synced, Fields: p.Fields, Body: p.Body, Tag: p.Tag,
		}
	}
	return records
}

// write appends the records and makes them durable. It calls fsync once, plus once for the directory if a new segment
// began; tidwall/wal syncs a full segment before it begins the next.
//
// tidwall/wal does not report where a segment ends, and does not sync the directory. So write computes the ends of
// segments, see tail.full, and compares the length of the last file with the result. If another program has written
// within the room, only a reader notices it; the lock of the directory keeps other servers away.
func (j *Journal) write(records []Record) error {
	c, h := &j.c, &j.o.Hooks
	t, begun := c.tail, false
	if t.offset > int64(j.o.SegmentBytes) {
		t.begin(records[0].Seq)
		begun = true
	}
	last := &records[len(records)-1]
	c.batch.Clear()
	for i := range records {
		r := &records[i]
		c.text = AppendRecord(c.text[:0], r)
		c.batch.Write(r.Seq, c.text)
		n := int64(len(c.text) + uvarintLen(uint64(len(c.text))))
		t.offset += n
		t.bytes += n
		full := t.full(j.o.SegmentBytes)
		if full {
			t.begin(r.Seq + 1)
			begun = true
		}
		if !full && r != last {
			continue
		}
		if err := j.makeRoom(t); err != nil {
			return err
		}
		if err := h.Write(c.wal, &c.batch); err != nil {
			return err
		}
		if full {
			if err := c.buffer.next(c.wal, j.o.SegmentBytes); err != nil {
				return err
			}
		}
	}
	volume := filepath.Join(j.o.Dir, seqName(t.volume))
	j.appended.Store(last.Seq)
	size, err := j.lastSize(t)
	if err != nil {
		return err
	}
	if written := max(t.offset, c.room); size != written {
		return fmt.Errorf("segment %s of %s has %d bytes, but %d were written to it: another program writes to this file", seqName(t.segment), volume, size, written)
	}
	start := time.Now()
	if err := h.Sync(c.wal); err != nil {
		return err
	}
	j.stats.syncTime.add(time.Since(start))
	j.stats.syncs.Add(1)
	if begun {
		if err := h.syncPath(volume); err != nil {
			return err
		}
		j.stats.dirSyncs.Add(1)
	}
	j.advance(t, last, len(records))
	return nil
}

// lastSize returns the length of the segment of t. It does not call stat: after a stat, Linux gives the next write to the
// file a separate timestamp (multigrain timestamps), which the fsync of that write must store too.
func (j *Journal) lastSize(t tail) (int64, error) {
	f, err := j.openLast(t)
	if err != nil {
		return 0, err
	}
	return f.Seek(0, io.SeekEnd)
}

// advance records that the journal is durable up to t, whose last record is last.
func (j *Journal) advance(t tail, last *Record, records int) {
	c := &j.c
	j.stats.records.Add(uint64(records))
	j.stats.bytes.Add(uint64(t.bytes - c.tail.bytes))
	j.stats.groups.Add(1)
	if last.Verb == MarkVerb {
		j.stats.marks.Add(1)
	}
	c.tail, c.lastVerb = t, last.Verb
	j.lastAt.Store(last.At)
	j.synced.Store(last.Seq)
	j.volumes.grow(last.Seq, t.bytes)
}

// roll closes the full volume and begins the next one. All records of the full volume are durable already.
func (j *Journal) roll() error {
	c, first := &j.c, j.synced.Load()+1
	log := c.wal
	c.wal = nil
	err := errors.Join(j.removeRoom(), log.Close())
	c.closeLast()
	if err != nil {
		return err
	}
	if err := createVolume(&j.o.Hooks, j.o.Dir, first); err != nil {
		return err
	}
	j.stats.dirSyncs.Add(2)
	full := c.tail
	c.tail = tail{volume: first, segment: first}
	if err := j.openTail(); err != nil {
		c.tail = full // the new volume is empty: a repair removes it and continues in the old volume
		return err
	}
	j.volumes.add(Volume{First: first, Last: first - 1, Path: filepath.Join(j.o.Dir, seqName(first))})
	return nil
}

// answer answers a group that could not be stored with err, and releases its room.
func (j *Journal) answer(group []*Proposal, err error) {
	for _, p := range group {
		p.Done(0, 0, err)
	}
	j.proposals.release(group)
}
