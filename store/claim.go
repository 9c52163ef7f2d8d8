package store

import (
	"math"

	"github.com/daybookq/daybook/job"
)

// claimJobs carries out a claim, unless it repeats one.
func (a *applying) claimJobs(cmd job.Claim) *Claimed {
	var before *done // its completions
	if cmd.Once.Given() {
		var again *Claimed
		if again, before = a.past().claimed(&cmd.Once); again != nil {
			return again
		}
	}
	if a.meta.stopped {
		return &Claimed{}
	}
	c := &claim{seq: a.now.Seq, at: a.now.At, runner: cmd.Runner}
	c.lease = job.Lease{Seq: a.now.Seq, At: a.now.At, Ms: cmd.LeaseMs}
	a.claims.Set(c.seq, c)
	t := claiming{
		applying: a, cmd: &cmd, c: c, result: &Claimed{Claim: c.id(), Seq: c.seq, runner: c.runner},
		choice: a.queues.choice(cmd.Clients, cmd.Types), left: cmd.Max, room: payloadRoom{limit: cmd.MaxBytes},
		rows: a.o.Writes() + a.rules.claimRows, looks: a.rules.claimRows, ahead: cmd.Max + aheadSpans, pairs: job.MaxClaimNames * job.MaxClaimNames,
	}
	t.contest = newContest(a.queues.scopes(t.choice))
	switch cmd.Strategy {
	case job.Oldest:
		for t.takeHead(t.contest.all().head, math.MaxInt) {
		}
	case job.Newest:
		for t.takeTail(t.contest.all().tail) {
		}
	case job.Random:
		t.drawAll()
	case job.Fair:
		t.serveInTurn()
	default:
		t.takeDistinct()
	}
	if len(c.runs) == 0 {
		a.claims.Delete(c.seq)
		return &Claimed{}
	}
	if c.announced = cmd.Announced; c.announced {
		for place := range min(cmd.Begins, c.lines()) {
			c.begin(place)
		}
	}
	a.openClaim(c)
	t.result.LeaseMs, t.result.Runs, t.result.PayloadBytes = c.lease.Ms, c.runs, t.room.bound
	if t.result.Keyed = cmd.Once.Given(); t.result.Keyed {
		d := &done{seq: a.now.Seq, at: a.now.At}
		if before != nil {
			d.ended = before.ended
		}
		a.rememberOnce(&cmd.Once, d)
	}
	return t.result
}

// A claim takes jobs from a pending span in three steps: open decides whether to take from the span at all, payloadRoom
// decides how many of its payloads fit, and handOut moves the jobs. Each strategy picks the spans, and the end of a
// span to take jobs from.
