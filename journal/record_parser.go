package journal

import (
	"bytes"
	"hash/crc32"
	"math"
	"strconv"
)

// ParseRecord is the strict inverse of AppendRecord: it accepts b only if AppendRecord would write exactly b. Fields and
// Body of the result share memory with b. The error is a *RecordError, which wraps ErrVersion if b is an intact record of
// another version.
func ParseRecord(b []byte) (Record, error) {
	r, n, err := parseRecord(b, "", anySalt)
	if err == nil && n != len(b) {
		err = &RecordError{Offset: n, Reason: "bytes after the end line"}
	}
	if err != nil {
		if v := foreignVersion(b); v != "" {
			return Record{}, &RecordError{Reason: "an intact record of version " + v, Err: ErrVersion}
		}
		return Record{}, err
	}
	return r, nil
}

// ReadRecord is ParseRecord for the first record of b, and returns its length.
func ReadRecord(b []byte) (r Record, n int, err error) {
	r, n, wrong := parseRecord(b, "", anySalt)
	if wrong != nil {
		return Record{}, 0, wrong
	}
	return r, n, nil
}

// anySalt means that the salt is unknown. No journal uses this value.
const anySalt = 0

// parseRecord reads one record from the beginning of b and returns its length. If the record has the given verb, the
// result uses that string, which saves an allocation. Unless salt is anySalt, a different salt is an error. parseRecord
// checks the salt before it computes the checksum, so that a search costs little.
func parseRecord(b []byte, verb string, salt uint32) (Record, int, *RecordError) {
	var r Record
	p := parser{b: b}
	p.literal("\n#:")
	v := p.verb()
	p.literal(" v=1 salt=")
	r.Salt = p.hex8()
	if p.reason == "" && salt != anySalt && r.Salt != salt {
		p.fail("another salt")
	}
	p.literal(" seq=")
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

// foreignVersion returns the version of b if b is an intact record of another version, and otherwise "". It lets an older
// program refuse to start instead of discarding the records of a newer program. In every version, a record begins with
// `\n#:VERB v=N ` and ends with the end line, which has the checksum of all bytes before it.
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

// parser reads a record's text from the beginning to the end. After the first failure its methods do nothing.
type parser struct {
	b      []byte
	off    int
	reason string // of the first failure
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
		p.fail("ends before " + strconv.Quote(s))
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

// number reads a decimal number of at most max, without leading zeros.
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

// fields reads the rest of the header line after the envelope, including the line break.
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
			p.fail("not a space")
			return nil
		}
		if len(f) == 1 {
			p.fail("space at the end of the header line")
			return nil
		}
		f = f[1:]
		if i := badFieldByte(f); i >= 0 {
			p.off += 1 + i
			p.fail("byte that is not allowed in fields")
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
		p.fail("body is too short")
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
		p.fail("hexadecimal number is too short")
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
			p.fail("not eight lower-case hexadecimal digits")
			return 0
		}
		p.off++
	}
	return n
}
