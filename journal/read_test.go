package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

func readAll(t *testing.T, j *Journal, from uint64) (seqs []uint64) {
	t.Helper()
	for r, err := range j.Records(from) {
		testkit.NoError(t, err)
		seqs = append(seqs, r.Seq)
	}
	return seqs
}

// TestRecords reads from every seq, over segments and volumes, while the last bytes of the file are not durable.
func TestRecords(t *testing.T) {
	m, _ := tailImage("body ")
	m.seg(10, 10, 10, 11, 9, "")
	m.seg(10, 12, 12, 14, 11, "")
	j := mustOpen(t, Options{Dir: m.write(t)})
	for from := uint64(1); from <= 16; from++ {
		got := readAll(t, j, from)
		testkit.MustHold(t, len(got) == max(0, 15-int(from)) && (len(got) == 0 || got[0] == from && got[len(got)-1] == 14), "from", from, got)
	}
	// Records does not read bytes after synced.
	f := testkit.Must(os.OpenFile(filepath.Join(j.o.Dir, seqName(10), seqName(12)), os.O_APPEND|os.O_WRONLY, 0))(t)
	testkit.Must(f.WriteString("half a gr"))(t)
	testkit.NoError(t, f.Close())
	got := readAll(t, j, 1)
	testkit.MustEqual(t, len(got), 14, got)
	// A reader may stop early.
	for r, err := range j.Records(3) {
		testkit.MustHold(t, err == nil && r.Seq == 3, r, err)
		break
	}
	n := 0
	for _, err := range Scan(j.o.Dir, 13) {
		var e *CorruptError
		testkit.MustHold(t, err == nil || errors.As(err, &e) && e.Verdict == Discard && e.Seq == 15, err)
		n++
	}
	testkit.MustEqual(t, n, 3)
}

func TestScanOfNothing(t *testing.T) {
	for range Scan(t.TempDir(), 1) {
		t.Fatal("something")
	}
	for _, err := range Scan(filepath.Join(t.TempDir(), "none"), 1) {
		testkit.MustHold(t, errors.Is(err, fs.ErrNotExist), err)
	}
	rep, err := Verify(t.TempDir())
	testkit.MustHold(t, err == nil && rep.First == 1 && rep.Last == 0 && rep.Verdict == Accept && rep.Damage == nil, rep, err)
}

// TestRecordsWhileWriting reads while segments and volumes are made and removed. Every reader gets all records from the
// requested seq to the synced seq, or an error because its volume was removed. Readers read once per few written records,
// so that they do not take more processor time than the writer.
func TestRecordsWhileWriting(t *testing.T) {
	r := mustRun(t, Options{SegmentBytes: 2000, VolumeBytes: 8000})
	var turns [3]chan struct{}
	for i := range turns {
		turns[i] = make(chan struct{}, 1)
	}
	ended := make(chan error, 3)
	for i := range 2 {
		go func() {
			ended <- func() error {
				for range turns[i] {
					from, synced := r.First(), r.Synced()
					if i == 1 {
						from = max(from, synced-min(synced, 20))
					}
					next := from
					for rec, err := range r.Records(from) {
						if errors.Is(err, ErrCut) {
							next = synced + 1
							break
						} else if err != nil {
							return err
						}
						if rec.Seq != next {
							return fmt.Errorf("seq %d, not %d", rec.Seq, next)
						}
						next++
					}
					if next <= synced {
						return fmt.Errorf("ended at %d, %d was synced", next-1, synced)
					}
				}
				return nil
			}()
		}()
	}
	go func() {
		ended <- func() error {
			for range turns[2] {
				if _, err := r.Cut(r.Synced(), 20_000); err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	for i := range 2500 {
		r.mustPut("create", strings.Repeat("z", i%200))
		if i%4 == 0 {
			for _, turn := range turns {
				select {
				case turn <- struct{}{}:
				default: // the last read has not begun yet
				}
			}
		}
	}
	for _, turn := range turns {
		close(turn)
	}
	for range 3 {
		testkit.Check(t, <-ended)
	}
	testkit.Holds(t, r.First() != 1, "no volume was removed")
	r.stop()
}

// volumesOf returns a journal of n volumes with three records each, and the size of a volume.
func volumesOf(t *testing.T, n int) (image, int64) {
	m := newImage()
	var size int64
	for i := range uint64(n) {
		first := 3*i + 1
		m.seg(first, first, first, first, first-1, "body")
		m.seg(first, first+1, first+1, first+2, first, "body")
		size = int64(len(m[filepath.Join(seqName(first), seqName(first))]) + len(m[filepath.Join(seqName(first), seqName(first+1))]))
	}
	return m, size
}

func TestCut(t *testing.T) {
	m, size := volumesOf(t, 3) // 1–3, 4–6, 7–9
	for _, c := range []struct {
		name    string
		applied uint64
		retain  int64
		first   uint64
	}{
		{"nothing applied", 0, 0, 1},
		{"one short of the volume's end", 2, 0, 1},
		{"the volume's end", 3, 0, 4},
		{"never the tail", 9, 0, 7},
		{"applied beyond synced", 100, 0, 7},
		{"retain all", 9, 2 * size, 1},
		{"retain one byte less", 9, 2*size - 1, 1},
		{"retain one volume", 9, size, 4},
		{"retain one byte more", 9, size + 1, 1},
		{"retain a little", 9, 1, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := mustOpen(t, Options{Dir: m.write(t), Applied: min(c.applied, 9)})
			removed, err := j.Cut(c.applied, c.retain)
			testkit.MustHold(t, err == nil && j.First() == c.first && len(removed) == int(c.first-1)/3, "first", j.First(), "removed", removed, err)
			got := readAll(t, j, c.first)
			testkit.MustEqual(t, uint64(len(got)), 10-c.first, got)
			for _, err := range j.Records(c.first - 1) {
				testkit.MustHold(t, c.first <= 1 || errors.Is(err, ErrCut), err)
			}
			vols, err := Volumes(j.o.Dir)
			testkit.MustHold(t, err == nil && vols[0].First == c.first && vols[len(vols)-1].Tail, vols, err)
		})
	}
	t.Run("not the last volume that has a record", func(t *testing.T) {
		m := m.clone()
		m.seg(10, 10, 10, 9, 0, "")
		j := mustOpen(t, Options{Dir: m.write(t), Applied: 9})
		_, err := j.Cut(9, 0)
		testkit.MustHold(t, err == nil && j.First() == 7, j.First(), err)
	})
	t.Run("the next start completes an interrupted removal", func(t *testing.T) {
		dir := m.write(t)
		testkit.NoError(t, os.Rename(filepath.Join(dir, seqName(1)), filepath.Join(dir, seqName(1)+removedSuffix)))
		j := mustOpen(t, Options{Dir: dir, Applied: 3})
		_, err := os.Stat(filepath.Join(dir, seqName(1)+removedSuffix))
		testkit.MustHold(t, errors.Is(err, fs.ErrNotExist) && j.First() == 4, err, j.First())
	})
}

func TestCutToArchive(t *testing.T) {
	m, _ := volumesOf(t, 3)
	archived := filepath.Join(t.TempDir(), "archive")
	testkit.Must(mustOpen(t, Options{Dir: m.write(t), Applied: 9, Archive: archived}).Cut(9, 0))(t)
	got := readImage(t, archived)
	testkit.MustEqual(t, len(got), 4)
	for name, data := range got {
		testkit.MustHold(t, bytes.Equal(data, m[name]), name)
	}
	// The archive can be read like a journal.
	n := 0
	for _, err := range Scan(archived, 1) {
		testkit.NoError(t, err)
		n++
	}
	testkit.MustEqual(t, n, 6)
}

// TestCutToAFullArchive: a volume that cannot be moved stays in place, and the next attempt moves it.
func TestCutToAFullArchive(t *testing.T) {
	m, _ := volumesOf(t, 3)
	archived := t.TempDir()
	taken := filepath.Join(archived, seqName(4))
	testkit.NoError(t, os.MkdirAll(filepath.Join(taken, "something else"), 0o750))
	j := mustOpen(t, Options{Dir: m.write(t), Applied: 9, Archive: archived})
	removed, err := j.Cut(9, 0)
	testkit.MustHold(t, err != nil && len(removed) == 1 && j.First() == 4, removed, err, j.First())
	got := readAll(t, j, 4)
	testkit.MustEqual(t, len(got), 6, got)
	testkit.NoError(t, os.RemoveAll(taken))
	_, err = j.Cut(9, 0)
	testkit.MustHold(t, err == nil && j.First() == 7, err, j.First())
}

// TestCopyVolume tests the copy to an archive on another file system.
func TestCopyVolume(t *testing.T) {
	m, _ := volumesOf(t, 1)
	from, to := filepath.Join(m.write(t), seqName(1)), filepath.Join(t.TempDir(), seqName(1))
	var h Hooks
	h.fill()
	for range 2 { // the second copy finds the first
		testkit.NoError(t, copyVolume(&h, from, to))
	}
	got, want := readImage(t, to), readImage(t, from)
	for name := range want {
		testkit.MustHold(t, bytes.Equal(got[name], want[name]), name)
	}
	rewrite(t, to, seqName(1), []byte("other"))
	testkit.MustHold(t, copyVolume(&h, from, to) != nil, "something else was taken for the copy")
}

func TestLatency(t *testing.T) {
	var l latency
	testkit.MustEqual(t, l.read(), (Latency{}))
	for i := range latencyBucket(1 << 30) {
		low := time.Duration(0)
		if i > 0 {
			low = latencyBound(i - 1)
		}
		testkit.MustEqual(t, latencyBucket(uint64(low/time.Microsecond)), i, "bucket", "begins at", low, "which falls into")
		testkit.MustHold(t, low <= 4*time.Microsecond || latencyBound(i) <= low+low/4, "bucket", i, "from", low, "to", latencyBound(i))
	}
	for i := 1; i <= 1000; i++ {
		l.add(time.Duration(i) * time.Microsecond)
	}
	got := l.read()
	testkit.MustHold(t, got.Count == 1000 && got.Max == time.Millisecond && got.P50 >= 500*time.Microsecond &&
		got.P50 <= 640*time.Microsecond && got.P99 >= 990*time.Microsecond, got)
}

// TestCutAfterAFailedMove: a volume that was moved to the archive no longer belongs to the journal, even if its new name
// could not be made durable. The next attempt continues with the next volume.
func TestCutAfterAFailedMove(t *testing.T) {
	m, _ := volumesOf(t, 3)
	archived := t.TempDir()
	failing := true
	o := Options{Dir: m.write(t), Applied: 9, Archive: archived}
	o.Hooks.SyncFile = func(f *os.File) error {
		if failing && strings.HasPrefix(f.Name(), archived) {
			return errDisk
		}
		return f.Sync()
	}
	j := mustOpen(t, o)
	removed, err := j.Cut(9, 0)
	testkit.MustHold(t, errors.Is(err, errDisk) && len(removed) == 0 && j.First() == 4, removed, err, j.First())
	got := readAll(t, j, 4)
	testkit.MustEqual(t, len(got), 6, got)
	failing = false
	removed = testkit.Must(j.Cut(9, 0))(t)
	testkit.MustHold(t, len(removed) == 1 && j.First() == 7, removed, j.First())
}

// TestScanBesideWriter: Scan reads a journal while a server writes it. It yields the records that were written before, in
// order, and reports no damage.
func TestScanBesideWriter(t *testing.T) {
	t.Run("records in the room while the records before are visited", func(t *testing.T) {
		r := mustRun(t, Options{})
		for i := range 10 {
			r.mustPut("create", fmt.Sprint(i))
		}
		before, last := r.Synced(), uint64(0)
		for rec, err := range Scan(r.o.Dir, 1) {
			testkit.NoError(t, err)
			if last = rec.Seq; last == 5 {
				for range 3 {
					r.mustPut("create", "during")
				}
			}
		}
		testkit.Holds(t, last >= before, "the scan ended with seq", last, "and", before, "were durable")
		r.stop()
	})
	t.Run("a page is read before records, and the next one after them", func(t *testing.T) {
		r := mustRun(t, Options{})
		r.mustPut("create", "first")
		path := filepath.Join(r.o.Dir, seqName(1), seqName(1))
		read := make([]byte, 4096)
		early := testkit.Must(os.Open(path))(t)
		testkit.Must(io.ReadFull(early, read))(t)
		testkit.NoError(t, early.Close())
		for i := range 5 {
			r.mustPut("create", strings.Repeat("x", 3000+i))
		}
		durable := r.Synced() // the journal writes marks now and then
		w, last := walker{dir: r.o.Dir}, uint64(0)
		w.read = func(path string, buf []byte) ([]byte, error) {
			data, err := readSegment(path, buf)
			copy(data, read)
			read = nil
			return data, err
		}
		testkit.NoError(t, w.walk(1, func(r *Record) bool { last = r.Seq; return true }))
		testkit.Holds(t, last >= durable, "the scan ended with seq", last, "and", durable, "were durable")
		r.stop()
	})
	t.Run("beside a busy writer", func(t *testing.T) {
		r := mustRun(t, Options{VolumeBytes: 1 << 20})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for i := range 1500 {
					r.mustPut("create", strings.Repeat("x", i%3000))
				}
			})
		}
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		for scans := 0; ; scans++ {
			select {
			case <-done:
				r.stop()
				t.Logf("%d scans", scans)
				return
			default:
			}
			before, last := r.Synced(), uint64(0)
			for rec, err := range Scan(r.o.Dir, max(r.First(), 1)) {
				var e *CorruptError
				if errors.As(err, &e) && e.Verdict == Discard {
					break // a group that was being written
				} else if err != nil {
					t.Fatal(err)
				}
				last = rec.Seq
			}
			testkit.MustHold(t, last >= before, "the scan ended with seq", last, "and", before, "were durable")
		}
	})
}

func mapKeys[V any](m map[string]V) iter.Seq[string] { return maps.Keys(m) }

func TestSearch(t *testing.T) {
	rec := func(seq, synced uint64) []byte {
		return entry(Record{Verb: "create", Seq: seq, At: 100, Synced: synced})
	}
	at := func(p proof) [3]uint64 { return [3]uint64{uint64(p.records), p.synced, p.last} }
	for name, c := range map[string]struct {
		data []byte
		want [3]uint64
	}{
		"nothing":          {nil, [3]uint64{}},
		"no record":        {[]byte("\n#:\n#:create v=1 seq="), [3]uint64{}},
		"in order":         {bytes.Join([][]byte{rec(11, 9), rec(12, 9)}, nil), [3]uint64{2, 9, 12}},
		"after garbage":    {bytes.Join([][]byte{[]byte("garbage\n#:x"), rec(11, 10)}, nil), [3]uint64{1, 10, 11}},
		"too early in seq": {rec(10, 9), [3]uint64{}},
		"too late in seq":  {rec(5000, 4999), [3]uint64{}},
		"another salt":     {entry(Record{Verb: "create", Salt: 1, Seq: 11, At: 100, Synced: 10}), [3]uint64{}},
		"inside a body":    {entry(Record{Verb: "create", Seq: 11, At: 100, Synced: 5, Body: rec(12, 11)}), [3]uint64{1, 5, 11}},
	} {
		t.Run(name, func(t *testing.T) {
			p := search(c.data, testIdentity.salt, 10, 100)
			testkit.MustHold(t, at(p) == c.want && !p.gaveUp, p)
		})
	}
	p := search(rec(11, 10), testIdentity.salt, 10, 101)
	testkit.MustEqual(t, p.records, 0, "a record from before its predecessor's time counted", p)
}

func TestUvarintLen(t *testing.T) {
	for shift := range 64 {
		for _, x := range []uint64{1 << shift, 1<<shift - 1, 1<<shift + 1} {
			got, want := uvarintLen(x), len(binary.AppendUvarint(nil, x))
			testkit.MustHold(t, got == want, x, got, "not", want)
		}
	}
}

// FuzzScan: no segment makes the scanner or the search panic, and encoding the records gives the bytes that were read.
func FuzzScan(f *testing.F) {
	m, name := tailImage("body ")
	f.Add(m[name])
	f.Add(append(m[name][:len(m[name]):len(m[name])], make([]byte, 64)...))
	f.Add(m[name][:len(m[name])-7])
	f.Add(m[name][100:])
	f.Fuzz(func(t *testing.T, data []byte) {
		sc := scanner{data: data, next: 5}
		var again []byte
		for sc.step() {
			again = append(again, entry(sc.rec)...)
		}
		testkit.MustHold(t, bytes.Equal(again, data[:sc.off]), string(data[:sc.off]), "was read", string(again), "is what it means")
		testkit.MustEqual(t, sc.found.kind == clean, (sc.off == len(data)), "stopped at", sc.off, "of", len(data), "with", sc.found)
		p := search(data[sc.off:], sc.salt, sc.next-1, sc.at)
		testkit.MustHold(t, p.synced < p.last || p.records <= 0, p)
	})
}
