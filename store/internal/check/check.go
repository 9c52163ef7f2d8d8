package check

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// Run looks at all rows of the store and reports every broken invariant:
//
//   - spans tile each group of each batch without gap or overlap, and neighbours in the same state are one span;
//   - each span has exactly its index rows, and there are no other index rows;
//   - the counters of batches, queues and lanes equal recounts;
//   - claims and runners count the lines that the spans name, and claims name only lines that they handed out;
//   - each claim and runner has its timer, no timer is too late, and only held lines have leases;
//   - each unique key of an unfinished job has its hint, and idempotency keys and sessions are counted;
//   - each session and sweep has its timer;
//   - submissions have the counts of their parts, and have their index rows and timers;
//   - each named document has its versions in order and their texts, and deleted ones are listed by their deletions;
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
func Run(db *lsm.DB, b *memory.Bounds, report func(problem string) bool) (problems int, err error) {
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
	c.Run()
	return c.problems, nil
}

func (c *checker) Run() {
	c.forms()
	c.meta = row.Meta{NextQueue: 1} // of a new store
	c.guard(func() {
		if value := c.v.Get(row.MetaKey); value != nil {
			c.meta = row.DecodeMeta(value)
		}
	}, "meta row")
	c.rules = c.bounds.RulesAt(c.meta.Level)
	c.distinctIndexes()
	c.table(row.BatchTable, func(key string, value []byte) {
		seq := row.SeqOfKey(key)
		c.guard(func() {
			b := row.DecodeBatch(seq, value)
			b.BatchCounts = row.DecodeBatchCounts(c.v.Get(row.SeqKey(row.CountsTable, seq)))
			c.Batch(b)
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
	c.audit()
	c.documents()
	c.submissions()
	c.distinctLeaves()
	for _, table := range []byte{row.GroupTable, row.ListTable, row.MovedTable, row.ReadyTable, row.TimerTable, row.HoldTable, row.NoticeTable, row.CellTable, row.IdleTable, row.BatchIndexTable, row.DistinctTable, row.DocumentTextTable, row.DeletionTable, row.EffectIndexTable} {
		n := int64(0)
		c.table(table, func(string, []byte) { n++ })
		if n != c.rows[table] {
			c.problem("table %c has %d rows, and %d belong to something", table, n, c.rows[table])
		}
	}
	if want, got := job.EpochOf(c.meta.Cursor), c.meta.Epoch(); want != got {
		c.problem("the newest epoch is %d, and the cursor %d lies in epoch %d", got, c.meta.Cursor, want)
	}
	for i, e := range c.meta.Epochs {
		if e.At > c.meta.At || i > 0 && (e.Number <= c.meta.Epochs[i-1].Number || e.At < c.meta.Epochs[i-1].At) {
			c.problem("epoch %d began at %d: not after the one before it, or beyond the store's time %d", e.Number, e.At, c.meta.At)
		}
	}
	for _, table := range []byte{row.EffectTable, row.BatchTable, row.ClaimTable} {
		c.table(table, func(key string, _ []byte) {
			if row.SeqOfKey(key) > c.meta.Cursor {
				c.problem("row %x lies beyond the cursor %d", key, c.meta.Cursor)
			}
		})
	}
}

// forms finds keys that do not have the form of any table.
func (c *checker) forms() {
	c.v.All(func(key string) {
		if !row.WellFormed(key) {
			c.problem("key %x is of no table", key)
		}
	})
}
