package store

import (
	"hash/fnv"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// submissions checks that each submission has its rows, that its parts follow each other and add up to its counts, and
// that each part is a part of it.
func (c *checker) submissions() {
	parts, statuses := int64(0), uint64(0)
	c.table(submissionTable, func(key string, value []byte) {
		seq := seqOfKey(key)
		state := c.v.Get(seqKey(submissionStateTable, seq))
		if state == nil {
			c.problem("submission %d has no state", seq)
			return
		}
		s := decodeSubmission(seq, value, state)
		parts += c.submissionParts(s)
		statuses += statusHash(s.queueName(), s.status)
		for _, key := range append(s.indexes(), batchStatusKey(s.status, s.seq)) {
			c.must(key)
		}
		if s.rest != 0 {
			c.must(timerKey(s.restAt, restTimer, seq, 0, 0))
		}
		if s.status.Ended() && !s.due {
			c.must(timerKey(s.endedAt+s.retentionMs, batchTimer, seq, 0, 0))
		}
		if has := c.v.Get(seqKey(batchMetadataTable, seq)); len(has) != s.metadataBytes {
			c.problem("submission %d has %d bytes of metadata, and says %d", seq, len(has), s.metadataBytes)
		}
		switch ended := s.status.Ended(); {
		case ended != (s.endedAt != 0) || ended && s.open || ended && s.due && s.parts == 0 || seq > c.meta.cursor:
			c.problem("submission %d of the cursor %d is %v since %d: open %v, due %v, with %d parts", seq, c.meta.cursor, s.status, s.endedAt, s.open, s.due, s.parts)
		case ended && s.rest == 0 && s.unfinished() > 0:
			c.problem("submission %d is %v, and has %d jobs that have not ended", seq, s.status, s.unfinished())
		case !ended && !s.open && s.unfinished() == 0 && (s.status != job.BatchPaused || s.jobs() > 0):
			c.problem("submission %d is %v, and all of its jobs have ended", seq, s.status)
		}
	})
	for _, table := range []byte{submissionStateTable, batchMetadataTable} {
		c.table(table, func(key string, _ []byte) {
			if c.v.Get(seqKey(submissionTable, seqOfKey(key))) == nil {
				c.problem("row %x belongs to no submission", key)
			}
		})
	}
	n := int64(0)
	c.table(partTable, func(string, []byte) { n++ })
	if n != parts {
		c.problem("there are %d parts, and %d belong to a submission", n, parts)
	}
	c.statusCounts(statuses)
}

// statusCounts checks the numbers of submissions in each status, by queue. want is the sum of statusHash over all
// submissions. It does not use a map, because there may be too many queues.
func (c *checker) statusCounts(want uint64) {
	c.table(statusCountsTable, func(key string, value []byte) {
		counts := decodeStatusCounts(value)
		if counts == (statusCounts{}) {
			c.problem("row %x counts no submission", key)
		}
		for status, n := range counts {
			want -= uint64(n) * statusHash(queueOfStatusCounts(key), job.BatchStatus(status))
		}
	})
	if want != 0 {
		c.problem("the counts of submissions by queue and status are not those of the submissions")
	}
}

// statusHash hashes a queue and a status to a number.
func statusHash(name queueName, status job.BatchStatus) uint64 {
	h := fnv.New64a()
	h.Write([]byte(statusCountsKey(name)))
	h.Write([]byte{0, byte(status)})
	return h.Sum64()
}

// submissionParts checks the parts of a submission, and returns their number.
func (c *checker) submissionParts(s *submission) (parts int64) {
	var counts job.Counts
	next, nextSeq := int64(0), s.seq
	prefix := seqKey(partTable, s.seq)
	c.v.Scan(prefix, lsm.After(prefix), func(key string, value []byte) bool {
		parts++
		of := decodePart(value)
		b := readBatch(c.v, of.seq)
		if b == nil {
			c.problem("submission %d: its part %d is no batch", s.seq, of.seq)
			return true
		}
		last := of.base + int64(b.lines) - 1
		if b.submission != s.seq || b.submissionAt != s.at || b.base != of.base || int64(lsm.U64At(key, 9)) != last || of.base < next || of.seq < nextSeq || last >= s.lines {
			c.problem("submission %d: part %d is at line %d, and says %d of submission %d; line %d was next", s.seq, of.seq, of.base, b.base, b.submission, next)
		}
		next, nextSeq = last+1, of.seq+1
		for status := job.Deferred; status < job.Purged; status++ {
			counts[status] += b.counts[status]
		}
		return true
	})
	lines := s.counts[job.Purged]
	for status := job.Deferred; status < job.Purged; status++ {
		lines += s.counts[status]
		if s.counts[status] != counts[status] {
			c.problem("submission %d counts %d jobs that are %v, and its parts %d", s.seq, s.counts[status], status, counts[status])
		}
	}
	if lines != s.lines || int64(s.parts) != parts {
		c.problem("submission %d counts %d lines of %d, and %d parts of %d", s.seq, lines, s.lines, s.parts, parts)
	}
	return parts
}
