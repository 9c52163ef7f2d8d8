package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/daybookq/daybook/ingest/registry"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// heartbeatEvery is so short that a runner is lost while its leases, of one to six seconds, still run.
const heartbeatEvery = 600 * time.Millisecond

// heartbeat reports that a runner is alive. A runner that was declared lost returns with a new instance. It drops its
// claims, as it should, or continues with them: then the server must refuse its reports.
func (u *user) heartbeat(r *runner) {
	if u.s.isGone() {
		return
	}
	info := registry.Info{Instance: fmt.Sprint(r.instance)}
	switch _, _, err := u.s.engine.Heartbeat(r.name, info, u.random.IntN(10) == 0); {
	case errors.Is(err, registry.ErrLost):
		r.instance++
		u.s.log("%s was lost, and goes on as instance %d", r.name, r.instance)
		if u.random.IntN(3) == 0 {
			r.held, r.numbers = nil, newNumbering()
		}
	case err != nil:
		u.unexpected("heartbeat", err)
	case u.random.IntN(100) == 0:
		u.unexpected("goodbye", u.s.engine.Goodbye(r.name, info.Instance))
	}
}

// claimant is the runner that made a claim.
type claimant struct {
	runner string
	seq    uint64 // of the claim
	idle   map[job.ID]bool
}

// mayNotHaveBegun returns the jobs of a claim whose runs did not begin with it: if the runner is lost, their attempts
// need not count. If the runner does not announce its runs, the runs of all jobs began with the claim.
func mayNotHaveBegun(c *job.Claim, answer *applied.Claimed, docs []job.Job) map[job.ID]bool {
	if !c.Announced {
		return nil
	}
	idle := map[job.ID]bool{}
	for i := range docs {
		if i >= c.Begins || answer.Replayed { // in a repeated answer, the first jobs may not be the first of the claim
			idle[docs[i].ID] = true
		}
	}
	return idle
}

// runnerLost applies the loss of a runner at its place in the journal: from then on other runners may get its jobs, and
// the server may refuse it. Nobody knows which jobs the command returned, since one command returns a bounded number.
func (u *audit) runnerLost(o operation, lost job.LoseRunner) {
	for claim, by := range u.claimants {
		if by.runner != lost.Runner || by.seq > lost.Through {
			continue
		}
		for id := range u.claims[claim] {
			if l := u.of(id); l.holder == claim {
				l.deadline, l.ungot, l.mayBeLost = min(l.deadline, o.at), l.ungot || by.idle[id], true
			}
		}
		for _, id := range u.movedClaims[claim] {
			if s := u.movedOf(id); s.claim == claim {
				s.deadline, s.ungot = min(s.deadline, o.at), s.ungot || by.idle[id]
			}
		}
	}
}
