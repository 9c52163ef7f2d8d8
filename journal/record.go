package journal

import (
	"fmt"
	"hash/crc32"
	"math"
	"strconv"
)

// MarkVerb is the verb of the records this package writes by itself, when idle and at a clean stop. A mark changes
// nothing; its `synced` proves to the next start that everything before it had been durable.
const MarkVerb = "mark"

// MaxRecordBytes bounds one record's text. The largest command is an 8 MiB body (DESIGN, part 7); framing and a header
// with all its fields stay well below as much again. A 64 MiB write takes 280 ms, during which nobody gets an answer.
const MaxRecordBytes = 16 << 20

// maxVerbBytes keeps a verb a word. It also bounds what a search through damaged bytes has to look at.
const maxVerbBytes = 32

// maxAt is the last unix ms that still counts in nanoseconds in 64 bits: the year 2262.
const maxAt = math.MaxInt64 / 1_000_000

// recordVersion is the `v=` this program writes, and the only one it reads. See "How to change this format" in doc.go.
const recordVersion = 1

// minRecordBytes is the length of the shortest possible record, `\n#:a v=1 seq=1 at=0 synced=0 bytes=0\n#:end
// crc=00000000\n`.
const minRecordBytes = 37 + trailerBytes

const (
	trailerPrefix = "#:end crc="
	trailerBytes  = len(trailerPrefix) + 8 + 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Record is one command as the journal holds it. The envelope (Verb, Seq, At, Synced and the length of Body) is this
// package's; Fields and Body are the caller's and not interpreted.
type Record struct {
	Verb   string // [a-z]+, at most 32 bytes
	Seq    uint64 // position in the journal, from 1
	At     int64  // unix ms, never decreasing
	Synced uint64 // last seq known durable when this was written; always below Seq
	Fields []byte // the header line's text after the envelope: `client=acme type=resize n=2`; values percent-escaped by the caller
	Body   []byte // may hold anything
	Tag    any    // in memory only: what the proposer attached; nil when read from disk
}

// AppendRecord appends r's text form to dst. The layout, byte for byte:
//
//	\n#:VERB v=1 seq=SEQ at=AT synced=SYNCED bytes=LEN[ FIELDS]\n
//	BODY
//	\n                      only if BODY is not empty and does not end in \n; not counted in LEN
//	#:end crc=XXXXXXXX\n
//
// SEQ, AT, SYNCED, LEN are decimals without sign or leading zeros. LEN is BODY's length in bytes. The blank before
// FIELDS is there if and only if FIELDS is not empty. XXXXXXXX is the CRC-32C (Castagnoli) of every byte before
// `#:end`, the leading \n and the added \n included, as eight lower-case hexadecimal digits.
//
// The leading \n puts `#:` at the start of a line although tidwall/wal puts a binary length before each entry, so
// that `grep -a '^#:'` works on the files as they are. The added \n does the same for `#:end`; since LEN says where the
// body ends, and whether its last byte is \n is plain to see there, a reader always knows if it was added.
//
// r must be valid (see Validate): a record with a line break in its fields would read back as something else.
func AppendRecord(dst []byte, r *Record) []byte {
	start := len(dst)
	dst = append(dst, "\n#:"...)
	dst = append(dst, r.Verb...)
	dst = append(dst, " v=1 seq="...)
	dst = strconv.AppendUint(dst, r.Seq, 10)
	dst = append(dst, " at="...)
	dst = strconv.AppendInt(dst, r.At, 10)
	dst = append(dst, " synced="...)
	dst = strconv.AppendUint(dst, r.Synced, 10)
	dst = append(dst, " bytes="...)
	dst = strconv.AppendUint(dst, uint64(len(r.Body)), 10)
	if len(r.Fields) > 0 {
		dst = append(dst, ' ')
		dst = append(dst, r.Fields...)
	}
	dst = append(dst, '\n')
	if n := len(r.Body); n > 0 {
		dst = append(dst, r.Body...)
		if r.Body[n-1] != '\n' {
			dst = append(dst, '\n')
		}
	}
	crc := crc32.Checksum(dst[start:], castagnoli)
	dst = append(dst, trailerPrefix...)
	for shift := 28; shift >= 0; shift -= 4 {
		dst = append(dst, "0123456789abcdef"[crc>>shift&15])
	}
	return append(dst, '\n')
}

// Validate says whether the format can hold r; the error is ErrInvalid or ErrTooLarge with the reason.
func (r *Record) Validate() error {
	if r.Seq == 0 || r.Synced >= r.Seq {
		return fmt.Errorf("%w: seq %d, synced %d: synced must be below seq", ErrInvalid, r.Seq, r.Synced)
	}
	if r.At < 0 || r.At > maxAt {
		return fmt.Errorf("%w: at %d is not within 0 and %d", ErrInvalid, r.At, int64(maxAt))
	}
	return validate(r.Verb, r.Fields, r.Body)
}

func validate(verb string, fields, body []byte) error {
	if n := verbLen([]byte(verb)); n == 0 || n != len(verb) || n > maxVerbBytes {
		return fmt.Errorf("%w: verb %.40q is not 1 to %d letters a-z", ErrInvalid, verb, maxVerbBytes)
	}
	if i := badFieldByte(fields); i >= 0 {
		return fmt.Errorf("%w: fields, byte %d: %q is not allowed there", ErrInvalid, i, fields[i])
	}
	if n := envelopeBytes + len(fields) + len(body); n > MaxRecordBytes {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, n, MaxRecordBytes)
	}
	return nil
}

// envelopeBytes is the most that a record's text can be longer than its fields and body.
const envelopeBytes = len("\n#: v=1 seq= at= synced= bytes= \n\n") + maxVerbBytes + 20 + 19 + 20 + 20 + trailerBytes

func verbLen(b []byte) int {
	for i, c := range b {
		if c < 'a' || c > 'z' {
			return i
		}
	}
	return len(b)
}

// badFieldByte finds the first byte that fields may not hold: control characters (a line break would end the header)
// and a leading blank (only counting would distinguish it from the separator).
func badFieldByte(f []byte) int {
	for i, c := range f {
		if c < ' ' || c == 0x7f || (i == 0 && c == ' ') {
			return i
		}
	}
	return -1
}
