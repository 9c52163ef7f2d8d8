package ingest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store/applied"
)

// goldenMaker is an engine with a test clock.
type goldenMaker struct {
	*testing.T
	e   *Engine
	ctx context.Context
	now int64
}

// writeGolden makes a small journal.
func writeGolden(t *testing.T, golden string, play func(g *goldenMaker)) {
	t.Helper()
	testkit.NoError(t, os.RemoveAll(golden))
	g := &goldenMaker{T: t, now: 1_670_273_606_123}
	dir := t.TempDir()
	g.e = testkit.Must(Open(Options{Dir: dir, Journal: journal.Options{Clock: func() int64 { return g.now }}}))(t)
	var cancel context.CancelFunc
	g.ctx, cancel = context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- g.e.Run(g.ctx) }()
	for g.e.Ready() != nil {
	}
	play(g)
	cancel()
	testkit.NoError(t, <-ended)
	data := filepath.Join(golden, "data")
	testkit.NoError(t, errors.Join(os.CopyFS(data, os.DirFS(dir)), os.Remove(filepath.Join(data, "ballast"))))
}

func (g *goldenMaker) do(_ Receipt, err error) {
	g.Helper()
	testkit.NoError(g, err)
	g.now += 100
}

func (g *goldenMaker) created(made applied.Made, r Receipt, err error) job.ID {
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

// moves carries out commands of operators, strategies of claims and expiry.
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
	g.now += 10_000 // jobs that were not started have expired, and active jobs have timed out
	g.decide(job.Tick{})
	g.decide(job.Move{Op: job.Redrive, Client: "default", Type: "default", Status: job.Cancelled})
	g.decide(job.Move{Op: job.Cancel, Batch: first})
}

// sessions opens sessions, and carries out, repeats, refuses and forgets requests in them.
func (g *goldenMaker) sessions() {
	open := func(runner string) job.ID {
		return g.decide(job.OpenSession{Runner: runner}).(*applied.SessionOpened).Session.ID
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
	held := g.decide(claim).(*applied.Claimed).Claim
	g.decide(claim) // a repeat
	part := job.Complete{Claim: held, Outcomes: []job.Outcome{{ID: batch, Code: job.Fail, ExitCode: 404, DelayMs: -1}}, Once: number(second, 7, 1)}
	g.decide(part)
	rest := job.Complete{Claim: held, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}, Once: number(second, 7, 1)}
	rest.Once.Part = 1
	g.decide(rest)
	g.decide(part)
	claim.Once = number(second, 7, 1)
	g.decide(claim)
	claim.Once = number(first, 255, 8) // this number has passed
	g.decide(claim)
	claim.Once = number(batch, 0, 1) // the session does not exist
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
	g.decide(job.Tick{}) // forgets the unused sessions
	g.decide(job.EndSession{Session: idle})
	last := open("r2")
	g.decide(job.EndSession{Session: last})
}

// all carries out job lives and moves, deleted queues, and sessions.
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

// level1 carries out each command of level 1.
func (g *goldenMaker) level1() {
	g.all()
	g.documents()
	g.chains()
	g.losses()
	g.submissions()
	g.unclaimed()
	g.distinct()
}

// submissions creates batches that are filled, closed, resumed, cancelled and deleted, and a batch that ends with its
// first failure.
func (g *goldenMaker) submissions() {
	create := func(n int, s job.Submission) job.ID {
		c := lines(n)
		c.Groups[0].Type, c.Submission = "chunk", &s
		if n == 0 {
			c.Frame, c.Payloads, c.Longest, c.Groups[0].Kind = job.NoFrame, nil, 0, job.Nothing
		}
		return g.created(g.e.Create(g.ctx, c))
	}
	add := func(batch job.ID, key string) job.Refusal {
		c := lines(2)
		c.Groups[0].Type, c.Into = "chunk", batch
		if key != "" {
			c.Once = job.Once{Scope: "create default", Key: key, Digest: job.Digest{9}}
		}
		return g.decide(c).(*applied.Made).Refusal
	}
	open := create(3, job.Submission{Name: "open one", Meta: "model=a%20b,user:-42", ChunkSize: 20, Open: true, Paused: true, Metadata: []byte("opaque\n\x00"),
		Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Tracestate: "a=b", Baggage: "k=v"})
	add(open, "")
	add(open, "part")
	add(open, "part")
	g.decide(job.ChangeBatch{Op: job.ResumeBatch, Batch: open})
	g.decide(job.ChangeBatch{Op: job.CloseBatch, Batch: open})
	add(open, "")
	create(0, job.Submission{Name: "empty"})
	fragile := create(4, job.Submission{OnFailure: job.CancelRest})
	claim := claimOf(8)
	claim.Types = []string{"chunk"}
	held := g.decide(claim).(*applied.Claimed).Claim
	g.decide(job.Complete{Claim: held, Outcomes: []job.Outcome{{ID: fragile, Code: job.Fail, ExitCode: 400, DelayMs: -1, Error: "no"}}})
	g.decide(job.Complete{Claim: held, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}})
	g.decide(job.Move{Op: job.Redrive, Job: fragile})
	g.decide(job.Move{Op: job.Cancel, Batch: create(2, job.Submission{})})
	g.decide(job.Move{Op: job.Delete, Batch: create(2, job.Submission{Paused: true})})
	g.decide(job.Move{Op: job.Cancel, Batch: create(2, job.Submission{}), Status: job.Pending})
}

// unclaimed completes jobs that no claim holds, in a plain batch and in a batch that the last failure ends.
func (g *goldenMaker) unclaimed() {
	outcome := func(id job.ID, code job.Code) job.Outcome {
		return job.Outcome{ID: id, Code: code, ExitCode: code.DefaultExitCode(), DelayMs: -1}
	}
	waiting := lines(6)
	waiting.Groups[0].Type, waiting.Groups[0].MaxAttempts = "waiting", 2
	batch := g.created(g.e.Create(g.ctx, waiting))
	claim := claimOf(1)
	claim.Types = []string{"waiting"}
	g.decide(claim)
	cmd := job.Complete{Unclaimed: true}
	for line, code := range []job.Code{job.OK, job.OK, job.Fail, job.Error, job.Retry} {
		cmd.Outcomes = append(cmd.Outcomes, outcome(batch.WithLine(line), code))
	}
	cmd.Outcomes[1].OutputKind, cmd.Outcomes[1].Output = job.Text, []byte("out")
	cmd.Outcomes[4].DelayMs = 0
	g.decide(cmd)
	g.decide(cmd) // some are refused, and two jobs use their last attempt
	fragile := lines(3)
	fragile.Groups[0].Type, fragile.Submission = "waiting", &job.Submission{OnFailure: job.CancelRest}
	batch = g.created(g.e.Create(g.ctx, fragile))
	g.decide(job.Complete{Unclaimed: true, Outcomes: []job.Outcome{outcome(batch.WithLine(1), job.Error), outcome(batch, job.Fail)}})
}

// losses declares two runners lost: one with a later claim, which is left alone, and one that holds no jobs.
func (g *goldenMaker) losses() {
	held := lines(6)
	held.Groups[0].Type = "held"
	g.created(g.e.Create(g.ctx, held))
	claim := func(max int) uint64 {
		cmd := claimOf(max)
		cmd.Types, cmd.Runner = []string{"held"}, "lost"
		return g.decide(cmd).(*applied.Claimed).Seq
	}
	claim(2)
	last := claim(1)
	claim(1)
	g.decide(job.LoseRunner{Runner: "lost", Through: last})
	g.decide(job.LoseRunner{Runner: "nobody", Through: last})
}

// chains carries out completions that create jobs.
func (g *goldenMaker) chains() {
	followOn := func(typ string, then job.FollowOn, delayMs int64) job.FollowOn {
		group := lines(1).Groups[0]
		group.Lines, group.Kind, group.Client, group.Type, group.OnComplete = 0, job.Nothing, "", typ, then
		return testkit.Must(job.NewFollowOn(&group, delayMs))(g)
	}
	first := lines(3)
	first.Groups[0].Type, first.Groups[0].Meta = "first", "a=1"
	first.Groups[0].OnComplete = followOn("second", followOn("third", "", 1000), 0)
	batch := g.created(g.e.Create(g.ctx, first))
	claim := claimOf(3)
	claim.Types = []string{"first"}
	held := g.decide(claim).(*applied.Claimed).Claim
	for i := range job.MaxSteps + 2 {
		g.decide(job.Tickle{IDs: []job.ID{batch}, Claim: held, Step: fmt.Sprint("step ", i/2), Progress: -1})
		g.decide(job.Tickle{IDs: []job.ID{batch}, Claim: held, Step: fmt.Sprint("other ", i), Progress: -1})
	}
	then := lines(2)
	then.Groups[0].Client, then.Groups[0].Type = "", "then"
	then.Frame, then.Payloads = job.LenFrame, []byte("3\none\n3\ntwo\n")
	then.Longest, then.Unique = 3, []job.UniqueKey{{Line: 1, Key: "k"}}
	output := job.Result{OutputKind: job.JSON, Output: []byte(`{"n":1}`)}
	end := job.Complete{Claim: held, Outcomes: []job.Outcome{
		{ID: batch, Code: job.OK, ExitCode: 200, DelayMs: -1, Result: output, Then: then},
		{ID: batch.WithLine(1), Code: job.Fail, ExitCode: 400, DelayMs: -1, Then: then},
	}}
	g.decide(end)
	g.decide(end) // a repeat creates nothing
	g.decide(job.Complete{Claim: held, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1, Result: job.Result{OutputAddr: "s3://out"}}})
	claim.Types = []string{"second", "then"}
	held = g.decide(claim).(*applied.Claimed).Claim
	g.decide(job.Complete{Claim: held, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}})
}

// lives lets jobs live and end in each way.
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
		testkit.NoError(t, err)
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

// distinct claims jobs of users in regions by strategies of prefer_distinct.
func (g *goldenMaker) distinct() {
	for user := range 40 {
		c := lines(4)
		c.Groups[0].Type = "distinct"
		c.Groups[0].Meta = job.Meta(fmt.Sprintf("region=r%d,user=u%d", user%3, user))
		g.created(g.e.Create(g.ctx, c))
	}
	without := lines(4)
	without.Groups[0].Type = "distinct"
	g.created(g.e.Create(g.ctx, without))
	for _, base := range []job.Strategy{job.Oldest, job.Newest, job.Random, job.Fair} {
		for _, keys := range [][]string{{"user"}, {"region"}, {"region", "user"}, {"user", "region"}} {
			c := claimOf(9)
			c.Types, c.Strategy = []string{"distinct"}, base
			for _, key := range keys {
				over := testkit.Must(job.PreferDistinct(key, c.Strategy))(g)
				c.Strategy = over
			}
			_, _, receipt, err := g.e.Claim(g.ctx, c, 0)
			g.do(receipt, err)
		}
	}
}

// documents stores and deletes named documents of each kind.
func (g *goldenMaker) documents() {
	for i := range job.MaxDocumentVersions + 2 {
		g.decide(job.PutDocument{Kind: job.HandlerDocument, Client: "acme", Name: "resize", Summary: "script", Document: fmt.Appendf(nil, `{"kind":"script","lang":"node","source":"// %d"}`, i), By: "anna"})
		g.decide(job.PutDocument{Kind: job.FilesetDocument, Client: "acme", Name: "input", Digest: job.DocumentDigest{byte(i)}, Summary: job.FilesetSummary(i, int64(i)<<40)})
	}
	http := job.PutDocument{Kind: job.HandlerDocument, Name: "resize", Summary: "http", Document: []byte(`{"kind":"http","url":"http://127.0.0.1:8080/"}`)}
	files := job.PutDocument{Kind: job.FilesetDocument, Name: "input", Digest: job.DocumentDigest{1}, Summary: job.FilesetSummary(1, 1)}
	for _, put := range []job.PutDocument{http, files} {
		g.decide(put)
		g.decide(put)
		put.If = job.IfNone
		g.decide(put)
		put.Name = "gone"
		g.decide(put)
		remove := job.DeleteDocument{Kind: put.Kind, Name: put.Name, If: job.IfVersion(1), By: "bob"}
		g.decide(remove)
		g.decide(remove)
		put.Name = "again"
		g.decide(put)
		remove.Name, remove.If = put.Name, job.IfVersion(2)
		g.decide(remove)
		remove.If = job.IfExists
		g.decide(remove)
		g.decide(put)
	}
}
