package store

import "github.com/daybookq/daybook/job"

// An id carries the low bits of a seq and the time of its command; rows are keyed by the whole seq. An epoch is a range of seqs that
// differ in their low bits only. The store keeps the time at which each epoch began, and time never goes back, so the time in an id says
// in which epoch its command lies. Commands of the millisecond in which an epoch began may lie in it or in the one before it.

// epoch says when the first command of an epoch was applied.
type epoch struct {
	number uint64 // the high bits of its seqs
	at     int64  // unix ms
}

// beginEpoch notes that the command being applied is the first of its epoch. Epoch 0 began before everything and needs no note.
//
// Invariant: s.epochs is never older than what a view shows, since it is published before the command is committed.
func (s *Store) beginEpoch() {
	number := job.EpochOf(s.now.Seq)
	if number == s.meta.epoch() {
		return
	}
	s.meta.epochs = append(s.meta.epochs[:len(s.meta.epochs):len(s.meta.epochs)], epoch{number, s.now.At})
	s.publishEpochs()
}

func (s *Store) publishEpochs() {
	epochs := s.meta.epochs
	s.epochs.Store(&epochs)
}

// epoch returns the number of the newest epoch.
func (m *meta) epoch() uint64 {
	if n := len(m.epochs); n > 0 {
		return m.epochs[n-1].number
	}
	return 0
}

// seqs returns the seqs that the command of an id may have, the likeliest first: one, or two where the id has the time at which an epoch
// began. Whoever looks one up compares the whole id with what the row says.
func (s *Store) seqs(id job.ID) candidates { return seqsIn(*s.epochs.Load(), id) }

// candidates are one seq or two, kept off the heap, since each job that a command names is looked up.
type candidates struct {
	seqs [2]uint64
	n    int
}

func (c *candidates) all() []uint64 { return c.seqs[:c.n] }

// seqsIn looks at two epochs at most: 2^40 commands do not fit into one millisecond.
func seqsIn(epochs []epoch, id job.ID) (c candidates) {
	at, low := id.At(), id.LowSeq()
	newest := len(epochs) - 1
	for newest >= 0 && epochs[newest].at > at {
		newest--
	}
	number := func(i int) uint64 {
		if i < 0 {
			return 0
		}
		return epochs[i].number
	}
	c.seqs[0], c.n = low.In(number(newest)), 1
	if newest >= 0 && epochs[newest].at == at {
		c.seqs[1], c.n = low.In(number(newest-1)), 2
		if low.Late() { // the first commands of an epoch have low bits near 0, the last ones of the epoch before do not
			c.seqs[0], c.seqs[1] = c.seqs[1], c.seqs[0]
		}
	}
	return c
}

// readBatchOf returns the batch of a job or batch id, or nil when there is none.
func (s *Store) readBatchOf(r rows, id job.ID) *batch {
	seqs := s.seqs(id)
	for _, seq := range seqs.all() {
		if b := readBatch(r, seq); b != nil && b.id() == id.WithLine(0) {
			return b
		}
	}
	return nil
}

// batchOf is readBatchOf through Apply's caches.
func (s *Store) batchOf(id job.ID) *batch {
	seqs := s.seqs(id)
	for _, seq := range seqs.all() {
		if b := s.batch(seq); b != nil && b.id() == id.WithLine(0) {
			return b
		}
	}
	return nil
}

// readClaimOf returns the claim with an id, or nil when there is none.
func (s *Store) readClaimOf(r rows, id job.ID) *claim {
	seqs := s.seqs(id)
	for _, seq := range seqs.all() {
		if c := readClaim(r, seq); c != nil && c.id() == id {
			return c
		}
	}
	return nil
}
