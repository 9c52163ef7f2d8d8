package store

import (
	"encoding/binary"
	"errors"
)

// encoder appends varints.
type encoder []byte

func (e *encoder) uint(n uint64) { *e = binary.AppendUvarint(*e, n) }
func (e *encoder) int(n int64)   { *e = binary.AppendVarint(*e, n) }
func (e *encoder) bool(b bool) {
	if b {
		e.uint(1)
	} else {
		e.uint(0)
	}
}
func (e *encoder) text(s string)  { e.uint(uint64(len(s))); *e = append(*e, s...) }
func (e *encoder) bytes(b []byte) { e.uint(uint64(len(b))); *e = append(*e, b...) }

// decoder reads them back. A value that ends early is corruption.
type decoder []byte

var errShortRow = errors.New("a row is shorter than its form")

func (d *decoder) uint() uint64 {
	n, size := binary.Uvarint(*d)
	if size <= 0 {
		fail("decode", errShortRow)
	}
	*d = (*d)[size:]
	return n
}

func (d *decoder) int() int64 {
	n, size := binary.Varint(*d)
	if size <= 0 {
		fail("decode", errShortRow)
	}
	*d = (*d)[size:]
	return n
}

func (d *decoder) bool() bool { return d.uint() != 0 }

func (d *decoder) bytes() []byte {
	n := d.uint()
	if n > uint64(len(*d)) {
		fail("decode", errShortRow)
	}
	b := (*d)[:n:n]
	*d = (*d)[n:]
	return b
}

// count reads the number of things that follow, each of least bytes or more.
func (d *decoder) count(least int) int {
	n := d.uint()
	if n > uint64(len(*d)/least) {
		fail("decode", errShortRow)
	}
	return int(n)
}

func (d *decoder) text() string { return string(d.bytes()) }
