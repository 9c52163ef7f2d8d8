package journal

import (
	"errors"
	"fmt"
	"iter"
	"path/filepath"
)

// Records yields the records from seq `from`, at least First(), to what was synced when the iteration began, in order.
// Fields and Body of a record are valid until the next step. An error ends it: ErrCut if the volume has left, a
// *CorruptError at damage, or what reading returned. It takes no lock while it reads, and never sees a record that is
// not durable.
func (j *Journal) Records(from uint64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		bound := j.Synced()
		if from > bound {
			return
		}
		w := walker{dir: j.o.Dir, bound: bound}
		err := w.walk(max(from, 1), func(r *Record) bool { return yield(*r, nil) })
		if first := j.First(); err != nil && from < first {
			// What it could not read was in a volume that was being removed.
			err = fmt.Errorf("read journal: %w: seq %d was asked for, %d is the first (%w)", ErrCut, from, first, err)
		}
		if err != nil {
			yield(Record{}, err)
		}
	}
}

// Scan yields the records of the journal in dir from seq `from` on, without the lock and without changing anything. It
// ends with a *CorruptError at the first damage; its Verdict is Discard where a start would discard the rest (in a
// journal that is being written, the group that is on its way looks like that). Fields and Body of a record are valid
// until the next step.
func Scan(dir string, from uint64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		w := walker{dir: dir}
		if err := w.walk(max(from, 1), func(r *Record) bool { return yield(*r, nil) }); err != nil {
			yield(Record{}, err)
		}
	}
}

// walker reads volumes in order.
type walker struct {
	dir   string
	bound uint64 // last seq to read, which is known to have been durable; 0 means all there is
	buf   []byte
}

// errStop ends a walk early; it does not leave this file.
var errStop = errors.New("stop")

// walk visits the records from `from` on, until visit returns false or bound is reached.
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
		return fmt.Errorf("read journal: %w: seq %d was asked for, %d is the first", ErrCut, from, first)
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

// volume visits the records of v; next is the first seq of its successor, 0 if it has none.
func (w *walker) volume(v *volumeDir, first, next, from uint64, visit func(*Record) bool) error {
	if err := v.load(); err != nil {
		return err
	}
	f := finding{
		first: first, seq: v.first, file: filepath.Join(v.path, seqName(v.first)), complete: next > 0,
		byRecord: w.bound,
		byCursor: first - 1, // none is known; this one proves nothing and makes no row hold
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
		var err error
		if w.buf, err = readSegment(s.path, w.buf); err != nil {
			return err
		}
		sc := scanner{data: w.buf, next: s.first}
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
		if sc.found.kind != clean {
			return w.damage(v, i, &f, sc.found)
		}
	}
	if w.bound != 0 && w.bound >= f.seq && next == 0 || next > 0 && f.seq != next {
		f.kind, f.reason = apart, fmt.Sprintf("the volume ends with record %d", f.seq-1)
		return decide(&f).refusal(&f)
	}
	return nil
}

// damage makes the error of a damage in segment i, or before it if found is empty, with what the segments from there on
// prove.
func (w *walker) damage(v *volumeDir, i int, f *finding, found damage) error {
	scans := make([]segmentScan, len(v.segments))
	for k := i; k < len(v.segments); k++ {
		var err error
		if scans[k], w.buf, err = scanSegment(v.segments[k], w.buf, nil); err != nil {
			return err
		}
	}
	rest := *v
	rest.leftover = "" // it stops a start, not a reader
	t := combine(&rest, i, scans)
	if found.kind == clean { // the names do not follow from each other: judge saw only the segments from i on
		s := v.segments[i]
		f.kind, f.reason = gap, fmt.Sprintf("the segment that begins at seq %d is missing, the next begins at %d", f.seq, s.first)
		if s.first < f.seq {
			f.kind, f.file, f.offset = overlap, s.path, 0
			f.reason = fmt.Sprintf("the segment begins at seq %d, but earlier ones hold everything below %d", s.first, f.seq)
		}
		f.after = int(t.finding.seq - s.first)
	} else {
		f.kind, f.reason, f.after = found.kind, found.reason, t.finding.after
		if t.finding.kind == searchEnd {
			f.kind = searchEnd
		}
	}
	f.byRecord = max(f.byRecord, t.finding.byRecord, found.synced)
	return decide(f).refusal(f)
}

// Volumes lists the volumes of the journal in dir by their names and sizes, without reading them: a tail volume's Last
// is unknown and 0. No lock is taken.
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
