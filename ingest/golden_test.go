package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
)

var (
	rewrite    = flag.Bool("rewrite", false, "write anew what the golden journals lead to, as when documents have new fields")
	newJournal = flag.String("new-journal", "", "write a golden journal anew: its folder's name")
)

// goldens are journals, each written once and kept for ever, with the documents that they lead to: by folder, how they were written.
var goldens = map[string]func(g *goldenMaker){
	"journal-v1":          (*goldenMaker).lives,
	"journal-v1-moves":    (*goldenMaker).moves, // of level 2, which is decided as level 3
	"journal-v1-sessions": (*goldenMaker).sessions,
	"journal-level-3":     (*goldenMaker).all,
}

// TestGoldenJournal replays the journal of each format version: what its records decide must never change, whatever is written now.
func TestGoldenJournal(t *testing.T) {
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

// replayGolden replays a journal and compares what it leads to with what it led to before.
func replayGolden(t *testing.T, golden string, rewrite bool) {
	dir := t.TempDir()
	if err := os.CopyFS(JournalDir(dir), os.DirFS(filepath.Join(golden, "journal"))); err != nil {
		t.Fatal(err)
	}
	e, err := Open(Options{Dir: dir, AllowClockAhead: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := e.replay(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for r, err := range e.log.Records(1) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Verb != "create" {
			continue
		}
		cmd, err := job.Decode(r.Verb, r.Fields, r.Body)
		if err != nil {
			t.Fatal(err)
		}
		for line := range cmd.(*job.Create).Lines() {
			id := job.NewID(r.At, r.Seq, line)
			doc, err := e.store.Job(id)
			text, jsonErr := json.Marshal(goldenDocument(&doc))
			if jsonErr != nil {
				t.Fatal(jsonErr)
			}
			fmt.Fprintf(&got, "%s %v %s\n", id, err, text)
		}
	}
	sum, rows, err := e.store.Digest()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&got, "digest %x %v\n", sum, rows)
	sameGolden(t, filepath.Join(golden, "state.txt"), got.String(), rewrite)

	// The rows, byte for byte, however the records are cut into commits and lives of the store.
	listing := rowsOf(t, e.store)
	sameGolden(t, filepath.Join(golden, "rows.txt"), listing, rewrite)
	for name, way := range map[string]struct{ commitEach, restartInTheMiddle bool }{
		"a commit for each record":   {commitEach: true},
		"a restart after each third": {restartInTheMiddle: true},
	} {
		if again := applyGolden(t, e.log, way.commitEach, way.restartInTheMiddle); again != listing {
			t.Errorf("with %s the rows are others", name)
		}
	}
}

// rowsOf lists all keys and values.
func rowsOf(t *testing.T, s *store.Store) string {
	t.Helper()
	var list strings.Builder
	if err := s.EachRow(func(key string, value []byte) bool {
		fmt.Fprintf(&list, "%c %x = %q\n", key[0], key[1:], value)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return list.String()
}

// applyGolden applies the records of a journal to a new store in another way, and returns its rows.
func applyGolden(t *testing.T, j Log, commitEach, restart bool) string {
	t.Helper()
	dir := t.TempDir()
	var s *store.Store
	open := func() {
		var err error
		if s, err = store.Open(dir, store.Options{Journal: j.UUID()}); err != nil {
			t.Fatal(err)
		}
	}
	open()
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	for r, err := range j.Records(1) {
		if err != nil {
			t.Fatal(err)
		}
		r.Body = append([]byte(nil), r.Body...)
		if _, err := applyRecord(s, &r); err != nil {
			t.Fatal(err)
		}
		if commitEach {
			if err := s.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		if restart && r.Seq%3 == 0 {
			if err := errors.Join(s.Commit(), s.FlushWait(), s.Close()); err != nil {
				t.Fatal(err)
			}
			open()
		}
	}
	if err := s.Commit(); err != nil {
		t.Fatal(err)
	}
	return rowsOf(t, s)
}

// sameGolden compares a text with a golden file, line by line.
func sameGolden(t *testing.T, path, got string, rewrite bool) {
	t.Helper()
	if rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		if i >= len(gotLines) || i >= len(wantLines) || gotLines[i] != wantLines[i] {
			t.Fatalf("%s:%d: the golden journal leads to\n%s\nand used to lead to\n%s", path, i+1, gotLines[min(i, len(gotLines)-1)], wantLines[min(i, len(wantLines)-1)])
		}
	}
}

// goldenMaker is an engine on a clock of its own.
type goldenMaker struct {
	*testing.T
	e   *Engine
	ctx context.Context
	now int64
}

// writeGolden makes a small journal.
func writeGolden(t *testing.T, golden string, play func(g *goldenMaker)) {
	t.Helper()
	if err := os.RemoveAll(golden); err != nil {
		t.Fatal(err)
	}
	g := &goldenMaker{T: t, now: 1_670_273_606_123}
	dir := t.TempDir()
	var err error
	if g.e, err = Open(Options{Dir: dir, Journal: journal.Options{Clock: func() int64 { return g.now }}}); err != nil {
		t.Fatal(err)
	}
	var cancel context.CancelFunc
	g.ctx, cancel = context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- g.e.Run(g.ctx) }()
	for g.e.Ready() != nil {
	}
	play(g)
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(golden, "journal"), os.DirFS(JournalDir(dir))); err != nil {
		t.Fatal(err)
	}
}

func (g *goldenMaker) do(_ Receipt, err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
	g.now += 100
}

func (g *goldenMaker) created(made store.Made, r Receipt, err error) job.ID {
	g.Helper()
	g.do(r, err)
	return made.Batch
}

func (g *goldenMaker) decide(cmd job.Command) (result any) {
	g.Helper()
	result, receipt, err := g.e.decide(g.ctx, cmd)
	g.do(receipt, err)
	return result
}

func (g *goldenMaker) claim(n int) job.ID {
	g.Helper()
	claimed, _, receipt, err := g.e.Claim(g.ctx, claimOf(n), 0)
	g.do(receipt, err)
	return claimed.Claim
}

// moves does what level 2 brought.
func (g *goldenMaker) moves() {
	full := lines(4)
	full.Groups[0].ExpiresAt, full.Groups[0].TimeoutMs = g.now+5000, 2000
	full.Groups[0].Meta, full.Groups[0].Traceparent = "a=1,b=x%20y", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	full.Unique = []job.UniqueKey{{Line: 1, Key: "k"}, {Line: 2, Key: "k"}}
	full.Once = job.Once{Scope: "create default", Key: "1", Digest: job.Digest{1}}
	first := g.created(g.e.Create(g.ctx, full))
	g.created(g.e.Create(g.ctx, lines(6)))
	for _, strategy := range []job.Strategy{job.Newest, job.Random, job.Fair, job.Oldest} {
		c := claimOf(1)
		c.Strategy = strategy
		c.Once = job.Once{Scope: "claim r1", Key: strategy.String(), Digest: job.Digest{2}}
		_, _, receipt, err := g.e.Claim(g.ctx, c, 0)
		g.do(receipt, err)
	}
	priority, attempts, later := 9, 7, g.now+60_000
	for line := range 4 {
		g.decide(job.Move{Op: job.Cancel, Job: first.WithLine(line)})
	}
	g.decide(job.Move{Op: job.Redrive, Job: first})
	g.decide(job.Patch{Job: first, Priority: &priority, MaxAttempts: &attempts, RunAt: &later})
	g.decide(job.Move{Op: job.Run, Job: first})
	g.decide(job.Move{Op: job.Delete, Job: first.WithLine(3)})
	g.decide(job.Switch{Stopped: true})
	g.decide(job.Switch{})
	g.now += 10_000 // what was not started has expired, what runs has run too long
	g.decide(job.Tick{})
	g.decide(job.Move{Op: job.Redrive, Client: "default", Type: "default", Status: job.Cancelled})
	g.decide(job.Move{Op: job.Cancel, Batch: first})
}

// sessions opens sessions, and has requests of them carried out, repeated, refused and forgotten.
func (g *goldenMaker) sessions() {
	open := func(runner string) job.ID {
		return g.decide(job.OpenSession{Runner: runner}).(*store.SessionOpened).Session.ID
	}
	first, second, idle := open("r1"), open(""), open("idle")
	number := func(session job.ID, slot int, n uint64) job.Once {
		return job.Once{Session: session, Slot: slot, Number: n, Digest: job.Digest{byte(n)}}
	}
	full := lines(4)
	full.Unique = []job.UniqueKey{{Line: 1, Key: "k"}, {Line: 2, Key: "k"}}
	full.Once = number(first, 0, 1)
	batch := g.created(g.e.Create(g.ctx, full))
	claim := claimOf(2)
	claim.Once = number(first, 255, 9)
	held := g.decide(claim).(*store.Claimed).Claim
	g.decide(claim) // a repeat
	part := job.Complete{Claim: held, Outcomes: []job.Outcome{{ID: batch, Code: job.Fail, ExitCode: 404, DelayMs: -1}}, Once: number(second, 7, 1)}
	g.decide(part)
	rest := job.Complete{Claim: held, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}, Once: number(second, 7, 1)}
	rest.Once.Part = 1
	g.decide(rest)
	g.decide(part)
	claim.Once = number(second, 7, 1)
	g.decide(claim)
	claim.Once = number(first, 255, 8) // it has passed
	g.decide(claim)
	claim.Once = number(batch, 0, 1) // no session
	g.decide(claim)
	keyed := rest
	keyed.Once = job.Once{Scope: "complete r1", Key: "k", Digest: job.Digest{3}}
	g.decide(keyed)
	g.now += job.KeyLifeMs - 60_000
	g.created(g.e.Create(g.ctx, lines(2)))
	later := claimOf(1)
	later.Once = number(first, 1, 1)
	g.decide(later)
	g.now += 60_000
	g.decide(job.Tick{}) // forgets those that were not used
	g.decide(job.EndSession{Session: idle})
	last := open("r2")
	g.decide(job.EndSession{Session: last})
}

// all does what level 3 knows: the lives and moves of jobs, queues that are deleted, and sessions.
func (g *goldenMaker) all() {
	g.lives()
	g.moves()
	g.decide(job.Move{Op: job.Delete, Client: "acme", Type: "default"})
	g.decide(job.DeleteQueue{Client: "acme", Type: "default"})
	other := lines(1)
	other.Groups[0].Client, other.Groups[0].RetentionMs = "idle", 0
	made := g.created(g.e.Create(g.ctx, other))
	g.decide(job.Move{Op: job.Cancel, Job: made})
	g.now += job.MinQueueIdleMs
	g.decide(job.DeleteIdleQueues{IdleMs: job.MinQueueIdleMs})
	g.sessions()
}

// lives does what level 1 knew.
func (g *goldenMaker) lives() {
	t, e, ctx := g.T, g.e, g.ctx
	created, decide, claim := g.created, g.decide, g.claim
	created(e.Create(ctx, lines(8)))
	groups := lines(2)
	second := groups.Groups[0]
	second.Lines, second.Client, second.Priority, second.RunAt = 2, "acme", 9, g.now+3_600_000
	groups.Groups = append(groups.Groups, second)
	groups.Frame, groups.Payloads, groups.Longest = job.LenFrame, nil, 9
	for _, payload := range []string{"one\nline", "two", "", "{\"n\":\"4\"}"} {
		groups.Payloads = groups.Frame.Append(groups.Payloads, []byte(payload))
	}
	created(e.Create(ctx, groups))
	wasi := lines(1)
	wasi.Groups[0].Kind, wasi.Groups[0].RetentionMs = job.WASI, 0
	wasi.Payloads = append(job.AppendWASI(nil, "sha256-3liqNz2EfPx2", "sha256 with space"), '\n')
	wasi.Longest = len(wasi.Payloads) - 1
	created(e.Create(ctx, wasi))
	none := lines(3)
	none.Groups[0].Kind, none.Frame, none.Payloads, none.Longest = job.Nothing, job.NoFrame, nil, 0
	created(e.Create(ctx, none))

	first := claim(5)
	decide(job.Tickle{Claim: first, Progress: -1})
	decide(job.Tickle{Runner: "r1", Progress: -1, LeaseMs: 90_000})
	process := int64(3)
	batch := job.NewID(e.log.Status().LastAt, 0, 0)
	for r, err := range e.log.Records(1) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Verb == "create" {
			batch = job.NewID(r.At, r.Seq, 0)
			break
		}
	}
	decide(job.Tickle{IDs: []job.ID{batch.WithLine(1)}, Step: "half way", Progress: 500_000})
	decide(job.Complete{Claim: first, Outcomes: []job.Outcome{
		{ID: batch, Code: job.OK, ExitCode: 200, DelayMs: -1, Result: job.Result{OutputKind: job.Text, Output: []byte("out\nput"), OutputAddr: "sha256-o", ProcessExit: &process}},
		{ID: batch.WithLine(2), Code: job.Error, ExitCode: 503, DelayMs: -1, Error: "no luck = 50 %"},
		{ID: batch.WithLine(3), Code: job.Retry, ExitCode: 100, DelayMs: 0},
		{ID: batch.WithLine(4), Code: job.Unget, DelayMs: -1},
	}})
	g.now += 200_000
	decide(job.Tick{})
	second2 := claim(4)
	decide(job.Grace{})
	decide(job.Complete{Claim: second2, All: &job.Outcome{Code: job.Fail, ExitCode: 404, DelayMs: -1, Error: "gone"}})
	decide(job.Pause{Client: "acme", Type: "default", Paused: true})
	decide(job.Pause{Client: "acme", Type: "default"})
	all := claim(1000)
	decide(job.Complete{Claim: all, All: &job.Outcome{Code: job.OK, ExitCode: 201, DelayMs: -1}})
}

// goldenJob is a job's document as the golden files show it: fields in the order of the first release candidate.
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
	Meta                     job.Meta
}

func goldenDocument(j *job.Job) goldenJob {
	return goldenJob{
		ID: j.ID, Batch: j.Batch, Client: j.Client, Type: j.Type, Status: j.Status, Priority: j.Priority, Kind: j.Kind,
		Payload: j.Payload, Code: j.Code, ExitCode: j.ExitCode, Result: j.Result, Error: j.Error, Attempts: j.Attempts,
		Step: j.Step, Progress: j.Progress, Runner: j.Runner, Claim: j.Claim, RunAttempts: j.RunAttempts,
		MaxAttempts: j.MaxAttempts, Redrives: j.Redrives, LeaseMs: j.LeaseMs, TimeoutMs: j.TimeoutMs, RunAt: j.RunAt,
		CreatedAt: j.CreatedAt, UpdatedAt: j.UpdatedAt, CompletedAt: j.CompletedAt, DeadlineAt: j.DeadlineAt,
		ExpiresAt: j.ExpiresAt, Why: j.Why, UniqueKey: j.UniqueKey, Traceparent: j.Traceparent, Meta: j.Meta,
	}
}
