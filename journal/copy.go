package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"iter"
)

// SegmentCopy is a segment, or the durable beginning of a segment, for a copy of the journal.
type SegmentCopy struct {
	Volume      uint64 // first seq of its volume in the copy
	First, Last uint64 // seqs of its first and its last record
	Data        []byte // valid until the next step
}

// Path returns the path of the segment in the copy, relative to the directory of the journal, with slashes.
func (s *SegmentCopy) Path() string { return seqName(s.Volume) + "/" + seqName(s.First) }

// IdentityFile returns the name and the content of the file that identifies the journal, for use in a copy.
func (j *Journal) IdentityFile() (name string, content []byte) {
	return identityName, identity{j.uuid, j.salt}.text()
}

// IdentityOf is IdentityFile for a journal that is made elsewhere, with records of this salt.
func IdentityOf(uuid string, salt uint32) (name string, content []byte) {
	return identityName, identity{uuid, salt}.text()
}

// AppendEntry appends a record to the bytes of a segment.
func AppendEntry(segment []byte, r *Record) []byte {
	record := AppendRecord(nil, r)
	return append(binary.AppendUvarint(segment, uint64(len(record))), record...)
}

// Segments yields the segments with the records from seq `from` to seq `through`, in order. Together with an IdentityFile
// they form a complete journal. The last segment ends with record `through`, which must be durable; the first may have
// records before `from`. The first volume of the copy begins with the first of these segments, even if it was in the
// middle of a volume. If the journal begins after `from`, so does the copy.
//
// Segments reads one segment at a time into memory, and checks each record. It holds no lock, so the caller must keep Cut
// from removing these records. An error ends the iteration: ErrCut, a *CorruptError at damage, or a read error.
func (j *Journal) Segments(from, through uint64) iter.Seq2[SegmentCopy, error] {
	return func(yield func(SegmentCopy, error) bool) {
		if through > j.Synced() {
			yield(SegmentCopy{}, fmt.Errorf("copy journal: record %d is not durable yet; the last one that is has seq %d", through, j.Synced()))
			return
		}
		from = max(from, j.First())
		if from > through {
			return
		}
		err := j.eachSegment(from, through, func(s SegmentCopy) bool { return yield(s, nil) })
		if err != nil && err != errStop {
			if first := j.First(); errors.Is(err, fs.ErrNotExist) && from < first {
				err = fmt.Errorf("%w: seq %d was requested, and the first one is %d (%w)", ErrCut, from, first, err)
			}
			yield(SegmentCopy{}, fmt.Errorf("copy journal: %w", err))
		}
	}
}

// eachSegment calls visit with the segments of a copy until visit returns false.
func (j *Journal) eachSegment(from, through uint64, visit func(SegmentCopy) bool) error {
	vols, err := loadVolumes(j.o.Dir)
	if err != nil {
		return err
	}
	next := from // the seq at which the copy must continue
	begun := false
	var buf []byte
	for i := range vols {
		if i+1 < len(vols) && vols[i+1].first <= from {
			continue
		}
		v := &vols[i]
		volume := v.first
		for k, s := range v.segments {
			if k+1 < len(v.segments) && v.segments[k+1].first <= from {
				continue
			}
			if s.first > through {
				return nil
			}
			if !begun && s.first <= from {
				begun, next, volume = true, s.first, s.first
			}
			if s.first != next || !begun {
				return notIntact(s.path, 0, next, fmt.Sprintf("the records before %d are missing", s.first))
			}
			if buf, err = readSegment(s.path, buf); err != nil {
				return err
			}
			sc := scanner{data: buf, salt: j.salt, next: s.first}
			for sc.next <= through && sc.step() {
			}
			if sc.found.kind != clean {
				return notIntact(s.path, int64(sc.off), sc.next, sc.found.reason)
			}
			next = sc.next
			if sc.next == s.first { // empty, which the last segment of a volume may be
				continue
			}
			if !visit(SegmentCopy{Volume: volume, First: s.first, Last: sc.next - 1, Data: buf[:sc.off]}) || next > through {
				return nil
			}
		}
	}
	if next <= through {
		return notIntact(j.o.Dir, 0, next, fmt.Sprintf("the records from %d to %d are missing", next, through))
	}
	return nil
}

// notIntact returns the error for a copy that reaches damage.
func notIntact(file string, offset int64, seq uint64, reason string) error {
	return &CorruptError{File: file, Offset: offset, Seq: seq, Reason: reason, Case: "copy", Verdict: Refuse, Next: NextRestore}
}
