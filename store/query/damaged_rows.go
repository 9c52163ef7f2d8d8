package query

import (
	"sort"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// A damaged block of Pebble holds rows of many jobs: pages of payloads, unique keys or histories. A claim sets those
// jobs aside, and a document shows the readable parts of its job. Neither fails because of damage to a different job.

// damagedRow names rows that could not be read: the rows of a line in a table, or a page of payloads by its first line.
// The store remembers it, because on each further read Pebble would search for the flipped bit, for up to some seconds.
type damagedRow struct {
	table byte
	batch uint64
	line  uint32
}

// damage returns why a row cannot be read, if an earlier read has failed.
func (q *Queries) damage(row damagedRow) error {
	if known, ok := q.damaged.Load(row); ok {
		return known.(error)
	}
	return nil
}

// setDamage records why a row cannot be read.
func (q *Queries) setDamage(row damagedRow, err error) { q.damaged.Store(row, err) }

// pageRow returns the damagedRow for the page of a line.
func pageRow(b *row.Batch, line uint32) damagedRow {
	first, _ := b.PageOf(line)
	return damagedRow{row.PageTable, b.Seq, first}
}

// readPage reads the page of a line, and returns an error if it cannot be read.
func (q *Queries) readPage(v lsm.View, b *row.Batch, line uint32) error {
	entry := pageRow(b, line)
	if known := q.damage(entry); known != nil {
		return known
	}
	err := lsm.Try(func() { row.EachPayload(v, b, line, line, func(uint32, []byte) bool { return true }) })
	if lsm.Unreadable(err) {
		q.setDamage(entry, err)
	}
	return err
}

// hasPage reports whether a line's page exists. A page is deleted when all of its lines are purged. Lines that are
// purged one by one leave as many deleted spans, which a search for a span would pass, but only few deleted pages. A
// page that cannot be read may exist.
func (q *Queries) hasPage(v lsm.View, b *row.Batch, line uint32) (there bool) {
	if b.Frame == job.NoFrame || q.damage(pageRow(b, line)) != nil {
		return true
	}
	err := lsm.Try(func() {
		v.Scan(row.PageKey(b.Seq, line, 0), lsm.After(row.SeqKey(row.PageTable, b.Seq)), func(key string, _ []byte) bool {
			_, first := row.SplitPageKey(key)
			there = first <= line
			return false
		})
	})
	if lsm.Unreadable(err) {
		q.setDamage(pageRow(b, line), err)
		return true
	}
	if err != nil {
		panic(err)
	}
	return there
}

// readLines calls read for lines of a batch, and unread for each line whose rows in a table cannot be read. If there is
// no damage, it calls read once. Otherwise it calls read for single lines, and for some lines more than once.
func (q *Queries) readLines(table byte, r row.Run, read func(first, last uint32), unread func(line uint32, err error)) {
	known := false
	for line := r.First; line <= r.Last && !known; line++ {
		known = q.damage(damagedRow{table, r.Batch, line}) != nil
	}
	if !known {
		err := lsm.Try(func() { read(r.First, r.Last) })
		if err == nil {
			return
		}
		if !lsm.Unreadable(err) {
			panic(err)
		}
	}
	readOne := func(line uint32) (err error) {
		if err = q.damage(damagedRow{table, r.Batch, line}); err == nil {
			if err = lsm.Try(func() { read(line, line) }); err != nil && !lsm.Unreadable(err) {
				panic(err)
			}
		}
		return err
	}
	for line := r.First; line <= r.Last; line++ {
		err := readOne(line)
		if err == nil {
			continue
		}
		// The lines whose rows are in one block are consecutive, so a binary search finds where they end. If a later
		// block is damaged too, this may count readable lines between the two as unreadable.
		n := sort.Search(int(r.Last-line), func(i int) bool { return readOne(line+1+uint32(i)) == nil })
		for end := line + uint32(n); ; line++ {
			q.setDamage(damagedRow{table, r.Batch, line}, err)
			unread(line, err)
			if line == end {
				break
			}
		}
	}
}
