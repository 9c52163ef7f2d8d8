package lsm

import (
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/tidwall/btree"
)

// Overlay keeps the writes since the last commit in memory, over the database. The writer reads through it.
//
// Pebble's own indexed batch does the same. But if a row, such as a counter, is written again and again within a
// commit, the overlay keeps only its last value.
type Overlay struct {
	db *DB
	// sparse has the first bytes of keys that are usually absent when they are looked up. Reads of them also ask the
	// filters of the last level.
	sparse string
	rows   btree.Map[string, overlayRow]
	// ranges were deleted since the last commit. Rows written into a deleted range afterwards are live.
	ranges []keyRange
	bytes  int // of keys and values in rows
	// writes counts the rows set and deleted, including rows that replaced an earlier write.
	writes int
	work   Work
}

// Work counts the cost of reading through an overlay, for tests of the costs of a command.
type Work struct {
	Looks     int // rows looked up or visited, in memory or in the database
	Reads     int // looks that had to ask the database
	Iterators int // opened iterators
	Steps     int // of the iterators inside Pebble, over live rows and over deleted rows that are not compacted away yet
}

// Overlay returns an empty overlay over the database. sparse has the first bytes of keys that are usually absent when
// they are looked up.
func (d *DB) Overlay(sparse string) Overlay { return Overlay{db: d, sparse: sparse} }

// Bytes returns the size of the writes that wait for Commit.
func (o *Overlay) Bytes() int { return o.bytes }

// Writes returns how many rows were set and deleted since the overlay was made, including those that replaced an
// earlier write.
func (o *Overlay) Writes() int { return o.writes }

// Work returns the cost of reading since the overlay was made.
func (o *Overlay) Work() Work { return o.work }

// Uncounted calls do without counting its writes in Writes.
func (o *Overlay) Uncounted(do func()) {
	writes := o.writes
	do()
	o.writes = writes
}

type overlayRow struct {
	value   []byte
	deleted bool
}

type keyRange struct{ from, to string } // to is not included

// Set writes a row.
func (o *Overlay) Set(key string, value []byte) {
	o.bytes += len(key) + len(value)
	o.writes++
	o.rows.Set(key, overlayRow{value: value})
}

// Delete deletes a row.
func (o *Overlay) Delete(key string) {
	o.bytes += len(key)
	o.writes++
	o.rows.Set(key, overlayRow{deleted: true})
}

// DeleteRange deletes every key from … to (exclusive).
func (o *Overlay) DeleteRange(from, to string) {
	var gone []string
	o.rows.Ascend(from, func(key string, _ overlayRow) bool {
		if key >= to {
			return false
		}
		gone = append(gone, key)
		return true
	})
	for _, key := range gone {
		o.rows.Delete(key)
	}
	o.ranges = append(o.ranges, keyRange{from, to})
}

func (o *Overlay) inDeletedRange(key string) bool {
	for _, c := range o.ranges {
		if c.from <= key && key < c.to {
			return true
		}
	}
	return false
}

// Get returns the value of key, or nil. The value must not be changed.
func (o *Overlay) Get(key string) []byte {
	o.work.Looks++
	if row, ok := o.rows.Get(key); ok {
		if !row.deleted && row.value == nil {
			return []byte{}
		}
		return row.value
	}
	if o.inDeletedRange(key) {
		return nil
	}
	o.work.Reads++
	if strings.IndexByte(o.sparse, key[0]) >= 0 {
		return o.probe(key)
	}
	value, closer, err := o.db.pebble.Get([]byte(key))
	if err == pebble.ErrNotFound {
		return nil
	}
	Fail("read", err)
	value = append(make([]byte, 0, len(value)), value...)
	Fail("read", closer.Close())
	return value
}

// probe is Get for keys that are usually absent. Unlike Pebble's Get it also asks the filters of the last level, which
// has most tables.
func (o *Overlay) probe(key string) (value []byte) {
	it, err := o.db.pebble.NewIter(&pebble.IterOptions{LowerBound: []byte(key), UpperBound: []byte(key + "\x00"), UseL6Filters: true})
	Fail("read", err)
	defer func() { Fail("read", it.Close()) }()
	if it.SeekPrefixGE([]byte(key)) {
		value = append([]byte{}, it.Value()...) // not nil, though it may be empty
	}
	Fail("read", it.Error())
	return value
}

// GetAll calls visit with the rows of keys, as far as they exist. keys must ascend. The value is valid during the visit.
func (o *Overlay) GetAll(keys []string, visit func(key string, value []byte)) {
	if len(keys) == 0 {
		return
	}
	o.work.Iterators++
	o.work.Looks += len(keys)
	o.work.Reads += len(keys)
	it, err := o.db.pebble.NewIter(&pebble.IterOptions{LowerBound: []byte(keys[0]), UpperBound: []byte(keys[len(keys)-1] + "\x00")})
	Fail("read", err)
	defer func() { Fail("read", it.Close()) }()
	for _, key := range keys {
		if row, ok := o.rows.Get(key); ok {
			if !row.deleted {
				visit(key, row.value)
			}
		} else if !o.inDeletedRange(key) && it.SeekPrefixGE([]byte(key)) && string(it.Key()) == key {
			visit(key, it.Value())
		}
	}
	Fail("read", it.Error())
}

// closeScan closes an iterator, and counts its steps.
func (o *Overlay) closeScan(it *pebble.Iterator) {
	stats := it.Stats()
	o.work.Steps += stats.ForwardStepCount[pebble.InternalIterCall] + stats.ReverseStepCount[pebble.InternalIterCall]
	Fail("scan", it.Close())
}

// Scan calls visit with the rows from … to (exclusive), in order, until it returns false. visit must not write.
func (o *Overlay) Scan(from, to string, visit func(key string, value []byte) bool) {
	o.work.Iterators++
	it, err := o.db.pebble.NewIter(&pebble.IterOptions{LowerBound: []byte(from), UpperBound: []byte(to)})
	Fail("scan", err)
	defer func() { o.closeScan(it) }()
	rows := o.rows.Iter()
	more := rows.Seek(from) && rows.Key() < to
	for ok := it.First(); ok || more; {
		o.work.Looks++
		o.work.Reads++
		switch {
		case more && (!ok || rows.Key() <= string(it.Key())):
			if ok && rows.Key() == string(it.Key()) {
				ok = it.Next()
			}
			if row := rows.Value(); !row.deleted && !visit(rows.Key(), row.value) {
				return
			}
			more = rows.Next() && rows.Key() < to
		default:
			if key := string(it.Key()); !o.inDeletedRange(key) && !visit(key, it.Value()) {
				return
			}
			ok = it.Next()
		}
	}
	Fail("scan", it.Error())
}

// ScanDown is Scan in the opposite order, from the last row before to.
func (o *Overlay) ScanDown(from, to string, visit func(key string, value []byte) bool) {
	o.work.Iterators++
	it, err := o.db.pebble.NewIter(&pebble.IterOptions{LowerBound: []byte(from), UpperBound: []byte(to)})
	Fail("scan", err)
	defer func() { o.closeScan(it) }()
	rows := o.rows.Iter()
	more := false
	if rows.Seek(to) {
		more = rows.Prev()
	} else {
		more = rows.Last()
	}
	more = more && rows.Key() >= from
	for ok := it.Last(); ok || more; {
		o.work.Looks++
		o.work.Reads++
		switch {
		case more && (!ok || rows.Key() >= string(it.Key())):
			if ok && rows.Key() == string(it.Key()) {
				ok = it.Prev()
			}
			if row := rows.Value(); !row.deleted && !visit(rows.Key(), row.value) {
				return
			}
			more = rows.Prev() && rows.Key() >= from
		default:
			if key := string(it.Key()); !o.inDeletedRange(key) && !visit(key, it.Value()) {
				return
			}
			ok = it.Prev()
		}
	}
	Fail("scan", it.Error())
}

// flush moves all writes into batch and empties the overlay.
func (o *Overlay) flush(batch *pebble.Batch) error {
	for _, c := range o.ranges {
		if err := batch.DeleteRange([]byte(c.from), []byte(c.to), nil); err != nil {
			return err
		}
	}
	var err error
	o.rows.Scan(func(key string, row overlayRow) bool {
		if row.deleted {
			d := batch.DeleteDeferred(len(key))
			copy(d.Key, key)
			err = d.Finish()
		} else {
			d := batch.SetDeferred(len(key), len(row.value))
			copy(d.Key, key)
			copy(d.Value, row.value)
			err = d.Finish()
		}
		return err == nil
	})
	o.rows.Clear()
	o.ranges = o.ranges[:0]
	o.bytes = 0
	return err
}

// Commit applies an overlay as one batch, and empties it. Views opened afterwards see the batch. It is durable once
// Pebble has flushed. While Pebble cannot write to its disk, Commit may block, without a time limit.
func (d *DB) Commit(o *Overlay) error {
	if err := o.flush(d.outgoing); err != nil {
		return &Error{"build commit", err}
	}
	if err := d.pebble.Apply(d.outgoing, pebble.NoSync); err != nil {
		return &Error{"commit", err}
	}
	d.outgoing.Reset()
	return nil
}
