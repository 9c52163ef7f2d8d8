package journal

import (
	"fmt"
	"path/filepath"
)

// segmentScan is the result of reading one segment.
type segmentScan struct {
	next   uint64 // seq after the last intact record in order
	end    int64  // offset after it
	size   int64  // length of the segment
	at     int64  // time of the last intact record in order; -1 without records
	synced uint64 // the highest `synced` of all intact records, including those after the damage
	found  damage
	proof  proof // of the records after the damage
}

// scanSegment reads a segment. It calls visit, unless visit is nil, with every record up to the first damage, and
// searches the bytes after the damage for proof. It reuses buf and returns it.
func scanSegment(s segment, salt uint32, buf []byte, visit func(*Record)) (segmentScan, []byte, error) {
	buf, err := readSegment(s.path, buf)
	if err != nil {
		return segmentScan{}, buf, err
	}
	return scanBytes(buf, salt, s.first, visit), buf, nil
}

// scanBytes is scanSegment for the bytes of a segment whose first record is first.
func scanBytes(data []byte, salt uint32, first uint64, visit func(*Record)) segmentScan {
	sc := scanner{data: data, salt: salt, next: first}
	for sc.step() {
		if visit != nil {
			visit(&sc.rec)
		}
	}
	out := segmentScan{next: sc.next, end: int64(sc.off), size: int64(len(data)), synced: sc.synced, found: sc.found, at: -1}
	if sc.next > first {
		out.at = sc.at
	}
	if out.found.kind != clean {
		out.proof = search(data[sc.off:], sc.salt, sc.next-1, sc.at)
		out.synced = max(out.synced, out.proof.synced, out.found.synced)
	}
	return out
}

// tailState is the end of the journal, and the part of the last volume that a start keeps.
type tailState struct {
	finding finding
	keep    int   // number of segments of the tail volume to keep; the journal continues in the last of them
	offset  int64 // length of that segment
	at      int64 // time of the last record; -1 without records
}

// combine merges the scans of a volume's segments from segment k on into one finding. The finding describes the first
// damage, with the proof from all segments.
func combine(v *volumeDir, k int, scans []segmentScan) tailState {
	t := tailState{at: -1, finding: finding{seq: v.first, file: filepath.Join(v.path, seqName(v.first))}}
	f := &t.finding
	if v.leftover != "" {
		f.kind, f.file, f.reason = leftover, v.leftover, "there is a file of tidwall/wal's truncation"
		return t
	}
	if k > 0 {
		f.seq = v.segments[k].first
		t.keep = k
	}
	for i := k; i < len(v.segments); i++ {
		s, scan := v.segments[i], &scans[i]
		f.byRecord = max(f.byRecord, scan.synced)
		if f.kind != clean {
			f.after += int(scan.next-s.first) + scan.proof.records
			continue
		}
		switch {
		case s.first > f.seq:
			f.kind, f.reason = gap, fmt.Sprintf("the segment that begins at seq %d is missing; the next one begins at %d", f.seq, s.first)
			f.offset = t.offset
			f.after += int(scan.next-s.first) + scan.proof.records
			continue
		case s.first < f.seq:
			f.kind, f.file, f.offset = overlap, s.path, 0
			f.reason = fmt.Sprintf("the segment begins at seq %d, but earlier segments contain all records below %d", s.first, f.seq)
			continue
		}
		t.keep, t.offset, f.seq, f.file, f.offset = i+1, scan.end, scan.next, s.path, scan.end
		if scan.at >= 0 {
			t.at = scan.at
		}
		if d := scan.found; d.kind != clean {
			f.kind, f.reason, f.after = d.kind, d.reason, scan.proof.records
			f.joined = i+1 < len(v.segments) && v.segments[i+1].first == scan.next
			if d.kind == zeros && i == len(v.segments)-1 && scan.size-scan.end <= maxRoom {
				f.kind = room
			}
			if scan.proof.gaveUp {
				f.kind = searchEnd
			}
		}
	}
	return t
}

// surveyTail finds the end of the journal. It reads all records of the tail volume that the store has not applied. The
// last unsynced write is among them: the store applies only durable commands, and earlier volumes were durable before
// this volume was made. All other records are checked when they are read.
func surveyTail(vols []volumeDir, salt uint32, applied uint64) (tailState, error) {
	v := &vols[len(vols)-1]
	t, buf, err := surveyVolume(v, salt, applied+1, nil)
	if err != nil {
		return tailState{}, err
	}
	f := &t.finding
	f.byCursor, f.first, f.unused = applied, vols[0].first, len(v.segments) == 0
	if t.at >= 0 || len(vols) == 1 {
		return t, nil
	}
	// The tail volume has no record, so the previous volume has the time of the last record. That volume must end where
	// the tail volume begins.
	p, _, err := surveyVolume(&vols[len(vols)-2], salt, v.first-1, buf)
	if err != nil {
		return tailState{}, err
	}
	t.at = p.at
	if g := join(p.finding, v.first); g.kind != clean {
		g.byCursor, g.first, g.complete = applied, f.first, true
		t.finding = g
	}
	return t, nil
}

// surveyVolume reads the segments of v, last first, until it has read a segment that has a record and begins at or below
// seq `from`.
func surveyVolume(v *volumeDir, salt uint32, from uint64, buf []byte) (tailState, []byte, error) {
	scans := make([]segmentScan, len(v.segments))
	k := len(v.segments)
	for k > 0 {
		k--
		var err error
		if scans[k], buf, err = scanSegment(v.segments[k], salt, buf, nil); err != nil {
			return tailState{}, buf, err
		}
		if scans[k].at >= 0 && v.segments[k].first <= from {
			break
		}
	}
	return combine(v, k, scans), buf, nil
}

// join returns f, the finding about a complete volume. If the volume is intact but does not end just before next, where
// the next volume begins, join returns that gap or overlap as the finding.
func join(f finding, next uint64) finding {
	if f.kind == clean && f.seq != next {
		f.kind, f.reason = apart, fmt.Sprintf("the volume's last record is %d, and the next volume begins at %d", f.seq-1, next)
	}
	return f
}
