package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/daybookq/daybook/job"
)

// TestRandomIsUniform draws single jobs from queues of very different sizes and shapes: no job may come up much more
// often than another.
func TestRandomIsUniform(t *testing.T) {
	s := mustOpen(t, Options{Small: true})
	mustApply(t, s, 1, 0, plainCreate("a", "x", 40, 3))
	mustApply(t, s, 2, 0, plainCreate("a", "y", 1, 3))
	for i := range 19 { // as many batches
		mustApply(t, s, uint64(3+i), 0, plainCreate("b", "x", 1, 3))
	}
	low := plainCreate("c", "x", 40, 3)
	low.Groups[0].Priority = 0
	mustApply(t, s, 22, 0, low)
	seq := uint64(100)
	// Some have come back, and stand in another lane.
	back := mustApply(t, s, seq, 0, plainClaim("r", 30)).(*Claimed)
	seq++
	mustApply(t, s, seq, 0, job.Complete{Claim: back.Claim, All: &job.Outcome{Code: job.Unget, DelayMs: -1}})
	const draws, jobs = 12_000, 60
	for _, choice := range []job.Claim{{}, {Clients: []string{"b", "a", "b"}}, {Types: []string{"y", "x"}}, {Clients: []string{"a", "b"}, Types: []string{"x", "y"}}} {
		counts := map[job.ID]int{}
		for range draws {
			choice.Runner, choice.Max, choice.MaxBytes, choice.Strategy = "r", 1, job.MaxClaimBytes, job.Random
			seq++
			c := mustApply(t, s, seq, 0, choice).(*Claimed)
			if c.Jobs() != 1 || c.Runs[0].Batch == 22 {
				t.Fatalf("drew %v", c.Runs)
			}
			counts[job.NewID(startAt, c.Runs[0].Batch, int(c.Runs[0].First))]++
			seq++
			mustApply(t, s, seq, 0, job.Complete{Claim: c.Claim, All: &job.Outcome{Code: job.Unget, DelayMs: -1}})
		}
		if len(counts) != jobs {
			t.Fatalf("%v: %d jobs came up, of %d", choice, len(counts), jobs)
		}
		// The sum of squared deviations is chi-squared with 59 degrees of freedom: above 111.1 once in 50,000 times,
		// and the draws are always the same.
		chi := 0.0
		for _, n := range counts {
			d := float64(n) - draws/jobs
			chi += d * d / (draws / jobs)
		}
		if chi > 111 {
			t.Errorf("%v: chi-squared %.1f: %v", choice, chi, counts)
		}
	}
	mustCommit(t, s)
}

// TestFairServesClientsInTurn: who has much to do does not keep others waiting, and the next claim goes on where the
// last one ended.
func TestFairServesClientsInTurn(t *testing.T) {
	s := mustOpen(t, Options{})
	clients := map[uint64]string{1: "a", 2: "b", 3: "c"}
	mustApply(t, s, 1, 0, plainCreate("a", "x", 9, 3))
	mustApply(t, s, 2, 0, plainCreate("b", "x", 2, 3))
	mustApply(t, s, 3, 0, plainCreate("c", "y", 3, 3))
	seq := uint64(3)
	take := func(max int, types ...string) string {
		seq++
		claim := plainClaim("r", max)
		claim.Strategy, claim.Types = job.Fair, types
		served := map[string]int{}
		for _, r := range mustApply(t, s, seq, 0, claim).(*Claimed).Runs {
			served[clients[r.Batch]] += r.Lines()
		}
		return strings.TrimPrefix(fmt.Sprint(served), "map")
	}
	for i, test := range []struct {
		max   int
		types []string
		want  string
	}{
		{1, nil, "[a:1]"}, {1, nil, "[b:1]"}, {1, nil, "[c:1]"}, {1, nil, "[a:1]"},
		{2, nil, "[b:1 c:1]"},
		{2, []string{"x"}, "[a:2]"}, // b has nothing left
		{3, nil, "[a:2 c:1]"},       // c was next
		{9, nil, "[a:3]"},
		{1, nil, "[]"},
	} {
		if got := take(test.max, test.types...); got != test.want {
			t.Errorf("claim %d of %d: %s, want %s", i, test.max, got, test.want)
		}
	}
	// The highest priority goes first, whoever's turn it is.
	high := plainCreate("b", "x", 1, 3)
	high.Groups[0].Priority = 9
	mustApply(t, s, 50, 0, plainCreate("c", "x", 1, 3))
	mustApply(t, s, 51, 0, high)
	clients[50], clients[51] = "c", "b"
	seq = 60
	if got := take(1); got != "[b:1]" {
		t.Errorf("with a high priority: %s", got)
	}
	mustCommit(t, s)
}

// TestClaimIsBounded: a claim over many small spans ends when it has written what a command may, and the next one goes
// on.
func TestClaimIsBounded(t *testing.T) {
	bounds, fewer := standardBounds, levels[0].rules
	fewer.claimRows = 1000
	bounds.rules = &fewer
	s := mustOpen(t, Options{bounds: &bounds})
	const jobs = 1000
	for i := range jobs {
		mustApply(t, s, uint64(1+i), 0, plainCreate("a", "x", 1, 3))
	}
	got, claims := 0, 0
	for seq := uint64(jobs + 1); got < jobs; seq++ {
		before := s.machine.o.Writes()
		c := mustApply(t, s, seq, 0, plainClaim("r", jobs)).(*Claimed)
		if rows := s.machine.o.Writes() - before; rows > s.machine.rules.claimRows+100 {
			t.Fatalf("a claim of %d jobs wrote %d rows", c.Jobs(), rows)
		}
		if c.Jobs() == 0 {
			t.Fatal("a claim found nothing")
		}
		got += c.Jobs()
		claims++
	}
	if claims < 2 {
		t.Errorf("%d claims took all", claims)
	}
	mustCommit(t, s)
}

// TestKeysAreForgotten: a repeat within a day is the first time told again; after that it is a first time, and the rows
// go.
func TestKeysAreForgotten(t *testing.T) {
	s := mustOpen(t, Options{})
	once := job.Once{Scope: "create a", Key: "k", Digest: job.Digest{1}}
	create := plainCreate("a", "x", 2, 3)
	create.Once = once
	first := mustApply(t, s, 1, 0, create).(*Made)
	again := mustApply(t, s, 2, job.KeyLifeMs-1, create).(*Made)
	if !again.Replayed || again.Batch != first.Batch || again.Lines != 2 {
		t.Errorf("again: %+v, first %+v", again, first)
	}
	other := plainCreate("a", "x", 2, 3)
	other.Once = once
	other.Once.Digest = job.Digest{2}
	if got := mustApply(t, s, 3, job.KeyLifeMs-1, other).(*Made); got.Refusal != job.KeyReused {
		t.Errorf("another request: %+v", got)
	}
	if made, err := s.MadeBefore(&once, startAt+1); err != nil || made != nil {
		t.Errorf("before the commit: %+v, %v", made, err)
	}
	mustCommit(t, s)
	if made, err := s.MadeBefore(&once, startAt+1); err != nil || made == nil || made.Batch != first.Batch {
		t.Errorf("after the commit: %+v, %v", made, err)
	}
	if made, err := s.MadeBefore(&once, startAt+job.KeyLifeMs); err != nil || made != nil {
		t.Errorf("a day later: %+v, %v", made, err)
	}
	if got := mustApply(t, s, 4, job.KeyLifeMs, create).(*Made); got.Replayed {
		t.Errorf("a day later: %+v", got)
	}
	mustCommit(t, s)
	if n := s.Totals().Keys; n != 2 {
		t.Errorf("%d keys", n)
	}
	for seq := uint64(5); seq < 10; seq++ { // the first generation goes, the second stays
		mustApply(t, s, seq, 2*job.KeyLifeMs-1, job.Tick{})
	}
	mustCommit(t, s)
	if n := s.Totals().Keys; n != 1 {
		t.Errorf("%d keys after the first generation has ended", n)
	}
}

// TestSweepTakesWhatComesBack: a job that runs while its queue is cancelled, and is given back behind the sweep, is
// cancelled too; one that was created since is not.
func TestSweepTakesWhatComesBack(t *testing.T) {
	s := mustOpen(t, Options{Small: true})
	mustApply(t, s, 1, 0, plainCreate("a", "x", 1, 3))
	held := mustApply(t, s, 2, 0, plainClaim("r", 1)).(*Claimed)
	for seq := uint64(3); seq < 40; seq++ {
		mustApply(t, s, seq, 1, plainCreate("a", "x", 1, 3))
	}
	swept := mustApply(t, s, 50, 10, job.Move{Op: job.Cancel, Client: "a", Type: "x"}).(*Swept)
	if swept.Sweep.IsZero() || swept.Moved >= 38 {
		t.Fatalf("%+v is done at once", swept)
	}
	// It is active, so its turn comes last; now it goes back among the pending ones that the sweep is passing.
	given := mustApply(t, s, 51, 11, job.Complete{Claim: held.Claim, Outcomes: []job.Outcome{{ID: jobID(0, 1, 0), Code: job.Unget, DelayMs: -1}}}).(*Ended)
	if got := given.Results[0]; got.Refusal != job.Granted || got.Status != job.Cancelled {
		t.Errorf("given back: %+v", got)
	}
	mustApply(t, s, 52, 12, plainCreate("a", "x", 1, 3))
	for seq := uint64(53); s.Totals().Sweeps > 0 || seq == 53; seq++ {
		mustApply(t, s, seq, 20, job.Tick{})
		mustCommit(t, s)
		if seq > 1000 {
			t.Fatal("the sweep does not end")
		}
	}
	doc, err := s.Sweep(swept.Sweep)
	if err != nil || doc.Moved != 38 || doc.FinishedAt == 0 || doc.Client != "a" || doc.Type != "x" || doc.Op != job.Cancel {
		t.Errorf("%+v, %v", doc, err)
	}
	if counts := s.Totals().Counts; counts[job.Cancelled] != 38 || counts[job.Pending] != 1 {
		t.Errorf("%v", counts)
	}
	all, err := s.Sweeps()
	if err != nil || len(all) != 1 || all[0] != doc {
		t.Errorf("%+v, %v", all, err)
	}
	mustApply(t, s, 2000, 21+job.SweepLifeMs, job.Tick{})
	mustCommit(t, s)
	if _, err := s.Sweep(swept.Sweep); err != job.SweepNotFound {
		t.Errorf("a day later: %v", err)
	}
}

// TestSweepsAreBounded: at the limit one more is refused, and taken when another has ended.
func TestSweepsAreBounded(t *testing.T) {
	s := mustOpen(t, Options{Small: true})
	seq := uint64(0)
	apply := func(cmd job.Command) Result { seq++; return mustApply(t, s, seq, 0, cmd) }
	for q := range job.MaxSweeps + 1 {
		for range 10 {
			apply(plainCreate("a", fmt.Sprintf("t%d", q), 1, 1))
		}
	}
	for q := range job.MaxSweeps {
		if w := apply(job.Move{Op: job.Cancel, Client: "a", Type: fmt.Sprintf("t%d", q)}).(*Swept); w.Sweep.IsZero() || w.Refusal != job.Granted {
			t.Fatalf("sweep %d: %+v", q, w)
		}
	}
	one := job.Move{Op: job.Cancel, Client: "a", Type: fmt.Sprintf("t%d", job.MaxSweeps)}
	if w := apply(one).(*Swept); w.Refusal != job.TooManySweeps || w.Moved != 0 {
		t.Errorf("one too many: %+v", w)
	}
	for len(s.running) == job.MaxSweeps {
		apply(job.Tick{})
	}
	if w := apply(one).(*Swept); w.Refusal != job.Granted {
		t.Errorf("when one has ended: %+v", w)
	}
	mustCommit(t, s)
}

// TestCancelledIsTold: the runner of a job that was cancelled hears of it by whatever it tells next.
func TestCancelledIsTold(t *testing.T) {
	s := mustOpen(t, Options{})
	mustApply(t, s, 1, 0, plainCreate("a", "x", 3, 3))
	c := mustApply(t, s, 2, 0, plainClaim("r", 3)).(*Claimed)
	first, last := jobID(0, 1, 0), jobID(0, 1, 2)
	mustApply(t, s, 3, 1, job.Move{Op: job.Cancel, Job: first})
	seq := uint64(3)
	tickle := func(tk job.Tickle, at int64) *Tickled {
		seq++
		tk.Progress = -1
		return mustApply(t, s, seq, at, tk).(*Tickled)
	}
	told := func(what string, got *Tickled, held int, refusal job.Refusal, lost ...job.ID) {
		t.Helper()
		var ids []job.ID
		for _, l := range got.Lost {
			if l.Refusal != job.WasCancelled {
				t.Errorf("%s: %+v", what, l)
			}
			ids = append(ids, l.ID)
		}
		if got.Held != held || got.Refusal != refusal || fmt.Sprint(ids) != fmt.Sprint(lost) {
			t.Errorf("%s: %+v, want %d held, %v lost", what, got, held, lost)
		}
	}
	told("claim", tickle(job.Tickle{Claim: c.Claim}, 10), 2, job.Granted, first)
	told("runner", tickle(job.Tickle{Runner: "r"}, 11), 2, job.Granted, first)
	told("job", tickle(job.Tickle{IDs: []job.ID{first}}, 12), 0, job.Granted, first)
	seq++
	ended := mustApply(t, s, seq, 13, job.Complete{Claim: c.Claim, Outcomes: []job.Outcome{{ID: first, Code: job.OK, ExitCode: 200, DelayMs: -1}}}).(*Ended)
	if ended.Results[0].Refusal != job.WasCancelled {
		t.Errorf("completion: %+v", ended.Results)
	}
	seq++
	mustApply(t, s, seq, 14, job.Move{Op: job.Cancel, Batch: first.WithLine(0)})
	told("runner of nothing", tickle(job.Tickle{Runner: "r"}, 15), 0, job.ClaimLost, first, first.WithLine(1), last)
	told("claim of nothing", tickle(job.Tickle{Claim: c.Claim}, 16), 0, job.WasCancelled, first, first.WithLine(1), last)
	seq++
	ended = mustApply(t, s, seq, 17, job.Complete{Claim: c.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}}).(*Ended)
	if ended.Refusal != job.WasCancelled {
		t.Errorf("completion of all: %+v", ended)
	}
	told("runner, much later", tickle(job.Tickle{Runner: "r"}, 20+noticeMs), 0, job.ClaimLost)
	mustCommit(t, s)
	doc, err := s.Job(first)
	if err != nil || doc.Status != job.Cancelled || doc.Why != job.Asked || doc.Claim != c.Claim || len(doc.Attempts) != 1 || doc.Attempts[0].Why != job.Asked {
		t.Errorf("%+v, %v", doc, err)
	}
}
