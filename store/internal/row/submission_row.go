package row

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
)

// Submission is a batch with attributes. Creates add jobs to it, and each such create makes a part. A part is a batch
// in the sense of the other files. A submission has the seq of the command that made it. The part that changes is in
// SubmissionState, which has a separate row.
type Submission struct {
	Seq    uint64
	At     int64
	Client string // of its first group
	Typ    string
	// RetentionMs is how long it is kept after its end; see job.Attributes.
	RetentionMs    int64
	job.Submission // Metadata has a separate row
	MetadataBytes  int
	SubmissionState
	Dirty   bool // on the machine's list of unwritten rows
	Counted bool // on the command's list of submissions whose counts have changed
	Gone    bool
}

// SubmissionState is the part of a submission that changes.
type SubmissionState struct {
	Status    job.BatchStatus
	StillOpen bool
	Deleting  bool  // a request deletes all of it
	Due       bool  // it need not be kept longer than its parts
	Lines     int64 // of all parts there ever were, and so the number of the next part's first line
	Parts     int   // the parts that are not purged
	Counts    job.Counts
	Purged    job.Counts // purged lines, by their last status; lines that made no job are not counted
	Failed    Position   // the first job that failed and was not redriven since; no seq: none
	EndedAt   int64      // unix ms; 0: it has not ended
	// A step looks at the line rest-1 next: it cancels or purges the jobs of an ended submission, or releases the jobs
	// of a submission that was paused. 0: no step is needed. RestAt is the time of its timer.
	Rest, RestAt int64
	// Queues are the queues of its jobs, unless there are more than maxBatchQueues. Then ManyQueues is true, and only actors
	// that see all queues see the batch.
	Queues     []uint32
	ManyQueues bool
	// Two moments, some seconds apart, and how many jobs had ended then.
	Mark, MarkBefore ProgressMark
}

type ProgressMark struct{ At, Done int64 }

// MarkMs is the shortest time between two marks.
const MarkMs = 10_000

// maxBatchQueues bounds the queues that a submission records: as many as a key may name types.
const maxBatchQueues = job.MaxClaimNames

// AddQueue records that the submission has jobs in a queue.
func (s *SubmissionState) AddQueue(id uint32) {
	switch {
	case s.ManyQueues || slices.Contains(s.Queues, id):
	case len(s.Queues) == maxBatchQueues:
		s.Queues, s.ManyQueues = nil, true
	default:
		s.Queues = append(s.Queues, id)
	}
}

// InQueues reports whether all queues of the submission are among those for which sees returns true.
func (s *SubmissionState) InQueues(sees func(queue uint32) bool) bool {
	return !s.ManyQueues && !slices.ContainsFunc(s.Queues, func(id uint32) bool { return !sees(id) })
}

func (s *Submission) Id() job.ID { return job.NewID(s.At, s.Seq, 0) }

func (s *SubmissionState) Unfinished() int64 {
	return s.Counts[job.Deferred] + s.Counts[job.Pending] + s.Counts[job.Active]
}

// Jobs returns how many jobs the parts ever had. Lines that made no job, because an existing job had their unique key,
// are purged lines without a status.
func (s *SubmissionState) Jobs() (n int64) {
	for status := job.Deferred; status < job.Purged; status++ {
		n += s.Counts[status] + s.Purged[status]
	}
	return n
}

// Had returns how many jobs are in a status, or were in it when they were purged.
func (s *SubmissionState) Had(status job.Status) int64 { return s.Counts[status] + s.Purged[status] }

// Done returns how many jobs have ended.
func (s *SubmissionState) Done() int64 { return s.Jobs() - s.Unfinished() }

// ProgressOf returns the progress of a submission. s may be nil.
func ProgressOf(s *Submission) batchProgress {
	if s == nil {
		return batchProgress{}
	}
	return batchProgress{s.Id(), s.Lines, s.Had(job.Completed)}
}

func (s *Submission) Encode() []byte {
	e := make(lsm.Encoder, 0, 64+len(s.Meta))
	e.Int(s.At)
	e.Text(s.Client)
	e.Text(s.Typ)
	e.Int(s.RetentionMs)
	e.Text(s.Name)
	e.Text(string(s.Meta))
	e.Uint(uint64(s.OnFailure))
	e.Int(s.ChunkSize)
	e.Text(s.Traceparent)
	e.Text(s.Tracestate)
	e.Text(s.Baggage)
	e.Uint(uint64(s.MetadataBytes))
	return e
}

func DecodeSubmission(seq uint64, value, state []byte) *Submission {
	d := lsm.Decoder(value)
	s := &Submission{Seq: seq, At: d.Int(), Client: d.Text(), Typ: d.Text(), RetentionMs: d.Int()}
	s.Name, s.Meta = d.Text(), job.BatchMeta(d.Text())
	s.OnFailure, s.ChunkSize = job.OnFailure(d.Uint()), d.Int()
	s.Traceparent, s.Tracestate, s.Baggage = d.Text(), d.Text(), d.Text()
	s.MetadataBytes = int(d.Uint())
	s.SubmissionState = DecodeSubmissionState(state)
	s.Open, s.Paused = s.StillOpen, s.Status == job.BatchPaused
	return s
}

func (s *SubmissionState) Encode() []byte {
	e := make(lsm.Encoder, 0, 64)
	e.Uint(uint64(s.Status))
	e.Bool(s.StillOpen)
	e.Bool(s.Deleting)
	e.Bool(s.Due)
	e.Int(s.Lines)
	e.Uint(uint64(s.Parts))
	EncodeCounts(&e, &s.Counts)
	EncodeCounts(&e, &s.Purged)
	e.Uint(s.Failed.Seq)
	e.Uint(uint64(s.Failed.Line))
	e.Int(s.EndedAt)
	e.Int(s.Rest)
	e.Int(s.RestAt)
	for _, m := range [...]ProgressMark{s.Mark, s.MarkBefore} {
		e.Int(m.At)
		e.Int(m.Done)
	}
	e.Bool(s.ManyQueues)
	e.Uint(uint64(len(s.Queues)))
	for _, id := range s.Queues {
		e.Uint(uint64(id))
	}
	return e
}

func DecodeSubmissionState(value []byte) (s SubmissionState) {
	d := lsm.Decoder(value)
	s.Status = job.BatchStatus(d.Uint())
	if s.Status == 0 || int(s.Status) >= job.NumBatchStatus {
		lsm.Contradict("decode", "batch status %d", s.Status)
	}
	s.StillOpen, s.Deleting, s.Due = d.Bool(), d.Bool(), d.Bool()
	s.Lines, s.Parts = d.Int(), int(d.Uint())
	s.Counts = DecodeCounts(&d)
	s.Purged = DecodeCounts(&d)
	s.Failed = Position{d.Uint(), uint32(d.Uint())}
	s.EndedAt, s.Rest, s.RestAt = d.Int(), d.Int(), d.Int()
	s.Mark = ProgressMark{d.Int(), d.Int()}
	s.MarkBefore = ProgressMark{d.Int(), d.Int()}
	s.ManyQueues = d.Bool()
	if n := d.Count(1); n > 0 {
		s.Queues = make([]uint32, n)
	}
	for i := range s.Queues {
		s.Queues[i] = uint32(d.Uint())
	}
	return s
}

// ReadSubmission returns the submission that the command seq made, or nil.
func ReadSubmission(r lsm.Rows, seq uint64) *Submission {
	value := r.Get(SeqKey(SubmissionTable, seq))
	if value == nil {
		return nil
	}
	return DecodeSubmission(seq, value, r.Get(SeqKey(SubmissionStateTable, seq)))
}

// Indexes returns the keys of the index rows of a submission, except the index by status.
func (s *Submission) Indexes() []string {
	keys := []string{SnowflakeKey(job.Snowflake(s.At, s.Seq), s.Seq)}
	if s.Name != "" {
		keys = append(keys, BatchNameKey(s.Name, s.Seq))
	}
	for pair := range s.Meta.Pairs() {
		keys = append(keys, BatchMetaKey(pair, s.Seq))
	}
	return keys
}

// Size is about how many bytes of memory a submission takes with its place in the cache.
func (s *Submission) Size() int {
	return 800 + 4*len(s.Queues) + len(s.Client) + len(s.Typ) + len(s.Name) + len(s.Meta) + len(s.Traceparent) + len(s.Tracestate) + len(s.Baggage) + cap(s.Metadata)
}

func (s *Submission) QueueName() QueueName { return QueueName{s.Client, s.Typ} }

// StatusCounts has the number of submissions in each status.
type StatusCounts [job.NumBatchStatus]int64

func (n *StatusCounts) Encode() []byte {
	var e lsm.Encoder
	for _, count := range n[1:] {
		e.Uint(uint64(count))
	}
	return e
}

func DecodeStatusCounts(value []byte) (n StatusCounts) {
	d := lsm.Decoder(value)
	for i := range n[1:] {
		n[i+1] = int64(d.Uint())
	}
	return n
}

// ReadStatusCounts returns how many submissions of a queue are in each status.
func ReadStatusCounts(r lsm.Rows, name QueueName) (n StatusCounts) {
	if value := r.Get(StatusCountsKey(name)); value != nil {
		n = DecodeStatusCounts(value)
	}
	return n
}

// BatchPart is a part of a submission: the batch seq, whose first line is number base in the submission.
type BatchPart struct {
	Seq  uint64
	Base int64
}

func EncodePart(p BatchPart) []byte {
	var e lsm.Encoder
	e.Uint(p.Seq)
	e.Int(p.Base)
	return e
}

func DecodePart(value []byte) BatchPart {
	d := lsm.Decoder(value)
	return BatchPart{d.Uint(), d.Int()}
}

// ReadPart returns the part of a submission that holds a line, or the first part after it. ok is false if the
// submission does not have one.
func ReadPart(r lsm.Rows, submission uint64, line int64) (p BatchPart, ok bool) {
	r.Scan(PartKey(submission, line), lsm.After(SeqKey(PartTable, submission)), func(_ string, value []byte) bool {
		p, ok = DecodePart(value), true
		return false
	})
	return p, ok
}

func (s *Submission) Flush(o *lsm.Overlay) {
	s.Dirty = false
	if !s.Gone {
		o.Set(SeqKey(SubmissionStateTable, s.Seq), s.SubmissionState.Encode())
	}
}
