package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/row"
)

// TestPowerCutWhileOpening cuts the power at every write of Open, on a file system that loses any part of the unsynced
// data. The next Open must succeed.
func TestPowerCutWhileOpening(t *testing.T) {
	t.Run("the first time", func(t *testing.T) { cutWhileOpening(t, vfs.NewCrashableMem(), 0) })
	t.Run("again", func(t *testing.T) {
		base := vfs.NewCrashableMem()
		s := mustOpenIn(t, base)
		mustStore(t, s, 1, 0, plainCreate("a", "x", 1, 1))
		testkit.NoError(t, s.FlushWait())
		testkit.NoError(t, s.Close())
		cutWhileOpening(t, base, 1)
	})
}

func cutWhileOpening(t *testing.T, base *vfs.MemFS, applied uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	base = base.CrashClone(vfs.CrashCloneCfg{})
	cuts := 0
	for at := 1; ; at++ {
		for range 20 {
			fs := base.CrashClone(vfs.CrashCloneCfg{})
			var mu sync.Mutex // Pebble removes obsolete files in a separate goroutine
			var left *vfs.MemFS
			n := 0
			s := mustOpenIn(t, errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
					mu.Lock()
					defer mu.Unlock()
					if n++; n == at {
						left = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: random})
					}
				}
				return nil
			})))
			testkit.NoError(t, s.Close())
			if left == nil {
				testkit.MustHold(t, cuts >= 100, cuts, "cuts: an open has hardly any writes")
				return
			}
			cuts++
			again, err := Open("store", Options{FS: left, Journal: testJournal})
			testkit.NoError(t, err, "after a cut at write", at)
			testkit.MustEqual(t, again.Applied(), applied, "after a cut at write", at, "the store")
			testkit.NoError(t, again.Close())
		}
	}
}

func mustOpenIn(t *testing.T, fs vfs.FS) *Store {
	t.Helper()
	return testkit.Must(Open("store", Options{FS: fs, Journal: testJournal}))(t)
}

// listing returns the names and contents of a directory's files.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries := testkit.Must(os.ReadDir(dir))(t)
	for _, e := range entries {
		data := testkit.Must(os.ReadFile(filepath.Join(dir, e.Name())))(t)
		files[e.Name()] = string(data)
	}
	return files
}

// TestPeek: Peek reads the cursor and journal of a store without changing any file. This matters most if the manifest
// has lost its end: an open for writing would let Pebble delete the tables that the rest of the manifest does not name.
func TestPeek(t *testing.T) {
	testkit.DeepEqual(t, testkit.Must(Peek(filepath.Join(t.TempDir(), "none"), Options{}))(t), Peeked{}, "of no store")
	dir := filepath.Join(t.TempDir(), "store")
	s := testkit.Must(Open(dir, Options{Journal: testJournal}))(t)
	p, err := Peek(dir, Options{})
	testkit.Holds(t, err != nil, "of a store in use", p) // it is locked
	manifest := filepath.Join(dir, "MANIFEST-000001")
	empty := testkit.Must(os.ReadFile(manifest))(t)
	mustStore(t, s, 1, 0, plainCreate("a", "x", 1, 50))
	testkit.NoError(t, s.FlushWait())
	testkit.NoError(t, s.Close())
	whole := testkit.Must(os.ReadFile(manifest))(t)
	for name, tt := range map[string]struct {
		bytes   int
		journal string
		applied uint64
		torn    bool
	}{
		"whole":                 {len(whole), testJournal, 1, false},
		"a record short":        {len(empty), "", 0, false},
		"within a record":       {len(empty) + 5, "", 0, true},
		"all but its last byte": {len(whole) - 1, "", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.NoError(t, os.WriteFile(manifest, whole[:tt.bytes], 0o600))
			before := listing(t, dir)
			p := testkit.Must(Peek(dir, Options{}))(t)
			testkit.Holds(t, p.Journal == tt.journal && p.Applied == tt.applied && strings.Contains(p.Torn, manifest) == tt.torn, p)
			after := listing(t, dir)
			for file, data := range before {
				testkit.Equal(t, after[file], data)
			}
			testkit.Equal(t, len(after), len(before))
		})
	}
	testkit.NoError(t, os.WriteFile(manifest, whole[:3], 0o600))
	testkit.Fails(Peek(dir, Options{}))(t, row.ErrDamaged, manifest+", cannot be read from offset 0")
}

// flushedDir returns a directory with a store that has one batch in a table.
func flushedDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	s := testkit.Must(Open(dir, Options{Journal: testJournal}))(t)
	mustStore(t, s, 1, 0, plainCreate("a", "x", 1, 50))
	testkit.NoError(t, errors.Join(s.FlushWait(), s.Close()))
	return dir
}

func TestDamagedTable(t *testing.T) {
	dir := flushedDir(t)
	tables := testkit.Must(filepath.Glob(filepath.Join(dir, "*.sst")))(t)
	testkit.MustEqual(t, len(tables), 1)
	data := testkit.Must(os.ReadFile(tables[0]))(t)
	for i := range 100 { // in the data blocks, which come first
		data[i] ^= 1
	}
	testkit.NoError(t, os.WriteFile(tables[0], data, 0o600))
	told := 0
	s, err := Open(dir, Options{Journal: testJournal, Damaged: func(err error) { testkit.Failed(t, err, row.ErrDamaged); told++ }})
	if err == nil {
		_, err = s.Job(job.NewID(startAt, 1, 0))
		testkit.Check(t, s.Close())
	}
	testkit.Holds(t, errors.Is(err, row.ErrDamaged) && strings.Contains(err.Error(), tables[0]) &&
		strings.Contains(err.Error(), "daybook rebuild") && told != 0, "reported", told, "times, and the error is", err)
}

// TestStartOnDamage flips bits in all parts of a table. Open reads the queues, the sweeps and the first timer. It must
// report damage of any of these blocks as ErrDamaged.
func TestStartOnDamage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := testkit.Must(Open(dir, Options{Journal: testJournal}))(t)
	for seq := uint64(1); seq <= 500; seq++ {
		c := plainCreate("client", fmt.Sprintf("type%d", seq), 1, 10)
		c.Groups[0].RunAt = startAt + int64(seq)*1000
		mustApply(t, s, seq, 0, c)
	}
	testkit.NoError(t, errors.Join(s.Commit(), s.FlushWait(), s.Close()))
	tables := testkit.Must(filepath.Glob(filepath.Join(dir, "*.sst")))(t)
	testkit.MustEqual(t, len(tables), 1)
	data := testkit.Must(os.ReadFile(tables[0]))(t)
	refused := 0
	for at := 0; at < len(data); at += 331 {
		damaged := slices.Clone(data)
		damaged[at] ^= 4
		testkit.NoError(t, os.WriteFile(tables[0], damaged, 0o600))
		s, err := Open(dir, Options{Journal: testJournal, ReadOnly: true})
		if err == nil {
			testkit.NoError(t, s.Close())
		} else if refused++; !errors.Is(err, row.ErrDamaged) {
			t.Errorf("byte %d: %v", at, err)
		}
	}
	testkit.Holds(t, refused != 0, "no open was refused")
}

// TestMissingMark: if only the mark is missing, Pebble would create a new store and delete the tables of the old one.
// So Open must refuse the directory.
func TestMissingMark(t *testing.T) {
	dir := flushedDir(t)
	marks := testkit.Must(filepath.Glob(filepath.Join(dir, "marker.manifest.*")))(t)
	testkit.MustEqual(t, len(marks), 1)
	testkit.NoError(t, os.Rename(marks[0], filepath.Join(filepath.Dir(dir), "mark")))
	testkit.Fails(Open(dir, Options{Journal: testJournal}))(t, row.ErrDamaged, "daybook rebuild")
	testkit.NoError(t, os.Rename(filepath.Join(filepath.Dir(dir), "mark"), marks[0]))
	s := testkit.Must(Open(dir, Options{Journal: testJournal}))(t)
	testkit.Equal(t, s.Applied(), 1)
	testkit.Check(t, s.Close())
}

// TestRunOfAJobSetAside: a job that was set aside shows damage until a request runs it, at once or at a later run_at.
// Other changes do not remove the damage.
func TestRunOfAJobSetAside(t *testing.T) {
	later, higher := int64(startAt+60_000), 9
	for name, test := range map[string]struct {
		cmd     func(id job.ID) job.Command
		damaged bool
	}{
		"run":              {func(id job.ID) job.Command { return job.Move{Op: job.Run, Job: id} }, false},
		"another run_at":   {func(id job.ID) job.Command { return job.Patch{Job: id, RunAt: &later} }, false},
		"another priority": {func(id job.ID) job.Command { return job.Patch{Job: id, Priority: &higher} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, Options{})
			mustApply(t, s, 1, 0, plainCreate("a", "x", 1, 5))
			id := jobID(0, 1, 0)
			held := mustApply(t, s, 2, 0, plainClaim("r", 1)).(*applied.Claimed)
			mustApply(t, s, 3, 0, job.Complete{Claim: held.Claim, Outcomes: []job.Outcome{{ID: id, Code: job.Damaged, DelayMs: -1}}})
			mustStore(t, s, 4, 1, test.cmd(id))
			code, text := job.NoCode, ""
			if test.damaged {
				code, text = job.Damaged, job.DamagedText
			}
			doc := testkit.Must(s.Job(id))(t)
			testkit.Holds(t, doc.Code == code && doc.Error == text, "code", doc.Code, "error", doc.Error)
		})
	}
}
