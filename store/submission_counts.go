package store

import (
	"math"

	"github.com/daybookq/daybook/job"
)

// newSubmission creates the submission of a create, without jobs.
func (a *applying) newSubmission(c *job.Create) *submission {
	g := &c.Groups[0]
	s := &submission{
		seq: a.now.Seq, at: a.now.At, client: g.Client, typ: g.Type, retentionMs: g.RetentionMs,
		Submission: *c.Submission, metadataBytes: len(c.Submission.Metadata),
	}
	s.Metadata = nil
	s.status, s.open = job.BatchInProgress, s.Open
	if s.Paused {
		s.status = job.BatchPaused
	}
	s.mark, s.markBefore = progressMark{at: s.at}, progressMark{at: s.at}
	a.submissions.Set(s.seq, s)
	a.o.Set(seqKey(submissionTable, s.seq), s.encode())
	if s.metadataBytes > 0 {
		a.o.Set(seqKey(batchMetadataTable, s.seq), c.Submission.Metadata)
	}
	for _, key := range s.indexes() {
		a.o.Set(key, nil)
	}
	a.o.Set(batchStatusKey(s.status, s.seq), nil)
	a.countStatus(s, 0, s.status)
	a.touchSubmission(s)
	return s
}

// countStatus counts a change of a submission's status. 0 means that the submission is new, or deleted.
func (m *machine) countStatus(s *submission, before, after job.BatchStatus) {
	counts := readStatusCounts(&m.o, s.queueName())
	for _, of := range []*statusCounts{&counts, &m.batchStatuses} {
		if before != 0 {
			of[before]--
		}
		if after != 0 {
			of[after]++
		}
	}
	if key := statusCountsKey(s.queueName()); counts == (statusCounts{}) {
		m.o.Delete(key)
	} else {
		m.o.Set(key, counts.encode())
	}
}

// loadStatusCounts adds up the numbers of submissions in each status.
func (m *machine) loadStatusCounts() {
	clear(m.batchStatuses[:])
	m.o.Scan(string(statusCountsTable), string(statusCountsTable+1), func(_ string, value []byte) bool {
		for status, n := range decodeStatusCounts(value) {
			m.batchStatuses[status] += n
		}
		return true
	})
}

// touchSubmission makes end look at a submission, and the next commit write its state.
func (a *applying) touchSubmission(s *submission) {
	a.touch(&s.dirty, s)
	if !s.counted {
		s.counted = true
		a.counted = append(a.counted, s)
	}
}

// mayAdd reports whether a create may add jobs to a submission, which may be nil.
func mayAdd(s *submission) job.Refusal {
	switch {
	case s == nil:
		return job.BatchNotFound
	case s.status.Ended():
		return job.BatchEnded
	case !s.open:
		return job.BatchClosed
	}
	return job.Granted
}

// addPart makes a new batch a part of a submission.
func (a *applying) addPart(s *submission, b *batch) {
	b.submission, b.submissionAt, b.base = s.seq, s.at, s.lines
	s.lines += int64(b.lines)
	s.parts++
	a.o.Set(partKey(s.seq, s.lines-1), encodePart(batchPart{b.seq, b.base}))
	a.touchSubmission(s)
	a.ends.ended(batchEnd(s.seq)) // for callers that follow its results
}

// removePart forgets a part whose lines are all purged.
func (a *applying) removePart(b *batch) {
	s := a.submissionOf(b)
	a.o.Delete(partKey(s.seq, b.base+int64(b.lines)-1))
	s.parts--
	a.touchSubmission(s)
}

// countSubmission changes the counters of a submission when lines of a part change to the state next.
func (a *applying) countSubmission(p part, next job.State) {
	s := a.submissionOf(p.b)
	n, old := p.lines(), p.in.Status
	if old != 0 {
		s.counts[old] -= n
	}
	s.counts[next.Status] += n
	switch {
	case next.Status == job.Purged && old != 0:
		s.purged[old] += n
	case next.Status == job.Failed && s.failed.seq == 0:
		s.failed = position{p.b.seq, p.first}
	case old == job.Failed && next.Status == job.Pending && s.failed.seq == p.b.seq && p.first <= s.failed.line && s.failed.line <= p.last:
		s.failed = position{}
	}
	if a.now.At-s.mark.at >= markMs {
		s.markBefore, s.mark = s.mark, progressMark{a.now.At, s.done()}
	}
	a.touchSubmission(s)
}

// batchEnd represents the status of a batch among the lines whose end callers wait for.
func batchEnd(seq uint64) Run { return Run{seq, math.MaxUint32, math.MaxUint32} }
