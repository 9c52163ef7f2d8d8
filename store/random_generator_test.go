package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/proof/model"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// generator makes random steps with a few names. It also applies them to the model, so that it can name existing jobs
// and claims, and times at which something happens.
type generator struct {
	*rand.Rand
	options  Options
	m        *model.Model
	seq      uint64
	at       int64
	claims   []job.ID
	sessions []job.ID
	length   int
	users    bool // most jobs have one of many values of two keys, and most claims are by prefer_distinct
}

func newGenerator(seed uint64) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0)), at: startAt}
	g.options = Options{Journal: testJournal, MemtableBytes: 256 << 10, CacheBytes: 1 << 20}
	g.options.bounds = &memory.Bounds{
		SpanBytes: oneOf(g, 0, 3*memory.CachedSpanBytes, 1<<20), BatchBytes: oneOf(g, 0, 1500, 1<<20), RowBytes: oneOf(g, 0, 800, 1<<20), SlotBytes: oneOf(g, 0, 1000, 1<<20),
		MinWindow: oneOf(g, 1, 2), MaxWindow: oneOf(g, 2, 3, 7, 1000), WindowKeys: oneOf(g, 0, 5, 1000),
		Rules: &row.Rules{
			PageBytes: oneOf(g, 1, 20, 60, 1<<16), GroupPageBytes: oneOf(g, 1, 40, 80, 4<<10), CommandRows: oneOf(g, 1, 9, 30, 1000), ClaimRows: 1 << 30, ClaimBytes: 1 << 30,
			CellSpans: oneOf[int64](g, 1, 2, 5, 512), SweepRows: oneOf(g, 1, 9, 30, 1000), PurgedGroups: oneOf(g, 0, 1, 3, 1000), EffectBytes: oneOf[int64](g, 1, 100, 1000, 1<<20), AuditBytes: oneOf[int64](g, 1, 200, 1000, 1<<20),
			EffectRowBytes: oneOf(g, 1, 50, 1024), ListedClaims: oneOf(g, 0, 1, 3, 8),
			Sessions:         oneOf[uint64](g, 1, 2, 4, 1000),
			DocumentVersions: oneOf(g, 1, 2, 3, 20), DeletedDocuments: oneOf(g, 0, 1, 2, 1000),
			DistinctStep: oneOf(g, 2, 2, 3, 16), DistinctRows: 1 << 30, DistinctBytes: oneOf(g, 0, 3000, 10_000, 1<<20), DistinctNodes: oneOf(g, 0, 1, 2, 16), DistinctLooks: 1 << 20,
		},
	}
	for kind := range job.DocumentKinds {
		g.options.bounds.Rules.Documents[kind] = row.DocumentBounds{Names: oneOf(g, 1, 2, 1000), Bytes: oneOf[int64](g, 1, 300, 1<<20)}
	}
	g.m = model.New("", boundsOf(g.options.bounds.Rules))
	g.length = 20 + g.IntN(100)
	if g.some(5) {
		g.length *= 4
	}
	g.users = g.some(20)
	if g.some(20) { // the low bits of the seqs begin again at 0 during the steps
		g.seq = 1<<40 - uint64(g.IntN(2*g.length))*seqStride
	}
	return g
}

func oneOf[T any](g *generator, of ...T) T { return of[g.IntN(len(of))] }

// some reports true n times of a hundred.
func (g *generator) some(n int) bool { return g.IntN(100) < n }

func (g *generator) steps() (steps []step) {
	for range g.length {
		g.seq += uint64(1+g.IntN(3)) * seqStride
		g.at += g.pass()
		st := g.withActor(step{seq: g.seq, at: g.at, cmd: g.command()})
		if tick, is := st.cmd.(job.Tick); is && tick.AsOf == 0 && g.some(80) {
			st.backlogs = seqStride - 1
		}
		st.commit, st.compare = g.some(30), g.some(8)
		st.restart, st.flush = g.some(2), g.some(50)
		g.m.By = &st.by
		result := g.m.Apply(st.seq, st.at, st.cmd)
		if _, tick := st.cmd.(job.Tick); tick || g.some(30) {
			g.m.Forget() // all that need not be kept
		}
		if c, ok := result.(*applied.Claimed); ok && !c.Claim.IsZero() {
			g.claims = append(g.claims, c.Claim)
		}
		if o, ok := result.(*applied.SessionOpened); ok && o.Refusal == job.Granted {
			g.sessions = append(g.sessions, o.Session.ID)
		}
		steps = append(steps, st)
	}
	return steps
}

// pass returns how much time passes before the next command.
func (g *generator) pass() int64 {
	// A job that was set aside permanently returns only by request.
	if due := g.m.NextDue(); due != 0 && due < job.MaxTimeMs && g.some(20) {
		return max(0, due-g.at+g.Int64N(3)-1) // the time of the next event, or a little before or after it
	}
	switch n := g.IntN(100); {
	case n < 25:
		return 0
	case n < 70:
		return g.Int64N(300)
	case n < 93:
		return g.Int64N(2500)
	case n < 99:
		return g.Int64N(70_000)
	}
	return g.Int64N(20 * 24 * row.HourMs)
}

func (g *generator) command() job.Command {
	switch n := g.IntN(150); {
	case n >= 149:
		if g.some(10) {
			return job.SetHistory{Bytes: job.MinHistoryBytes, AgeMs: job.MinHistoryMs}
		}
		return job.SetHistory{Before: 1 + g.Uint64N(g.seq)}
	case n >= 147:
		return g.login()
	case n >= 145:
		if g.some(50) {
			return g.quota()
		}
		return g.key()
	case n >= 140:
		return g.changeBatch()
	case n >= 136:
		return g.document(job.FilesetDocument)
	case n >= 133:
		return g.lostRunner()
	case n >= 129:
		return g.document(job.HandlerDocument)
	case n >= 128:
		return g.endSession()
	case n >= 124:
		return job.OpenSession{Runner: oneOf(g, "", "r1")}
	case n >= 122:
		return job.DeleteIdleQueues{IdleMs: job.MinQueueIdleMs}
	case n >= 120:
		return job.DeleteQueue{Client: oneOf(g, "a", "b"), Type: oneOf(g, "x", "y", "z")}
	case n >= 118:
		return job.Switch{Stopped: g.some(40)}
	case n >= 100:
		return g.move()
	case n < 16:
		return g.Create()
	case n < 42:
		return g.claim()
	case n < 55:
		return g.tickle()
	case n < 80:
		return g.complete()
	case n < 84:
		return job.Pause{Client: oneOf(g, "a", "b"), Type: oneOf(g, "x", "y"), Paused: g.some(45)}
	case n < 97:
		tick := job.Tick{Rows: oneOf(g, 0, 0, 0, 1, 20, 300, job.MaxTickRows)}
		if g.some(15) { // the process stood still before it wrote the tick
			tick.AsOf = g.at - oneOf[int64](g, -1, 0, 1, 700, 3000)
		}
		return tick
	case n < 98:
		return job.Mark{}
	case n < 99:
		return job.SetLevel{Level: job.Level}
	}
	return job.Grace{}
}

func (g *generator) Create() job.Command {
	c := &job.Create{Frame: oneOf(g, job.NoFrame, job.LineFrame, job.LineFrame, job.LenFrame)}
	groups := oneOf(g, 1, 1, 1, 2, 3)
	alike := g.Group()
	for range groups {
		group := g.Group()
		if g.some(40) {
			group = alike // neighbours that differ only in their group
		}
		group.Lines = oneOf(g, 1, 1, 2, 3, 5, 9)
		if g.some(3) {
			group.Lines = 40
		}
		group.Kind = oneOf(g, job.Text, job.Bytes)
		if c.Frame == job.NoFrame {
			group.Kind = job.Nothing
		}
		c.Groups = append(c.Groups, group)
		if c.Frame == job.NoFrame {
			continue
		}
		for range group.Lines {
			payload := []byte(strings.Repeat(string('a'+rune(g.IntN(26))), 1+g.IntN(12)))
			if g.some(3) {
				payload = bytes.Repeat(payload, 20)
			}
			if c.Frame == job.LenFrame {
				payload = append(payload, oneOf(g, "", "\n", "\n#:end")...)
			}
			c.Longest = max(c.Longest, len(payload))
			c.Payloads = c.Frame.Append(c.Payloads, payload)
		}
	}
	if c.Joined = g.some(20); c.Joined {
		for i := range c.Groups {
			c.Groups[i].By = oneOf(g, "", "anna", "ci")
		}
		return c
	}
	switch n := g.IntN(100); {
	case n < 15 && len(g.m.Submissions) > 0:
		c.Into = g.anySubmission()
	case n < 40:
		c.Submission = g.Submission()
		if g.some(10) {
			c.Groups, c.Frame, c.Longest, c.Payloads = c.Groups[:1], job.NoFrame, 0, nil
			c.Groups[0].Lines, c.Groups[0].Kind = 0, job.Nothing
		}
	}
	if g.some(25) {
		for line := range c.Lines() {
			if g.some(60) {
				c.Unique = append(c.Unique, job.UniqueKey{Line: line, Key: oneOf(g, "k1", "k2", "k3", "k 4", "k5", "k6")})
			}
		}
	}
	g.once(&c.Once, "")
	return c
}

// move makes an operator's command.
func (g *generator) move() job.Command {
	ids := g.someJobs(g.anyClaim(), 1)
	if len(ids) == 0 {
		ids = []job.ID{job.NewID(g.at, 3, 0)}
	}
	if g.some(30) {
		p := job.Patch{Job: ids[0]}
		if g.some(50) {
			n := oneOf(g, 0, 4, 9)
			p.Priority = &n
		}
		if g.some(50) {
			n := oneOf(g, 1, 2, 3, 30)
			p.MaxAttempts = &n
		}
		if at := oneOf(g, 0, g.at, g.at+1, g.at+2000); g.some(40) || p.Priority == nil && p.MaxAttempts == nil {
			p.RunAt = &at
		}
		return p
	}
	m := job.Move{Op: oneOf(g, job.Cancel, job.Cancel, job.Redrive, job.Redrive, job.Redrive, job.Run, job.Delete)}
	if g.some(55) || m.Op == job.Run {
		m.Job = ids[0]
		return m
	}
	if takes := m.Op.Takes(); g.some(50) {
		m.Status = takes[g.IntN(len(takes))]
	}
	if g.some(50) {
		if m.Batch = ids[0].WithLine(0); g.some(50) {
			m.Batch = g.anySubmission()
		}
		return m
	}
	m.Client, m.Type = oneOf(g, "a", "b"), oneOf(g, "x", "y")
	return m
}

func (g *generator) Group() job.Group {
	group := job.Group{
		Client: oneOf(g, "a", "b"), Type: oneOf(g, "x", "y"), Attributes: job.Attributes{Priority: oneOf(g, 0, 4, 4, 4, 9), MaxAttempts: oneOf(g, 1, 2, 3, 30),
			Backoff:     job.Backoff{InitialMs: oneOf[int64](g, 0, 500, 1000), FactorMilli: oneOf[int64](g, 1000, 2000), MaxMs: oneOf[int64](g, 500, 5000)},
			LeaseMs:     oneOf[int64](g, 1000, 1000, 1500, 60_000),
			RetentionMs: oneOf[int64](g, 0, 800, 5000, 1_000_000)},
	}
	if g.some(25) {
		group.RunAt = g.at + oneOf[int64](g, -1, 0, 1, 700, 3000)
	}
	if g.some(25) {
		group.ExpiresAt = g.at + oneOf[int64](g, 1, 600, 4000, 100_000)
	}
	if g.some(25) {
		group.TimeoutMs = oneOf[int64](g, 1000, 3000, 70_000)
	}
	if g.some(45) {
		group.Meta, group.Traceparent = oneOf[job.Meta](g, "a=1,b=x%20y", "a=2,b=x%20y", "a=1,b=z", "a=", "b=1", "c=1"), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	}
	if g.users && g.some(90) {
		group.Meta, group.Priority = job.Meta(fmt.Sprintf("a=%d,b=%d", g.IntN(2), g.IntN(8))), 4
	}
	if g.some(12) {
		group.OnComplete = g.followOn()
	}
	return group
}

// FollowOn generates the job that a job creates when it completes.
func (g *generator) followOn() job.FollowOn {
	next := g.Group()
	next.RunAt, next.ExpiresAt = 0, 0
	if g.some(60) {
		next.Client = ""
	}
	text, err := job.NewFollowOn(&next, oneOf[int64](g, 0, 0, 1, 900))
	if err != nil {
		panic(err)
	}
	return text
}

// then generates the jobs that an outcome creates.
func (g *generator) then() *job.Create {
	c := &job.Create{Frame: job.LenFrame}
	for range oneOf(g, 1, 1, 2, 3) {
		group := g.Group()
		group.Lines, group.Kind = oneOf(g, 1, 1, 2, 5), oneOf(g, job.Text, job.Bytes)
		if g.some(60) {
			group.Client = ""
		}
		c.Groups = append(c.Groups, group)
		for range group.Lines {
			payload := []byte(oneOf(g, "chained", "in\ntwo lines", strings.Repeat("long ", 1+g.IntN(20))))
			c.Longest = max(c.Longest, len(payload))
			c.Payloads = c.Frame.Append(c.Payloads, payload)
		}
	}
	if g.some(40) {
		c.Unique = append(c.Unique, job.UniqueKey{Line: g.IntN(c.Lines()), Key: oneOf(g, "k1", "k2", "k3")})
	}
	return c
}

func (g *generator) names(of ...string) (names []string) {
	for _, name := range of {
		if g.some(25) {
			names = append(names, name)
		}
	}
	return names
}

func (g *generator) claim() job.Command {
	c := job.Claim{Runner: oneOf(g, "r1", "r2", "r22"), Max: oneOf(g, 1, 2, 4, 7, 1000), MaxBytes: job.MaxClaimBytes}
	if g.some(30) {
		c.Clients = g.names("a", "b", "c")
	}
	if g.some(30) {
		c.Types = g.names("x", "y", "z")
	}
	if g.some(30) {
		c.LeaseMs = oneOf[int64](g, 1000, 2000, 30_000)
	}
	if g.some(25) {
		c.MaxBytes = oneOf[int64](g, 1, 10, 25, 100)
	}
	c.Strategy = oneOf(g, job.Oldest, job.Oldest, job.Newest, job.Random, job.Fair)
	nested := oneOf(g, 0, 0, 1, 1, 2)
	if g.users { // and most jobs wait, so that there are many to choose from
		nested, c.Max = oneOf(g, 1, 2, 2, 3), oneOf(g, 1, 1, 2, 5)
	}
	for ; nested > 0; nested-- {
		c.Strategy = mustDistinct(oneOf(g, "a", "a", "b", "d"), c.Strategy)
	}
	if g.some(40) {
		c.Announced, c.Begins = true, oneOf(g, 0, 0, 1, 3)
	}
	g.once(&c.Once, "claim ")
	return c
}

// anyClaim returns the id of a claim, mostly of a recent one, or an id that no claim has.
func (g *generator) anyClaim() job.ID {
	if len(g.claims) == 0 || g.some(5) {
		return job.NewID(g.at-1, 3, 0)
	}
	if g.some(3) {
		id := g.claims[0]
		return job.NewID(id.At()+1, uint64(id.LowSeq()), 0)
	}
	return g.claims[max(0, len(g.claims)-1-g.IntN(6))]
}

func (g *generator) anyRunner() string { return oneOf(g, "r1", "r2", "r22", "r3") }

// someJobs returns ids of jobs: of a claim if there is one, of any jobs, and of no jobs.
func (g *generator) someJobs(claim job.ID, n int) (ids []job.ID) {
	for range n {
		switch c := g.m.Claims[claim]; {
		case c != nil && g.some(80):
			ids = append(ids, c.Handed[g.IntN(len(c.Handed))].ID)
		case g.some(5):
			ids = append(ids, job.NewID(g.at, g.seq+5, g.IntN(4)))
		case len(g.m.Batches) > 0:
			b := g.m.Batches[g.IntN(len(g.m.Batches))]
			id := b.ID.WithLine(g.IntN(len(b.Lines)))
			if g.some(2) {
				id = job.NewID(id.At()+1, uint64(id.LowSeq()), id.Line())
			} else if g.some(2) {
				id = b.ID.WithLine(len(b.Lines) + g.IntN(2))
			}
			ids = append(ids, id)
		}
	}
	return ids
}

func (g *generator) tickle() job.Command {
	t := job.Tickle{Progress: -1}
	if g.some(25) {
		t.LeaseMs = oneOf[int64](g, 1000, 2500, 40_000)
	}
	if g.some(20) {
		t.Runner = g.anyRunner()
		return t
	}
	claim := g.anyClaim()
	if c := g.m.Claims[claim]; c != nil && g.some(30) {
		t.Runner = oneOf(g, c.Runner, c.Runner, "r1")
	}
	if g.some(50) {
		t.Claim = claim
	}
	if g.some(40) && !t.Claim.IsZero() {
		return t
	}
	t.IDs = g.someJobs(claim, 1+g.IntN(4))
	if len(t.IDs) == 0 {
		t.IDs = []job.ID{job.NewID(g.at, 1, 0)}
	}
	if g.some(40) {
		t.Step = oneOf(g, "", "half way", "a=b, c%")
		t.Progress = oneOf[int64](g, -1, 0, 500_000, job.ProgressUnit)
	}
	return t
}

func (g *generator) complete() job.Command {
	var c job.Complete
	claim := g.anyClaim()
	all := g.some(35)
	if all || g.some(60) {
		c.Claim = claim
	}
	if known := g.m.Claims[claim]; known != nil && g.some(30) {
		c.Runner = oneOf(g, known.Runner, known.Runner, "r2")
	}
	if n := 1 + g.IntN(3); g.some(15) {
		return g.completeUnclaimed(claim, n)
	}
	n := 1 + g.IntN(3)
	if all {
		o := g.outcome()
		c.All = &o
		n = oneOf(g, 0, 0, 1, 2)
	}
	for _, id := range g.someJobs(claim, n) {
		o := g.outcome()
		o.ID = id
		if (o.Code == job.OK || o.Code == job.Fail) && g.some(15) {
			o.Then = g.then()
		}
		c.Outcomes = append(c.Outcomes, o)
	}
	if len(c.Outcomes) == 0 && c.All == nil {
		o := g.outcome()
		o.ID = job.NewID(g.at, 7, 1)
		c.Outcomes = []job.Outcome{o}
	}
	if g.once(&c.Once, "claim "); c.Once.Given() { // a claim that also completes uses one key for both
		c.Once.Part = oneOf(g, 0, 0, 0, 1, 2)
	}
	return c
}

// completeUnclaimed generates a completion of jobs that a claim need not hold: mostly waiting ones.
func (g *generator) completeUnclaimed(claim job.ID, n int) job.Command {
	c := job.Complete{Unclaimed: true}
	ids := g.someJobs(claim, n)
	if line := g.m.Line(nil, nil, true); len(line) > 0 {
		for range n {
			ids = append(ids, line[g.IntN(len(line))].ID)
		}
	}
	for _, b := range g.m.Batches {
		for _, j := range b.Lines {
			if j.Status == job.Deferred && g.some(10) {
				ids = append(ids, j.ID)
			}
		}
	}
	if len(ids) == 0 {
		ids = []job.ID{job.NewID(g.at, 7, 1)}
	}
	for _, id := range ids {
		o := g.outcome()
		for !o.Code.Reported() {
			o = g.outcome()
		}
		o.ID = id
		c.Outcomes = append(c.Outcomes, o)
	}
	g.once(&c.Once, "claim ")
	g.claims = append(g.claims, job.NewID(max(g.at, g.m.At), g.seq, 0)) // other commands may name it as a claim
	return c
}

func (g *generator) outcome() job.Outcome {
	o := job.Outcome{Code: oneOf(g, job.OK, job.OK, job.OK, job.Fail, job.Retry, job.Error, job.Error, job.Unget, job.Damaged, job.Lost), DelayMs: -1}
	if o.Code.Reported() {
		o.ExitCode = o.Code.DefaultExitCode() + oneOf(g, 0, 0, 1)
		if g.some(20) {
			o.ProcessExit = new(int64)
			*o.ProcessExit = oneOf[int64](g, 0, -1, 137)
		}
		if g.some(20) {
			o.OutputAddr, o.OutputAddrKind, o.LogAddr = "s3://out put", job.JSON, "s3://log"
		}
		if g.some(25) {
			o.OutputKind, o.Output = job.Text, []byte(oneOf(g, "result", "two\nlines"))
		}
	}
	if o.Code != job.OK && g.some(60) {
		o.Error = oneOf(g, "no luck", "50% = bad\nluck")
	}
	if (o.Code == job.Retry || o.Code == job.Error) && g.some(40) {
		o.DelayMs = oneOf[int64](g, 0, 1, 1200)
	}
	return o
}

// withActor gives a command an actor, if the engine would take the command from it.
func (g *generator) withActor(st step) step {
	by := oneOf(g, job.Actor{}, job.Actor{}, job.Actor{Name: "all"}, job.Actor{"a", job.Scope{Clients: []string{"a"}}},
		job.Actor{"x", job.Scope{Types: []string{"x"}}}, job.Actor{"ab", job.Scope{Clients: []string{"a", "b"}, Types: []string{"x", "y"}}})
	cmd := st.cmd
	if c, is := cmd.(job.Claim); is {
		if by.Narrow(&c) != nil {
			return st
		}
		cmd = c
	}
	if by.Permits(cmd) == nil {
		st.by, st.cmd = by, cmd
	}
	return st
}
