package journal

import (
	"errors"
	"fmt"
	"iter"
	"path/filepath"
)

// Records yields the records from seq `from` on that were durable when the iteration began, in order. `from` must be at
// least First(). Fields and Body of a record are valid until the next step. An error ends the iteration: ErrCut if the
// volume was removed, a *CorruptError at damage, or a read error. Records holds no lock while it reads, and never yields
// a record that is not durable.
func (j *Journal) Records(from uint64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		bound := j.Synced()
		if from > bound {
			return
		}
		w := walker{dir: j.o.Dir, salt: j.salt, bound: bound, read: readSegment}
		err := w.walk(max(from, 1), func(r *Record) bool { return yield(*r, nil) })
		if first := j.First(); err != nil && from < first {
			// Cut has removed the volume during the read.
			err = fmt.Errorf("read journal: %w: seq %d was requested, and the first one is %d (%w)", ErrCut, from, first, err)
		}
		if err != nil {
			yield(Record{}, err)
		}
	}
}

// Scan yields the records of the journal in dir from seq `from` on. It does not lock the directory and changes nothing.
// Fields and Body of a record are valid until the next step. Scan may or may not yield records that a server has written
// since Scan began. It ends with a *CorruptError at the first damage. The error's Verdict is Discard if a start would
// discard the rest; a group that a server is just writing looks like that. An archive lacks an identity file: the first
// record of a segment then determines the salt of the rest.
func Scan(dir string, from uint64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		id, err := readIdentity(dir)
		if err != nil {
			yield(Record{}, err)
			return
		}
		w := walker{dir: dir, salt: id.salt, read: readSegment}
		if err := w.walk(max(from, 1), func(r *Record) bool { return yield(*r, nil) }); err != nil {
			yield(Record{}, err)
		}
	}
}

// walker reads volumes in order.
type walker struct {
	dir   string
	salt  uint32 // anySalt for an archive
	bound uint64 // last seq to read, known to be durable; 0: read everything
	buf   []byte
	read  func(path string, buf []byte) ([]byte, error) // readSegment, except in a test
}

// UntilDiscarded yields records up to their end, or up to damage whose Verdict is Discard. So it yields the records that a
// start keeps.
func UntilDiscarded(records iter.Seq2[Record, error]) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for r, err := range records {
			if c, ok := errors.AsType[*CorruptError](err); ok && c.Verdict == Discard || !yield(r, err) {
				return
			}
		}
	}
}

// errStop ends a walk early. Functions outside this file never see it.
var errStop = errors.New("stop")

// walk calls visit with the records from seq `from` on until visit returns false or bound is reached.
func (w *walker) walk(from uint64, visit func(*Record) bool) error {
	vols, err := listVolumes(w.dir)
	if err != nil {
		return err
	}
	first := uint64(1)
	if len(vols) > 0 {
		first = vols[0].first
	}
	if w.bound != 0 && from < first {
		return fmt.Errorf("read journal: %w: seq %d was requested, and the first one is %d", ErrCut, from, first)
	}
	begin := 0
	for begin+1 < len(vols) && vols[begin+1].first <= from {
		begin++
	}
	for i := begin; i < len(vols); i++ {
		if w.bound != 0 && vols[i].first > w.bound {
			return nil
		}
		next := uint64(0)
		if i+1 < len(vols) {
			next = vols[i+1].first
		}
		if err := w.volume(&vols[i], first, next, from, visit); err == errStop {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// volume visits the records of v. next is the first seq of the next volume, or 0 for the last volume.
func (w *walker) volume(v *volumeDir, first, next, from uint64, visit func(*Record) bool) error {
	if err := v.load(); err != nil {
		return err
	}
	f := finding{
		first: first, seq: v.first, file: filepath.Join(v.path, seqName(v.first)), complete: next > 0,
		byRecord: w.bound,
		byCursor: first - 1, // no cursor is known; this value makes all rows about cursors inapplicable
	}
	begin := 0
	for begin+1 < len(v.segments) && v.segments[begin+1].first <= from {
		begin++
	}
	if begin > 0 {
		f.seq = v.segments[begin].first
	}
	for i := begin; i < len(v.segments); i++ {
		s := v.segments[i]
		if w.bound != 0 && s.first > w.bound {
			break
		}
		if s.first != f.seq {
			return w.damage(v, i, &f, damage{})
		}
		if err := w.segment(v, i, &f, from, visit); err != nil {
			return err
		}
	}
	if w.bound != 0 && w.bound >= f.seq && next == 0 || next > 0 && f.seq != next {
		f.kind, f.reason = apart, fmt.Sprintf("the volume's last record is %d", f.seq-1)
		return decide(&f).refusal(&f)
	}
	return nil
}

// segment visits the records of segment i of v, and moves f to their end.
//
// While a server writes to the segment, a reader may see room in one page and later records in the next. This looks like
// damage to durable records. The missing records have been written by now, so segment reads the file again, once at each
// offset. It does not happen below bound.
func (w *walker) segment(v *volumeDir, i int, f *finding, from uint64, visit func(*Record) bool) (err error) {
	s, again := v.segments[i], -1
	if w.buf, err = w.read(s.path, w.buf); err != nil {
		return err
	}
	sc := scanner{data: w.buf, salt: w.salt, next: s.first}
	for {
		for sc.step() {
			if w.bound != 0 && sc.rec.Seq > w.bound {
				return errStop
			}
			if sc.rec.Seq >= from && !visit(&sc.rec) {
				return errStop
			}
			if sc.rec.Seq == w.bound {
				return errStop
			}
		}
		f.seq, f.file, f.offset = sc.next, s.path, int64(sc.off)
		if sc.found.kind == clean {
			return nil
		}
		damaged := *f
		err := w.damage(v, i, &damaged, sc.found)
		var e *CorruptError
		if f.complete || w.bound != 0 || sc.off == again || !errors.As(err, &e) || e.Verdict != Refuse {
			return err
		}
		again = sc.off
		var failed error
		if w.buf, failed = w.read(s.path, w.buf); failed != nil || len(w.buf) < again {
			return errors.Join(err, failed)
		}
		sc.data, sc.found = w.buf, damage{}
	}
}

// damage returns the error for damage in segment i, whose bytes are in w.buf. If found is empty, the damage is before
// segment i. damage searches the segments from i on for proof.
func (w *walker) damage(v *volumeDir, i int, f *finding, found damage) error {
	scans := make([]segmentScan, len(v.segments))
	begin := i
	if found.kind != clean {
		scans[i] = scanBytes(w.buf, w.salt, v.segments[i].first, nil)
		begin++
	}
	for k := begin; k < len(v.segments); k++ {
		var err error
		if scans[k], w.buf, err = scanSegment(v.segments[k], w.salt, w.buf, nil); err != nil {
			return err
		}
	}
	rest := *v
	rest.leftover = "" // it prevents a start, but a reader can continue
	t := combine(&rest, i, scans)
	if found.kind == clean { // segment i does not begin where the previous segment ends; combine has not seen the previous segment
		s := v.segments[i]
		f.kind, f.reason = gap, fmt.Sprintf("the segment that begins at seq %d is missing; the next one begins at %d", f.seq, s.first)
		if s.first < f.seq {
			f.kind, f.file, f.offset = overlap, s.path, 0
			f.reason = fmt.Sprintf("the segment begins at seq %d, but earlier segments contain all records below %d", s.first, f.seq)
		}
		f.after = int(t.finding.seq - s.first)
	} else {
		f.kind, f.reason, f.after = found.kind, found.reason, t.finding.after
		if k := t.finding.kind; k == searchEnd || k == room {
			f.kind = k
		}
	}
	f.byRecord = max(f.byRecord, t.finding.byRecord, found.synced)
	if c := decide(f); c.verdict != Accept {
		return c.refusal(f)
	}
	return nil
}

// Volumes lists the volumes of the journal in dir by their names and sizes. It does not read records, so Last of the tail
// volume is 0. It does not lock the directory.
func Volumes(dir string) ([]Volume, error) {
	vols, err := loadVolumes(dir)
	if err != nil {
		return nil, err
	}
	out := make([]Volume, len(vols))
	for i := range vols {
		out[i] = Volume{First: vols[i].first, Bytes: vols[i].bytes(), Path: vols[i].path, Tail: i == len(vols)-1}
		if i > 0 {
			out[i-1].Last = vols[i].first - 1
		}
	}
	return out, nil
}
