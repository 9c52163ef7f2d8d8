package journal

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// tailImage is a volume of two segments. The first has the records 1–4, and the second begins with record 5. The groups
// are 1–2, 3–6 and 7–9. A power cut may have damaged the last group. With a long body the group is spread over several
// sectors.
func tailImage(body string) (m image, tailName string) {
	m = newImage()
	m.seg(1, 1, 1, 2, 0, body)
	m.seg(1, 1, 3, 4, 2, body)
	m.seg(1, 5, 5, 6, 2, body)
	m.seg(1, 5, 7, 9, 6, body)
	return m, filepath.Join(seqName(1), seqName(5))
}

// expect checks that a start was accepted and that the journal ends with record last.
func expect(t *testing.T, got outcome, last uint64) {
	t.Helper()
	testkit.NoError(t, got.err, "refused")
	testkit.MustEqual(t, got.last, last, "ends at")
}

// expectRow checks which row of the tail table decides a start without a store.
func expectRow(t *testing.T, dir, row string, v Verdict) {
	t.Helper()
	r := testkit.Must(Verify(dir))(t)
	testkit.MustHold(t, r.Case == row && r.Verdict == v, "row", r.Case, r.Verdict)
}

func expectRefusal(t *testing.T, got outcome, row string, seq uint64) {
	t.Helper()
	testkit.MustHold(t, got.refused != nil, "not refused: last", got.last, got.err)
	e := got.refused
	testkit.MustHold(t, e.Case == row && e.Seq == seq && e.Verdict == Refuse && e.File != "" && e.Next != "", "refused otherwise", e)
}

// tailTests has a test for every row of the tail table, by the name of the row.
var tailTests = map[string]func(t *testing.T){
	"clean end": func(t *testing.T) {
		m, _ := tailImage("body ")
		expect(t, startOnce(t, m.write(t), 0), 9)
		expect(t, startOnce(t, m.write(t), 9), 9)
		m.seg(1, 10, 10, 9, 0, "") // a full segment is followed by an empty one
		expect(t, startOnce(t, m.write(t), 0), 9)
		expect(t, startOnce(t, t.TempDir(), 0), 0)
	},
	"volume without a segment": func(t *testing.T) {
		m, _ := tailImage("body ")
		m[seqName(10)+"/"] = nil
		dir := m.write(t)
		expect(t, startOnce(t, dir, 0), 9)
		_, ok := readImage(t, dir)[filepath.Join(seqName(10), seqName(10))]
		testkit.MustHold(t, ok, "the volume was not completed")
		m = newImage()
		m[seqName(1)+"/"] = nil
		expect(t, startOnce(t, m.write(t), 0), 0)
	},
	"torn entry": func(t *testing.T) {
		m, name := tailImage("body ")
		m[name] = m[name][:len(m[name])-5]
		expect(t, startOnce(t, m.write(t), 0), 8)
		m[name] = append(m[name], 0x80) // the length is incomplete
		expect(t, startOnce(t, m.write(t), 0), 8)
	},
	"zero bytes": func(t *testing.T) {
		for _, n := range []int{1, 7, 511, 4096} {
			m, name := tailImage("body ")
			m[name] = append(m[name], make([]byte, n)...)
			m[filepath.Join(filepath.Dir(name), seqName(12))] = nil
			expectRow(t, m.write(t), "zero bytes", Discard)
			expect(t, startOnce(t, m.write(t), 9), 9)
		}
		m, name := tailImage("body ")
		m[name] = append(m[name], make([]byte, maxRoom+1)...)
		expectRow(t, m.write(t), "zero bytes", Discard)
		expect(t, startOnce(t, m.write(t), 9), 9)
	},
	"room for records": func(t *testing.T) {
		for _, n := range []int{1, 7, 511, 4096, maxRoom} {
			m, name := tailImage("body ")
			m[name] = append(m[name], make([]byte, n)...)
			dir := m.write(t)
			expectRow(t, dir, "room for records", Accept)
			expect(t, startOnce(t, dir, 9), 9)
			m[name] = m[name][:len(m[name])-1]
			m[name] = append(m[name], 1) // the last sector of a group whose other sectors are missing
			expect(t, startOnce(t, m.write(t), 9), 9)
			expectRefusal(t, startOnce(t, m.write(t), 10), "proven by the store's cursor", 10)
		}
	},
	"garbled entry": func(t *testing.T) {
		m, name := tailImage("body ")
		m[name][len(m[name])-30] ^= 1
		expect(t, startOnce(t, m.write(t), 0), 8)
		m, name = tailImage("body ")
		m[name] = append(m[name], "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"...)
		expect(t, startOnce(t, m.write(t), 0), 9)
		// An entry's length must have its shortest encoding, even if the record is intact.
		m, name = tailImage("body ")
		e := entry(Record{Verb: "create", Seq: 10, At: 2000, Synced: 9})
		m[name] = slices.Concat(m[name], []byte{e[0] | 0x80, 0}, e[1:])
		expectRefusal(t, startOnce(t, m.write(t), 10), "proven by the store's cursor", 10)
	},
	"later sectors of an unanswered group": func(t *testing.T) {
		m, name := tailImage("body ")
		i := bytes.Index(m[name], []byte("body 7"))
		m[name][i] ^= 1
		expect(t, startOnce(t, m.write(t), 6), 6)
	},
	"bytes between segments": func(t *testing.T) {
		own := entry(Record{Verb: "create", Seq: 9, At: 1009, Synced: 8})
		for _, surplus := range [][]byte{make([]byte, 4096), []byte("garbage that nobody wrote here\n"), own, own[:len(own)/2]} {
			m, name := tailImage("body ")
			whole := int64(len(m[name]))
			m[name] = append(m[name], surplus...)
			m.seg(1, 10, 10, 10, 8, "") // nothing proves record 10
			got := startOnce(t, m.write(t), 0)
			expectRefusal(t, got, "bytes between segments", 10)
			testkit.MustHold(t, got.refused.Offset == whole && got.refused.Next == nextSurplus, "wrong advice", got.refused)
			m[name] = m[name][:whole]
			expect(t, startOnce(t, m.write(t), 0), 10)
		}
	},
	"record out of order": func(t *testing.T) {
		m, name := tailImage("body ")
		m[name] = append(m[name], entry(Record{Verb: "create", Seq: 4, At: 1004, Synced: 2})...)
		expect(t, startOnce(t, m.write(t), 0), 9)
		m, name = tailImage("body ")
		m[name] = append(m[name], entry(Record{Verb: "create", Seq: 10, At: 1, Synced: 6})...)
		expect(t, startOnce(t, m.write(t), 0), 9)
		m, name = tailImage("body ")
		m[name] = append(m[name], entry(Record{Verb: "create", Seq: 10, At: 2000, Synced: 5})...)
		expect(t, startOnce(t, m.write(t), 0), 9)
		// An intact record is proof at any place, even if its seq is far away.
		m, name = tailImage("body ")
		m[name] = append(m[name], entry(Record{Verb: "create", Seq: 1 << 40, At: 2000, Synced: 12})...)
		expectRefusal(t, startOnce(t, m.write(t), 0), "proven by a later record", 10)
	},
	"segment missing": func(t *testing.T) {
		m, name := tailImage("body ")
		delete(m, name)
		m.seg(1, 9, 9, 9, 2, "") // in the same write as 3–8
		dir := m.write(t)
		expect(t, startOnce(t, dir, 0), 4)
		testkit.MustEqual(t, len(readImage(t, dir)), 2, "the segment after the gap is still there")
		// The missing segment is the first of the volume.
		m = newImage()
		m.seg(1, 1, 1, 4, 0, "")
		m.seg(5, 8, 8, 9, 4, "")
		expect(t, startOnce(t, m.write(t), 0), 4)
	},
	"proven by a later record": func(t *testing.T) {
		m, name := tailImage("body ")
		i := bytes.Index(m[name], []byte("body 5"))
		m[name][i] ^= 1
		got := startOnce(t, m.write(t), 0)
		expectRefusal(t, got, "proven by a later record", 5)
		testkit.MustHold(t, got.refused.Offset == 0 && filepath.Base(got.refused.File) == seqName(5), "wrong place", got.refused)
		m, name = tailImage("body ")
		delete(m, name)
		m.seg(1, 9, 9, 9, 8, "")
		expectRefusal(t, startOnce(t, m.write(t), 0), "proven by a later record", 5)
	},
	"proven by the store's cursor": func(t *testing.T) {
		m, name := tailImage("body ")
		m[name] = m[name][:len(m[name])-5]
		expectRefusal(t, startOnce(t, m.write(t), 9), "proven by the store's cursor", 9)
		expect(t, startOnce(t, m.write(t), 8), 8)
	},
	"damage in a complete volume": func(t *testing.T) {
		// The tail volume is empty, so the start also reads the previous volume.
		m, name := tailImage("body ")
		m.seg(10, 10, 10, 9, 0, "")
		m[name] = m[name][:len(m[name])-5]
		expectRefusal(t, startOnce(t, m.write(t), 0), "damage in a complete volume", 9)
		// Otherwise the reader of that volume finds the damage.
		m.seg(10, 10, 10, 12, 9, "")
		dir := m.write(t)
		j := mustOpen(t, Options{Dir: dir})
		var e *CorruptError
		for _, err := range j.Records(1) {
			errors.As(err, &e)
		}
		expectRefusal(t, outcome{refused: e}, "damage in a complete volume", 9)
		expectRefusal(t, outcome{refused: testkit.Must(Verify(dir))(t).Damage}, "damage in a complete volume", 9)
	},
	"volumes do not join": func(t *testing.T) {
		m, _ := tailImage("body ")
		m.seg(11, 11, 11, 10, 0, "")
		expectRefusal(t, startOnce(t, m.write(t), 0), "volumes do not join", 10)
		m, _ = tailImage("body ")
		m.seg(9, 9, 9, 8, 0, "")
		expectRefusal(t, startOnce(t, m.write(t), 0), "volumes do not join", 10)
	},
	"segments overlap": func(t *testing.T) {
		m, name := tailImage("body ")
		m[filepath.Join(seqName(1), seqName(8))] = slices.Clone(m[name])
		expectRefusal(t, startOnce(t, m.write(t), 0), "segments overlap", 10)
	},
	"left over from a truncation": func(t *testing.T) {
		for _, suffix := range []string{".START", ".END"} {
			m, name := tailImage("body ")
			m[name+suffix] = []byte("x")
			dir := m.write(t)
			expectRefusal(t, startOnce(t, dir, 0), "left over from a truncation", 1)
			_, ok := readImage(t, dir)[name+suffix]
			testkit.MustHold(t, ok, "a refused start has changed the disk")
		}
	},
	"written by a newer version": func(t *testing.T) {
		m, name := tailImage("body ")
		text := AppendRecord(nil, &Record{Verb: "create", Salt: testIdentity.salt, Seq: 10, At: 2000, Synced: 9})
		text = bytes.Replace(text, []byte(" v=1 "), []byte(" v=2 "), 1)
		text = reseal(text)
		m[name] = append(append(m[name], byte(len(text))), text...)
		expectRefusal(t, startOnce(t, m.write(t), 0), "written by a newer version", 10)
		// A flipped bit in `v=1` is damage rather than another version, because the checksum does not match.
		m, name = tailImage("body ")
		i := bytes.LastIndex(m[name], []byte(" v=1 "))
		m[name][i+3] = '3'
		expect(t, startOnce(t, m.write(t), 0), 8)
	},
	"search given up": func(t *testing.T) {
		// A torn body contains many headers. All of them claim the same end, so each costs a checksum over many bytes.
		const lines, width = 2000, 80
		m, name := tailImage("body ")
		evil := forged(testIdentity.salt, lines, width)
		e := entry(Record{Verb: "create", Seq: 10, At: 2000, Synced: 9, Body: evil})
		e[len(e)-3] ^= 1
		m[name] = append(m[name], e...)
		expectRefusal(t, startOnce(t, m.write(t), 0), "search given up", 10)
		// A client that does not know the salt causes no work.
		m, name = tailImage("body ")
		e = entry(Record{Verb: "create", Seq: 10, At: 2000, Synced: 9, Body: forged(testIdentity.salt+1, lines, width)})
		e[len(e)-3] ^= 1
		m[name] = append(m[name], e...)
		expect(t, startOnce(t, m.write(t), 0), 9)
	},
	"of another journal": func(t *testing.T) {
		m, name := tailImage("body ")
		other := identity{testIdentity.uuid, testIdentity.salt + 1}
		m[name] = append(m[name], entry(Record{Verb: "create", Salt: other.salt, Seq: 10, At: 2000, Synced: 9})...)
		expectRefusal(t, startOnce(t, m.write(t), 0), "of another journal", 10)
		m, _ = tailImage("body ")
		m[identityName] = other.text()
		expectRefusal(t, startOnce(t, m.write(t), 0), "of another journal", 1)
	},
	"cursor beyond the end": func(t *testing.T) {
		m, _ := tailImage("body ")
		got := startOnce(t, m.write(t), 10)
		testkit.MustHold(t, errors.Is(got.err, ErrCursor), got)
		got = startOnce(t, t.TempDir(), 1)
		testkit.MustHold(t, errors.Is(got.err, ErrCursor), got)
	},
	"removed before the cursor": func(t *testing.T) {
		m := newImage()
		m.seg(5, 5, 5, 9, 4, "")
		dir := m.write(t)
		got := startOnce(t, dir, 3)
		testkit.MustHold(t, errors.Is(got.err, ErrCursor), got)
		expect(t, startOnce(t, dir, 4), 9)
	},
}

// forged returns a body of header lines. All bodies end at the same end line, so each header costs a checksum over the
// rest.
func forged(salt uint32, lines, width int) []byte {
	var out []byte
	for i := range lines {
		after := (lines - 1 - i) * width
		head := fmt.Sprintf("\n#:a v=1 salt=%08x seq=12 at=2000 synced=11 bytes=%d ", salt, after)
		// The header line must end with \n, and the next line begins with one.
		pad := width - len(head) - 1
		out = append(out, head...)
		out = append(out, bytes.Repeat([]byte("x"), pad)...)
		out = append(out, '\n')
	}
	return append(out, "#:end crc=00000000\n"...)
}

// reseal replaces the checksum of a changed record with the right one.
func reseal(text []byte) []byte {
	body := text[:len(text)-trailerBytes]
	return fmt.Appendf(slices.Clone(body), "%s%08x\n", trailerPrefix, checksum(body))
}

func TestTail(t *testing.T) {
	for _, c := range tailTable {
		if f := tailTests[c.name]; f != nil {
			t.Run(c.name, f)
		}
	}
}

// TestForgedProof: the body of a damaged, unanswered record contains records that a client has forged. They prove
// nothing, so the start discards the record.
func TestForgedProof(t *testing.T) {
	for name, salt := range map[string]uint32{"none": 0, "of another journal": testIdentity.salt ^ 1} {
		for verb, synced := range map[string]uint64{MarkVerb: 13, "create": 10} {
			forgery := AppendRecord(nil, &Record{Verb: verb, Salt: salt, Seq: 14, At: 3000, Synced: synced})
			if salt == 0 {
				forgery = reseal(bytes.Replace(forgery, []byte(" salt=00000000"), nil, 1))
			}
			m, file := tailImage("body ")
			e := entry(Record{Verb: "create", Seq: 10, At: 2000, Synced: 9, Body: slices.Concat([]byte("x"), forgery, []byte("y"))})
			for damage, until := range map[string]int{"its head": 20, "its end": len(e) - 3} {
				torn := slices.Clone(e)
				clear(torn[until-10 : until])
				m := m.clone()
				m[file] = append(m[file], torn...)
				got := startOnce(t, m.write(t), 0)
				testkit.Holds(t, got.err == nil && got.last == 9, "salt", name, "verb", verb, damage, "is lost", got)
			}
		}
	}
}

// TestTailTableIsTested: every row has a test, every test has a row, and refusals name the next step.
func TestTailTableIsTested(t *testing.T) {
	rows := make(map[string]bool)
	for _, c := range tailTable {
		testkit.Holds(t, !rows[c.name], "two rows are called", c.name)
		rows[c.name] = true
		testkit.Holds(t, tailTests[c.name] != nil, "row", c.name, "has no test")
		testkit.Holds(t, (c.verdict == Refuse) == (c.next != "") && c.evidence != "", "row", c.name, "verdict", c.verdict,
			"next step", c.next, "evidence", c.evidence)
	}
	for name := range tailTests {
		testkit.Holds(t, rows[name], "test", name, "has no row")
	}
}

// entries returns the offsets of the entries of a segment, and its length.
func entries(data []byte, first uint64) (starts []int) {
	sc := scanner{data: data, next: first}
	starts = append(starts, 0)
	for sc.step() {
		starts = append(starts, sc.off)
	}
	return starts
}

// TestTailCutAtEveryByte cuts the last segment after each of its bytes. The start discards an incomplete record unless
// the cursor proves that it was durable.
func TestTailCutAtEveryByte(t *testing.T) {
	m, name := tailImage("body ")
	whole := m[name]
	starts := entries(whole, 5)
	for n := range whole {
		m[name] = whole[:n]
		last := uint64(4)
		for last < 9 && starts[last-3] <= n {
			last++
		}
		expect(t, startOnce(t, m.write(t), 0), last)
		expect(t, startOnce(t, m.write(t), last), last)
		got := startOnce(t, m.write(t), last+1)
		if n == starts[last-4] {
			testkit.MustHold(t, errors.Is(got.err, ErrCursor), "truncated at", n, got)
		} else {
			expectRefusal(t, got, "proven by the store's cursor", last+1)
			testkit.MustEqual(t, got.refused.Offset, int64(starts[last-4]), "truncated at", n, got.refused)
		}
	}
}

// rewrite replaces one file of a journal.
func rewrite(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	testkit.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o640))
}

// checksum computes the checksum of the format independently of the product.
func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// TestTailFlipEveryBit flips each bit of both segments. If a later record proves that the damaged record was durable, the
// start is refused and reports the place. Otherwise the start discards the damaged records. No reader ever gets a damaged
// record.
func TestTailFlipEveryBit(t *testing.T) {
	orig, tailName := tailImage("body ")
	for _, name := range []string{filepath.Join(seqName(1), seqName(1)), tailName} {
		first := uint64(1)
		if name == tailName {
			first = 5
		}
		starts := entries(orig[name], first)
		dir := orig.write(t)
		for i := range orig[name] {
			s := first
			for starts[s-first+1] <= i {
				s++
			}
			for bit := range 8 {
				if testing.Short() && bit != i%8 {
					continue
				}
				m := orig.clone()
				m[name][i] ^= 1 << bit
				where := fmt.Sprintf("%s byte %d bit %d (record %d)", name, i, bit, s)
				rewrite(t, dir, name, m[name])
				if bit == i%8 { // offline readers must report the same; for one bit in eight, to save time
					checkFound(t, dir, where, s, int64(starts[s-first]), s <= 6)
				}
				got := startOnce(t, dir, 0)
				switch {
				case s <= 6:
					testkit.MustHold(t, got.refused != nil && got.refused.Seq == s && got.refused.Offset == int64(starts[s-first]), where, got)
				case got.err != nil || got.last != s-1:
					t.Fatalf("%s: %+v", where, got)
				}
				rewrite(t, dir, name, orig[name])
			}
		}
	}
}

// checkFound checks that Verify and Scan report the damage and the decision of a start.
func checkFound(t *testing.T, dir, where string, seq uint64, offset int64, proven bool) {
	t.Helper()
	verdict := Discard
	if proven {
		verdict = Refuse
	}
	rep, err := Verify(dir)
	testkit.MustHold(t, err == nil && rep.Damage != nil && rep.Damage.Seq == seq && rep.Damage.Offset == offset &&
		rep.Verdict == verdict, where, "verify", rep, err)
	var e *CorruptError
	for r, err := range Scan(dir, 1) {
		testkit.MustHold(t, err != nil || r.Seq < seq, where, "record", r.Seq, "was read")
		errors.As(err, &e)
	}
	testkit.MustHold(t, e != nil && e.Seq == seq && e.Offset == offset && e.Verdict == verdict, where, "scan", e)
}

// TestTailTornSectors keeps every subset of the sectors of the last group, as a power cut may. All earlier acknowledged
// records survive, and the journal ends with an intact record.
func TestTailTornSectors(t *testing.T) {
	const sector = 512
	m, name := tailImage(string(bytes.Repeat([]byte("0123456789abcdef"), 50)))
	whole := m[name]
	group := entries(whole, 5)[2] // offset of record 7
	firstSector := group / sector
	n := (len(whole)+sector-1)/sector - firstSector
	testkit.MustHold(t, n >= 4 && n <= 8, n, "sectors")
	for keep := range 1 << n {
		data := slices.Clone(whole)
		for i := range n {
			if keep>>i&1 == 0 {
				// The sector has its content from before the group: earlier records, and zeros.
				clear(data[max(group, (firstSector+i)*sector):min(len(data), (firstSector+i+1)*sector)])
			}
		}
		for _, size := range []int{len(data), group, len(data) - sector/2} {
			m[name] = data[:size]
			for _, applied := range []uint64{0, 6} {
				got := startOnce(t, m.write(t), applied)
				testkit.MustHold(t, got.err == nil && got.last >= 6 && got.last <= 9, "sectors", fmt.Sprintf("%b", keep), "of", n, size, "bytes", got)
				testkit.MustHold(t, keep != 1<<n-1 || size != len(data) || got.last == 9, "nothing was lost, yet it ends at", got.last)
			}
		}
	}
}

// TestTailRemoveOrDoubleASegment removes each of several small segments, or copies it to every other name.
func TestTailRemoveOrDoubleASegment(t *testing.T) {
	orig := newImage()
	for s := uint64(1); s <= 9; s += 2 { // groups 1–4, 5–6 and 7–10; the last group is in two segments
		orig.seg(1, s, s, s+1, []uint64{0, 0, 4, 6, 6}[s/2], "")
	}
	name := func(s uint64) string { return filepath.Join(seqName(1), seqName(s)) }
	for s := uint64(1); s <= 9; s += 2 {
		m := orig.clone()
		delete(m, name(s))
		dir := m.write(t)
		switch got := startOnce(t, dir, 0); s {
		case 9:
			expect(t, got, 8)
		case 7:
			expect(t, got, 6) // 9 and 10 are in the same unsynced write
		default:
			expectRefusal(t, got, "proven by a later record", s)
			expectGap(t, dir, s)
		}
		for to := uint64(1); to <= 12; to++ {
			m := orig.clone()
			if m[name(to)] != nil {
				continue
			}
			m[name(to)] = m[name(s)]
			got := startOnce(t, m.write(t), 0)
			if to > 10 {
				expect(t, got, 10) // the gap is after the last acknowledged record
			} else if got.refused == nil || got.refused.Case != "segments overlap" {
				t.Fatalf("segment %d copied to %d: %+v", s, to, got)
			}
		}
	}
}

// expectGap checks that Verify and Scan report a missing segment too.
func expectGap(t *testing.T, dir string, seq uint64) {
	t.Helper()
	rep, err := Verify(dir)
	testkit.MustHold(t, err == nil && rep.Damage != nil && rep.Damage.Seq == seq && rep.Verdict == Refuse, "verify", rep, err)
	var e *CorruptError
	for _, err := range Scan(dir, 1) {
		errors.As(err, &e)
	}
	testkit.MustHold(t, e != nil && e.Seq == seq && e.Verdict == Refuse, "scan", e)
}

// TestTailRandomDamage damages random places of the last group and of the records before it. The start must never
// discard a record that an intact record proves, and an accepted journal has no gaps.
func TestTailRandomDamage(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	orig, name := tailImage("some body ")
	group := entries(orig[name], 5)[2]
	for i := range 400 {
		m := orig.clone()
		data := m[name]
		for range 1 + rng.IntN(3) {
			switch at := group + rng.IntN(len(data)-group); rng.IntN(4) {
			case 0:
				data[at] ^= byte(1 + rng.IntN(255))
			case 1:
				clear(data[at:min(len(data), at+rng.IntN(64))])
			case 2:
				data = append(data, make([]byte, rng.IntN(100))...)
			case 3:
				data = slices.Concat(data[:at], data[group:])
			}
			if len(data) <= group+1 {
				break
			}
		}
		m[name] = data
		got := startOnce(t, m.write(t), 6)
		testkit.MustHold(t, (got.err == nil || got.refused != nil) && (got.err != nil || got.last >= 6), "seed", seed, "round", i, got)
	}
}
