package machine

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// A unique key belongs to the last job that took it, until that job ends. The key's row is only a hint: a lookup checks
// whether the job is unfinished, so that the end of a job need not write. Each line with a unique key also has a row with
// the key, for the job's document and for when the job is redriven or purged.

// takeUniqueKeys gives the lines of a new batch their unique keys. It returns the lines whose key an unfinished job
// has.
func (a *Applying) takeUniqueKeys(b *row.Batch, keys []job.UniqueKey) (existing []row.MadeBy) {
	for _, u := range keys {
		line := uint32(u.Line)
		hint := row.UniqueKey(a.Group(b, line).QueueID, u.Key)
		if id, held := a.keyHolder(b, hint); held {
			existing = append(existing, row.MadeBy{line, id})
			continue
		}
		a.setHint(hint, encodeLine(b.Seq, line))
		a.O.Set(row.LineKey(row.LineKeyTable, b.Seq, line), []byte(u.Key))
		b.Unique = true
	}
	return existing
}

// hint returns the row of a unique key, or nil. It uses a cache that also knows missing rows. The row of a key that is
// used again and again is often deleted and set again, and a read of it would pass all these versions until Pebble has
// flushed them.
func (m *Machine) hint(key string) []byte {
	row := m.Hints.Get(key)
	if row == nil {
		row = &memory.HintRow{m.O.Get(key)}
		m.Hints.Set(key, row)
	}
	return row.Value
}

// setHint writes the row of a unique key, or deletes it if value is nil.
func (m *Machine) setHint(key string, value []byte) {
	m.Hints.Set(key, &memory.HintRow{value})
	if value == nil {
		m.O.Delete(key)
	} else {
		m.O.Set(key, value)
	}
}

// keyHolder returns the unfinished job that has a unique key. fresh is a batch that is just being created, whose lines
// are all unfinished; it may be nil.
func (m *Machine) keyHolder(fresh *row.Batch, hint string) (id job.ID, held bool) {
	value := m.hint(hint)
	if value == nil {
		return id, false
	}
	seq, line := DecodeLine(value)
	if fresh != nil && seq == fresh.Seq {
		return job.NewID(fresh.At, seq, int(line)), true
	}
	b := m.Batch(seq)
	if b == nil {
		return id, false
	}
	sp := m.spanAt(seq, line)
	return job.NewID(b.At, seq, int(line)), sp.Status.Unfinished() && !m.submissionEnded(b) // otherwise a step is about to end it
}

// KeysOf returns the unique keys of lines first … last, by line.
func KeysOf(r lsm.Rows, b *row.Batch, first, last uint32) (keys []job.UniqueKey) {
	if !b.Unique {
		return nil
	}
	r.Scan(row.LineKey(row.LineKeyTable, b.Seq, first), lsm.After(row.LineKey(row.LineKeyTable, b.Seq, last)), func(key string, value []byte) bool {
		keys = append(keys, job.UniqueKey{Line: int(row.LineOfKey(key)), Key: string(value)})
		return true
	})
	return keys
}

// uniqueKeyRows is about how many rows a command reads or writes to delete a unique key, or to take it again.
const uniqueKeyRows = 4

// deleteUniqueKeys deletes the unique keys of lines that are purged, and returns the number of keys.
func (m *Machine) deleteUniqueKeys(b *row.Batch, first, last uint32) int {
	keys := KeysOf(&m.O, b, first, last)
	for _, u := range keys {
		m.O.Delete(row.LineKey(row.LineKeyTable, b.Seq, uint32(u.Line)))
		hint := row.UniqueKey(m.Group(b, uint32(u.Line)).QueueID, u.Key)
		if value := m.hint(hint); value != nil {
			if seq, line := DecodeLine(value); seq == b.Seq && int(line) == u.Line {
				m.setHint(hint, nil)
			}
		}
	}
	return len(keys)
}

// takeUniqueKeysAgain gives the ended lines first … last their unique keys back, before they are redriven. It returns
// the lines whose key a different job has by now.
func (a *Applying) takeUniqueKeysAgain(b *row.Batch, first, last uint32) (held []uint32) {
	for _, u := range KeysOf(&a.O, b, first, last) {
		a.BesideRows += uniqueKeyRows
		line := uint32(u.Line)
		hint := row.UniqueKey(a.Group(b, line).QueueID, u.Key)
		if _, taken := a.keyHolder(nil, hint); taken {
			held = append(held, line)
			continue
		}
		a.setHint(hint, encodeLine(b.Seq, line))
	}
	return held
}

func encodeLine(seq uint64, line uint32) []byte {
	e := make(lsm.Encoder, 0, 12)
	e.Uint(seq)
	e.Uint(uint64(line))
	return e
}

func DecodeLine(value []byte) (seq uint64, line uint32) {
	d := lsm.Decoder(value)
	return d.Uint(), uint32(d.Uint())
}
