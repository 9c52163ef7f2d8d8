package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/row"
)

// flushedDir returns a directory with a store that has one batch in a table.
func flushedDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	s := testkit.Must(Open(dir, Options{Journal: testJournal}))(t)
	mustApply(t, s, 1, 0, plainCreate("a", "x", 1, 50))
	mustCommit(t, s)
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
	s, err := Open(dir, Options{Journal: testJournal, Damaged: func(err error) {
		testkit.Failed(t, err, row.ErrDamaged)
		told++
	}})
	if err == nil {
		_, err = s.Job(job.NewID(startAt, 1, 0))
		testkit.Check(t, s.Close())
	}
	if !errors.Is(err, row.ErrDamaged) || !strings.Contains(err.Error(), tables[0]) || !strings.Contains(err.Error(), "daybook rebuild") || told == 0 {
		t.Errorf("reported %d times, and the error is %v", told, err)
	}
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
			mustApply(t, s, 4, 1, test.cmd(id))
			mustCommit(t, s)
			code, text := job.NoCode, ""
			if test.damaged {
				code, text = job.Damaged, job.DamagedText
			}
			doc := testkit.Must(s.Job(id))(t)
			testkit.Holds(t, doc.Code == code && doc.Error == text, "code", doc.Code, "error", doc.Error)
		})
	}
}
