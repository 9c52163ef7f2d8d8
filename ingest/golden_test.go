package ingest

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

var (
	rewrite    = flag.Bool("rewrite", false, "write again what the golden journals lead to, for example when documents have new fields")
	newJournal = flag.String("new-journal", "", "make a golden journal and a golden data directory: the folder's name")
)

// goldens are data directories by folder, one for each level, with the functions that made them. Each folder also has all
// rows and the documents of the jobs. The data directory is made once for a level and never changes.
var goldens = map[string]func(g *goldenMaker){
	"level-1": (*goldenMaker).level1,
}

// TestGoldenJournal replays the journal of each level. The decisions about its records must never change, even if the
// current program writes other records.
func TestGoldenJournal(t *testing.T) {
	testkit.OneByOne(t)
	for name, play := range goldens {
		t.Run(name, func(t *testing.T) {
			golden := filepath.Join("../testdata", name)
			if *newJournal == name {
				writeGolden(t, golden, play)
			}
			replayGolden(t, golden, *rewrite || *newJournal == name)
		})
	}
}

// TestGoldenData opens a copy of the data directory of each level, whose store the program of that level wrote. The rows are
// the ones that the journal leads to.
func TestGoldenData(t *testing.T) {
	testkit.OneByOne(t)
	for name := range goldens {
		t.Run(name, func(t *testing.T) {
			golden := filepath.Join("../testdata", name)
			dir := t.TempDir()
			testkit.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(golden, "data"))))
			e := testkit.Must(Open(Options{Dir: dir, AllowClockAhead: true}))(t)
			defer func() { testkit.Check(t, e.close()) }()
			sameGolden(t, filepath.Join(golden, "rows.txt"), rowsOf(t, e.store), false)
			problems := testkit.Must(e.store.Check(func(problem string) bool { t.Error(problem); return true }))(t)
			testkit.Holds(t, problems == 0, problems, "problems")
		})
	}
}

// replayGolden replays a journal and compares the documents with the golden ones.
func replayGolden(t *testing.T, golden string, rewrite bool) {
	dir := t.TempDir()
	testkit.NoError(t, os.CopyFS(JournalDir(dir), os.DirFS(JournalDir(filepath.Join(golden, "data")))))
	e := testkit.Must(Open(Options{Dir: dir, AllowClockAhead: true}))(t)
	defer func() { testkit.Check(t, e.close()) }()
	testkit.NoError(t, e.replay(t.Context()))
	var got strings.Builder
	for r, err := range e.log.Records(1) {
		testkit.NoError(t, err)
		cmd := testkit.Must(job.Decode(r.Verb, r.Fields, r.Body))(t)
		made := 0
		switch cmd := cmd.(type) {
		case *job.Create:
			made = cmd.Lines()
		case job.Complete: // it may have created jobs
			for _, err := e.store.Job(job.NewID(r.At, r.Seq, made)); err == nil; _, err = e.store.Job(job.NewID(r.At, r.Seq, made)) {
				made++
			}
		}
		for line := range made {
			id := job.NewID(r.At, r.Seq, line)
			doc, err := e.store.Job(id)
			text := testkit.Must(json.Marshal(goldenDocument(&doc)))(t)
			fmt.Fprintf(&got, "%s %v %s\n", id, err, text)
		}
	}
	sum, rows := testkit.Must2(e.store.Digest())(t)
	fmt.Fprintf(&got, "digest %x %v\n", sum, rows)
	sameGolden(t, filepath.Join(golden, "state.txt"), got.String(), rewrite)

	// The rows must be equal byte for byte, regardless of commits and restarts.
	listing := rowsOf(t, e.store)
	sameGolden(t, filepath.Join(golden, "rows.txt"), listing, rewrite)
	for name, way := range map[string]struct{ commitEach, restartInTheMiddle bool }{
		"a commit for each record":   {commitEach: true},
		"a restart after each third": {restartInTheMiddle: true},
	} {
		testkit.Holds(t, applyGolden(t, e.log, way.commitEach, way.restartInTheMiddle) == listing, "with", name, "the rows differ")
	}
}

// rowsOf lists all keys and values.
func rowsOf(t *testing.T, s *store.Store) string {
	t.Helper()
	var list strings.Builder
	testkit.NoError(t, s.EachRow(func(key string, value []byte) bool {
		fmt.Fprintf(&list, "%c %x = %q\n", key[0], key[1:], value)
		return true
	}))
	return list.String()
}

// applyGolden applies the records of a journal to a new store, with different commits or restarts, and returns its rows.
func applyGolden(t *testing.T, j Log, commitEach, restart bool) string {
	t.Helper()
	dir := t.TempDir()
	var s *store.Store
	open := func() { s = testkit.Must(store.Open(dir, store.Options{Journal: j.UUID()}))(t) }
	open()
	defer func() { testkit.Check(t, s.Close()) }()
	for r, err := range j.Records(1) {
		testkit.NoError(t, err)
		r.Body = append([]byte(nil), r.Body...)
		testkit.Must(applyRecord(s, &r))(t)
		if commitEach {
			testkit.NoError(t, s.Commit())
		}
		if restart && r.Seq%3 == 0 {
			testkit.NoError(t, errors.Join(s.Commit(), s.FlushWait(), s.Close()))
			open()
		}
	}
	testkit.NoError(t, s.Commit())
	return rowsOf(t, s)
}

// sameGolden compares a text with a golden file, line by line.
func sameGolden(t *testing.T, path, got string, rewrite bool) {
	t.Helper()
	if rewrite {
		testkit.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want := testkit.Must(os.ReadFile(path))(t)
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		if i >= len(gotLines) || i >= len(wantLines) || gotLines[i] != wantLines[i] {
			t.Fatalf("%s:%d: the golden journal leads to\n%s\nand used to lead to\n%s", path, i+1, gotLines[min(i, len(gotLines)-1)], wantLines[min(i, len(wantLines)-1)])
		}
	}
}

// goldenJob is a job document in the golden files. Its fields are in the order of the first release candidate.
type goldenJob struct {
	ID           job.ID
	Batch        job.ID
	Client, Type string
	Status       job.Status
	Priority     int
	Kind         job.Kind
	Payload      []byte
	Code         job.Code
	ExitCode     int
	job.Result
	Error                    string
	Attempts                 []job.Attempt
	Step                     string
	Progress                 int64
	Runner                   string
	Claim                    job.ID
	RunAttempts, MaxAttempts int
	Redrives                 int
	LeaseMs                  int64
	TimeoutMs                int64
	RunAt                    int64
	CreatedAt                int64
	UpdatedAt                int64
	CompletedAt              int64
	DeadlineAt               int64
	ExpiresAt                int64
	Why                      job.Why
	UniqueKey                string
	Traceparent              string
	OnComplete               job.FollowOn `json:",omitempty"`
	Hops                     int          `json:",omitempty"`
	Steps                    []job.Step   `json:",omitempty"`
	Meta                     job.Meta
}

func goldenDocument(j *job.Job) goldenJob {
	return goldenJob{
		ID: j.ID, Batch: j.Batch, Client: j.Client, Type: j.Type, Status: j.Status, Priority: j.Priority, Kind: j.Kind,
		Payload: j.Payload, Code: j.Code, ExitCode: j.ExitCode, Result: j.Result, Error: j.Error, Attempts: j.Attempts,
		Step: j.Step, Progress: j.Progress, Runner: j.Runner, Claim: j.Claim, RunAttempts: j.RunAttempts,
		MaxAttempts: j.MaxAttempts, Redrives: j.Redrives, LeaseMs: j.LeaseMs, TimeoutMs: j.TimeoutMs, RunAt: j.RunAt,
		CreatedAt: j.CreatedAt, UpdatedAt: j.UpdatedAt, CompletedAt: j.CompletedAt, DeadlineAt: j.DeadlineAt,
		ExpiresAt: j.ExpiresAt, Why: j.Why, UniqueKey: j.UniqueKey, Traceparent: j.Traceparent, Meta: j.Meta, OnComplete: j.OnComplete, Hops: j.Hops, Steps: j.Steps,
	}
}
