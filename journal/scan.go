package journal

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// kind of what the scanner found where an intact entry should be.
type kind uint8

const (
	clean     kind = iota
	torn           // the entry, or its length, continues after the end of the file
	zeros          // nothing but zero bytes up to the end of the file
	garbled        // an entry that is not an intact record
	disorder       // an intact record whose seq, at or synced does not follow from its predecessor
	newer          // an intact record of a version this program does not know
	gap            // the segment that must begin here is missing
	overlap        // a segment begins at a seq that an earlier one holds
	apart          // a volume ends at another seq than the one before its successor's first
	leftover       // a file of tidwall's truncation, which this journal never uses
	searchEnd      // a search for proof that was given up
)

// damage is the first place of a segment that is not an intact entry.
type damage struct {
	kind   kind
	off    int64
	seq    uint64 // the record that is not there intact
	reason string
	synced uint64 // disorder only: what the intact record in the wrong place says of itself
}

// scanner reads the entries of one segment, held in memory, in order. It is the only reader of segment files:
// tidwall/wal knows no checksum, fails on a torn end, and answers from its own memory (see doc.go).
type scanner struct {
	data []byte
	off  int    // of the next entry
	next uint64 // seq the next entry must have

	rec    Record // the entry last read; Fields and Body alias data
	at     int64  // of the record before, which the next may not fall below; so too:
	synced uint64
	found  damage // kind is clean until step has met the first damage
}

// step reads the next entry into s.rec. It returns false at the end of the data and, with s.found set, at damage.
func (s *scanner) step() bool {
	if s.off == len(s.data) || s.found.kind != clean {
		return false
	}
	rest := s.data[s.off:]
	size, n := binary.Uvarint(rest)
	switch {
	case rest[0] == 0 && allZero(rest):
		// A file system may extend a file before it writes the data; tidwall/wal would load each zero as an empty
		// entry.
		return s.damaged(zeros, fmt.Sprintf("%d zero bytes", len(rest)))
	case n == 0:
		return s.damaged(torn, "the file ends within an entry's length")
	case n < 0 || size > MaxRecordBytes || size < uint64(minRecordBytes):
		return s.damaged(garbled, "no entry has this length")
	case n != uvarintLen(size):
		return s.damaged(garbled, "an entry's length in a longer spelling than needed")
	case size > uint64(len(rest)-n):
		return s.damaged(torn, fmt.Sprintf("the file ends after %d of an entry's %d bytes", len(rest)-n, size))
	}
	entry := rest[n : n+int(size)]
	r, length, err := parseRecord(entry, s.rec.Verb)
	if err == nil && length != len(entry) {
		err = &RecordError{Offset: length, Reason: "bytes after the end line"}
	}
	if err != nil {
		if v := foreignVersion(entry); v != "" {
			return s.damaged(newer, "an intact record of version "+v)
		}
		return s.damaged(garbled, err.Error())
	}
	if reason := s.disorder(&r); reason != "" {
		s.damaged(disorder, reason)
		s.found.synced = r.Synced
		return false
	}
	s.rec, s.at, s.synced = r, r.At, r.Synced
	s.off += n + len(entry)
	s.next++
	return true
}

// disorder says why r cannot follow the record before it, or "".
func (s *scanner) disorder(r *Record) string {
	switch {
	case r.Seq != s.next:
		return fmt.Sprintf("there is an intact record of seq %d here", r.Seq)
	case r.At < s.at:
		return fmt.Sprintf("at %d is before its predecessor's %d", r.At, s.at)
	case r.Synced < s.synced:
		return fmt.Sprintf("synced %d is below its predecessor's %d", r.Synced, s.synced)
	}
	return ""
}

func (s *scanner) damaged(k kind, reason string) bool {
	s.found = damage{kind: k, off: int64(s.off), seq: s.next, reason: reason}
	return false
}

func uvarintLen(x uint64) int {
	n := 1
	for ; x >= 0x80; x >>= 7 {
		n++
	}
	return n
}

func allZero(b []byte) bool {
	for len(b) >= 8 {
		if binary.NativeEndian.Uint64(b) != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// searchWork bounds a search for proof: so many bytes may be put through the checksum per byte searched. Damaged bytes
// of an honest journal need one; a body made of forged headers that all claim the same far end would need thousands.
const searchWork = 64

// proof is what intact records after a damage say.
type proof struct {
	records int    // how many were found
	synced  uint64 // the highest `synced` among them
	last    uint64 // the highest seq among them
	gaveUp  bool   // searchWork was used up; nothing may be concluded
}

func (p *proof) add(q proof) {
	p.records += q.records
	p.synced = max(p.synced, q.synced)
	p.last = max(p.last, q.last)
	p.gaveUp = p.gaveUp || q.gaveUp
}

// search looks for intact records anywhere in data, whether or not entry lengths lead to them: at every `\n#:`. Only
// records that could follow a damaged one of seq `after` count: later in seq (by no more than fit) and not earlier in
// time.
//
// A record's body may hold the text of a record, and a damaged record's body is searched like everything else. So text
// made by a client can pass for proof. The harm is a start that is refused without need, never one that loses
// something.
func search(data []byte, after uint64, at int64) (p proof) {
	work := searchWork * (len(data) + 1)
	most := after + uint64(len(data)/minRecordBytes) + 1
	for off := 0; ; {
		i := bytes.Index(data[off:], []byte("\n#:"))
		if i < 0 {
			return p
		}
		off += i
		r, n, err := parseRecord(data[off:], MarkVerb)
		if err != nil {
			if work -= err.summed; work < 0 {
				p.gaveUp = true
				return p
			}
			off++
			continue
		}
		if r.Seq > after && r.Seq <= most && r.At >= at {
			p.add(proof{records: 1, synced: r.Synced, last: r.Seq})
		}
		off += n
	}
}
