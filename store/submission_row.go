package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// submission is a batch with attributes. Creates add jobs to it, and each such create makes a part. A part is a batch
// in the sense of the other files. A submission has the seq of the command that made it. The part that changes is in
// submissionState, which has a separate row.
type submission struct {
	seq    uint64
	at     int64
	client string // of its first group
	typ    string
	// retentionMs is how long it is kept after its end; see job.Attributes.
	retentionMs    int64
	job.Submission // Metadata has a separate row
	metadataBytes  int
	submissionState
	dirty   bool // on the machine's list of unwritten rows
	counted bool // on the command's list of submissions whose counts have changed
	gone    bool
}

// submissionState is the part of a submission that changes.
type submissionState struct {
	status   job.BatchStatus
	open     bool
	deleting bool  // a request deletes all of it
	due      bool  // it need not be kept longer than its parts
	lines    int64 // of all parts there ever were, and so the number of the next part's first line
	parts    int   // the parts that are not purged
	counts   job.Counts
	purged   job.Counts // purged lines, by their last status; lines that made no job are not counted
	failed   position   // the first job that failed and was not redriven since; no seq: none
	endedAt  int64      // unix ms; 0: it has not ended
	// A step looks at the line rest-1 next: it cancels or purges the jobs of an ended submission, or releases the jobs
	// of a submission that was paused. 0: no step is needed. restAt is the time of its timer.
	rest, restAt int64
	// Two moments, some seconds apart, and how many jobs had ended then.
	mark, markBefore progressMark
}

type progressMark struct{ at, done int64 }

// markMs is the shortest time between two marks.
const markMs = 10_000

func (s *submission) id() job.ID { return job.NewID(s.at, s.seq, 0) }

func (s *submissionState) unfinished() int64 {
	return s.counts[job.Deferred] + s.counts[job.Pending] + s.counts[job.Active]
}

// jobs returns how many jobs the parts ever had. Lines that made no job, because an existing job had their unique key,
// are purged lines without a status.
func (s *submissionState) jobs() (n int64) {
	for status := job.Deferred; status < job.Purged; status++ {
		n += s.counts[status] + s.purged[status]
	}
	return n
}

// had returns how many jobs are in a status, or were in it when they were purged.
func (s *submissionState) had(status job.Status) int64 { return s.counts[status] + s.purged[status] }

// done returns how many jobs have ended.
func (s *submissionState) done() int64 { return s.jobs() - s.unfinished() }

// progressOf returns the progress of a submission. s may be nil.
func progressOf(s *submission) batchProgress {
	if s == nil {
		return batchProgress{}
	}
	return batchProgress{s.id(), s.lines, s.had(job.Completed)}
}

func (s *submission) encode() []byte {
	e := make(lsm.Encoder, 0, 64+len(s.Meta))
	e.Int(s.at)
	e.Text(s.client)
	e.Text(s.typ)
	e.Int(s.retentionMs)
	e.Text(s.Name)
	e.Text(string(s.Meta))
	e.Uint(uint64(s.OnFailure))
	e.Int(s.ChunkSize)
	e.Text(s.Traceparent)
	e.Text(s.Tracestate)
	e.Text(s.Baggage)
	e.Uint(uint64(s.metadataBytes))
	return e
}

func decodeSubmission(seq uint64, value, state []byte) *submission {
	d := lsm.Decoder(value)
	s := &submission{seq: seq, at: d.Int(), client: d.Text(), typ: d.Text(), retentionMs: d.Int()}
	s.Name, s.Meta = d.Text(), job.BatchMeta(d.Text())
	s.OnFailure, s.ChunkSize = job.OnFailure(d.Uint()), d.Int()
	s.Traceparent, s.Tracestate, s.Baggage = d.Text(), d.Text(), d.Text()
	s.metadataBytes = int(d.Uint())
	s.submissionState = decodeSubmissionState(state)
	s.Open, s.Paused = s.open, s.status == job.BatchPaused
	return s
}

func (s *submissionState) encode() []byte {
	e := make(lsm.Encoder, 0, 64)
	e.Uint(uint64(s.status))
	e.Bool(s.open)
	e.Bool(s.deleting)
	e.Bool(s.due)
	e.Int(s.lines)
	e.Uint(uint64(s.parts))
	encodeCounts(&e, &s.counts)
	encodeCounts(&e, &s.purged)
	e.Uint(s.failed.seq)
	e.Uint(uint64(s.failed.line))
	e.Int(s.endedAt)
	e.Int(s.rest)
	e.Int(s.restAt)
	for _, m := range [...]progressMark{s.mark, s.markBefore} {
		e.Int(m.at)
		e.Int(m.done)
	}
	return e
}

func decodeSubmissionState(value []byte) (s submissionState) {
	d := lsm.Decoder(value)
	s.status = job.BatchStatus(d.Uint())
	if s.status == 0 || int(s.status) >= job.NumBatchStatus {
		lsm.Contradict("decode", "batch status %d", s.status)
	}
	s.open, s.deleting, s.due = d.Bool(), d.Bool(), d.Bool()
	s.lines, s.parts = d.Int(), int(d.Uint())
	s.counts = decodeCounts(&d)
	s.purged = decodeCounts(&d)
	s.failed = position{d.Uint(), uint32(d.Uint())}
	s.endedAt, s.rest, s.restAt = d.Int(), d.Int(), d.Int()
	s.mark = progressMark{d.Int(), d.Int()}
	s.markBefore = progressMark{d.Int(), d.Int()}
	return s
}

// readSubmission returns the submission that the command seq made, or nil.
func readSubmission(r lsm.Rows, seq uint64) *submission {
	value := r.Get(seqKey(submissionTable, seq))
	if value == nil {
		return nil
	}
	return decodeSubmission(seq, value, r.Get(seqKey(submissionStateTable, seq)))
}

// indexes returns the keys of the index rows of a submission, except the index by status.
func (s *submission) indexes() []string {
	keys := []string{snowflakeKey(job.Snowflake(s.at, s.seq), s.seq)}
	if s.Name != "" {
		keys = append(keys, batchNameKey(s.Name, s.seq))
	}
	for pair := range s.Meta.Pairs() {
		keys = append(keys, batchMetaKey(pair, s.seq))
	}
	return keys
}

// size is about how many bytes of memory a submission takes with its place in the cache.
func (s *submission) size() int {
	return 800 + len(s.client) + len(s.typ) + len(s.Name) + len(s.Meta) + len(s.Traceparent) + len(s.Tracestate) + len(s.Baggage) + cap(s.Metadata)
}

func (s *submission) queueName() queueName { return queueName{s.client, s.typ} }

// statusCounts has the number of submissions in each status.
type statusCounts [job.NumBatchStatus]int64

func (n *statusCounts) encode() []byte {
	var e lsm.Encoder
	for _, count := range n[1:] {
		e.Uint(uint64(count))
	}
	return e
}

func decodeStatusCounts(value []byte) (n statusCounts) {
	d := lsm.Decoder(value)
	for i := range n[1:] {
		n[i+1] = int64(d.Uint())
	}
	return n
}

// readStatusCounts returns how many submissions of a queue are in each status.
func readStatusCounts(r lsm.Rows, name queueName) (n statusCounts) {
	if value := r.Get(statusCountsKey(name)); value != nil {
		n = decodeStatusCounts(value)
	}
	return n
}

// batchPart is a part of a submission: the batch seq, whose first line is number base in the submission.
type batchPart struct {
	seq  uint64
	base int64
}

func encodePart(p batchPart) []byte {
	var e lsm.Encoder
	e.Uint(p.seq)
	e.Int(p.base)
	return e
}

func decodePart(value []byte) batchPart {
	d := lsm.Decoder(value)
	return batchPart{d.Uint(), d.Int()}
}

// readPart returns the part of a submission that holds a line, or the first part after it. ok is false if the
// submission does not have one.
func readPart(r lsm.Rows, submission uint64, line int64) (p batchPart, ok bool) {
	r.Scan(partKey(submission, line), lsm.After(seqKey(partTable, submission)), func(_ string, value []byte) bool {
		p, ok = decodePart(value), true
		return false
	})
	return p, ok
}

func (s *submission) flush(o *lsm.Overlay) {
	s.dirty = false
	if !s.gone {
		o.Set(seqKey(submissionStateTable, s.seq), s.submissionState.encode())
	}
}
