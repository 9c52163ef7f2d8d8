package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// Check looks at everything the store holds and reports every invariant that is broken:
//
//   - spans tile each group of each batch without gap or overlap, and neighbours in the same state are one span;
//   - each span has exactly its index rows, and there are no others;
//   - the counters of batches, queues and lanes equal recounts;
//   - claims and runners count what the spans name, and claims name no lines that they did not hand out; each has its timer, none
//     too late, and only leases of held lines exist;
//   - unique keys are held by those who have them, idempotency keys and sessions are counted, and each session and sweep has its timer;
//   - submissions count what their parts count, and have their index rows and timers;
//   - indexes of prefer_distinct have the spans and count the active jobs that they have looked at;
//   - payload pages tile what is not purged, the rows of sizes have the lengths of their payloads, and details belong to lines that are not.
//
// report is called with each problem and returns false to stop. A row that cannot be read is a problem like any other.
// Check reads one moment of the database; Apply may continue.
//
// Check walks over the tables side by side, each through an iterator of its own, and looks rows up in the others. So
// its memory grows with the number of queues and with the leaves of indexes of prefer_distinct, and not with those of
// batches, claims and keys.
func (s *Store) Check(report func(problem string) bool) (problems int, err error) {
	defer lsm.Catch(&err)
	v := s.db.Snapshot()
	defer v.Close()
	c := checker{
		v: v, bounds: s.machine.bounds,
		queues: map[uint32]*recount{}, distinct: map[byte]*distinctCheck{}, rows: map[byte]int64{}, report: report,
	}
	defer func() {
		problems = c.problems
		if r := recover(); r != nil && r != errEnough {
			panic(r)
		}
	}()
	c.run()
	return c.problems, nil
}

func (c *checker) run() {
	c.forms()
	c.meta = meta{nextQueue: 1} // of a new store
	c.guard(func() {
		if value := c.v.Get(metaKey); value != nil {
			c.meta = decodeMeta(value)
		}
	}, "meta row")
	c.rules = c.bounds.rulesAt(c.meta.level)
	c.distinctIndexes()
	c.table(batchTable, func(key string, value []byte) {
		seq := seqOfKey(key)
		c.guard(func() {
			b := decodeBatch(seq, value)
			b.batchCounts = decodeBatchCounts(c.v.Get(seqKey(countsTable, seq)))
			c.batch(b)
		}, "batch %d", seq)
	})
	c.orphans()
	c.leases()
	c.names()
	c.uniques()
	c.onces()
	c.purgedEnds()
	c.sessions()
	c.sweeps()
	c.effects()
	c.handlers()
	c.filesets()
	c.submissions()
	c.distinctLeaves()
	for _, table := range []byte{groupTable, listTable, readyTable, timerTable, holdTable, noticeTable, cellTable, idleTable, batchIndexTable, distinctTable} {
		n := int64(0)
		c.table(table, func(string, []byte) { n++ })
		if n != c.rows[table] {
			c.problem("table %c has %d rows, and %d belong to something", table, n, c.rows[table])
		}
	}
	if want, got := job.EpochOf(c.meta.cursor), c.meta.epoch(); want != got {
		c.problem("the newest epoch is %d, and the cursor %d lies in epoch %d", got, c.meta.cursor, want)
	}
	for i, e := range c.meta.epochs {
		if e.at > c.meta.at || i > 0 && (e.number <= c.meta.epochs[i-1].number || e.at < c.meta.epochs[i-1].at) {
			c.problem("epoch %d began at %d: not after the one before it, or beyond the store's time %d", e.number, e.at, c.meta.at)
		}
	}
	for _, table := range []byte{effectTable, batchTable, claimTable} {
		c.table(table, func(key string, _ []byte) {
			if seqOfKey(key) > c.meta.cursor {
				c.problem("row %x lies beyond the cursor %d", key, c.meta.cursor)
			}
		})
	}
}

// forms finds keys that have the form of no table.
func (c *checker) forms() {
	c.v.All(func(key string) {
		if !wellFormed(key) {
			c.problem("key %x is of no table", key)
		}
	})
}
