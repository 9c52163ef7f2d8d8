package store

import (
	"hash/fnv"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// submissionEndedIn reports whether a batch is part of a submission that has ended.
func submissionEndedIn(r lsm.Rows, b *batch) bool {
	s := readSubmission(r, b.submission)
	return s != nil && s.status.Ended()
}

// uniques checks the keys of lines, and the hints that say which line has a key: every unfinished line with a key must
// have its hint, and every hint must name a line with that key.
func (c *checker) uniques() {
	c.table(lineKeyTable, func(key string, value []byte) {
		seq, line, unique := seqOfKey(key), lineOfKey(key), string(value)
		c.guard(func() {
			b := readBatch(c.v, seq)
			sp, ok := readSpan(c.v, seq, line)
			switch {
			case b == nil || !ok || sp.Status == job.Purged:
				c.problem("line %d of batch %d has a unique key, and is purged or none", line, seq)
				return
			case !b.unique:
				c.problem("batch %d has unique keys that it does not know of", seq)
			case unique == "":
				c.problem("line %d of batch %d has an empty unique key", line, seq)
			}
			if !sp.Status.Unfinished() || b.submission != 0 && submissionEndedIn(c.v, b) {
				return // a different job may have it
			}
			value := c.v.Get(uniqueKey(c.groups.group(c.v, b, line).queueID, unique))
			if value == nil {
				c.problem("line %d of batch %d does not hold its unique key", line, seq)
			} else if heldBy, at := decodeLine(value); heldBy != seq || at != line {
				c.problem("the unique key of line %d of batch %d is held by line %d of batch %d", line, seq, at, heldBy)
			}
		}, "unique key of line %d of batch %d", line, seq)
	})
	c.table(uniqueTable, func(key string, value []byte) {
		seq, line := decodeLine(value)
		b := readBatch(c.v, seq)
		if b == nil || line >= b.lines || c.groups.group(c.v, b, line).queueID != lsm.U32At(key, 1) || string(c.v.Get(lineKey(lineKeyTable, seq, line))) != key[5:] {
			c.problem("row %x names a job that has not that key", key)
		}
	})
}

// onces checks the idempotency keys against the counts of their generations, and that each generation has its timer.
func (c *checker) onces() {
	counts := map[uint32]keyGeneration{}
	owned := uint64(0) // a sum over owners and their bytes that is 0 if the owners' rows are right
	c.table(onceTable, func(key string, value []byte) {
		size := uint64(len(key) + len(value))
		decodeDone((*lsm.Decoder)(&value))
		g := counts[lsm.U32At(key, 1)]
		g.keys++
		g.bytes += size
		counts[lsm.U32At(key, 1)] = g
		owned += size * ownerSum(ownerKey(lsm.U32At(key, 1), (&job.Once{Scope: scopeOfOnce(key)}).Owner()))
	})
	c.table(ownerTable, func(key string, value []byte) { owned -= decodeOwner(value) * ownerSum(key) })
	if owned != 0 {
		c.problem("the owners of idempotency keys count other bytes than these have")
	}
	for _, g := range c.meta.keys {
		if had := counts[g.number]; had.keys != g.keys || had.bytes != g.bytes {
			c.problem("generation %d counts %d keys of %d bytes, and has %d of %d", g.number, g.keys, g.bytes, had.keys, had.bytes)
		}
		delete(counts, g.number)
		c.must(timerKey(generationEnd(g.number), onceTimer, uint64(g.number), 0, 0))
	}
	for number, had := range counts {
		c.problem("%d keys are of generation %d, which is not there", had.keys, number)
	}
}

// purgedEnds checks that each generation of ends of purged runs has its timer.
func (c *checker) purgedEnds() {
	generations := map[uint32]bool{}
	c.table(purgedEndTable, func(key string, value []byte) {
		generation, claim, end := splitPurgedEndKey(key)
		generations[generation] = true
		e := decodePurgedEnd(key, value)
		if repeatsGeneration(e.at) != generation || e.at > c.meta.at || claim > c.meta.cursor || end.seq >= claim || !e.status.Terminal() || !e.code.Reported() {
			c.problem("generation %d has the end of runs of claim %d: %+v", generation, claim, e)
		}
		if sp, ok := readSpan(c.v, end.seq, end.line); ok && sp.Status != job.Purged {
			c.problem("line %d of batch %d is said to be purged after its run under claim %d, and is %v", end.line, end.seq, claim, sp.Status)
		}
	})
	for generation := range generations {
		c.must(timerKey(repeatsEnd(generation), repeatsTimer, uint64(generation), 0, 0))
	}
}

// ownerSum hashes a key to a number that hardly any other key has.
func ownerSum(key string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(key))
	return h.Sum64() | 1
}

// sessions checks that sessions are counted, that each has its timer, that no timer is too late, and that slots belong
// to sessions.
func (c *checker) sessions() {
	sessions := uint64(0)
	owners, slots := map[string]sessionOwner{}, map[uint64]uint64{}
	c.table(slotTable, func(key string, value []byte) { slots[seqOfKey(key)] += slotBytes(value) })
	c.table(sessionTable, func(key string, value []byte) {
		sessions++
		n := decodeSession(seqOfKey(key), value)
		if n.bytes != slots[n.seq] {
			c.problem("session %d counts %d bytes of slots, and has %d", n.seq, n.bytes, slots[n.seq])
		}
		o := owners[n.runner]
		owners[n.runner] = sessionOwner{o.sessions + 1, o.bytes + n.taken()}
		c.must(timerKey(n.timerAt, sessionTimer, n.seq, 0, 0))
		c.must(idleKey(n.used, n.idleAt, n.seq))
		if n.idleAt > n.usedAt || n.idleAt < n.at || !n.used && n.usedAt != n.at {
			c.problem("session %d has an idle row of %d, was opened at %d and used (%v) at %d", n.seq, n.idleAt, n.at, n.used, n.usedAt)
		}
		if n.timerAt > n.expiresAt() {
			c.problem("the timer of session %d is at %d, after its end %d", n.seq, n.timerAt, n.expiresAt())
		}
		if n.seq > c.meta.cursor || n.at > n.usedAt || n.usedAt > c.meta.at {
			c.problem("session %d of %d was used at %d, and the store is at %d of %d", n.seq, n.at, n.usedAt, c.meta.cursor, c.meta.at)
		}
	})
	bytes := uint64(0)
	c.table(sessionOwnerTable, func(key string, value []byte) {
		if said := decodeSessionOwner(value); said != owners[key[1:]] {
			c.problem("the sessions of runner %q count %+v, and take %+v", key[1:], said, owners[key[1:]])
		}
		bytes += owners[key[1:]].bytes
		delete(owners, key[1:])
	})
	if len(owners) > 0 || bytes != c.meta.sessionBytes {
		c.problem("sessions count %d bytes, and have %d; those of %d runners are not counted", c.meta.sessionBytes, bytes, len(owners))
	}
	if sessions != c.meta.sessions {
		c.problem("%d sessions are counted, and there are %d", c.meta.sessions, sessions)
	}
	c.table(slotTable, func(key string, value []byte) {
		seq, slot := seqOfKey(key), slotOfKey(key)
		n := readSession(c.v, seq)
		if n == nil {
			c.problem("slot %d is of session %d, which does not exist", slot, seq)
			return
		}
		number, d := decodeSlot(value)
		if number == 0 || d.seq == 0 && len(d.ended) == 0 || len(d.ended) > job.MaxParts || d.doneAt() > n.usedAt {
			c.problem("slot %d of session %d carried out number %d at %d, and the session was used at %d last", slot, seq, number, d.doneAt(), n.usedAt)
		}
	})
}

// sweeps checks that each sweep has exactly one timer.
func (c *checker) sweeps() {
	timers := map[uint64]int{}
	c.table(timerTable, func(key string, _ []byte) {
		if t := splitTimer(key); t.kind == sweepTimer {
			timers[t.a]++
		}
	})
	c.table(sweepTable, func(key string, value []byte) {
		seq := seqOfKey(key)
		w := decodeSweep(seq, value)
		if timers[seq] != 1 {
			c.problem("sweep %d has %d timers", seq, timers[seq])
		}
		c.rows[timerTable] += int64(timers[seq])
		if w.Op == 0 || w.Op > job.Delete || w.batch.IsZero() == (w.queueID == 0) {
			c.problem("sweep %d does %d to queue %d, batch %v", seq, w.Op, w.queueID, w.batch)
		}
		if seq > c.meta.cursor {
			c.problem("row %x lies beyond the cursor %d", key, c.meta.cursor)
		}
	})
}

// effects checks the size of the effects rows against the sizes that their segments record.
func (c *checker) effects() {
	segments := c.meta.effects
	bytes := make([]int64, len(segments))
	at := 0
	c.table(effectTable, func(key string, value []byte) {
		for at+1 < len(segments) && segments[at+1].first <= seqOfKey(key) {
			at++
		}
		if len(segments) == 0 || seqOfKey(key) < segments[at].first {
			c.problem("row %x is of no segment of effects", key)
			return
		}
		bytes[at] += int64(len(key) + len(value))
		last := uint64(0)
		eachEffects(seqOfKey(key), value, func(now job.Now, effects []effect) {
			if now.Seq <= last || now.Seq > c.meta.cursor || now.At > c.meta.at || len(effects) == 0 {
				c.problem("the row of effects %d has %d effects of command %d at %d, after those of command %d", seqOfKey(key), len(effects), now.Seq, now.At, last)
			}
			last = now.Seq
		})
	})
	for i, s := range segments {
		if bytes[i] != s.bytes {
			c.problem("the segment of effects from %d on counts %d bytes, and has %d", s.first, s.bytes, bytes[i])
		}
	}
}
