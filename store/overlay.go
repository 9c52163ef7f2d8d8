package store

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/tidwall/btree"
)

// overlay is what Apply has written since the last commit, over the database. Apply reads through it and never the database
// behind it. A commit turns it into one Pebble batch.
//
// Pebble's own indexed batch does the same; this one knows that rows are written again and again within a commit (counters, a
// claim being worked off) and keeps one value for each.
type overlay struct {
	db   *pebble.DB
	rows btree.Map[string, overlayRow]
	// cuts are ranges deleted since the last commit. They lie below rows: a row written later into a cut range lives.
	cuts  []keyRange
	bytes int // of keys and values in rows, to bound a commit
	// writes counts what was set and deleted, also when it replaced what was written before, to bound a command.
	writes int
	// reads counts rows that were looked up or visited, and iterators those that were opened, for tests of what a command costs.
	reads, iterators int
}

type overlayRow struct {
	value   []byte
	deleted bool
}

type keyRange struct{ from, to string } // to is not included

func (o *overlay) set(key string, value []byte) {
	o.bytes += len(key) + len(value)
	o.writes++
	o.rows.Set(key, overlayRow{value: value})
}

func (o *overlay) del(key string) {
	o.bytes += len(key)
	o.writes++
	o.rows.Set(key, overlayRow{deleted: true})
}

// cut deletes every key from … to (not included).
func (o *overlay) cut(from, to string) {
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
	o.cuts = append(o.cuts, keyRange{from, to})
}

func (o *overlay) isCut(key string) bool {
	for _, c := range o.cuts {
		if c.from <= key && key < c.to {
			return true
		}
	}
	return false
}

// get returns the value of key, or nil. The value must not be changed.
func (o *overlay) get(key string) []byte {
	if row, ok := o.rows.Get(key); ok {
		if !row.deleted && row.value == nil {
			return []byte{}
		}
		return row.value
	}
	if o.isCut(key) {
		return nil
	}
	o.reads++
	if mostlyAbsent(key[0]) {
		return o.probe(key)
	}
	value, closer, err := o.db.Get([]byte(key))
	if err == pebble.ErrNotFound {
		return nil
	}
	fail("read", err)
	value = append(make([]byte, 0, len(value)), value...)
	fail("read", closer.Close())
	return value
}

// mostlyAbsent reports whether Apply looks in a table mostly for keys that are not there.
func mostlyAbsent(table byte) bool { return table == uniqueTable || table == onceTable }

// probe is get for keys that are mostly absent: unlike Pebble's Get it asks the filters of the last level as well, which has most tables.
func (o *overlay) probe(key string) (value []byte) {
	it, err := o.db.NewIter(&pebble.IterOptions{LowerBound: []byte(key), UpperBound: []byte(key + "\x00"), UseL6Filters: true})
	fail("read", err)
	defer func() { fail("read", it.Close()) }()
	if it.SeekPrefixGE([]byte(key)) {
		value = append([]byte{}, it.Value()...) // not nil, though it be empty
	}
	fail("read", it.Error())
	return value
}

// getAll calls visit with the rows of some keys, which ascend, as far as they are there. The value is valid during the visit.
func (o *overlay) getAll(keys []string, visit func(key string, value []byte)) {
	if len(keys) == 0 {
		return
	}
	o.iterators++
	o.reads += len(keys)
	it, err := o.db.NewIter(&pebble.IterOptions{LowerBound: []byte(keys[0]), UpperBound: []byte(keys[len(keys)-1] + "\x00")})
	fail("read", err)
	defer func() { fail("read", it.Close()) }()
	for _, key := range keys {
		if row, ok := o.rows.Get(key); ok {
			if !row.deleted {
				visit(key, row.value)
			}
		} else if !o.isCut(key) && it.SeekPrefixGE([]byte(key)) && string(it.Key()) == key {
			visit(key, it.Value())
		}
	}
	fail("read", it.Error())
}

// scan calls visit with the live rows from … to (not included), in order, until it returns false. visit must not write.
func (o *overlay) scan(from, to string, visit func(key string, value []byte) bool) {
	o.iterators++
	it, err := o.db.NewIter(&pebble.IterOptions{LowerBound: []byte(from), UpperBound: []byte(to)})
	fail("scan", err)
	defer func() { fail("scan", it.Close()) }()
	rows := o.rows.Iter()
	more := rows.Seek(from) && rows.Key() < to
	for ok := it.First(); ok || more; {
		o.reads++
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
			if key := string(it.Key()); !o.isCut(key) && !visit(key, it.Value()) {
				return
			}
			ok = it.Next()
		}
	}
	fail("scan", it.Error())
}

// scanDown is scan in the opposite order, from the last row before to.
func (o *overlay) scanDown(from, to string, visit func(key string, value []byte) bool) {
	o.iterators++
	it, err := o.db.NewIter(&pebble.IterOptions{LowerBound: []byte(from), UpperBound: []byte(to)})
	fail("scan", err)
	defer func() { fail("scan", it.Close()) }()
	rows := o.rows.Iter()
	more := false
	if rows.Seek(to) {
		more = rows.Prev()
	} else {
		more = rows.Last()
	}
	more = more && rows.Key() >= from
	for ok := it.Last(); ok || more; {
		o.reads++
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
			if key := string(it.Key()); !o.isCut(key) && !visit(key, it.Value()) {
				return
			}
			ok = it.Prev()
		}
	}
	fail("scan", it.Error())
}

// flush moves everything into batch and empties the overlay.
func (o *overlay) flush(batch *pebble.Batch) error {
	for _, c := range o.cuts {
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
	o.cuts = o.cuts[:0]
	o.bytes = 0
	return err
}

// Error is a failure of the database beneath Apply or a query: an unreadable file or a row that is not what it should be.
// The store must be closed; its state is what the last commit left.
type Error struct {
	Op  string
	Err error
}

func (e *Error) Unwrap() error { return e.Err }

// fail unwinds to the nearest catch with an *Error. Apply touches the database in so many places, none of which could go on,
// that returning the error through each would hide what it does.
func fail(op string, err error) {
	if err != nil {
		panic(&Error{Op: op, Err: err})
	}
}

// errContradiction: what one row says cannot be, by another or by itself.
var errContradiction = errors.New("rows contradict each other")

// contradict is fail for rows that cannot be so together: damage, as ErrDamaged tells.
func contradict(op, format string, args ...any) {
	fail(op, fmt.Errorf("%w: %s", errContradiction, fmt.Sprintf(format, args...)))
}

// catch turns a fail into the error of the function that deferred it.
func catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case *Error:
		*err = r
	default:
		panic(r)
	}
}
