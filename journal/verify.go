package journal

import (
	"errors"
	"fmt"
)

// Report is what Verify found.
type Report struct {
	UUID    string
	Volumes []Volume
	First   uint64 // first seq there is
	Last    uint64 // last intact seq before any damage; First-1 if there is none
	LastAt  int64
	Synced  uint64            // what the journal's own records prove to have been durable
	Records uint64            // intact records before any damage
	Bytes   int64             // of all files
	Verbs   map[string]uint64 // how many of those records
	Case    string            // the row of the tail table that a start would decide by, knowing no cursor
	Verdict Verdict
	Damage  *CorruptError // nil if there is none
}

// Verify reads the whole journal in dir, without the lock and without changing anything. It continues after a damage to
// find what proves it, but counts nothing there. The error is about the reading; what was found is in the report.
func Verify(dir string) (Report, error) {
	r := Report{First: 1, Verbs: make(map[string]uint64)}
	var err error
	if r.UUID, err = readIdentity(dir); err != nil {
		return r, err
	}
	vols, err := loadVolumes(dir)
	if err != nil {
		return r, err
	}
	if r.Volumes, err = Volumes(dir); err != nil {
		return r, err
	}
	if r.UUID == "" && len(vols) > 0 {
		return r, fmt.Errorf("%w: %s holds volumes but no file %q", ErrForeign, dir, identityName)
	}
	if len(vols) > 0 {
		r.First = vols[0].first
	}
	found := finding{first: r.First, seq: r.First, byCursor: r.First - 1, file: dir}
	var buf []byte
	for i := range vols {
		v := &vols[i]
		r.Bytes += v.bytes()
		var t tailState
		if t, buf, err = r.volume(v, found.kind == clean, buf); err != nil {
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
	if found.kind != clean {
		if err := c.refusal(&found); !errors.As(err, &r.Damage) {
			return r, err
		}
	}
	return r, nil
}

// volume scans all of v and counts its records up to the first damage if count is set.
func (r *Report) volume(v *volumeDir, count bool, buf []byte) (tailState, []byte, error) {
	scans := make([]segmentScan, len(v.segments))
	next := v.first
	for i, s := range v.segments {
		count = count && s.first == next
		visit := func(rec *Record) {
			if count {
				r.Records++
				r.Verbs[rec.Verb]++
				r.LastAt = rec.At
			}
		}
		var err error
		if scans[i], buf, err = scanSegment(s, buf, visit); err != nil {
			return tailState{}, buf, err
		}
		next = scans[i].next
		count = count && scans[i].found.kind == clean
	}
	return combine(v, 0, scans), buf, nil
}
