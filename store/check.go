package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// runCheck looks at all rows of the store and reports every broken invariant:
//
//   - spans tile each group of each batch without gap or overlap, and neighbours in the same state are one span;
//   - each span has exactly its index rows, and there are no other index rows;
//   - the counters of batches, queues and lanes equal recounts;
//   - claims and runners count the lines that the spans name, and claims name only lines that they handed out;
//   - each claim and runner has its timer, no timer is too late, and only held lines have leases;
//   - each unique key of an unfinished job has its hint, and idempotency keys and sessions are counted;
//   - each session and sweep has its timer;
//   - submissions have the counts of their parts, and have their index rows and timers;
//   - indexes of prefer_distinct have the spans, and count the active jobs, that they have looked at;
//   - payload pages tile the lines that are not purged, the rows of sizes have the lengths of their payloads, and
//     details belong to lines that are not purged.
//
// Check calls report with each problem; report returns false to stop. An unreadable row is a problem like any other.
// Check reads one moment of the database, and Apply may continue during the check.
//
// Check walks over the tables side by side, each through a separate iterator, and looks rows up in other tables. So its
// memory grows with the number of queues and with the leaves of indexes of prefer_distinct, but not with the number of
// batches, claims and keys.
func runCheck(db *lsm.DB, b *bounds, report func(problem string) bool) (problems int, err error) {
	defer lsm.Catch(&err)
	v := db.Snapshot()
	defer v.Close()
	c := checker{
		v: v, bounds: b,
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

// forms finds keys that do not have the form of any table.
func (c *checker) forms() {
	c.v.All(func(key string) {
		if !wellFormed(key) {
			c.problem("key %x is of no table", key)
		}
	})
}
