package store

import (
	"errors"
	"sort"
)

// A block of Pebble that is damaged holds rows of many jobs: pages of payloads, or unique keys, or histories. A claim sets those jobs aside, and a
// document shows what can be read of its job. Neither fails because of a job beside them.

// damagedRow names what could not be read: the rows that a line has in a table, or a page of payloads by its first line. It is remembered: on
// each further read Pebble would look, for up to some seconds, for the bit that was flipped.
type damagedRow struct {
	table byte
	batch uint64
	line  uint32
}

// unreadable reports whether err says that a block is damaged. Rows that contradict each other are no damage of the disk.
func unreadable(err error) bool {
	return errors.Is(err, ErrDamaged) && !errors.Is(err, errContradiction)
}

// try returns what do fails with.
func try(do func()) (err error) {
	defer catch(&err)
	do()
	return nil
}

// damage returns why something cannot be read, if it is known already.
func (s *Store) damage(table byte, batch uint64, line uint32) error {
	if known, ok := s.damaged.Load(damagedRow{table, batch, line}); ok {
		return known.(error)
	}
	return nil
}

// readLines calls read for lines first … last of a batch, and unread for each line whose rows in a table cannot be read. While nothing is
// damaged, read is called once; otherwise for single lines, and for some of them more than once.
func (s *Store) readLines(table byte, batch uint64, first, last uint32, read func(first, last uint32), unread func(line uint32, err error)) {
	known := false
	for line := first; line <= last && !known; line++ {
		known = s.damage(table, batch, line) != nil
	}
	if !known {
		err := try(func() { read(first, last) })
		if err == nil {
			return
		}
		if !unreadable(err) {
			panic(err)
		}
	}
	readOne := func(line uint32) (err error) {
		if err = s.damage(table, batch, line); err == nil {
			if err = try(func() { read(line, line) }); err != nil && !unreadable(err) {
				panic(err)
			}
		}
		return err
	}
	for line := first; line <= last; line++ {
		err := readOne(line)
		if err == nil {
			continue
		}
		// The lines whose rows are in one block follow each other, so where they end is found by halving. If another block further on is damaged too,
		// this may count readable lines between the two as unreadable.
		n := sort.Search(int(last-line), func(i int) bool { return readOne(line+1+uint32(i)) == nil })
		for end := line + uint32(n); ; line++ {
			s.damaged.Store(damagedRow{table, batch, line}, err)
			unread(line, err)
			if line == end {
				break
			}
		}
	}
}
