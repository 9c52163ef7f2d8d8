package journal

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/wal"

	"github.com/daybookq/daybook/internal/filelock"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestOpenSyncsBeforeItReturns: every accepted segment, its volume and the directory of the journal are synced, after
// the truncation and before a record can be read or appended.
func TestOpenSyncsBeforeItReturns(t *testing.T) {
	m, name := tailImage("body ")
	m.seg(10, 10, 10, 12, 9, "")
	last := filepath.Join(seqName(10), seqName(10))
	m[last] = append(m[last], 1, 2, 3)
	dir := m.write(t)
	var calls []string
	short := func(path string) string { return testkit.Must(filepath.Rel(dir, path))(t) }
	j := testkit.Must(Open(Options{Dir: dir, Applied: 9, Hooks: Hooks{
		SyncFile: func(f *os.File) error { calls = append(calls, "sync "+short(f.Name())); return f.Sync() },
		Truncate: func(f *os.File, n int64) error { calls = append(calls, "truncate"); return f.Truncate(n) },
		OpenLog: func(path string, n int) (*wal.Log, error) {
			calls = append(calls, "append")
			return OpenLog(path, n)
		},
	}}))(t)
	testkit.NoError(t, j.Close())
	truncated, appended := slices.Index(calls, "truncate"), slices.Index(calls, "append")
	testkit.MustHold(t, truncated >= 0 && appended == len(calls)-1, calls)
	for _, path := range []string{filepath.Join(seqName(1), seqName(1)), name, last, seqName(1), seqName(10), identityName, ".", ".."} {
		testkit.Holds(t, slices.Contains(calls[truncated:appended], "sync "+path), path, "was not synced between the truncation and the end of Open",
			calls)
	}
}

// TestOpenFailsOnFsync: records that cannot be made durable are not accepted.
func TestOpenFailsOnFsync(t *testing.T) {
	m, _ := tailImage("body ")
	dir := m.write(t)
	_, err := Open(Options{Dir: dir, Hooks: Hooks{SyncFile: func(*os.File) error { return errDisk }}})
	testkit.MustHold(t, errors.Is(err, errDisk), err)
	expect(t, startOnce(t, dir, 0), 9) // the lock was released
}

func TestLock(t *testing.T) {
	j := mustOpen(t, Options{})
	_, err := Open(Options{Dir: j.o.Dir})
	testkit.MustHold(t, errors.Is(err, filelock.ErrLocked), err)
	_, err = GiveUp(j.o.Dir, 0)
	testkit.MustHold(t, errors.Is(err, filelock.ErrLocked), err)
	testkit.Must(Verify(j.o.Dir))(t)
	testkit.NoError(t, j.Close())
	mustOpen(t, Options{Dir: j.o.Dir})
}

func TestIdentity(t *testing.T) {
	m, _ := tailImage("body ")
	open := func(o Options) error {
		j, err := Open(o)
		if err == nil {
			err = j.Close()
		}
		return err
	}
	t.Run("kept", func(t *testing.T) {
		j := mustOpen(t, Options{Dir: filepath.Join(t.TempDir(), "a", "b")})
		uuid := j.UUID()
		id := testkit.Must(readIdentity(j.o.Dir))(t)
		testkit.MustHold(t, id.uuid == uuid && id.salt != anySalt && identityForm.Match(id.text()), id, uuid)
		testkit.NoError(t, j.Close())
		testkit.MustEqual(t, mustOpen(t, Options{Dir: j.o.Dir, StoreJournal: uuid}).UUID(), uuid)
	})
	t.Run("the store's", func(t *testing.T) {
		testkit.NoError(t, open(Options{Dir: m.write(t), StoreJournal: testIdentity.uuid}))
	})
	t.Run("foreign", func(t *testing.T) {
		err := open(Options{Dir: m.write(t), StoreJournal: strings.Repeat("0", 36)})
		testkit.MustHold(t, errors.Is(err, ErrForeign), err)
	})
	t.Run("no directory, but the store belongs to a journal", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "journal")
		err := open(Options{Dir: dir, StoreJournal: testIdentity.uuid})
		testkit.MustHold(t, errors.Is(err, ErrForeign), err)
		_, err = os.Stat(dir)
		testkit.MustHold(t, errors.Is(err, os.ErrNotExist), "a refused start has made the directory", err)
	})
	t.Run("empty directory, but the store belongs to a journal", func(t *testing.T) {
		dir := t.TempDir()
		err := open(Options{Dir: dir, StoreJournal: testIdentity.uuid})
		testkit.MustHold(t, errors.Is(err, ErrForeign), err)
		testkit.MustEqual(t, len(readImage(t, dir)), 0, "a refused start has written something")
	})
	// mended writes the text that the error contains, and opens the journal with it.
	mended := func(t *testing.T, m image, store string) {
		t.Helper()
		dir := m.write(t)
		err := open(Options{Dir: dir, StoreJournal: store})
		testkit.MustHold(t, errors.Is(err, ErrForeign), err)
		_, verified := Verify(dir)
		testkit.MustHold(t, errors.Is(verified, ErrForeign), verified)
		_, quoted, _ := strings.Cut(err.Error(), ` "`)
		text, unquoted := strconv.Unquote(`"` + quoted)
		testkit.NoError(t, unquoted, err)
		rewrite(t, dir, identityName, []byte(text))
		expect(t, startOnce(t, dir, 0), 9)
	}
	t.Run("lost", func(t *testing.T) {
		m := m.clone()
		delete(m, identityName)
		mended(t, m, "")
		mended(t, m, testIdentity.uuid)
	})
	t.Run("illegible", func(t *testing.T) {
		m := m.clone()
		whole := m[identityName]
		for n := range whole {
			m[identityName] = whole[:n]
			mended(t, m, testIdentity.uuid)
			m[identityName] = slices.Clone(whole)
			m[identityName][n] ^= 1 << (n % 8)
			mended(t, m, testIdentity.uuid)
		}
	})
}

func TestClockAhead(t *testing.T) {
	m := newImage()
	now := time.Now().UnixMilli()
	day := MaxClockAhead.Milliseconds()
	put := func(at int64) string {
		m := m.clone()
		m[filepath.Join(seqName(1), seqName(1))] = entry(Record{Verb: "create", Seq: 1, At: at})
		return m.write(t)
	}
	at := func(dir string, o Options) error {
		o.Dir, o.Clock = dir, func() int64 { return now }
		j, err := Open(o)
		if err != nil {
			return err
		}
		if j.Now() < j.LastAt() {
			t.Error(j.Now(), j.LastAt())
		}
		return j.Close()
	}
	testkit.NoError(t, at(put(now+day), Options{}), "at the limit")
	err := at(put(now+day+1), Options{})
	testkit.MustHold(t, errors.Is(err, ErrClockAhead), "one past it", err)
	testkit.NoError(t, at(put(now+day+1), Options{AllowClockAhead: true}))
	// The Clock of this package continues from the time of the last record.
	j := mustOpen(t, Options{Dir: put(now + 3_600_000)})
	if off := j.Status().ClockOffset; j.Now() < now+3_600_000 || off < 50*time.Minute || off > time.Hour {
		t.Fatal(j.Now()-now, off)
	}
}

// TestTimeOfAnEmptyTailVolume: after a roll, the time of the last record is found in the previous volume.
func TestTimeOfAnEmptyTailVolume(t *testing.T) {
	m, _ := tailImage("body ")
	m.seg(10, 10, 10, 9, 0, "")
	testkit.MustEqual(t, mustOpen(t, Options{Dir: m.write(t)}).LastAt(), 1009)
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"no Dir":               {},
		"SegmentBytes below 0": {Dir: "x", SegmentBytes: -1},
		"SegmentBytes beyond":  {Dir: "x", SegmentBytes: maxSegmentOption + 1},
		"VolumeBytes below 0":  {Dir: "x", VolumeBytes: -1},
	} {
		if j, err := Open(o); err == nil {
			t.Errorf("%s: accepted: %v", name, j.Close())
		}
	}
	o := Options{Dir: "x", SegmentBytes: maxSegmentOption}
	testkit.Check(t, o.validate())
}

// TestGiveUp: after GiveUp the journal starts with the intact records, and the returned directory contains all removed
// bytes.
func TestGiveUp(t *testing.T) {
	m, name := tailImage("body ")
	m.seg(10, 10, 10, 12, 9, "")
	m.seg(13, 13, 13, 15, 12, "")
	for last := uint64(0); last <= 15; last++ {
		dir := m.write(t)
		kept, err := GiveUp(dir, last)
		testkit.NoError(t, err, last)
		expect(t, startOnce(t, dir, 0), last)
		n := 0
		for _, data := range readImage(t, kept) {
			n += len(data)
		}
		total := -len(m[identityName])
		for _, data := range m {
			total += len(data)
		}
		for i := uint64(1); i <= last; i++ {
			for _, r := range recordsOf(m) {
				if r.Seq == i {
					total -= len(entry(r))
				}
			}
		}
		testkit.MustEqual(t, n, total, "last", last, "bytes kept of")
	}
	m[name][0] ^= 1 // record 5
	dir := m.write(t)
	_, err := GiveUp(dir, 5)
	testkit.MustHold(t, err != nil, "record 5 is damaged")
	_, err = GiveUp(dir, 16)
	testkit.MustHold(t, err != nil, "there is no record 16")
	for range 2 {
		testkit.Must(GiveUp(dir, 4))(t)
	}
	expect(t, startOnce(t, dir, 0), 4)
	_, err = GiveUp(t.TempDir(), 0)
	testkit.MustHold(t, errors.Is(err, ErrCut), err)
}

// recordsOf reads all records of an image, in any file.
func recordsOf(m image) (out []Record) {
	for name, data := range m {
		first, ok := parseSeqName(filepath.Base(name))
		if !ok {
			continue
		}
		sc := scanner{data: data, next: first}
		for sc.step() {
			out = append(out, sc.rec)
		}
	}
	return out
}

// TestIdentityBeforeVolumes: the process that made an identity may have been killed before the file's name was durable.
// Open makes the name durable before it makes the first volume.
func TestIdentityBeforeVolumes(t *testing.T) {
	dir := t.TempDir()
	fail := true
	o := Options{Dir: dir}
	synced := false
	o.Hooks.SyncFile = func(f *os.File) error {
		if f.Name() == dir {
			if fail {
				return errDisk
			}
			if _, err := os.Stat(filepath.Join(dir, seqName(1))); err != nil {
				synced = true
			}
		}
		return f.Sync()
	}
	_, err := Open(o)
	testkit.MustHold(t, errors.Is(err, errDisk), err)
	fail = false
	mustOpen(t, o)
	testkit.Holds(t, synced, "the first volume was made before the name of the identity was durable")
}

// TestMakeDirIsDurable: the names of the data directory and of its new parents are synced before a file is made in the
// directory. A later start syncs the name of the directory again.
func TestMakeDirIsDurable(t *testing.T) {
	root := t.TempDir()
	data := filepath.Join(root, "a", "b", "data")
	var synced []string
	note := func(dir string) error {
		rel, err := filepath.Rel(root, dir)
		synced = append(synced, rel)
		entries, _ := os.ReadDir(dir)
		testkit.Equal(t, len(entries), 1, rel, "was synced with", "names")
		below, _ := os.ReadDir(filepath.Join(dir, entries[0].Name()))
		testkit.Holds(t, rel == "a/b" || len(below) == 0, rel, "was synced after something was put below it")
		return err
	}
	for _, want := range [][]string{{".", "a", "a/b"}, {"a/b"}} {
		synced = nil
		testkit.NoError(t, MakeDir(data, note))
		testkit.EqualSlices(t, synced, want, "synced")
	}
	failing := errors.New("a sync that fails")
	testkit.Failed(t, MakeDir(filepath.Join(root, "c"), func(string) error { return failing }), failing)
	testkit.Check(t, MakeDir(data, func(string) error { return os.ErrPermission }), "a directory that exists, below one that may not be read")
	file := filepath.Join(root, "file")
	testkit.NoError(t, os.WriteFile(file, nil, 0o644))
	testkit.Failed(t, MakeDir(file, note))
}
