package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// Run is the committer: it takes what waits, writes it as one batch, syncs once, answers all, delivers them, and so on,
// until ctx is done or Close is called. Then it commits what Propose has taken, refuses all others with ErrClosed,
// writes a last mark and returns; the error is nil unless writes were down at the end. The receiver of Deliver must run
// until Run has returned.
//
// There is no timer and no knob in the group commit: while one group is being synced the next one gathers by itself.
// One Gosched before a group is closed lets those run who were answered a moment ago and are about to propose again.
func (j *Journal) Run(ctx context.Context) error {
	j.mu.Lock()
	if j.running || j.closed {
		j.mu.Unlock()
		return fmt.Errorf("run journal: %w (or Run was called twice)", ErrClosed)
	}
	j.running = true
	j.mu.Unlock()
	defer close(j.stopped)

	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil && !j.quitting() {
		if j.commitWaiting() {
			continue
		}
		timer.Stop()
		if wait, ok := j.due(); ok {
			timer.Reset(wait)
		}
		select {
		case <-j.wake:
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
		case <-j.quit:
		}
	}
	return j.stop()
}

func (j *Journal) quitting() bool {
	select {
	case <-j.quit:
		return true
	default:
		return false
	}
}

// commitWaiting commits one group if anything waits.
func (j *Journal) commitWaiting() bool {
	j.mu.Lock()
	waiting := len(j.lanes[Control].queue)+len(j.lanes[Bulk].queue) > 0
	j.mu.Unlock()
	if !waiting {
		return false
	}
	runtime.Gosched()
	group := j.takeGroup(j.c.group[:0])
	j.commit(group)
	clear(group)
	j.c.group = group[:0]
	return true
}

// due says when the committer has to do something although nobody proposes: repair, or prove the last group by a mark.
func (j *Journal) due() (wait time.Duration, ok bool) {
	switch {
	case j.c.wal == nil:
		return j.c.repairWait - time.Since(j.c.repairedAt), true
	case j.c.lastVerb != MarkVerb:
		return idleMark, true
	}
	return 0, false
}

// commit makes the group durable, answers it and delivers it. A nil group is a mark.
func (j *Journal) commit(group []*Proposal) {
	records := j.stamp(group)
	if err := j.write(records); err != nil {
		j.fail(group, fmt.Errorf("write group of %d records from seq %d: %w", len(records), records[0].Seq, err))
		return
	}
	for i, p := range group {
		p.Done(records[i].Seq, records[i].At, nil)
	}
	j.deliver(records)
	j.release(group)
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

// stamp makes records of a group, or one mark. The slice is new each time, as the receiver of Deliver keeps it.
func (j *Journal) stamp(group []*Proposal) []Record {
	synced, at := j.synced.Load(), j.Now()
	if len(group) == 0 {
		return []Record{{Verb: MarkVerb, Seq: synced + 1, At: at, Synced: synced}}
	}
	records := make([]Record, len(group))
	for i, p := range group {
		records[i] = Record{
			Verb: p.Verb, Seq: synced + 1 + uint64(i), At: at, Synced: synced, Fields: p.Fields, Body: p.Body, Tag: p.Tag,
		}
	}
	return records
}

// write appends the records in one batch and makes them durable: one fsync, and one of the directory if a segment was
// begun. When it fails, nothing is known but that c.tail was durable before.
//
// It follows tidwall/wal's rule for where a segment ends, since the library neither reports that nor syncs the
// directory; that the two agree is checked by the length of the last file.
func (j *Journal) write(records []Record) error {
	c, h := &j.c, &j.o.Hooks
	t, begun := c.tail, false
	if t.offset > int64(j.o.SegmentBytes) {
		t.segment, t.offset, begun = records[0].Seq, 0, true
	}
	c.batch.Clear()
	for i := range records {
		r := &records[i]
		c.text = AppendRecord(c.text[:0], r)
		c.batch.Write(r.Seq, c.text)
		n := int64(len(c.text) + uvarintLen(uint64(len(c.text))))
		t.offset += n
		t.bytes += n
		if t.offset >= int64(j.o.SegmentBytes) {
			t.segment, t.offset, begun = r.Seq+1, 0, true
		}
	}
	last := &records[len(records)-1]
	volume := filepath.Join(j.o.Dir, seqName(t.volume))
	if err := h.Write(c.wal, &c.batch); err != nil {
		return err
	}
	j.appended.Store(last.Seq)
	info, err := os.Stat(filepath.Join(volume, seqName(t.segment)))
	if err != nil {
		return err
	}
	if info.Size() != t.offset {
		return fmt.Errorf("segment %s of %s has %d bytes, not %d: somebody else writes it", info.Name(), volume, info.Size(), t.offset)
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

// advance makes t the durable end, and last its record.
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
	j.vmu.Lock()
	v := &j.volumes[len(j.volumes)-1]
	v.Last, v.Bytes = last.Seq, t.bytes
	j.vmu.Unlock()
}

// roll closes the full volume, all of which is durable, and only then begins its successor.
func (j *Journal) roll() error {
	c, first := &j.c, j.synced.Load()+1
	log := c.wal
	c.wal = nil
	if err := log.Close(); err != nil {
		return err
	}
	if err := createVolume(&j.o.Hooks, j.o.Dir, first); err != nil {
		return err
	}
	j.stats.dirSyncs.Add(2)
	full := c.tail
	c.tail = tail{volume: first, segment: first}
	if err := j.openTail(); err != nil {
		c.tail = full // the successor holds nothing; a repair goes on in the old volume and removes it
		return err
	}
	j.vmu.Lock()
	j.volumes = append(j.volumes, Volume{First: first, Last: first - 1, Path: filepath.Join(j.o.Dir, seqName(first))})
	j.vmu.Unlock()
	return nil
}

// stop ends the committer: see Run.
func (j *Journal) stop() error {
	j.mu.Lock()
	j.closed = true
	for i := range j.lanes {
		j.lanes[i].refuse(ErrClosed)
	}
	j.mu.Unlock()
	for j.commitWaiting() {
	}
	if j.c.wal == nil {
		j.retry() // the last chance to leave a tail that is proven
	} else if j.c.lastVerb != MarkVerb {
		j.commit(nil)
	}
	if j.c.wal == nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		return fmt.Errorf("stop journal: %w", j.failed)
	}
	err := j.c.wal.Close()
	j.c.wal = nil
	if err != nil {
		return fmt.Errorf("stop journal: %w", err)
	}
	return nil
}

// Close stops Run, waits for it, and gives the directory back. It may be called more than once.
func (j *Journal) Close() error {
	j.closing.Do(func() {
		close(j.quit)
		j.mu.Lock()
		running := j.running
		j.closed = true
		if !running {
			for i := range j.lanes {
				j.lanes[i].refuse(ErrClosed)
			}
		}
		j.mu.Unlock()
		var err error
		if running {
			<-j.stopped
		} else {
			err = j.abandon()
		}
		j.closeEr = errors.Join(err, j.lock.Close())
	})
	return j.closeEr
}

// abandon closes a journal whose Run was never called: what was taken is answered, nothing was written.
func (j *Journal) abandon() error {
	for {
		group := j.takeGroup(nil)
		if len(group) == 0 {
			return j.c.wal.Close()
		}
		j.answer(group, fmt.Errorf("%w: %w", ErrNotStored, ErrClosed))
	}
}

// answer answers a group that could not be stored with err, and gives its room back.
func (j *Journal) answer(group []*Proposal, err error) {
	for _, p := range group {
		p.Done(0, 0, err)
	}
	j.release(group)
}
