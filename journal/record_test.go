package journal

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/tidwall/wal"

	"github.com/daybookq/daybook/internal/testkit"
)

var rewriteGolden = flag.Bool("rewrite", false, "write the golden files again")

// goldenRecords are the records in testdata/v1, by file name. The files of a version never change, because old journals
// contain the same bytes.
var goldenRecords = map[string]Record{
	"mark":          {Verb: MarkVerb, Salt: 0x6f1d2a90, Seq: 1, At: 0, Synced: 0},
	"lines":         {Verb: "create", Salt: 0x6f1d2a90, Seq: 812, At: 1670273606123, Synced: 811, Fields: []byte("client=acme type=resize n=2 frame=line"), Body: []byte("first payload\nsecond one\n")},
	"no-newline":    {Verb: "output", Salt: 0x6f1d2a90, Seq: 813, At: 1670273606123, Synced: 811, Fields: []byte("client=acme"), Body: []byte("does not end in a line break")},
	"only-newline":  {Verb: "output", Salt: 0x6f1d2a90, Seq: 814, At: 1670273606124, Synced: 813, Body: []byte("\n")},
	"binary":        {Verb: "output", Salt: 0x6f1d2a90, Seq: 815, At: 1670273606124, Synced: 813, Body: []byte{0, 1, 2, '\n', 0xff, 0xfe, '\r', '\n', 0}},
	"record-inside": {Verb: "create", Salt: 0x6f1d2a90, Seq: 816, At: 1670273606125, Synced: 815, Fields: []byte("frame=len"), Body: []byte("19\n\n#:end crc=00000000\n")},
	"escaped":       {Verb: "claim", Salt: 0x6f1d2a90, Seq: 817, At: 1670273606125, Synced: 815, Fields: []byte("runner=a%20b%0Ac key=%C3%A9")},
	"largest":       {Verb: strings.Repeat("z", maxVerbBytes), Salt: 0x6f1d2a90, Seq: 1<<64 - 1, At: maxAt, Synced: 1<<64 - 2},
}

func TestGolden(t *testing.T) {
	dir := filepath.Join("testdata", "v1")
	if *rewriteGolden {
		for name, r := range goldenRecords {
			testkit.NoError(t, os.WriteFile(filepath.Join(dir, name+".record"), AppendRecord(nil, &r), 0o644))
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.record"))
	testkit.MustHold(t, err == nil && len(files) == len(goldenRecords), len(files), "files", len(goldenRecords), "records", err)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".record"), func(t *testing.T) {
			text := testkit.Must(os.ReadFile(file))(t)
			r := testkit.Must(ParseRecord(text))(t)
			want := goldenRecords[strings.TrimSuffix(filepath.Base(file), ".record")]
			testkit.MustHold(t, sameRecord(r, want), "reads as", r, "not", want)
			again := AppendRecord(nil, &r)
			testkit.MustHold(t, bytes.Equal(again, text), "writes as", string(again), "not", string(text))
			testkit.NoError(t, r.Validate())
		})
	}
}

// TestFormatDoc: the example in the document is a record.
func TestFormatDoc(t *testing.T) {
	doc := testkit.Must(os.ReadFile(filepath.Join("..", "docs", "reference", "format-journal.md")))(t)
	_, rest, _ := strings.Cut(string(doc), "\n\\n#:create")
	example, _, ok := strings.Cut(rest, "\n```")
	testkit.MustHold(t, ok, "the example is not where it was")
	text := "\n#:create" + strings.ReplaceAll(example, "\\n", "") + "\n"
	_, err := ParseRecord([]byte(text))
	testkit.NoError(t, err, text)
}

// TestGrep: `grep -a '^#:'` finds the header lines and the end lines of a segment.
func TestGrep(t *testing.T) {
	var file []byte
	for _, name := range []string{"mark", "lines", "no-newline"} {
		file = append(file, entry(goldenRecords[name])...)
	}
	var got []string
	for line := range strings.Lines(string(file)) {
		if strings.HasPrefix(line, "#:") {
			got = append(got, strings.Fields(line)[0])
		}
	}
	testkit.MustEqual(t, strings.Join(got, " "), "#:mark #:end #:create #:end #:output #:end", got)
}

func TestParseRecordRefuses(t *testing.T) {
	good := string(AppendRecord(nil, &Record{Verb: "create", Salt: 0x6f1d2a90, Seq: 12, At: 34, Synced: 11, Fields: []byte("a=b"), Body: []byte("xy")}))
	testkit.Must(ParseRecord([]byte(good)))(t)
	// Every variant except those of the checksum gets a new checksum, so that the parser must detect the wrong form.
	for _, c := range []struct{ name, old, new string }{
		{"no leading newline", "\n#:create", "#:create"},
		{"no verb", "#:create ", "#: "},
		{"verb in capitals", "#:create", "#:Create"},
		{"verb too long", "#:create", "#:" + strings.Repeat("a", maxVerbBytes+1)},
		{"no version", " v=1", ""},
		{"version 01", "v=1", "v=01"},
		{"no salt", " salt=6f1d2a90", ""},
		{"short salt", "salt=6f1d2a90", "salt=6f1d2a9"},
		{"long salt", "salt=6f1d2a90", "salt=6f1d2a900"},
		{"salt in capitals", "salt=6f1d2a90", "salt=6F1D2A90"},
		{"leading zero", "seq=12", "seq=012"},
		{"sign", "seq=12", "seq=+12"},
		{"negative", "at=34", "at=-34"},
		{"no number", "at=34", "at="},
		{"number too large", "seq=12", "seq=18446744073709551616"},
		{"time too large", "at=34", fmt.Sprintf("at=%d", int64(maxAt)+1)},
		{"seq 0", "seq=12", "seq=0"},
		{"synced equal to seq", "synced=11", "synced=12"},
		{"synced above seq", "synced=11", "synced=13"},
		{"body too long", "bytes=2", "bytes=4"},
		{"body too short", "bytes=2", "bytes=1"},
		{"body beyond the bound", "bytes=2", fmt.Sprintf("bytes=%d", MaxRecordBytes+1)},
		{"envelope in another order", "at=34 synced=11", "synced=11 at=34"},
		{"two blanks", "bytes=2 a=b", "bytes=2  a=b"},
		{"blank at the end", "bytes=2 a=b", "bytes=2 "},
		{"no blank", "bytes=2 a=b", "bytes=2,a=b"},
		{"tab in fields", "a=b", "a\tb"},
		{"delete in fields", "a=b", "a\x7fb"},
		{"carriage return", "a=b\n", "a=b\r\n"},
		{"no added newline", "xy\n", "xy"},
		{"two added newlines", "xy\n", "xy\n\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(good, c.old, c.new, 1)
			testkit.MustHold(t, text != good, "nothing changed")
			var re *RecordError
			r, err := ParseRecord(reseal([]byte(text)))
			testkit.MustHold(t, errors.As(err, &re), text, "read as", r, err)
		})
	}
	for n := range len(good) {
		_, err := ParseRecord([]byte(good[:n]))
		testkit.MustHold(t, err != nil, good[:n], "was accepted")
		flipped := []byte(good)
		for bit := range 8 {
			flipped[n] = good[n] ^ 1<<bit
			_, err := ParseRecord(flipped)
			testkit.MustHold(t, err != nil, string(flipped), "was accepted")
		}
	}
	_, err := ParseRecord([]byte(good + "\n"))
	testkit.MustHold(t, err != nil, "a byte after the end was accepted")
	upper := []byte(good)
	i := len(upper) - 9
	copy(upper[i:], bytes.ToUpper(upper[i:]))
	_, err = ParseRecord(upper)
	testkit.MustHold(t, err != nil || bytes.Equal(upper, []byte(good)), "an upper-case checksum was accepted")
}

func TestParseRecordVersion(t *testing.T) {
	text := bytes.Replace(AppendRecord(nil, &Record{Verb: "create", Seq: 2}), []byte("v=1 salt=00000000 seq=2"), []byte("v=27 something else"), 1)
	_, err := ParseRecord(reseal(text))
	testkit.MustHold(t, errors.Is(err, ErrVersion), err)
	_, err = ParseRecord(text)
	testkit.MustHold(t, err != nil && !errors.Is(err, ErrVersion), "a version whose checksum is wrong was believed", err)
}

func TestShortestRecord(t *testing.T) {
	testkit.MustEqual(t, len(AppendRecord(nil, &Record{Verb: "a", Seq: 1})), minRecordBytes, "the shortest record", "bytes, minRecordBytes says")
	longest := goldenRecords["largest"]
	longest.Fields, longest.Body = []byte("x"), []byte("y")
	n := len(AppendRecord(nil, &longest))
	testkit.MustHold(t, n <= envelopeBytes+2, "a record is", n-2, "bytes longer than fields and body, envelopeBytes says", envelopeBytes)
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		r    Record
		want error
	}{
		"good":              {Record{Verb: "a", Seq: 1}, nil},
		"seq 0":             {Record{Verb: "a"}, ErrInvalid},
		"synced":            {Record{Verb: "a", Seq: 1, Synced: 1}, ErrInvalid},
		"at below 0":        {Record{Verb: "a", Seq: 1, At: -1}, ErrInvalid},
		"at beyond":         {Record{Verb: "a", Seq: 1, At: maxAt + 1}, ErrInvalid},
		"no verb":           {Record{Seq: 1}, ErrInvalid},
		"verb with a blank": {Record{Verb: "a b", Seq: 1}, ErrInvalid},
		"longest verb":      {Record{Verb: strings.Repeat("a", maxVerbBytes), Seq: 1}, nil},
		"verb too long":     {Record{Verb: strings.Repeat("a", maxVerbBytes+1), Seq: 1}, ErrInvalid},
		"line break":        {Record{Verb: "a", Seq: 1, Fields: []byte("a=b\n#:end")}, ErrInvalid},
		"leading blank":     {Record{Verb: "a", Seq: 1, Fields: []byte(" a=b")}, ErrInvalid},
		"UTF-8 in fields":   {Record{Verb: "a", Seq: 1, Fields: []byte("a=é")}, nil},
		"largest":           {Record{Verb: "a", Seq: 1, Body: make([]byte, MaxRecordBytes-envelopeBytes)}, nil},
		"too large":         {Record{Verb: "a", Seq: 1, Body: make([]byte, MaxRecordBytes-envelopeBytes+1)}, ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.r.Validate()
			testkit.MustHold(t, errors.Is(err, c.want), err)
			if c.want == nil {
				got, err := ParseRecord(AppendRecord(nil, &c.r))
				testkit.MustHold(t, err == nil && sameRecord(got, c.r), err)
			}
		})
	}
}

// FuzzParseRecord: no input panics, and AppendRecord writes every accepted text unchanged.
func FuzzParseRecord(f *testing.F) {
	for _, name := range slices.Sorted(mapKeys(goldenRecords)) {
		r := goldenRecords[name]
		f.Add(AppendRecord(nil, &r))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseRecord(b)
		if err != nil {
			var re *RecordError
			testkit.MustHold(t, errors.As(err, &re) && re.Offset >= 0 && re.Offset <= len(b), err)
			return
		}
		again := AppendRecord(nil, &r)
		testkit.MustHold(t, bytes.Equal(again, b), string(b), "was accepted, AppendRecord writes", string(again))
		testkit.NoError(t, r.Validate())
	})
}

// FuzzRoundTrip: every valid record reads back unchanged.
func FuzzRoundTrip(f *testing.F) {
	f.Add("create", uint32(0x6f1d2a90), uint64(812), int64(1670273606123), uint64(811), []byte("client=acme"), []byte("first\n"))
	f.Add("mark", uint32(1), uint64(1), int64(0), uint64(0), []byte(nil), []byte("\n#:end crc=00000000"))
	f.Fuzz(func(t *testing.T, verb string, salt uint32, seq uint64, at int64, synced uint64, fields, body []byte) {
		r := Record{Verb: verb, Salt: salt, Seq: seq, At: at, Synced: synced, Fields: fields, Body: body}
		if r.Validate() != nil {
			return
		}
		got, err := ParseRecord(AppendRecord(nil, &r))
		testkit.MustHold(t, err == nil && sameRecord(got, r), r, "reads back as", got, err)
	})
}

// TestSegmentsShareABuffer: tidwall/wal collects all segments in the memory of the first segment.
//
// If this fails after an update of tidwall/wal, check whether the library now keeps the buffer, or has an option for it.
// If so, remove segment_buffer.go and this test. Otherwise the fields that lastSegments looks for have changed.
func TestSegmentsShareABuffer(t *testing.T) {
	const segmentBytes = 64 << 10
	var buffers []*byte // of the filled segments; only the committer appends, and this goroutine reads after its end
	r := mustRun(t, Options{SegmentBytes: segmentBytes, VolumeBytes: 1 << 30, Hooks: Hooks{Write: func(l *wal.Log, b *wal.Batch) error {
		err := l.WriteBatch(b)
		full, begun := lastSegments(l)
		if full == nil {
			return err // the first segment
		}
		if *begun == nil { // by this write
			buffers = append(buffers, unsafe.SliceData(*full))
		}
		return err
	}}})
	for i := range 50 {
		r.mustPut("create", strings.Repeat("x", 200*i+3000))
	}
	r.stop()
	testkit.MustHold(t, len(buffers) >= 5, len(buffers), "segments were filled")
	for i, b := range buffers[1:] {
		testkit.Equal(t, b, buffers[0], "segment", i+2, "was collected in memory of its own")
	}
}

// TestSegmentBufferIsBounded: a buffer that a large record has grown is not kept.
func TestSegmentBufferIsBounded(t *testing.T) {
	const segmentBytes = 4 << 10
	kept := -1 // written by the committer, read after its end
	r := mustRun(t, Options{SegmentBytes: segmentBytes, Hooks: Hooks{Write: func(l *wal.Log, b *wal.Batch) error {
		if _, begun := lastSegments(l); begun != nil {
			kept = max(kept, cap(*begun))
		}
		return l.WriteBatch(b)
	}}})
	r.mustPut("create", strings.Repeat("x", (maxSpareFactor+1)*segmentBytes))
	r.mustPut("create", "small")
	r.stop()
	testkit.Holds(t, kept >= 0 && kept < segmentBytes, "the segment after the long one began with a buffer of", kept, "bytes (-1: there was none)")
}

// filled returns a running journal with n records in small segments and volumes.
func filled(t *testing.T, n int) *running {
	r := mustRun(t, Options{SegmentBytes: 300, VolumeBytes: 1500})
	for i := range n {
		ch := testkit.Must(r.propose(Control, "create", fmt.Sprintf("record %d", i)))(t)
		a := <-ch
		testkit.NoError(t, a.err)
	}
	return r
}

// TestSegments: for each pair of a first and a last record, the copied segments are a complete journal that includes the
// first record and ends with the last.
func TestSegments(t *testing.T) {
	j := filled(t, 60)
	last := j.Synced()
	for from := uint64(1); from <= last; from += 7 {
		for through := from; through <= last; through += 3 {
			to := t.TempDir()
			name, identity := j.IdentityFile()
			testkit.NoError(t, os.WriteFile(filepath.Join(to, name), identity, 0o640))
			for s, err := range j.Segments(from, through) {
				testkit.NoError(t, err)
				path := filepath.Join(to, s.Path())
				testkit.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, s.Data, 0o640)))
			}
			r, err := Verify(to)
			testkit.MustHold(t, err == nil && r.Damage == nil && r.First <= from && r.Last == through &&
				r.UUID == j.UUID(), "from", from, "to", through, r, err)
			next := r.First
			for record, err := range Scan(to, r.First) {
				testkit.MustHold(t, err == nil && record.Seq == next, "record", record.Seq, err)
				next++
			}
		}
	}
	for _, err := range j.Segments(1, last+1000) {
		testkit.Failed(t, err)
	}
}

// TestSegmentsOfADamagedJournal: damage gives an error instead of a copy.
func TestSegmentsOfADamagedJournal(t *testing.T) {
	j := filled(t, 20)
	vols := testkit.Must(loadVolumes(j.o.Dir))(t)
	path := vols[0].segments[0].path
	content := testkit.Must(os.ReadFile(path))(t)
	for _, at := range []int{0, len(content) / 2, len(content) - 1} {
		damaged := append([]byte(nil), content...)
		damaged[at] ^= 1
		testkit.NoError(t, os.WriteFile(path, damaged, 0o640))
		var found *CorruptError
		for _, err := range j.Segments(1, j.Synced()) {
			testkit.Holds(t, err == nil || errors.As(err, &found), "byte", at, err)
		}
		testkit.Holds(t, found != nil && found.File == path, "byte", at, "damage was not found", found)
	}
	testkit.NoError(t, os.Remove(path))
	for _, err := range j.Segments(1, j.Synced()) {
		testkit.Failed(t, err)
		break
	}
	testkit.NoError(t, os.WriteFile(path, content, 0o640)) // for the end of the journal
}
