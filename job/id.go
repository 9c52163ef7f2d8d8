package job

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
)

// ID addresses a job, a batch or a claim. It is a UUID in version-7 layout, computed only from the journal record that
// made it, so that replaying the journal gives the same ids:
//
//	48 bits unix ms of the command │ 0111 │ 12 bits shard │ 10 │ low 40 bits of seq │ 22 bits line
//
// The shard of all ids is 0. ParseID reads ids of other shards, too, and no job, batch or claim has one.
//
// Ids compare as bytes in order of creation. The one exception is the millisecond in every 2^40 commands in which the low
// bits of seq restart at 0. A batch and a claim have the id of their command with line 0.
type ID [16]byte

const (
	lineBits = 22
	seqBits  = 40
	seqMask  = 1<<seqBits - 1
	lineMask = 1<<lineBits - 1
	atMask   = 1<<48 - 1
)

// LowSeq is the part of a seq that an id includes. Alone it addresses nothing: the store adds the epoch, which it derives
// from the time in the id.
type LowSeq uint64

// EpochOf returns the part of a seq that an id does not include.
func EpochOf(seq uint64) uint64 { return seq >> seqBits }

// In returns the seq in the given epoch with these low bits.
func (low LowSeq) In(epoch uint64) uint64 { return epoch<<seqBits | uint64(low) }

// Late reports whether low is in the second half of its epoch.
func (low LowSeq) Late() bool { return low > seqMask/2 }

// ErrBadID is returned for text that is not an id of this layout.
var ErrBadID = errors.New("id is not a version 7 UUID of this server's layout")

// NewID returns the id of a line (0 … MaxLines-1) of the command with the given seq and unix time in milliseconds.
func NewID(at int64, seq uint64, line int) ID {
	var id ID
	binary.BigEndian.PutUint64(id[0:], uint64(at)&atMask<<16|0x7<<12)
	binary.BigEndian.PutUint64(id[8:], 0b10<<62|seq&seqMask<<lineBits|uint64(line)&lineMask)
	return id
}

// At returns the unix time in milliseconds of the command that made id.
func (id ID) At() int64 { return int64(binary.BigEndian.Uint64(id[0:]) >> 16) }

// LowSeq returns the low 40 bits of the seq of the command that made id.
func (id ID) LowSeq() LowSeq { return LowSeq(binary.BigEndian.Uint64(id[8:]) >> lineBits & seqMask) }

// Line returns the line of the job in its batch; 0 for the id of a batch or a claim.
func (id ID) Line() int { return int(binary.BigEndian.Uint64(id[8:]) & lineMask) }

// WithLine returns the id of another line of the same batch.
func (id ID) WithLine(line int) ID {
	low := binary.BigEndian.Uint64(id[8:])
	binary.BigEndian.PutUint64(id[8:], low&^lineMask|uint64(line)&lineMask)
	return id
}

// IsZero reports whether id is the zero value, which addresses nothing.
func (id ID) IsZero() bool { return id == ID{} }

// String returns the text form: 36 characters in lower case. Texts sort like the ids.
func (id ID) String() string { return string(id.AppendText(make([]byte, 0, idTextBytes))) }

const idTextBytes = 36

// AppendText appends the text form of id to b.
func (id ID) AppendText(b []byte) []byte {
	n := len(b)
	b = append(b, "00000000-0000-0000-0000-000000000000"...)
	t := b[n:]
	hex.Encode(t[0:8], id[0:4])
	hex.Encode(t[9:13], id[4:6])
	hex.Encode(t[14:18], id[6:8])
	hex.Encode(t[19:23], id[8:10])
	hex.Encode(t[24:36], id[10:16])
	return b
}

// ParseID reads the text form of an id in upper or lower case, because some programs and databases write UUIDs in upper
// case. It returns ErrBadID for every other spelling (braces, other UUID versions).
func ParseID[T string | []byte](s T) (ID, error) {
	var id ID
	if len(s) != idTextBytes || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return ID{}, ErrBadID
	}
	for i, j := 0, 0; i < idTextBytes; i += 2 {
		switch i {
		case 8, 13, 18, 23: // skip the dash; a dash elsewhere is not a digit
			i++
		}
		hi, lo := hexOfEither[s[i]], hexOfEither[s[i+1]]
		if hi|lo > 0xf {
			return ID{}, ErrBadID
		}
		id[j] = hi<<4 | lo
		j++
	}
	if id[6]>>4 != 7 || id[8]>>6 != 0b10 {
		return ID{}, ErrBadID
	}
	return id, nil
}

// parseCanonicalID reads an id from the journal, which only has the spelling that String returns.
func parseCanonicalID(s []byte) (ID, error) {
	if bytes.ContainsAny(s, "ABCDEF") {
		return ID{}, ErrBadID
	}
	return ParseID(s)
}

// IsUUID reports whether a text is a UUID of any version, with dashes, in upper or lower case. Only some UUIDs are ids.
func IsUUID(s string) bool {
	if len(s) != idTextBytes {
		return false
	}
	for i := range len(s) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (s[i] == '-') || !dash && hexOfEither[s[i]] > 0xf {
			return false
		}
	}
	return true
}

// hexDigit maps a lower-case hexadecimal digit to its value and every other byte to 0xff. hexOfEither also maps
// upper-case digits.
var hexDigit, hexOfEither = func() (lower, either [256]byte) {
	for i := range lower {
		lower[i] = 0xff
	}
	for i, c := range []byte("0123456789abcdef") {
		lower[c] = byte(i)
	}
	either = lower
	for i, c := range []byte("ABCDEF") {
		either[c] = byte(10 + i)
	}
	return lower, either
}()

// MarshalText and UnmarshalText make an ID usable in JSON and flags.
func (id ID) MarshalText() ([]byte, error) { return id.AppendText(nil), nil }

// UnmarshalText parses the text form; see ParseID.
func (id *ID) UnmarshalText(b []byte) (err error) {
	*id, err = ParseID(b)
	return err
}
