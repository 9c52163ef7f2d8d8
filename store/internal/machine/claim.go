package machine

import (
	"math"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// claimJobs carries out a claim, unless it repeats one.
func (a *Applying) claimJobs(cmd job.Claim) *applied.Claimed {
	var before *row.Done // its completions
	if cmd.Once.Given() {
		var again *applied.Claimed
		if again, before = a.past().Claimed(&cmd.Once); again != nil {
			return again
		}
	}
	if a.Meta.Stopped {
		return &applied.Claimed{}
	}
	c := &row.Claim{Seq: a.Now.Seq, At: a.Now.At, Runner: cmd.Runner}
	c.Lease = job.Lease{Seq: a.Now.Seq, At: a.Now.At, Ms: cmd.LeaseMs}
	a.Claims.Set(c.Seq, c)
	t := claiming{
		Applying: a, cmd: &cmd, c: c, result: &applied.Claimed{Claim: c.Id(), Seq: c.Seq, Runner: c.Runner},
		choice: a.AllQueues.Choice(cmd.Clients, cmd.Types), left: cmd.Max, room: payloadRoom{limit: cmd.MaxBytes},
		rows: a.O.Writes() + a.Rules.ClaimRows, looks: a.Rules.ClaimRows, ahead: cmd.Max + AheadSpans, pairs: job.MaxClaimNames * job.MaxClaimNames,
	}
	t.contest = memory.NewContest(a.AllQueues.Scopes(t.choice))
	switch cmd.Strategy {
	case job.Oldest:
		for t.takeHead(t.contest.All().Head, math.MaxInt) {
		}
	case job.Newest:
		for t.takeTail(t.contest.All().Tail) {
		}
	case job.Random:
		t.drawAll()
	case job.Fair:
		t.serveInTurn()
	default:
		t.takeDistinct()
	}
	if len(c.Runs) == 0 {
		a.Claims.Delete(c.Seq)
		return &applied.Claimed{}
	}
	if c.Announced = cmd.Announced; c.Announced {
		for place := range min(cmd.Begins, c.Lines()) {
			c.Begin(place)
		}
	}
	a.openClaim(c)
	t.result.LeaseMs, t.result.Runs, t.result.PayloadBytes = c.Lease.Ms, c.Runs, t.room.bound
	if t.result.Keyed = cmd.Once.Given(); t.result.Keyed {
		d := &row.Done{Seq: a.Now.Seq, At: a.Now.At}
		if before != nil {
			d.Ended = before.Ended
		}
		a.rememberOnce(&cmd.Once, d)
	}
	return t.result
}

// A claim takes jobs from a pending span in three steps: open decides whether to take from the span at all, payloadRoom
// decides how many of its payloads fit, and handOut moves the jobs. Each strategy picks the spans, and the end of a
// span to take jobs from.
