package store

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/proof/model"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/machine"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
	"github.com/daybookq/daybook/store/query"
)

var rewriteLevels = flag.Bool("rewrite-levels", false, "rewrite the golden files of the levels: only for a level that no release has")

// TestRulesOfLevels compares the rules of each level, and the constants that all levels share, with their values at the
// time when the level was made. To change a number, add a level; see rules.
func TestRulesOfLevels(t *testing.T) {
	var got strings.Builder
	for _, l := range row.Levels {
		fmt.Fprintf(&got, "level %d: %+v\n", l.Number, l.Rules)
	}
	fmt.Fprintf(&got, "shared: %+v\n", []any{
		"tickSpanRows", row.TickSpanRows, "sweepChunk", machine.SweepChunk, "maxNotices", machine.MaxNotices, "noticeSpans", machine.NoticeSpans, "noticeMs", job.NoticeMs,
		"generationMs", row.GenerationMs, "effectRetentionMs", machine.EffectRetentionMs, "effectSegments", machine.EffectSegments,
		"cellLevels", row.CellLevels,
		"MaxHistory", job.MaxHistory, "MaxSweeps", job.MaxSweeps, "SweepLifeMs", job.SweepLifeMs, "KeyLifeMs", job.KeyLifeMs, "MaxSessions", job.MaxSessions,
		"unusedSessionMs", job.UnusedSessionMs, "idleSessionMs", job.IdleSessionMs, "idleLooks", machine.IdleLooks,
	})
	sameText(t, "../testdata/levels/rules.txt", got.String())
}

// TestLevelsAreKnown: there are rules for each number from 0 to the newest level, and a store follows them when a
// command raises its level.
func TestLevelsAreKnown(t *testing.T) {
	for number := range job.Level + 1 {
		testkit.Holds(t, row.RulesAt(number) != (row.Rules{}), "level", number, "has no rules")
	}
	s := mustOpen(t, Options{})
	testkit.Holds(t, s.Level() == 0 &&
		s.machine.Rules == row.Levels[0].Rules, "a new store is at level", s.Level(), "with the rules", s.machine.Rules)
	for i, l := range row.Levels {
		mustApply(t, s, uint64(i+1), 0, job.SetLevel{Level: l.Number})
		testkit.Equal(t, s.machine.Rules, l.Rules, "at level", l.Number)
	}
}

// TestWhatLevelsDecide applies commands to a store with the standard rules, so that each bound is reached. It compares
// the decisions and the rows, byte for byte, with the decisions and rows at the time when the level was made.
func TestWhatLevelsDecide(t *testing.T) {
	for _, l := range row.Levels {
		s := mustOpen(t, Options{Journal: testJournal})
		var log []step
		var got strings.Builder
		seq, at := uint64(0), int64(0)
		apply := func(cmd job.Command) applied.Result {
			seq++
			log = append(log, step{seq: seq, at: startAt + at, cmd: cmd})
			return mustApply(t, s, seq, at, cmd)
		}
		step := func(name string, cmd job.Command) applied.Result {
			at += 10
			result := apply(cmd)
			mustCommit(t, s)
			sum, rows := testkit.Must2(s.Digest())(t)
			fmt.Fprintf(&got, "%s: %s: digest %x %v\n", name, summary(result), sum, rows)
			return result
		}
		step("level", job.SetLevel{Level: l.Number})
		step("a batch of many pages", plainCreate("a", "pages", 3000, 200))
		pages := job.NewID(startAt+at, seq, 0)
		uneven := &job.Create{Groups: []job.Group{plainGroup("c", "uneven", 2000)}, Frame: job.LineFrame, Longest: 500}
		for line := range 2000 {
			uneven.Payloads = uneven.Frame.Append(uneven.Payloads, bytes.Repeat([]byte("x"), 1+line*37%500))
		}
		step("a batch of payloads of many lengths", uneven)
		step("a claim that measures", job.Claim{Runner: "r", Max: 1000, MaxBytes: 100_000, Clients: []string{"c"}})
		// Every second job has a different priority, so there are as many spans as jobs.
		many := plainCreate("a", "spans", 6000, 1)
		many.Groups[0].LeaseMs, many.Groups[0].RetentionMs = job.MinLeaseMs, 5000
		step("a batch", many)
		batch := job.NewID(startAt+at, seq, 0)
		higher := 9
		for line := 0; line < 6000; line += 2 {
			apply(job.Patch{Job: batch.WithLine(line), Priority: &higher})
		}
		step("patched", job.Mark{})
		// A claim ends the expired jobs that it finds. It stops at its bound even if it has handed out no jobs.
		late := plainCreate("b", "late", 3000, 1)
		late.Groups[0].ExpiresAt = startAt + at + 100
		step("a batch of late jobs", late)
		batchOfLate := job.NewID(startAt+at, seq, 0)
		for line := 0; line < 3000; line += 2 {
			apply(job.Patch{Job: batchOfLate.WithLine(line), Priority: &higher})
		}
		at += 200
		claimLate := plainClaim("r", 10)
		claimLate.Types = []string{"late"}
		step("claim of late jobs", claimLate)
		for _, strategy := range []job.Strategy{job.Oldest, job.Newest, job.Random, job.Fair} {
			claim := plainClaim("r", job.MaxClaimJobs)
			claim.Types, claim.Strategy = []string{"spans"}, strategy
			claim.Once = job.Once{Scope: "s", Key: strategy.String()}
			step("claim by "+strategy.String(), claim)
		}
		step("tickle of all", job.Tickle{Runner: "r", Progress: -1})
		at += 10 * job.MinLeaseMs
		for range 8 {
			step("tick after leases", job.Tick{})
		}
		step("sweep", job.Move{Op: job.Cancel, Client: "a", Type: "spans"})
		for range 8 {
			step("tick of the sweep", job.Tick{})
		}
		step("redrive of a batch", job.Move{Op: job.Redrive, Batch: batch, Status: job.Cancelled})
		for range 3 {
			step("tick of sweeps", job.Tick{})
		}
		at += 10_000
		for range 4 {
			step("tick after retention", job.Tick{})
		}
		claim := plainClaim("r2", 100)
		claim.Types = []string{"pages"}
		claimed := step("claim", claim).(*applied.Claimed)
		step("errors", job.Complete{Claim: claimed.Claim, All: &job.Outcome{Code: job.Error, ExitCode: 500, DelayMs: -1, Error: "no"}})
		at += job.KeyLifeMs * 3
		step("tick after keys", job.Tick{})
		step("grace", job.Grace{})
		for kind := range job.DocumentKinds {
			put := job.PutDocument{Kind: kind, Client: "a", Name: "input", Summary: "exec"}
			if kind == job.FilesetDocument {
				put.Summary = job.FilesetSummary(0, 0)
			}
			for i := range byte(job.MaxDocumentVersions + 1) {
				switch {
				case kind == job.KeyDocument || kind == job.LoginDocument, kind == job.QuotaDocument:
					put = model.SomeDocument(kind, "", "input", int(i))
				case kind.Rules().MaxBytes == 0:
					put.Digest[0] = i
				default:
					put.Document = []byte{'0' + i}
				}
				step("a document", put)
			}
			step("a document again", put)
			put.If = job.IfNone
			step("a condition that does not hold", put)
			put.Client = ""
			step("a document of all", put)
			remove := job.DeleteDocument{Kind: kind, Name: "input", By: "anna"}
			step("a document less", remove)
			step("no document", remove)
			step("a deleted document again", put)
		}
		claim = plainClaim("lost", 700)
		claim.Types = []string{"pages"}
		for range 3 {
			step("claim of a runner", claim)
		}
		lost := job.LoseRunner{Runner: "lost", Through: seq}
		for step("loss of the runner", lost).(*applied.RunnerLost).More {
		}
		// One user has many jobs, and the remaining users have few. Levels are arranged differently when there are
		// 16 users.
		for user := range 40 {
			c := plainCreate("a", "distinct", 1+50/(user+1), 1)
			c.Groups[0].Meta = job.Meta(fmt.Sprintf("region=r%d,user=u%d", user%3, user))
			apply(c)
			if user%13 != 0 {
				continue
			}
			for _, base := range []job.Strategy{job.Oldest, job.Newest, job.Random, job.Fair} {
				for _, strategy := range []job.Strategy{mustDistinct("user", base), mustDistinct("user", mustDistinct("region", base))} {
					claim := plainClaim("r3", 10)
					claim.Types, claim.Strategy = []string{"distinct"}, strategy
					step("claim by "+strategy.String(), claim)
				}
			}
		}
		step("a claim", plainClaim("r4", 10))
		unclaimed := job.Complete{Unclaimed: true}
		for line := range 60 {
			o := job.Outcome{ID: pages.WithLine(2180 + line), Code: []job.Code{job.OK, job.Error, job.Fail}[line%3], DelayMs: int64(line%2) - 1}
			o.ExitCode = o.Code.DefaultExitCode()
			unclaimed.Outcomes = append(unclaimed.Outcomes, o)
		}
		for range 2 {
			step("unclaimed completions", unclaimed)
		}
		sameText(t, fmt.Sprintf("../testdata/levels/%d.txt", l.Number), got.String())
		random := rand.New(rand.NewPCG(1, 1))
		for name, again := range map[string]func() (*Store, error){
			"rebuilt": func() (*Store, error) {
				return rebuild(random, Options{Journal: testJournal, bounds: &memory.StandardBounds}, log, 0)
			},
			"restarted": func() (*Store, error) {
				return crashing(random, Options{Journal: testJournal, bounds: &memory.StandardBounds}, log)
			},
		} {
			other, err := again()
			if err == nil {
				err = errors.Join(sameStores(s, other), other.Close())
			}
			testkit.Check(t, err, "level", l.Number, name)
		}
		sound(t, s)
	}
}

// TestRaisedLevel makes up a level 2 with other numbers. Commands before the record that raises the level follow level 1,
// and later ones level 2, also in a rebuild and after restarts. A program without level 2 refuses the record and the store.
func TestRaisedLevel(t *testing.T) {
	second := row.FirstRules
	second.PageBytes, second.CommandRows = 1<<10, 100
	known := row.Levels
	row.Levels = append(known[:len(known):len(known)], row.Level{Number: 2, Rules: second})
	t.Cleanup(func() { row.Levels = known })

	dir := t.TempDir()
	options := Options{Journal: testJournal, bounds: &memory.StandardBounds}
	s := testkit.Must(Open(dir, options))(t)
	defer func() { s.Close() }()
	var log []step
	apply := func(cmd job.Command) {
		t.Helper()
		log = append(log, step{seq: uint64(len(log) + 1), at: startAt + int64(len(log)), cmd: cmd})
		mustApply(t, s, uint64(len(log)), int64(len(log)-1), cmd)
	}
	pages := func() int64 {
		t.Helper()
		mustCommit(t, s)
		_, rows := testkit.Must2(s.Digest())(t)
		return rows[string(row.PageTable)]
	}
	apply(job.SetLevel{Level: 1})
	apply(plainCreate("a", "x", 1000, 100))
	first := pages()
	apply(job.SetLevel{Level: 2})
	apply(plainCreate("a", "x", 1000, 100))
	later := pages() - first
	testkit.Holds(t, later > 10*first && s.Level() == 2, first, "pages at level 1", later, "at level", s.Level())
	for range 30 {
		apply(plainClaim("r", 50))
	}
	apply(job.LoseRunner{Runner: "r", Through: uint64(len(log))})
	mustCommit(t, s)
	random := rand.New(rand.NewPCG(1, 1))
	for name, again := range map[string]func() (*Store, error){
		"rebuilt":   func() (*Store, error) { return rebuild(random, options, log, 0) },
		"restarted": func() (*Store, error) { return crashing(random, options, log) },
	} {
		other, err := again()
		if err == nil {
			err = errors.Join(sameStores(s, other), other.Close())
		}
		testkit.Check(t, err, name)
	}

	row.Levels = known
	testkit.NoError(t, errors.Join(s.FlushWait(), s.Close()))
	testkit.Fails(Open(dir, options))(t, ErrNewerFormat) // by a program without level 2
	older := testkit.Must(Open(t.TempDir(), Options{Journal: testJournal}))(t)
	defer older.Close()
	testkit.Fails(older.Apply(1, startAt, job.SetLevel{Level: 2}))(t, ErrNewerFormat) // by a program without level 2
}

// summary describes a result in one line.
func summary(result applied.Result) string {
	switch r := result.(type) {
	case *applied.Claimed:
		return fmt.Sprintf("%d jobs in %d runs", r.Jobs(), len(r.Runs))
	case *applied.Tickled:
		return fmt.Sprintf("%d held, %d lost, %q", r.Held, len(r.Lost), r.Refusal.Code())
	case nil:
		return "nothing"
	}
	return fmt.Sprintf("%+v", result)
}

// sameText compares a text with a file, line by line.
func sameText(t *testing.T, path, got string) {
	t.Helper()
	if *rewriteLevels {
		testkit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want := testkit.Must(os.ReadFile(path))(t)
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		if i >= len(gotLines) || i >= len(wantLines) || gotLines[i] != wantLines[i] {
			t.Fatalf("%s:%d: a level decides\n%s\nand used to decide\n%s\nWhat a level decides never changes: see rules in rules.go", path, i+1,
				gotLines[min(i, len(gotLines)-1)], wantLines[min(i, len(wantLines)-1)])
		}
	}
}

// TestSeqsBeyondTheBitsOfAnID uses jobs, batches, claims and sweeps by their ids when seqs need more bits than an id
// has, and around the command at which the low bits begin again at 0, within one millisecond and across two.
func TestSeqsBeyondTheBitsOfAnID(t *testing.T) {
	const turn = uint64(1) << 40
	for _, apart := range []int64{0, 1} {
		for _, begin := range []uint64{turn - 13, turn - 4, turn - 3, turn - 2, turn - 1, turn, turn + 5, 2*turn - 2, 3*turn + 5} {
			t.Run(fmt.Sprintf("from %d, %d ms apart", begin, apart), func(t *testing.T) {
				s := mustOpen(t, Options{Small: true})
				seq, at := begin-1, int64(0)
				apply := func(cmd job.Command) applied.Result {
					seq, at = seq+1, at+apart
					result := mustStore(t, s, seq, at, cmd)
					return result
				}
				var jobs []job.ID
				create := func(n int) job.ID {
					apply(plainCreate("a", "x", n, 5))
					batch := job.NewID(startAt+at, seq, 0)
					for line := range n {
						jobs = append(jobs, batch.WithLine(line))
					}
					return batch
				}
				is := func(id job.ID, want job.Status) {
					t.Helper()
					doc := testkit.Must(s.Job(id))(t)
					testkit.MustHold(t, doc.ID == id && doc.Status == want, "job", id, "is", doc.Status, "want", want)
				}
				first := create(4)
				once := plainClaim("r", 3)
				once.Once = job.Once{Scope: "s", Key: "k"}
				c := apply(once).(*applied.Claimed)
				testkit.MustEqual(t, c.Jobs(), 3)
				testkit.MustEqual(t, c.Seq, seq)
				testkit.MustEqual(t, apply(job.Tickle{Claim: c.Claim, Progress: -1}).(*applied.Tickled).Held, 3, "tickle of the claim")
				tickled := apply(job.Tickle{IDs: []job.ID{first}, Claim: c.Claim, Step: "half way", Progress: 5}).(*applied.Tickled)
				testkit.MustEqual(t, tickled.Held, 1, "tickle of a job:", tickled)
				doc := testkit.Must(s.Job(first))(t)
				testkit.MustHold(t, doc.Step == "half way" && doc.Progress == 5 && doc.Claim == c.Claim, doc)
				second := create(2)
				outcome := job.Outcome{ID: first, Code: job.OK, ExitCode: 200, DelayMs: -1, Result: job.Result{OutputAddr: "there"}}
				for range 2 { // the request, then the repeat
					ended := apply(job.Complete{Claim: c.Claim, Outcomes: []job.Outcome{outcome}}).(*applied.Ended)
					testkit.MustEqual(t, ended.Results[0].Refusal, job.Granted, "complete")
				}
				testkit.MustEqual(t, testkit.Must(s.Job(first))(t).OutputAddr, "there")
				again := testkit.Must(s.ClaimedBefore(&once.Once, startAt+at))(t)
				testkit.MustHold(t, again.Claim == c.Claim && again.Seq == c.Seq, "the claim repeated", again)
				testkit.MustEqual(t, len(testkit.Must(documents(s.Held(again)))(t)), 2)
				claimed, held := testkit.Must2(s.ClaimDocument(c.Claim, query.Everything))(t)
				testkit.MustHold(t, claimed.Held == 2 && len(held) == 2, "claim document", claimed, len(held), "jobs")
				list, _ := testkit.Must2(s.List(query.Filter{Claim: c.Claim, Limit: 10}))(t)
				testkit.MustEqual(t, len(list), 3, "jobs of the claim")
				testkit.MustEqual(t, apply(job.Move{Op: job.Cancel, Job: first.WithLine(1)}).(*applied.Moved).Refusal, job.Granted)
				is(first.WithLine(1), job.Cancelled)
				ended := apply(job.Complete{Claim: c.Claim, All: &job.Outcome{Code: job.Unget, DelayMs: -1}}).(*applied.Ended)
				testkit.MustEqual(t, ended.All, 1, "unget of the claim:", ended)
				testkit.MustEqual(t, apply(job.Move{Op: job.Cancel, Batch: second}).(*applied.Swept).Moved, 2, "cancel of a batch")
				batch := testkit.Must(s.Batch(second))(t)
				testkit.MustHold(t, batch.ID == second && batch.Counts[job.Cancelled] == 2, "batch", batch)

				// Lists continue after each id, whether or not its batch still exists.
				lists := func() {
					t.Helper()
					var all []job.ID
					for f := (query.Filter{Limit: 2}); ; {
						docs, next := testkit.Must2(s.List(f))(t)
						for i := range docs {
							all = append(all, docs[i].ID)
						}
						if f.After = next; next.IsZero() {
							break
						}
					}
					want := slices.DeleteFunc(slices.Clone(jobs), func(id job.ID) bool { _, err := s.Job(id); return err != nil })
					testkit.MustHold(t, slices.Equal(all, want), "listed", all, "want", want)
					for _, id := range jobs {
						docs, _, err := s.List(query.Filter{After: query.JobPlace{ID: id}, Limit: 1})
						at := slices.IndexFunc(want, func(other job.ID) bool { return slices.Index(jobs, other) > slices.Index(jobs, id) })
						testkit.NoError(t, err)
						testkit.MustHold(t, (at < 0) == (len(docs) == 0) && (at < 0 || docs[0].ID == want[at]), "after", id, docs)
					}
				}
				create(1)
				lists()
				for _, id := range []job.ID{second, second.WithLine(1)} {
					testkit.MustEqual(t, apply(job.Move{Op: job.Delete, Job: id}).(*applied.Moved).Refusal, job.Granted)
				}
				lists()

				// A sweep that continues has an id, too.
				for range 10 {
					create(1)
				}
				swept := apply(job.Move{Op: job.Cancel, Client: "a", Type: "x"}).(*applied.Swept)
				sweep, err := s.Sweep(swept.Sweep)
				testkit.MustHold(t, !swept.Sweep.IsZero() && err == nil && sweep.ID == swept.Sweep, "sweep", swept, sweep, err)
				testkit.Fails(s.Sweep(job.NewID(swept.Sweep.At()+1, seq, 0)))(t, job.SweepNotFound) // sweep of another time
				sound(t, s)
			})
		}
	}
}

// TestALookupTriesOneSeqOrTwo: a look-up tries two seqs only if the id has the time at which an epoch began.
func TestALookupTriesOneSeqOrTwo(t *testing.T) {
	epochs := []row.Epoch{{1, 100}, {2, 200}, {5, 300}}
	for _, test := range []struct {
		at   int64
		low  uint64
		want []uint64
	}{
		{99, 7, []uint64{7}},
		{100, 7, []uint64{1<<40 + 7, 7}},
		{100, 1<<40 - 1, []uint64{1<<40 - 1, 2<<40 - 1}},
		{101, 7, []uint64{1<<40 + 7}},
		{199, 7, []uint64{1<<40 + 7}},
		{200, 7, []uint64{2<<40 + 7, 1<<40 + 7}},
		{300, 1 << 39, []uint64{2<<40 + 1<<39, 5<<40 + 1<<39}},
		{400, 7, []uint64{5<<40 + 7}},
	} {
		got := memory.SeqsIn(epochs, job.NewID(test.at, test.low, 3))
		testkit.EqualSlices(t, got.All(), test.want, "at", test.at, "low bits", test.low)
	}
}
