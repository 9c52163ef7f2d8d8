package journal

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// kind is the kind of damage that a reader has found.
type kind uint8

const (
	clean     kind = iota
	torn           // the entry, or its length, continues after the end of the file
	zeros          // all bytes up to the end of the file are zero
	room           // all bytes up to the end of the last file are zero, and fit into the room for records
	garbled        // an entry is not an intact record
	disorder       // the seq, at or synced of an intact record does not follow from the record before it
	newer          // an intact record has a version that this program does not know
	salted         // an intact record has the salt of another journal
	gap            // the segment that must begin here is missing
	overlap        // a segment begins at a seq that an earlier segment contains
	apart          // a volume does not end just before the next volume begins
	leftover       // there is a file of tidwall/wal's truncation, which this journal never uses
	searchEnd      // a search for proof was given up
)

// damage is the first place of a segment without an intact entry.
type damage struct {
	kind   kind
	off    int64
	seq    uint64 // seq of the missing or damaged record
	reason string
	synced uint64 // for disorder: `synced` of the intact record in the wrong place
}

// scanner reads the entries of one segment in order. The segment is in memory. All reading uses a scanner instead of
// tidwall/wal, which lacks checksums, fails on a torn end, and reads from its copy in memory (see doc.go).
type scanner struct {
	data []byte
	salt uint32 // of the journal; anySalt: use the first record's salt
	off  int    // of the next entry
	next uint64 // seq that the next entry must have

	rec    Record // the last entry; Fields and Body alias data
	at     int64  // `at` of the last entry; the next must not be lower
	synced uint64 // `synced` of the last entry; the next must not be lower
	found  damage // kind is clean until step has met damage
}

// step reads the next entry into s.rec. It returns false at the end of the data and at damage, which it stores in
// s.found.
func (s *scanner) step() bool {
	if s.off == len(s.data) || s.found.kind != clean {
		return false
	}
	rest := s.data[s.off:]
	size, n := binary.Uvarint(rest)
	switch {
	case rest[0] == 0 && allZero(rest):
		// A file system may extend a file before it writes the data. tidwall/wal would read each zero as an empty
		// entry.
		return s.damaged(zeros, fmt.Sprintf("the file ends with %d zero bytes", len(rest)))
	case n == 0:
		return s.damaged(torn, "the file ends within an entry's length")
	case n < 0 || size > MaxRecordBytes || size < uint64(minRecordBytes):
		return s.damaged(garbled, "an entry cannot have this length")
	case n != uvarintLen(size):
		return s.damaged(garbled, "the encoding of an entry's length is longer than necessary")
	case size > uint64(len(rest)-n):
		return s.damaged(torn, fmt.Sprintf("the file ends after %d of an entry's %d bytes", len(rest)-n, size))
	}
	entry := rest[n : n+int(size)]
	r, length, err := parseRecord(entry, s.rec.Verb, anySalt)
	if err == nil && length != len(entry) {
		err = &RecordError{Offset: length, Reason: "bytes after the end line"}
	}
	if err == nil && s.salt == anySalt {
		s.salt = r.Salt
	}
	if err == nil && r.Salt != s.salt {
		return s.damaged(salted, fmt.Sprintf("an intact record has the salt %08x, and that of the journal is %08x", r.Salt, s.salt))
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

// disorder returns the reason why r cannot follow the record before it, or "".
func (s *scanner) disorder(r *Record) string {
	switch {
	case r.Seq != s.next:
		return fmt.Sprintf("an intact record of seq %d is in its place", r.Seq)
	case r.At < s.at:
		return fmt.Sprintf("its time %d is before that of the record before it, %d", r.At, s.at)
	case r.Synced < s.synced:
		return fmt.Sprintf("its synced %d is below that of the record before it, %d", r.Synced, s.synced)
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

// searchWork bounds a search for proof: it is the number of bytes that may be checksummed per byte of data. Damage in an
// ordinary journal needs one. Headers with the right salt that all claim a distant end would need thousands; only
// somebody who can read the journal could have posted them.
// thousands: somebody who can read the journal has posted them.
const searchWork = 64

// proof is the evidence from intact records after a damage.
type proof struct {
	records int    // number of records found
	synced  uint64 // the highest `synced` among them
	last    uint64 // the highest seq among them
	gaveUp  bool   // the search needed more than searchWork, so there may be more records
}

func (p *proof) add(q proof) {
	p.records += q.records
	p.synced = max(p.synced, q.synced)
	p.last = max(p.last, q.last)
	p.gaveUp = p.gaveUp || q.gaveUp
}

// search looks for intact records in data at every `\n#:`, even where no entry begins. It counts only records of the
// journal that can follow the record with seq `after`: they have the journal's salt, a seq that is higher by no more than
// the number of records that fit into data, and a time that is not before at.
//
// The body of a damaged record is searched too, and a body may contain the text of a record. A client cannot forge proof
// in this way, because it does not know the salt.
func search(data []byte, salt uint32, after uint64, at int64) (p proof) {
	work := searchWork * (len(data) + 1)
	most := after + uint64(len(data)/minRecordBytes) + 1
	for off := 0; ; {
		i := bytes.Index(data[off:], []byte("\n#:"))
		if i < 0 {
			return p
		}
		off += i
		r, n, err := parseRecord(data[off:], MarkVerb, salt)
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
