package ingest

import (
	"context"
	"encoding/json"
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
	newJournal = flag.Bool("new-journal", false, "write the golden journal of this version anew")
)

// golden holds a journal per format version, written once and kept for ever, and the documents that it leads to.
const golden = "../testdata/journal-v1"

// TestGoldenJournal replays the journal of each format version: what its records decide must never change, whatever is written now.
func TestGoldenJournal(t *testing.T) {
	if *newJournal {
		writeGolden(t)
	}
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
	for r, err := range e.journal.Records(1) {
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
			text, jsonErr := json.Marshal(doc)
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
	path := filepath.Join(golden, "state.txt")
	if *rewrite || *newJournal {
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got.String(), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		if i >= len(gotLines) || i >= len(wantLines) || gotLines[i] != wantLines[i] {
			t.Fatalf("the golden journal leads to\n%s\nand used to lead to\n%s", gotLines[min(i, len(gotLines)-1)], wantLines[min(i, len(wantLines)-1)])
		}
	}
}

// writeGolden makes a small journal in which every verb stands, on a clock of its own.
func writeGolden(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(golden); err != nil {
		t.Fatal(err)
	}
	now := int64(1_670_273_606_123)
	dir := t.TempDir()
	e, err := Open(Options{Dir: dir, Journal: journal.Options{Clock: func() int64 { return now }}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- e.Run(ctx) }()
	for e.Ready() != nil {
	}
	do := func(_ Receipt, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		now += 100
	}
	created := func(_ store.Made, r Receipt, err error) {
		t.Helper()
		do(r, err)
	}
	decide := func(cmd job.Command) (result any) {
		t.Helper()
		result, receipt, err := e.decide(ctx, cmd)
		do(receipt, err)
		return result
	}
	claim := func(n int) job.ID {
		claimed, _, receipt, err := e.Claim(ctx, claimOf(n), 0)
		do(receipt, err)
		return claimed.Claim
	}
	created(e.Create(ctx, lines(8)))
	groups := lines(2)
	second := groups.Groups[0]
	second.Lines, second.Client, second.Priority, second.RunAt = 2, "acme", 9, now+3_600_000
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
	batch := job.NewID(e.journal.LastAt(), 0, 0)
	for r, err := range e.journal.Records(1) {
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
	now += 200_000
	decide(job.Tick{})
	second2 := claim(4)
	decide(job.Grace{})
	decide(job.Complete{Claim: second2, All: &job.Outcome{Code: job.Fail, ExitCode: 404, DelayMs: -1, Error: "gone"}})
	decide(job.Pause{Client: "acme", Type: "default", Paused: true})
	decide(job.Pause{Client: "acme", Type: "default"})
	all := claim(1000)
	decide(job.Complete{Claim: all, All: &job.Outcome{Code: job.OK, ExitCode: 201, DelayMs: -1}})
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(golden, "journal"), os.DirFS(JournalDir(dir))); err != nil {
		t.Fatal(err)
	}
}
