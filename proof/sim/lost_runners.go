package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/registry"
)

// heartbeatEvery is so short that a runner is lost while its leases, of one to six seconds, still run.
const heartbeatEvery = 600 * time.Millisecond

// heartbeat reports that a runner is alive. A runner that was declared lost comes back with a new instance. It drops its
// claims, as it should, or goes on with them: then the server must refuse what it reports.
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

// claimant is who made a claim.
type claimant struct {
	runner string
	seq    uint64 // of the claim
}

// runnerLost applies the loss of a runner at its place in the journal: other runners may get its jobs from then on, and
// it may be refused. Which jobs the command returned is not known, since one command returns a bounded number.
func (u *audit) runnerLost(o operation, lost job.LoseRunner) {
	for claim, by := range u.claimants {
		if by.runner != lost.Runner || by.seq > lost.Through {
			continue
		}
		for id := range u.claims[claim] {
			if l := u.of(id); l.holder == claim {
				l.deadline = min(l.deadline, o.at)
			}
		}
		for _, id := range u.movedClaims[claim] {
			if s := u.movedOf(id); s.claim == claim {
				s.deadline = min(s.deadline, o.at)
			}
		}
	}
}
