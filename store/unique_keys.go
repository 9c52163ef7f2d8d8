package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// A unique key belongs to the last job that took it, until that job ends. The key's row is only a hint: a lookup checks
// whether the job is unfinished, so that the end of a job need not write. Each line with a unique key also has a row with
// the key, for the job's document and for when the job is redriven or purged.

// takeUniqueKeys gives the lines of a new batch their unique keys. It returns the lines whose key an unfinished job
// has.
func (a *applying) takeUniqueKeys(b *batch, keys []job.UniqueKey) (existing []madeBy) {
	for _, u := range keys {
		line := uint32(u.Line)
		hint := uniqueKey(a.group(b, line).queueID, u.Key)
		if id, held := a.keyHolder(b, hint); held {
			existing = append(existing, madeBy{line, id})
			continue
		}
		a.setHint(hint, encodeLine(b.seq, line))
		a.o.Set(lineKey(lineKeyTable, b.seq, line), []byte(u.Key))
		b.unique = true
	}
	return existing
}

// hint returns the row of a unique key, or nil. It uses a cache that also knows missing rows. The row of a key that is
// used again and again is often deleted and set again, and a read of it would pass all these versions until Pebble has
// flushed them.
func (m *machine) hint(key string) []byte {
	row := m.hints.Get(key)
	if row == nil {
		row = &hintRow{m.o.Get(key)}
		m.hints.Set(key, row)
	}
	return row.value
}

// setHint writes the row of a unique key, or deletes it if value is nil.
func (m *machine) setHint(key string, value []byte) {
	m.hints.Set(key, &hintRow{value})
	if value == nil {
		m.o.Delete(key)
	} else {
		m.o.Set(key, value)
	}
}

// keyHolder returns the unfinished job that has a unique key. fresh is a batch that is just being created, whose lines
// are all unfinished; it may be nil.
func (m *machine) keyHolder(fresh *batch, hint string) (id job.ID, held bool) {
	value := m.hint(hint)
	if value == nil {
		return id, false
	}
	seq, line := decodeLine(value)
	if fresh != nil && seq == fresh.seq {
		return job.NewID(fresh.at, seq, int(line)), true
	}
	b := m.batch(seq)
	if b == nil {
		return id, false
	}
	sp := m.spanAt(seq, line)
	return job.NewID(b.at, seq, int(line)), sp.Status.Unfinished() && !m.submissionEnded(b) // otherwise a step is about to end it
}

// keysOf returns the unique keys of lines first … last, by line.
func keysOf(r lsm.Rows, b *batch, first, last uint32) (keys []job.UniqueKey) {
	if !b.unique {
		return nil
	}
	r.Scan(lineKey(lineKeyTable, b.seq, first), lsm.After(lineKey(lineKeyTable, b.seq, last)), func(key string, value []byte) bool {
		keys = append(keys, job.UniqueKey{Line: int(lineOfKey(key)), Key: string(value)})
		return true
	})
	return keys
}

// uniqueKeyRows is about how many rows a command reads or writes to delete a unique key, or to take it again.
const uniqueKeyRows = 4

// deleteUniqueKeys deletes the unique keys of lines that are purged, and returns the number of keys.
func (m *machine) deleteUniqueKeys(b *batch, first, last uint32) int {
	keys := keysOf(&m.o, b, first, last)
	for _, u := range keys {
		m.o.Delete(lineKey(lineKeyTable, b.seq, uint32(u.Line)))
		hint := uniqueKey(m.group(b, uint32(u.Line)).queueID, u.Key)
		if value := m.hint(hint); value != nil {
			if seq, line := decodeLine(value); seq == b.seq && int(line) == u.Line {
				m.setHint(hint, nil)
			}
		}
	}
	return len(keys)
}

// takeUniqueKeysAgain gives the ended lines first … last their unique keys back, before they are redriven. It returns
// the lines whose key a different job has by now.
func (a *applying) takeUniqueKeysAgain(b *batch, first, last uint32) (held []uint32) {
	for _, u := range keysOf(&a.o, b, first, last) {
		a.besideRows += uniqueKeyRows
		line := uint32(u.Line)
		hint := uniqueKey(a.group(b, line).queueID, u.Key)
		if _, taken := a.keyHolder(nil, hint); taken {
			held = append(held, line)
			continue
		}
		a.setHint(hint, encodeLine(b.seq, line))
	}
	return held
}

func encodeLine(seq uint64, line uint32) []byte {
	e := make(lsm.Encoder, 0, 12)
	e.Uint(seq)
	e.Uint(uint64(line))
	return e
}

func decodeLine(value []byte) (seq uint64, line uint32) {
	d := lsm.Decoder(value)
	return d.Uint(), uint32(d.Uint())
}
