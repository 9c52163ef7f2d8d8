package lsm

import "encoding/binary"

// Encoder appends numbers as varints, and each text after its length.
type Encoder []byte

// Uint, Int, Bool, Text and Bytes append one value each.
func (e *Encoder) Uint(n uint64)  { *e = binary.AppendUvarint(*e, n) }
func (e *Encoder) Int(n int64)    { *e = binary.AppendVarint(*e, n) }
func (e *Encoder) Text(s string)  { e.Uint(uint64(len(s))); *e = append(*e, s...) }
func (e *Encoder) Bytes(b []byte) { e.Uint(uint64(len(b))); *e = append(*e, b...) }
func (e *Encoder) Bool(b bool) {
	if b {
		e.Uint(1)
	} else {
		e.Uint(0)
	}
}

// Decoder reads the values that an Encoder appended. If a value ends early, it fails with ErrShortRow.
type Decoder []byte

// Uint, Int, Bool, Text and Bytes read one value each. The result of Bytes shares the decoder's memory.
func (d *Decoder) Uint() uint64 {
	n, size := binary.Uvarint(*d)
	if size <= 0 {
		Fail("decode", ErrShortRow)
	}
	*d = (*d)[size:]
	return n
}

func (d *Decoder) Int() int64 {
	n, size := binary.Varint(*d)
	if size <= 0 {
		Fail("decode", ErrShortRow)
	}
	*d = (*d)[size:]
	return n
}

func (d *Decoder) Bool() bool { return d.Uint() != 0 }

func (d *Decoder) Bytes() []byte {
	n := d.Uint()
	if n > uint64(len(*d)) {
		Fail("decode", ErrShortRow)
	}
	b := (*d)[:n:n]
	*d = (*d)[n:]
	return b
}

func (d *Decoder) Text() string { return string(d.Bytes()) }

// Count reads the number of the things that follow. It fails if fewer bytes remain than that many things of least bytes
// need.
func (d *Decoder) Count(least int) int {
	n := d.Uint()
	if n > uint64(len(*d)/least) {
		Fail("decode", ErrShortRow)
	}
	return int(n)
}
