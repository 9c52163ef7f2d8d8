package store

import "github.com/daybookq/daybook/job"

// A unique key is held by the last job that took it, for as long as that has not ended: its row is a hint that is looked up, so that no end
// of a job needs to write. The key of a line stands in a row of its own too, for its document and for when it is redriven or forgotten.

// takeKeys gives the lines of a new batch their unique keys, and returns those whose key an unfinished job has.
func (s *Store) takeKeys(b *batch, keys []job.UniqueKey) (existing []madeBy) {
	for _, u := range keys {
		line := uint32(u.Line)
		hint := uniqueKey(b.group(line).queue, u.Key)
		if id, held := s.keyHolder(b, hint); held {
			existing = append(existing, madeBy{line, id})
			continue
		}
		s.setHint(hint, encodeLine(b.seq, line))
		s.o.set(lineKey(lineKeyTable, b.seq, line), []byte(u.Key))
		b.unique = true
	}
	return existing
}

// hint returns the row of a unique key, or nil, through a cache that also knows which rows are not there: a key that is used again and again has
// a row that is deleted and set again, and a read of it would pass all those versions until Pebble has flushed them.
func (s *Store) hint(key string) []byte {
	row := s.hints.get(key)
	if row == nil {
		row = &hintRow{s.o.get(key)}
		s.hints.set(key, row)
	}
	return row.value
}

// setHint writes the row of a unique key, or deletes it where value is nil.
func (s *Store) setHint(key string, value []byte) {
	s.hints.set(key, &hintRow{value})
	if value == nil {
		s.o.del(key)
	} else {
		s.o.set(key, value)
	}
}

// hintRow is a cached row of a unique key; nil: there is none.
type hintRow struct{ value []byte }

// keyHolder returns the unfinished job that has a unique key. The lines of fresh, a batch that is just being made, are all unfinished; it may
// be nil.
func (s *Store) keyHolder(fresh *batch, hint string) (id job.ID, held bool) {
	value := s.hint(hint)
	if value == nil {
		return id, false
	}
	seq, line := decodeLine(value)
	if fresh != nil && seq == fresh.seq {
		return job.NewID(fresh.at, seq, int(line)), true
	}
	b := s.batch(seq)
	if b == nil {
		return id, false
	}
	sp := s.spanAt(seq, line)
	return job.NewID(b.at, seq, int(line)), sp.Status != job.Purged && !sp.Status.Terminal()
}

// keysOf returns the unique keys of lines first … last, by line.
func keysOf(r rows, b *batch, first, last uint32) (keys []job.UniqueKey) {
	if !b.unique {
		return nil
	}
	r.scan(lineKey(lineKeyTable, b.seq, first), after(lineKey(lineKeyTable, b.seq, last)), func(key string, value []byte) bool {
		keys = append(keys, job.UniqueKey{Line: int(lineOfKey(key)), Key: string(value)})
		return true
	})
	return keys
}

// dropKeys forgets the unique keys of lines that are forgotten.
func (s *Store) dropKeys(b *batch, first, last uint32) {
	for _, u := range keysOf(&s.o, b, first, last) {
		s.o.del(lineKey(lineKeyTable, b.seq, uint32(u.Line)))
		hint := uniqueKey(b.group(uint32(u.Line)).queue, u.Key)
		if value := s.hint(hint); value != nil {
			if seq, line := decodeLine(value); seq == b.seq && int(line) == u.Line {
				s.setHint(hint, nil)
			}
		}
	}
}

// takeKeysAgain gives ended lines first … last their unique keys back, before they are redriven, and returns the lines whose key another
// job has by now.
func (s *Store) takeKeysAgain(b *batch, first, last uint32) (held []uint32) {
	for _, u := range keysOf(&s.o, b, first, last) {
		line := uint32(u.Line)
		hint := uniqueKey(b.group(line).queue, u.Key)
		if _, taken := s.keyHolder(nil, hint); taken {
			held = append(held, line)
			continue
		}
		s.setHint(hint, encodeLine(b.seq, line))
	}
	return held
}

func encodeLine(seq uint64, line uint32) []byte {
	e := make(encoder, 0, 12)
	e.uint(seq)
	e.uint(uint64(line))
	return e
}

func decodeLine(value []byte) (seq uint64, line uint32) {
	d := decoder(value)
	return d.uint(), uint32(d.uint())
}
