package check

import (
	"hash/fnv"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// submissions checks that each submission has its rows, that its parts follow each other and add up to its counts, and
// that each part is a part of it.
func (c *checker) submissions() {
	parts, statuses := int64(0), uint64(0)
	c.table(row.SubmissionTable, func(key string, value []byte) {
		seq := row.SeqOfKey(key)
		state := c.v.Get(row.SeqKey(row.SubmissionStateTable, seq))
		if state == nil {
			c.problem("submission %d has no state", seq)
			return
		}
		s := row.DecodeSubmission(seq, value, state)
		parts += c.submissionParts(s)
		statuses += statusHash(s.QueueName(), s.Status)
		for _, key := range append(s.Indexes(), row.BatchStatusKey(s.Status, s.Seq)) {
			c.must(key)
		}
		if s.Rest != 0 {
			c.must(row.TimerKey(s.RestAt, row.RestTimer, seq, 0, 0))
		}
		if s.Status.Ended() && !s.Due {
			c.must(row.TimerKey(s.EndedAt+s.RetentionMs, row.BatchTimer, seq, 0, 0))
		}
		if has := c.v.Get(row.SeqKey(row.BatchMetadataTable, seq)); len(has) != s.MetadataBytes {
			c.problem("submission %d has %d bytes of metadata, and says %d", seq, len(has), s.MetadataBytes)
		}
		switch ended := s.Status.Ended(); {
		case ended != (s.EndedAt != 0) || ended && s.StillOpen || ended && s.Due && s.Parts == 0 || seq > c.meta.Cursor:
			c.problem("submission %d of the cursor %d is %v since %d: open %v, due %v, with %d parts", seq, c.meta.Cursor, s.Status, s.EndedAt, s.StillOpen, s.Due, s.Parts)
		case ended && s.Rest == 0 && s.Unfinished() > 0:
			c.problem("submission %d is %v, and has %d jobs that have not ended", seq, s.Status, s.Unfinished())
		case !ended && !s.StillOpen && s.Unfinished() == 0 && (s.Status != job.BatchPaused || s.Jobs() > 0):
			c.problem("submission %d is %v, and all of its jobs have ended", seq, s.Status)
		}
	})
	for _, table := range []byte{row.SubmissionStateTable, row.BatchMetadataTable} {
		c.table(table, func(key string, _ []byte) {
			if c.v.Get(row.SeqKey(row.SubmissionTable, row.SeqOfKey(key))) == nil {
				c.problem("row %x belongs to no submission", key)
			}
		})
	}
	n := int64(0)
	c.table(row.PartTable, func(string, []byte) { n++ })
	if n != parts {
		c.problem("there are %d parts, and %d belong to a submission", n, parts)
	}
	c.statusCounts(statuses)
}

// StatusCounts checks the numbers of submissions in each status, by queue. want is the sum of statusHash over all
// submissions. It does not use a map, because there may be too many queues.
func (c *checker) statusCounts(want uint64) {
	c.table(row.StatusCountsTable, func(key string, value []byte) {
		counts := row.DecodeStatusCounts(value)
		if counts == (row.StatusCounts{}) {
			c.problem("row %x counts no submission", key)
		}
		for status, n := range counts {
			want -= uint64(n) * statusHash(row.QueueOfStatusCounts(key), job.BatchStatus(status))
		}
	})
	if want != 0 {
		c.problem("the counts of submissions by queue and status are not those of the submissions")
	}
}

// statusHash hashes a queue and a status to a number.
func statusHash(name row.QueueName, status job.BatchStatus) uint64 {
	h := fnv.New64a()
	h.Write([]byte(row.StatusCountsKey(name)))
	h.Write([]byte{0, byte(status)})
	return h.Sum64()
}

// submissionParts checks the parts of a submission, and returns their number.
func (c *checker) submissionParts(s *row.Submission) (parts int64) {
	var counts job.Counts
	next, nextSeq := int64(0), s.Seq
	prefix := row.SeqKey(row.PartTable, s.Seq)
	c.v.Scan(prefix, lsm.After(prefix), func(key string, value []byte) bool {
		parts++
		of := row.DecodePart(value)
		b := row.ReadBatch(c.v, of.Seq)
		if b == nil {
			c.problem("submission %d: its part %d is no batch", s.Seq, of.Seq)
			return true
		}
		last := of.Base + int64(b.Lines) - 1
		if b.Submission != s.Seq || b.SubmissionAt != s.At || b.Base != of.Base || int64(lsm.U64At(key, 9)) != last || of.Base < next || of.Seq < nextSeq || last >= s.Lines {
			c.problem("submission %d: part %d is at line %d, and says %d of submission %d; line %d was next", s.Seq, of.Seq, of.Base, b.Base, b.Submission, next)
		}
		next, nextSeq = last+1, of.Seq+1
		for status := job.Deferred; status < job.Purged; status++ {
			counts[status] += b.Counts[status]
		}
		return true
	})
	lines := s.Counts[job.Purged]
	for status := job.Deferred; status < job.Purged; status++ {
		lines += s.Counts[status]
		if s.Counts[status] != counts[status] {
			c.problem("submission %d counts %d jobs that are %v, and its parts %d", s.Seq, s.Counts[status], status, counts[status])
		}
	}
	if lines != s.Lines || int64(s.Parts) != parts {
		c.problem("submission %d counts %d lines of %d, and %d parts of %d", s.Seq, lines, s.Lines, s.Parts, parts)
	}
	return parts
}
