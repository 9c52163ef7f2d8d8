package journal

import (
	"fmt"
	"hash/crc32"
	"math"
	"strconv"
)

// MarkVerb is the verb of a mark, a record that the journal writes when idle and at a clean stop. A mark is not a
// command. Its `synced` proves to the next start that all records before it were durable.
const MarkVerb = "mark"

// MaxRecordBytes bounds one record's text. The largest body of a command has 8 MiB, and the rest of a record is much
// smaller. Larger records would delay answers to other requests: a write of 64 MiB takes 280 ms.
const MaxRecordBytes = 16 << 20

// maxVerbBytes bounds a verb. It also bounds the work at each place where a search through damaged bytes looks for a
// record.
const maxVerbBytes = 32

// maxAt is the last unix ms whose nanoseconds fit into 64 bits. It is in the year 2262.
const maxAt = math.MaxInt64 / 1_000_000

// recordVersion is the `v=` that this program writes, and the only version that it reads. See "How to change this format"
// in doc.go.
const recordVersion = 1

// minRecordBytes is the length of the shortest possible record, `\n#:a v=1 salt=00000001 seq=1 at=0 synced=0
// bytes=0\n#:end crc=00000000\n`.
const minRecordBytes = 51 + trailerBytes

const (
	trailerPrefix = "#:end crc="
	trailerBytes  = len(trailerPrefix) + 8 + 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Record is one command in the journal. This package defines the envelope: Verb, Seq, At, Synced and the length of
// Body. It does not interpret Fields and Body.
type Record struct {
	Verb   string // [a-z]+, at most 32 bytes
	Salt   uint32 // of the journal; see identity.go
	Seq    uint64 // position in the journal, from 1
	At     int64  // unix ms, never decreasing
	Synced uint64 // last durable seq when this record was written; always below Seq
	Fields []byte // the header line after the envelope, such as `client=acme type=resize n=2`; the caller escapes the values with %
	Body   []byte // any bytes
	Tag    any    // the Tag of the proposal, in memory only; nil when the record was read from disk
	Place  *Place // of a command in a log of several nodes, in memory only; otherwise nil
}

// Place is where a command is in a log of several nodes: which process of which node proposed it, its number among the
// commands of that process, and the entry that ends with it, or 0 if the entry has more commands.
type Place struct {
	Node           string
	Origin, Number uint64
	Index, Term    uint64
}

// AppendRecord appends r's text form to dst. The layout, byte for byte:
//
//	\n#:VERB v=1 salt=SSSSSSSS seq=SEQ at=AT synced=SYNCED bytes=LEN[ FIELDS]\n
//	BODY
//	\n                      only if BODY is not empty and does not end in \n; not counted in LEN
//	#:end crc=XXXXXXXX\n
//
// SSSSSSSS is the journal's salt, as eight lower-case hexadecimal digits. SEQ, AT, SYNCED and LEN are decimals without
// sign or leading zeros. LEN is the length of BODY in bytes. The space before FIELDS is present if and only if FIELDS is
// not empty. XXXXXXXX is the CRC-32C (Castagnoli) of every byte before `#:end`, including the leading \n and the added
// \n, as eight lower-case hexadecimal digits.
//
// tidwall/wal writes a binary length before each entry. The leading \n still puts `#:` at the start of a line, so that
// `grep -a '^#:'` works on the files. The added \n does the same for `#:end`. A reader can tell whether a \n was added:
// LEN says where the body ends, and its last byte decides.
//
// r must be valid (see Validate). With a line break in its fields, for example, it would read back as a different record.
func AppendRecord(dst []byte, r *Record) []byte {
	start := len(dst)
	dst = append(dst, "\n#:"...)
	dst = append(dst, r.Verb...)
	dst = append(dst, " v=1 salt="...)
	dst = appendHex8(dst, r.Salt)
	dst = append(dst, " seq="...)
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
	return append(appendHex8(dst, crc), '\n')
}

func appendHex8(dst []byte, n uint32) []byte {
	for shift := 28; shift >= 0; shift -= 4 {
		dst = append(dst, "0123456789abcdef"[n>>shift&15])
	}
	return dst
}

// Validate returns ErrInvalid or ErrTooLarge with the reason if the format cannot express r, and otherwise nil.
func (r *Record) Validate() error {
	if r.Seq == 0 || r.Synced >= r.Seq {
		return fmt.Errorf("%w: seq is %d and synced is %d; synced must be below seq", ErrInvalid, r.Seq, r.Synced)
	}
	if r.At < 0 || r.At > maxAt {
		return fmt.Errorf("%w: at is %d; it must be from 0 to %d", ErrInvalid, r.At, int64(maxAt))
	}
	return validate(r.Verb, r.Fields, r.Body)
}

func validate(verb string, fields, body []byte) error {
	if n := verbLen([]byte(verb)); n == 0 || n != len(verb) || n > maxVerbBytes {
		return fmt.Errorf("%w: the verb %.40q does not consist of 1 to %d letters a-z", ErrInvalid, verb, maxVerbBytes)
	}
	if i := badFieldByte(fields); i >= 0 {
		return fmt.Errorf("%w: byte %d of the fields is %q, which is not allowed there", ErrInvalid, i, fields[i])
	}
	if n := envelopeBytes + len(fields) + len(body); n > MaxRecordBytes {
		return fmt.Errorf("%w: its text may need %d bytes, and the limit is %d", ErrTooLarge, n, MaxRecordBytes)
	}
	return nil
}

// envelopeBytes is the largest number of bytes that a record's text has in addition to its fields and body.
const envelopeBytes = len("\n#: v=1 salt=00000000 seq= at= synced= bytes= \n\n") + maxVerbBytes + 20 + 19 + 20 + 20 + trailerBytes

func verbLen(b []byte) int {
	for i, c := range b {
		if c < 'a' || c > 'z' {
			return i
		}
	}
	return len(b)
}

// badFieldByte returns the index of the first byte that fields must not contain, or -1. Control characters are forbidden
// because a line break would end the header. A leading space is forbidden because it would look like a second separator.
func badFieldByte(f []byte) int {
	for i, c := range f {
		if c < ' ' || c == 0x7f || (i == 0 && c == ' ') {
			return i
		}
	}
	return -1
}
