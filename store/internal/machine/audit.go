package machine

import (
	"unicode/utf8"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/row"
)

// The audit has a row for each command of an operator or an admin, because the journal is cut after the store has its state. The
// rows are kept in segments, as effects are: see effects.go.

const (
	// AuditRetentionMs is how long rows of the audit are kept at least, unless those of a table take more than AuditSegments
	// segments of Rules.AuditBytes.
	AuditRetentionMs = 365 * 24 * row.HourMs
	AuditSegmentMs   = AuditRetentionMs / 4
	AuditSegments    = 4
	// maxAuditedBytes bounds the fields of a row. Those of a longer command are cut off.
	maxAuditedBytes = 1 << 10
)

// audit adds a command to the audit, if it is one of those that the audit has.
func (a *Applying) audit(cmd job.Command, result applied.Result) {
	refusal := refusalOf(result)
	if !job.IsAudited(cmd) || refusal != job.Granted && !a.By.All() { // a key of some clients must not fill the audit of all with requests that change nothing
		return
	}
	entry := document.Audited{Seq: a.Now.Seq, At: a.Now.At, By: a.By.Name, Verb: cmd.Verb(), Refusal: refusal, Fields: cut(job.AuditedFields(cmd), maxAuditedBytes)}
	value := row.EncodeAudited(&entry)
	part := 0
	if !a.By.All() {
		part = 1
	}
	table, size, segments := row.AuditTables[part], int64(len(value)+seqKeyBytes), a.Meta.Audit[part]
	if n := len(segments); n == 0 || segments[n-1].Bytes+size > a.Rules.AuditBytes || segments[n-1].At+AuditSegmentMs <= a.Now.At {
		segments = append(segments[:n:n], row.Segment{First: a.Now.Seq, At: a.Now.At})
		segments = a.dropSegments(table, segments, (AuditSegments-1)*a.Rules.AuditBytes, AuditRetentionMs, 0)
	}
	segments[len(segments)-1].Bytes += size
	a.Meta.Audit[part] = segments
	a.O.Set(row.SeqKey(table, a.Now.Seq), value)
}

// seqKeyBytes is the length of a key that is a table and a seq.
const seqKeyBytes = 9

// refusalOf returns why a command of the audit was refused, or Granted.
func refusalOf(result applied.Result) job.Refusal {
	switch r := result.(type) {
	case *applied.Paused:
		return r.Refusal
	case *applied.QueueDeleted:
		return r.Refusal
	case *applied.Moved:
		return r.Refusal
	case *applied.Swept:
		return r.Refusal
	case *applied.BatchChanged:
		return r.Refusal
	case *applied.DocumentChanged:
		return r.Refusal
	}
	return job.Granted
}

// cut returns the beginning of a text, at most n bytes of whole characters.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// dropSegments deletes the rows of the oldest segments of a table while they are too old, or begin before a seq, or all segments
// together are too large. The newest segment stays. It returns the segments that are left.
func (a *Applying) dropSegments(table byte, segments []row.Segment, most, retentionMs int64, before uint64) []row.Segment {
	total := int64(0)
	for _, s := range segments {
		total += s.Bytes
	}
	for len(segments) > 1 && (total > most || segments[1].At+retentionMs <= a.Now.At || segments[0].First < before) {
		a.O.DeleteRange(row.SeqKey(table, segments[0].First), row.SeqKey(table, segments[1].First))
		total -= segments[0].Bytes
		segments = segments[1:]
	}
	return append([]row.Segment(nil), segments...)
}
