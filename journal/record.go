package journal

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math"
	"strconv"
)

// MarkVerb is the verb of the records this package writes by itself, when idle and at a clean stop. A mark changes nothing;
// its `synced` proves to the next start that everything before it had been durable.
const MarkVerb = "mark"

// MaxRecordBytes bounds one record's text. The largest command is an 8 MiB body (DESIGN, part 7); framing and a header with
// all its fields stay well below as much again. A 64 MiB write takes 280 ms, during which nobody gets an answer.
const MaxRecordBytes = 16 << 20

// maxVerbBytes keeps a verb a word. It also bounds what a search through damaged bytes has to look at.
const maxVerbBytes = 32

// maxAt is the last unix ms that still counts in nanoseconds in 64 bits: the year 2262.
const maxAt = math.MaxInt64 / 1_000_000

// recordVersion is the `v=` this program writes, and the only one it reads. See "How to change this format" in doc.go.
const recordVersion = 1

// minRecordBytes is the length of the shortest possible record, `\n#:a v=1 seq=1 at=0 synced=0 bytes=0\n#:end crc=00000000\n`.
const minRecordBytes = 37 + trailerBytes

const (
	trailerPrefix = "#:end crc="
	trailerBytes  = len(trailerPrefix) + 8 + 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Record is one command as it lies in the journal. The envelope (Verb, Seq, At, Synced and the length of Body) is this
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
// SEQ, AT, SYNCED, LEN are decimals without sign or leading zeros. LEN is BODY's length in bytes. The blank before FIELDS
// is there if and only if FIELDS is not empty. XXXXXXXX is the CRC-32C (Castagnoli) of every byte before `#:end`, the
// leading \n and the added \n included, as eight lower-case hexadecimal digits.
//
// The leading \n makes `#:` stand at the start of a line although tidwall/wal puts a binary length before each entry, so
// that `grep -a '^#:'` works on the files as they lie. The added \n does the same for `#:end`; since LEN says where the
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
		return fmt.Errorf("%w: fields, byte %d: %q may not stand there", ErrInvalid, i, fields[i])
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

// badFieldByte finds the first byte that fields may not hold: control characters (a line break would end the header) and a
// leading blank (it would be told apart from the separator only by counting).
func badFieldByte(f []byte) int {
	for i, c := range f {
		if c < ' ' || c == 0x7f || (i == 0 && c == ' ') {
			return i
		}
	}
	return -1
}

// ParseRecord is the strict inverse of AppendRecord: it accepts b only if AppendRecord would write exactly b. Fields and
// Body alias b. The error is a *RecordError; errors.Is(err, ErrVersion) if b is an intact record of another version.
func ParseRecord(b []byte) (Record, error) {
	r, n, err := parseRecord(b, "")
	if err == nil && n != len(b) {
		err = &RecordError{Offset: n, Reason: "bytes behind the end line"}
	}
	if err != nil {
		if v := foreignVersion(b); v != "" {
			return Record{}, &RecordError{Reason: "an intact record of version " + v, Err: ErrVersion}
		}
		return Record{}, err
	}
	return r, nil
}

// parseRecord reads one record from the beginning of b and returns its length. If the verb is `verb`, that string is used,
// so that a run of equal verbs costs no allocation.
func parseRecord(b []byte, verb string) (Record, int, *RecordError) {
	var r Record
	p := parser{b: b}
	p.literal("\n#:")
	v := p.verb()
	p.literal(" v=1 seq=")
	r.Seq = p.number(math.MaxUint64)
	p.literal(" at=")
	r.At = int64(p.number(maxAt))
	p.literal(" synced=")
	r.Synced = p.number(math.MaxUint64)
	if p.reason == "" && r.Synced >= r.Seq {
		p.fail("synced is not below seq")
	}
	p.literal(" bytes=")
	size := p.number(MaxRecordBytes)
	r.Fields = p.fields()
	r.Body = p.take(int(size))
	if size > 0 && p.reason == "" && r.Body[size-1] != '\n' {
		p.literal("\n")
	}
	sumEnd := p.off
	p.literal(trailerPrefix)
	sum := p.hex8()
	p.literal("\n")
	if p.reason == "" && crc32.Checksum(b[:sumEnd], castagnoli) != sum {
		p.fail("checksum does not match")
		return Record{}, 0, &RecordError{Offset: sumEnd, Reason: p.reason, summed: sumEnd}
	}
	if p.reason != "" {
		return Record{}, 0, &RecordError{Offset: p.off, Reason: p.reason}
	}
	if string(v) == verb {
		r.Verb = verb
	} else {
		r.Verb = string(v)
	}
	return r, p.off, nil
}

// foreignVersion tells an intact record of another version from damage, so that an older program refuses to start instead
// of cutting what a newer one wrote. Every version keeps `\n#:VERB v=N ` in front and the end line, with the checksum over
// all that stands before it, behind.
func foreignVersion(b []byte) string {
	head, ok := bytes.CutPrefix(b, []byte("\n#:"))
	if !ok || len(b) < trailerBytes {
		return ""
	}
	n := verbLen(head)
	rest, ok := bytes.CutPrefix(head[n:], []byte(" v="))
	digits := 0
	for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
		digits++
	}
	if !ok || n == 0 || digits == 0 || digits > 9 || string(rest[:digits]) == strconv.Itoa(recordVersion) {
		return ""
	}
	p := parser{b: b, off: len(b) - trailerBytes}
	p.literal(trailerPrefix)
	sum := p.hex8()
	p.literal("\n")
	if p.reason != "" || crc32.Checksum(b[:len(b)-trailerBytes], castagnoli) != sum {
		return ""
	}
	return string(rest[:digits])
}

// parser walks a record's text. The first failure stays; everything after it does nothing.
type parser struct {
	b      []byte
	off    int
	reason string
}

func (p *parser) fail(reason string) {
	if p.reason == "" {
		p.reason = reason
	}
}

func (p *parser) literal(s string) {
	if p.reason != "" {
		return
	}
	if len(p.b)-p.off < len(s) {
		p.fail("ends where " + strconv.Quote(s) + " is due")
		return
	}
	if string(p.b[p.off:p.off+len(s)]) != s {
		p.fail("not " + strconv.Quote(s))
		return
	}
	p.off += len(s)
}

func (p *parser) verb() []byte {
	if p.reason != "" {
		return nil
	}
	n := verbLen(p.b[p.off:min(len(p.b), p.off+maxVerbBytes+1)])
	if n == 0 || n > maxVerbBytes {
		p.fail("verb is not 1 to " + strconv.Itoa(maxVerbBytes) + " letters a-z")
		return nil
	}
	v := p.b[p.off : p.off+n]
	p.off += n
	return v
}

// number reads a decimal of at most max, in its one spelling.
func (p *parser) number(max uint64) uint64 {
	if p.reason != "" {
		return 0
	}
	start := p.off
	var n uint64
	for p.off < len(p.b) {
		d := uint64(p.b[p.off]) - '0'
		if d > 9 {
			break
		}
		if n > max/10 || n*10 > max-d {
			p.fail("number above " + strconv.FormatUint(max, 10))
			return 0
		}
		n = n*10 + d
		p.off++
	}
	if p.off == start {
		p.fail("not a number")
	} else if p.b[start] == '0' && p.off > start+1 {
		p.off = start
		p.fail("number with a leading zero")
	}
	return n
}

// fields reads what stands between the envelope and the end of the header line, which it passes.
func (p *parser) fields() []byte {
	if p.reason != "" {
		return nil
	}
	end := bytes.IndexByte(p.b[p.off:], '\n')
	if end < 0 {
		p.fail("header line does not end")
		return nil
	}
	f := p.b[p.off : p.off+end]
	if len(f) > 0 {
		if f[0] != ' ' {
			p.fail("not a blank")
			return nil
		}
		if len(f) == 1 {
			p.fail("blank at the end of the header line")
			return nil
		}
		f = f[1:]
		if i := badFieldByte(f); i >= 0 {
			p.off += 1 + i
			p.fail("byte that fields may not hold")
			return nil
		}
	} else {
		f = nil
	}
	p.off += end + 1
	return f
}

func (p *parser) take(n int) []byte {
	if p.reason != "" {
		return nil
	}
	if n > len(p.b)-p.off {
		p.fail("body is cut short")
		return nil
	}
	if n == 0 {
		return nil
	}
	b := p.b[p.off : p.off+n : p.off+n]
	p.off += n
	return b
}

func (p *parser) hex8() uint32 {
	if p.reason != "" {
		return 0
	}
	if len(p.b)-p.off < 8 {
		p.fail("checksum is cut short")
		return 0
	}
	var n uint32
	for _, c := range p.b[p.off : p.off+8] {
		switch {
		case c >= '0' && c <= '9':
			n = n<<4 | uint32(c-'0')
		case c >= 'a' && c <= 'f':
			n = n<<4 | uint32(c-'a'+10)
		default:
			p.fail("checksum is not eight lower-case hexadecimal digits")
			return 0
		}
		p.off++
	}
	return n
}
