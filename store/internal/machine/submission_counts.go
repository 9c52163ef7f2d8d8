package machine

import (
	"math"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/row"
)

// newSubmission creates the submission of a create, without jobs.
func (a *Applying) newSubmission(c *job.Create) *row.Submission {
	g := &c.Groups[0]
	s := &row.Submission{
		Seq: a.Now.Seq, At: a.Now.At, Client: g.Client, Typ: g.Type, RetentionMs: g.RetentionMs,
		Submission: *c.Submission, MetadataBytes: len(c.Submission.Metadata),
	}
	s.Metadata = nil
	s.Status, s.StillOpen = job.BatchInProgress, s.Open
	if s.Paused {
		s.Status = job.BatchPaused
	}
	s.Mark, s.MarkBefore = row.ProgressMark{At: s.At}, row.ProgressMark{At: s.At}
	a.Submissions.Set(s.Seq, s)
	a.O.Set(row.SeqKey(row.SubmissionTable, s.Seq), s.Encode())
	if s.MetadataBytes > 0 {
		a.O.Set(row.SeqKey(row.BatchMetadataTable, s.Seq), c.Submission.Metadata)
	}
	for _, key := range s.Indexes() {
		a.O.Set(key, nil)
	}
	a.O.Set(row.BatchStatusKey(s.Status, s.Seq), nil)
	a.countStatus(s, 0, s.Status)
	a.touchSubmission(s)
	return s
}

// countStatus counts a change of a submission's status. 0 means that the submission is new, or deleted.
func (m *Machine) countStatus(s *row.Submission, before, after job.BatchStatus) {
	counts := row.ReadStatusCounts(&m.O, s.QueueName())
	for _, of := range []*row.StatusCounts{&counts, &m.BatchStatuses} {
		if before != 0 {
			of[before]--
		}
		if after != 0 {
			of[after]++
		}
	}
	if key := row.StatusCountsKey(s.QueueName()); counts == (row.StatusCounts{}) {
		m.O.Delete(key)
	} else {
		m.O.Set(key, counts.Encode())
	}
}

// loadStatusCounts adds up the numbers of submissions in each status.
func (m *Machine) loadStatusCounts() {
	clear(m.BatchStatuses[:])
	m.O.Scan(string(row.StatusCountsTable), string(row.StatusCountsTable+1), func(_ string, value []byte) bool {
		for status, n := range row.DecodeStatusCounts(value) {
			m.BatchStatuses[status] += n
		}
		return true
	})
}

// touchSubmission makes end look at a submission, and the next commit write its state.
func (a *Applying) touchSubmission(s *row.Submission) {
	a.Touch(&s.Dirty, s)
	if !s.Counted {
		s.Counted = true
		a.counted = append(a.counted, s)
	}
}

// mayAdd reports whether a create may add jobs to a submission, which may be nil.
func mayAdd(s *row.Submission) job.Refusal {
	switch {
	case s == nil:
		return job.BatchNotFound
	case s.Status.Ended():
		return job.BatchEnded
	case !s.StillOpen:
		return job.BatchClosed
	}
	return job.Granted
}

// addPart makes a new batch with these groups a part of a submission.
func (a *Applying) addPart(s *row.Submission, b *row.Batch, groups []row.Group) {
	for i := range groups {
		s.AddQueue(groups[i].QueueID)
	}
	b.Submission, b.SubmissionAt, b.Base = s.Seq, s.At, s.Lines
	s.Lines += int64(b.Lines)
	s.Parts++
	a.O.Set(row.PartKey(s.Seq, s.Lines-1), row.EncodePart(row.BatchPart{b.Seq, b.Base}))
	a.touchSubmission(s)
	a.Ends.Ended(BatchEnd(s.Seq)) // for callers that follow its results
}

// removePart forgets a part whose lines are all purged.
func (a *Applying) removePart(b *row.Batch) {
	s := a.submissionOf(b)
	a.O.Delete(row.PartKey(s.Seq, b.Base+int64(b.Lines)-1))
	s.Parts--
	a.touchSubmission(s)
}

// countSubmission changes the counters of a submission when lines of a part change to the state next.
func (a *Applying) countSubmission(p row.Part, next job.State) {
	s := a.submissionOf(p.B)
	n, old := p.Lines(), p.In.Status
	if old != 0 {
		s.Counts[old] -= n
	}
	s.Counts[next.Status] += n
	switch {
	case next.Status == job.Purged && old != 0:
		s.Purged[old] += n
	case next.Status == job.Failed && s.Failed.Seq == 0:
		s.Failed = row.Position{p.B.Seq, p.First}
	case old == job.Failed && next.Status == job.Pending && s.Failed.Seq == p.B.Seq && p.First <= s.Failed.Line && s.Failed.Line <= p.Last:
		s.Failed = row.Position{}
	}
	if a.Now.At-s.Mark.At >= row.MarkMs {
		s.MarkBefore, s.Mark = s.Mark, row.ProgressMark{a.Now.At, s.Done()}
	}
	a.touchSubmission(s)
}

// BatchEnd represents the status of a batch among the lines whose end callers wait for.
func BatchEnd(seq uint64) row.Run { return row.Run{seq, math.MaxUint32, math.MaxUint32} }
