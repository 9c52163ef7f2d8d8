package compare_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/proof/model"
	"github.com/daybookq/daybook/proof/model/compare"
	"github.com/daybookq/daybook/store"
	"github.com/daybookq/daybook/store/applied"
)

const journal = "0197f1c0-1111-7abc-8def-000000000001"

// pair is a store beside the model.
type pair struct {
	s   *store.Store
	m   *model.Model
	seq uint64
}

func newPair(t *testing.T) *pair {
	t.Helper()
	s := testkit.Must(store.Open("store", store.Options{Journal: journal, FS: vfs.NewMem(), CacheBytes: 1 << 20}))(t)
	t.Cleanup(func() { testkit.Check(t, s.Close()) })
	return &pair{s: s, m: model.New(journal, model.Standard)}
}

// at is the time of the last command: one second passes before each.
func (p *pair) at() int64 { return 1_000_000 + 1000*int64(p.seq) }

// store applies a command to the store.
func (p *pair) store(t *testing.T, cmd job.Command) applied.Result {
	t.Helper()
	p.seq++
	got := testkit.Must(p.s.Apply(p.seq, p.at(), cmd))(t)
	testkit.NoError(t, p.s.Commit())
	return got
}

// compare applies a command to the model. alter changes the store's result, or the moves that it made.
func (p *pair) compare(cmd job.Command, got applied.Result, alter func(*model.Seen)) error {
	seen := &model.Seen{
		Effects: p.s.Effects(),
		Session: func(id job.ID) bool { _, err := p.s.SessionDocument(id); return err == nil },
		Batch:   func(id job.ID) bool { _, err := p.s.Batch(id); return err == nil },
		Sweep:   func(id job.ID) bool { doc, err := p.s.Sweep(id); return err == nil && doc.FinishedAt == 0 },
	}
	if alter != nil {
		alter(seen)
	}
	return p.m.Compare(p.seq, p.at(), &job.Actor{}, cmd, got, seen)
}

// both applies a command to the store and to the model.
func (p *pair) both(t *testing.T, cmd job.Command) applied.Result {
	t.Helper()
	got := p.store(t, cmd)
	testkit.NoError(t, p.compare(cmd, got, nil))
	return got
}

func create(change func(c *job.Create)) *job.Create {
	c := &job.Create{Frame: job.LineFrame, Payloads: []byte("one\ntwo\n"), Longest: 3, Groups: []job.Group{
		{Lines: 2, Client: "c", Type: "t", Attributes: job.Attributes{Kind: job.Text, Priority: 4, MaxAttempts: 2, LeaseMs: 60_000, RetentionMs: 1_000_000}},
	}}
	change(c)
	return c
}

// batch is a batch with attributes of two jobs.
func batch(change func(s *job.Submission)) *job.Create {
	return create(func(c *job.Create) { c.Submission = &job.Submission{Name: "n", Open: true}; change(c.Submission) })
}

// first is the id of the first job, which the first command makes.
var first = job.NewID(1_001_000, 1, 0)

// begin makes two jobs and claims the first.
func (p *pair) begin(t *testing.T) (claim job.ID) {
	t.Helper()
	p.both(t, create(func(*job.Create) {}))
	return p.both(t, job.Claim{Runner: "r", Max: 1, MaxBytes: job.MaxClaimBytes}).(*applied.Claimed).Claim
}

func end(claim job.ID, code job.Code, change func(o *job.Outcome)) job.Complete {
	o := job.Outcome{ID: first, Code: code, ExitCode: code.DefaultExitCode(), DelayMs: -1}
	change(&o)
	return job.Complete{Claim: claim, Outcomes: []job.Outcome{o}}
}

// TestAll: if a store has carried out another command than the model, All finds it.
func TestAll(t *testing.T) {
	same := func(*job.Outcome) {}
	priority, later := 7, int64(9_000_000)
	claimed := func(of func(claim job.ID) [2]job.Command) func(*testing.T, *pair) [2]job.Command {
		return func(t *testing.T, p *pair) [2]job.Command { return of(p.begin(t)) }
	}
	waiting := func(a, b job.Command) func(*testing.T, *pair) [2]job.Command {
		return func(t *testing.T, p *pair) [2]job.Command { p.begin(t); return [2]job.Command{a, b} }
	}
	fresh := func(a, b job.Command) func(*testing.T, *pair) [2]job.Command {
		return func(*testing.T, *pair) [2]job.Command { return [2]job.Command{a, b} }
	}
	handler := func(text, by string) job.Command {
		return job.PutDocument{Kind: job.HandlerDocument, Client: "c", Name: "t", By: by, Summary: "exec", Document: []byte(text)}
	}
	fileset := func(digest byte) job.Command {
		return job.PutDocument{Kind: job.FilesetDocument, Client: "c", Name: "n", Digest: job.DocumentDigest{digest}, Summary: job.FilesetSummary(1, 2)}
	}
	for name, commands := range map[string]func(t *testing.T, p *pair) [2]job.Command{
		"a payload":          fresh(create(func(*job.Create) {}), create(func(c *job.Create) { c.Payloads = []byte("one\ntwO\n") })),
		"a client":           fresh(create(func(*job.Create) {}), create(func(c *job.Create) { c.Groups[0].Client = "d" })),
		"an attribute":       fresh(create(func(*job.Create) {}), create(func(c *job.Create) { c.Groups[0].RetentionMs++ })),
		"a run_at":           fresh(create(func(*job.Create) {}), create(func(c *job.Create) { c.Groups[0].RunAt = later })),
		"no batch":           fresh(create(func(*job.Create) {}), create(func(c *job.Create) { c.Joined = true })),
		"a unique key":       fresh(create(func(*job.Create) {}), create(func(c *job.Create) { c.Unique = []job.UniqueKey{{Line: 1, Key: "k"}} })),
		"a follow-on job":    fresh(create(func(*job.Create) {}), create(func(c *job.Create) { c.Groups[0].OnComplete = followOn(t) })),
		"a batch's name":     fresh(batch(func(*job.Submission) {}), batch(func(s *job.Submission) { s.Name = "m" })),
		"a batch's metadata": fresh(batch(func(*job.Submission) {}), batch(func(s *job.Submission) { s.Metadata = []byte("m") })),
		"a paused batch":     fresh(batch(func(*job.Submission) {}), batch(func(s *job.Submission) { s.Paused = true })),
		"a closed batch":     fresh(batch(func(*job.Submission) {}), batch(func(s *job.Submission) { s.Open = false })),
		"its failure":        fresh(batch(func(*job.Submission) {}), batch(func(s *job.Submission) { s.OnFailure = job.CancelRest })),
		"a session":          fresh(job.OpenSession{Runner: "r"}, job.Mark{}),
		"a handler":          fresh(handler("{}", ""), handler("[]", "")),
		"its author":         fresh(handler("{}", "anna"), handler("{}", "bob")),
		"a fileset":          fresh(fileset(1), fileset(2)),
		"a deletion":         waiting(handler("{}", ""), job.DeleteDocument{Kind: job.HandlerDocument, Client: "c", Name: "t"}),
		"a pause":            waiting(job.Pause{Client: "c", Type: "t", Paused: true}, job.Mark{}),
		"a queue":            waiting(job.Move{Op: job.Delete, Client: "c", Type: "t"}, job.Mark{}),
		"a delete":           waiting(job.Move{Op: job.Delete, Job: first.WithLine(1)}, job.Mark{}),
		"a cancel":           waiting(job.Move{Op: job.Cancel, Job: first.WithLine(1)}, job.Mark{}),
		"a patch":            waiting(job.Patch{Job: first.WithLine(1), Priority: &priority}, job.Mark{}),
		"a patched run":      waiting(job.Patch{Job: first.WithLine(1), RunAt: &later}, job.Mark{}),
		"a claim":            waiting(job.Claim{Runner: "r", Max: 1, MaxBytes: job.MaxClaimBytes}, job.Claim{Runner: "s", Max: 1, MaxBytes: job.MaxClaimBytes}),
		"a lease": claimed(func(c job.ID) [2]job.Command {
			return [2]job.Command{job.Tickle{Claim: c, Progress: -1}, job.Tickle{Claim: c, Progress: -1, LeaseMs: 9000}}
		}),
		"a step": claimed(func(c job.ID) [2]job.Command {
			return [2]job.Command{job.Tickle{Claim: c, IDs: []job.ID{first}, Step: "a", Progress: -1}, job.Tickle{Claim: c, IDs: []job.ID{first}, Step: "b", Progress: -1}}
		}),
		"an end": claimed(func(c job.ID) [2]job.Command { return [2]job.Command{end(c, job.OK, same), end(c, job.Fail, same)} }),
		"an exit code": claimed(func(c job.ID) [2]job.Command {
			return [2]job.Command{end(c, job.OK, same), end(c, job.OK, func(o *job.Outcome) { o.ExitCode++ })}
		}),
		"an output": claimed(func(c job.ID) [2]job.Command {
			return [2]job.Command{end(c, job.OK, same), end(c, job.OK, func(o *job.Outcome) { o.OutputKind, o.Output = job.Text, []byte("out") })}
		}),
		"an error": claimed(func(c job.ID) [2]job.Command {
			return [2]job.Command{end(c, job.Error, same), end(c, job.Error, func(o *job.Outcome) { o.Error = "e" })}
		}),
		"an attempt": claimed(func(c job.ID) [2]job.Command { return [2]job.Command{end(c, job.Retry, same), end(c, job.Unget, same)} }),
		"a lost run": claimed(func(c job.ID) [2]job.Command { return [2]job.Command{end(c, job.Lost, same), end(c, job.Unget, same)} }),
		"a damaged job": claimed(func(c job.ID) [2]job.Command {
			return [2]job.Command{end(c, job.Damaged, same), end(c, job.Unget, same)}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			of := commands(t, p)
			testkit.NoError(t, compare.All(p.s.Queries, p.m))
			p.store(t, of[0])
			p.m.Apply(p.seq, p.at(), of[1])
			testkit.Holds(t, compare.All(p.s.Queries, p.m) != nil, "the store has carried out", of[0], "and the model", of[1])
		})
	}
}

func followOn(t *testing.T) job.FollowOn {
	t.Helper()
	return testkit.Must(job.NewFollowOn(&job.Group{Client: "c", Type: "u", Attributes: job.Attributes{MaxAttempts: 1, LeaseMs: 1000}}, 0))(t)
}

// TestMoves: no command may move a job for a reason that is not given. Here a tick comes before anything is due.
func TestMoves(t *testing.T) {
	for _, why := range []job.Reason{
		job.ReasonAbandoned, job.ReasonDue, job.ReasonPurged, job.ReasonCancelled, job.ReasonExpired, job.ReasonTimedOut, job.ReasonRedriven, job.ReasonStarted,
		job.ReasonDeleted, job.ReasonGraced,
	} {
		for line, status := range []job.Status{job.Active, job.Pending} {
			t.Run(fmt.Sprint(status, " for reason ", why), func(t *testing.T) {
				p := newPair(t)
				p.begin(t)
				got := p.store(t, job.Tick{})
				testkit.Failed(t, p.compare(job.Tick{}, got, func(seen *model.Seen) {
					seen.Effects = []applied.Effect{{Run: applied.Run{Batch: 1, First: uint32(line), Last: uint32(line)}, Reason: why}}
				}))
			})
		}
	}
}

// TestClaims: a claim takes jobs in the order of its strategy, and takes one if one waits.
func TestClaims(t *testing.T) {
	jobs := func(lines ...uint32) (runs []applied.Run) {
		for _, line := range lines {
			runs = append(runs, applied.Run{Batch: 1, First: line, Last: line})
		}
		return runs
	}
	distinct := testkit.Must(job.PreferDistinct("user", job.Oldest))(t)
	for _, tt := range []struct {
		name, want string // in the error; "" if the claim is allowed
		strategy   job.Strategy
		got        []applied.Run
	}{
		{"oldest", "", job.Oldest, jobs(0)},
		{"oldest, out of order", "the model has", job.Oldest, jobs(1)},
		{"newest", "", job.Newest, jobs(1)},
		{"newest, out of order", "the model has", job.Newest, jobs(0)},
		{"prefer_distinct", "", distinct, jobs(0)},
		{"prefer_distinct, out of order", "may not take", distinct, jobs(1)},
		{"nothing", "did nothing while 2 jobs waited", job.Oldest, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPair(t)
			p.both(t, create(func(*job.Create) {}))
			p.seq++
			got := &applied.Claimed{}
			effects := []applied.Effect{}
			if tt.got != nil {
				got = &applied.Claimed{Claim: job.NewID(p.at(), p.seq, 0), Seq: p.seq, LeaseMs: 60_000, Runs: tt.got}
				for _, r := range tt.got {
					effects = append(effects, applied.Effect{Run: r, Reason: job.ReasonClaimed})
				}
			}
			err := p.compare(job.Claim{Runner: "r", Max: 1, MaxBytes: job.MaxClaimBytes, Strategy: tt.strategy}, got, func(seen *model.Seen) { seen.Effects = effects })
			testkit.Holds(t, (err == nil) == (tt.want == "") &&
				(err == nil || strings.Contains(err.Error(), tt.want)), err, "want", tt.want)
		})
	}
}
