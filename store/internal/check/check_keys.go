package check

import (
	"cmp"
	"hash/fnv"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/machine"
	"github.com/daybookq/daybook/store/internal/row"
)

// submissionEndedIn reports whether a batch is part of a submission that has ended.
func submissionEndedIn(r lsm.Rows, b *row.Batch) bool {
	s := row.ReadSubmission(r, b.Submission)
	return s != nil && s.Status.Ended()
}

// uniques checks the keys of lines, and the hints that say which line has a key: every unfinished line with a key must
// have its hint, and every hint must name a line with that key.
func (c *checker) uniques() {
	c.table(row.LineKeyTable, func(key string, value []byte) {
		seq, line, unique := row.SeqOfKey(key), row.LineOfKey(key), string(value)
		c.guard(func() {
			b := row.ReadBatch(c.v, seq)
			sp, ok := row.ReadSpan(c.v, seq, line)
			switch {
			case b == nil || !ok || sp.Status == job.Purged:
				c.problem("line %d of batch %d has a unique key, and is purged or none", line, seq)
				return
			case !b.Unique:
				c.problem("batch %d has unique keys that it does not know of", seq)
			case unique == "":
				c.problem("line %d of batch %d has an empty unique key", line, seq)
			}
			if !sp.Status.Unfinished() || b.Submission != 0 && submissionEndedIn(c.v, b) {
				return // a different job may have it
			}
			value := c.v.Get(row.UniqueKey(c.groups.Group(c.v, b, line).QueueID, unique))
			if value == nil {
				c.problem("line %d of batch %d does not hold its unique key", line, seq)
			} else if heldBy, at := machine.DecodeLine(value); heldBy != seq || at != line {
				c.problem("the unique key of line %d of batch %d is held by line %d of batch %d", line, seq, at, heldBy)
			}
		}, "unique key of line %d of batch %d", line, seq)
	})
	c.table(row.UniqueTable, func(key string, value []byte) {
		seq, line := machine.DecodeLine(value)
		b := row.ReadBatch(c.v, seq)
		if b == nil || line >= b.Lines || c.groups.Group(c.v, b, line).QueueID != lsm.U32At(key, 1) || string(c.v.Get(row.LineKey(row.LineKeyTable, seq, line))) != key[5:] {
			c.problem("row %x names a job that has not that key", key)
		}
	})
}

// onces checks the idempotency keys against the counts of their generations, and that each generation has its timer.
func (c *checker) onces() {
	counts := map[uint32]row.KeyGeneration{}
	owned := uint64(0) // a sum over owners and their keys and bytes that is 0 if the owners' rows are right
	c.table(row.OnceTable, func(key string, value []byte) {
		size := uint64(len(key) + len(value))
		d := row.DecodeDone((*lsm.Decoder)(&value))
		g := counts[lsm.U32At(key, 1)]
		g.Keys++
		g.Bytes += size
		counts[lsm.U32At(key, 1)] = g
		owner := cmp.Or(d.Owner, job.OwnerInScope(row.ScopeOfOnce(key)))
		owned += (size + ownedKey) * ownerSum(row.OwnerKey(lsm.U32At(key, 1), owner))
	})
	c.table(row.OwnerTable, func(key string, value []byte) {
		o := row.DecodeKeyOwner(value)
		owned -= (o.Bytes + o.Keys*ownedKey) * ownerSum(key)
	})
	if owned != 0 {
		c.problem("the owners of idempotency keys count other keys or bytes than there are")
	}
	for _, g := range c.meta.Keys {
		if had := counts[g.Number]; had.Keys != g.Keys || had.Bytes != g.Bytes {
			c.problem("generation %d counts %d keys of %d bytes, and has %d of %d", g.Number, g.Keys, g.Bytes, had.Keys, had.Bytes)
		}
		delete(counts, g.Number)
		c.must(row.TimerKey(machine.GenerationEnd(g.Number), row.OnceTimer, uint64(g.Number), 0, 0))
	}
	for number, had := range counts {
		c.problem("%d keys are of generation %d, which is not there", had.Keys, number)
	}
}

// purgedEnds checks that each generation of ends of purged runs has its timer.
func (c *checker) purgedEnds() {
	generations := map[uint32]bool{}
	c.table(row.PurgedEndTable, func(key string, value []byte) {
		generation, claim, end := row.SplitPurgedEndKey(key)
		generations[generation] = true
		e := row.DecodePurgedEnd(key, value)
		if row.RepeatsGeneration(e.At) != generation || e.At > c.meta.At || claim > c.meta.Cursor || end.Seq >= claim || !e.Status.Terminal() || !e.Code.Reported() {
			c.problem("generation %d has the end of runs of claim %d: %+v", generation, claim, e)
		}
		if sp, ok := row.ReadSpan(c.v, end.Seq, end.Line); ok && sp.Status != job.Purged {
			c.problem("line %d of batch %d is said to be purged after its run under claim %d, and is %v", end.Line, end.Seq, claim, sp.Status)
		}
	})
	for generation := range generations {
		c.must(row.TimerKey(row.RepeatsEnd(generation), row.RepeatsTimer, uint64(generation), 0, 0))
	}
}

// ownedKey is how much a key adds to the sum over owners, beside its bytes.
const ownedKey = 1 << 40

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
	owners, slots := map[string]row.SessionOwner{}, map[uint64]uint64{}
	c.table(row.SlotTable, func(key string, value []byte) { slots[row.SeqOfKey(key)] += row.SlotBytes(value) })
	c.table(row.SessionTable, func(key string, value []byte) {
		sessions++
		n := row.DecodeSession(row.SeqOfKey(key), value)
		if n.Bytes != slots[n.Seq] {
			c.problem("session %d counts %d bytes of slots, and has %d", n.Seq, n.Bytes, slots[n.Seq])
		}
		o := owners[n.Owner]
		owners[n.Owner] = row.SessionOwner{o.Sessions + 1, o.Bytes + n.Taken()}
		c.must(row.TimerKey(n.TimerAt, row.SessionTimer, n.Seq, 0, 0))
		c.must(row.IdleKey(n.Used, n.IdleAt, n.Seq))
		if n.IdleAt > n.UsedAt || n.IdleAt < n.At || !n.Used && n.UsedAt != n.At {
			c.problem("session %d has an idle row of %d, was opened at %d and used (%v) at %d", n.Seq, n.IdleAt, n.At, n.Used, n.UsedAt)
		}
		if n.TimerAt > n.ExpiresAt() {
			c.problem("the timer of session %d is at %d, after its end %d", n.Seq, n.TimerAt, n.ExpiresAt())
		}
		if n.Seq > c.meta.Cursor || n.At > n.UsedAt || n.UsedAt > c.meta.At {
			c.problem("session %d of %d was used at %d, and the store is at %d of %d", n.Seq, n.At, n.UsedAt, c.meta.Cursor, c.meta.At)
		}
	})
	bytes := uint64(0)
	c.table(row.SessionOwnerTable, func(key string, value []byte) {
		if said := row.DecodeSessionOwner(value); said != owners[key[1:]] {
			c.problem("the sessions of %q count %+v, and take %+v", key[1:], said, owners[key[1:]])
		}
		bytes += owners[key[1:]].Bytes
		delete(owners, key[1:])
	})
	if len(owners) > 0 || bytes != c.meta.SessionBytes {
		c.problem("sessions count %d bytes, and have %d; those of %d owners are not counted", c.meta.SessionBytes, bytes, len(owners))
	}
	if sessions != c.meta.Sessions {
		c.problem("%d sessions are counted, and there are %d", c.meta.Sessions, sessions)
	}
	c.table(row.SlotTable, func(key string, value []byte) {
		seq, slot := row.SeqOfKey(key), row.SlotOfKey(key)
		n := row.ReadSession(c.v, seq)
		if n == nil {
			c.problem("slot %d is of session %d, which does not exist", slot, seq)
			return
		}
		number, d := row.DecodeSlot(value)
		if number == 0 || d.Seq == 0 && len(d.Ended) == 0 || len(d.Ended) > job.MaxParts || d.DoneAt() > n.UsedAt {
			c.problem("slot %d of session %d carried out number %d at %d, and the session was used at %d last", slot, seq, number, d.DoneAt(), n.UsedAt)
		}
	})
}

// sweeps checks that each sweep has exactly one timer.
func (c *checker) sweeps() {
	timers := map[uint64]int{}
	c.table(row.TimerTable, func(key string, _ []byte) {
		if t := row.SplitTimer(key); t.Kind == row.SweepTimer {
			timers[t.A]++
		}
	})
	c.table(row.SweepTable, func(key string, value []byte) {
		seq := row.SeqOfKey(key)
		w := row.DecodeSweep(seq, value)
		if timers[seq] != 1 {
			c.problem("sweep %d has %d timers", seq, timers[seq])
		}
		c.rows[row.TimerTable] += int64(timers[seq])
		if w.Op == 0 || w.Op > job.Delete || w.Batch.IsZero() == (w.QueueID == 0) {
			c.problem("sweep %d does %d to queue %d, batch %v", seq, w.Op, w.QueueID, w.Batch)
		}
		if seq > c.meta.Cursor {
			c.problem("row %x lies beyond the cursor %d", key, c.meta.Cursor)
		}
	})
}

// audit checks the sizes of the rows of the audit against the sizes that their segments record.
func (c *checker) audit() {
	for i, table := range row.AuditTables {
		c.segmented("the audit", table, c.meta.Audit[i], func(_, seq uint64, value []byte) int64 {
			if a := row.DecodeAudited(seq, value); seq > c.meta.Cursor || a.At > c.meta.At {
				c.problem("the audit has command %d at %d", seq, a.At)
			}
			return 0
		})
	}
}

// effects checks the sizes of the rows of effects, and of the lists of the commands of batches, against the sizes that their segments
// record.
func (c *checker) effects() {
	c.segmented("effects", row.EffectTable, c.meta.Effects, func(segment, seq uint64, value []byte) (more int64) {
		last := uint64(0)
		row.EachEffects(seq, value, func(by *row.Cause, effects []row.Effect) {
			if by.Seq <= last || by.Seq > c.meta.Cursor || by.At > c.meta.At || len(effects) == 0 {
				c.problem("the row of effects %d has %d effects of command %d at %d, after those of command %d", seq, len(effects), by.Seq, by.At, last)
			}
			last = by.Seq
			for _, batch := range row.Listed(nil, by.Seq, effects) {
				c.must(row.EffectIndexKey(segment, batch, by.Seq))
				more += row.EffectIndexKeyBytes
			}
		})
		return more
	})
}

// segmented checks that each row of a table is in a segment, and that the segments record the sizes of their rows. visit returns the
// bytes of other rows that count with a row.
func (c *checker) segmented(what string, table byte, segments []row.Segment, visit func(segment, seq uint64, value []byte) (more int64)) {
	bytes := make([]int64, len(segments))
	at := 0
	c.table(table, func(key string, value []byte) {
		seq := row.SeqOfKey(key)
		for at+1 < len(segments) && segments[at+1].First <= seq {
			at++
		}
		if len(segments) == 0 || seq < segments[at].First {
			c.problem("row %x is of no segment of %s", key, what)
			return
		}
		bytes[at] += int64(len(key)+len(value)) + visit(segments[at].First, seq, value)
	})
	for i, s := range segments {
		if bytes[i] != s.Bytes {
			c.problem("the segment of %s from %d on counts %d bytes, and has %d", what, s.First, s.Bytes, bytes[i])
		}
	}
}
