package journal

import (
	"errors"
)

// Report is the result of Verify.
type Report struct {
	UUID    string
	Volumes []Volume
	First   uint64            // first seq of the journal
	Last    uint64            // last seq before the first damage; First-1 without records
	LastAt  int64             // time of that record, unix ms
	Synced  uint64            // last seq that the journal's records prove to have been durable
	Records uint64            // number of records before the first damage
	Bytes   int64             // of all files
	Verbs   map[string]uint64 // number of those records by verb
	Case    string            // the row of the tail table that decides a start without a store
	Verdict Verdict
	Damage  *CorruptError // nil: no damage
}

// Verify reads the whole journal in dir. It does not lock the directory and changes nothing. It also reads the bytes
// after the first damage, to find out whether the damaged records had been durable, but does not count the records there.
// It returns an error only if it could not read the journal; damage is in the report.
func Verify(dir string) (Report, error) {
	r := Report{First: 1, Verbs: make(map[string]uint64)}
	vols, err := loadVolumes(dir)
	if err != nil {
		return r, err
	}
	id, err := identityOf(dir, vols)
	if err != nil {
		return r, err
	}
	r.UUID = id.uuid
	if r.Volumes, err = Volumes(dir); err != nil {
		return r, err
	}
	if len(vols) > 0 {
		r.First = vols[0].first
	}
	found := finding{first: r.First, seq: r.First, byCursor: r.First - 1, file: dir}
	var buf []byte
	for i := range vols {
		v := &vols[i]
		r.Bytes += v.bytes()
		visit := r.count
		if found.kind != clean {
			visit = nil
		}
		var t tailState
		if t, buf, err = scanVolume(v, id.salt, visit, buf); err != nil {
			return r, err
		}
		r.Synced = max(r.Synced, v.first-1, t.finding.byRecord)
		if found.kind != clean {
			continue
		}
		first := found.first
		found = t.finding
		found.first, found.byCursor = first, first-1
		if i+1 < len(vols) {
			found = join(found, vols[i+1].first)
			found.complete = true
		} else {
			found.unused = len(v.segments) == 0
		}
		r.Volumes[i].Last = found.seq - 1
		r.Last = found.seq - 1
	}
	if len(vols) == 0 {
		r.Last = 0
	}
	found.byRecord = max(found.byRecord, r.Synced)
	c := decide(&found)
	r.Case, r.Verdict = c.name, c.verdict
	if found.kind != clean && c.verdict != Accept {
		if err := c.refusal(&found); !errors.As(err, &r.Damage) {
			return r, err
		}
	}
	return r, nil
}

// count counts an intact record.
func (r *Report) count(rec *Record) {
	r.Records++
	r.Verbs[rec.Verb]++
	r.LastAt = rec.At
}

// scanVolume reads all segments of v. It calls visit, unless visit is nil, with every record up to the first damage. It
// reuses buf and returns it.
func scanVolume(v *volumeDir, salt uint32, visit func(*Record), buf []byte) (tailState, []byte, error) {
	scans := make([]segmentScan, len(v.segments))
	next := v.first
	for i, s := range v.segments {
		if s.first != next {
			visit = nil
		}
		var err error
		if scans[i], buf, err = scanSegment(s, salt, buf, visit); err != nil {
			return tailState{}, buf, err
		}
		next = scans[i].next
		if scans[i].found.kind != clean {
			visit = nil
		}
	}
	return combine(v, 0, scans), buf, nil
}
