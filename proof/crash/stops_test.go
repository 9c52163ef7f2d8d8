package crash

import (
	"fmt"
	"testing"
	"time"

	"github.com/daybookq/daybook/bench/rig"
)

// TestStops freezes the server for longer than its leases, as SIGSTOP, a closed laptop or a hypervisor does. Runners that
// held jobs must still hold them, since they could not tickle.
func TestStops(t *testing.T) {
	l := newLane(t, 4)
	stops := inFull(15, 1)
	l.stops(stops)
	l.report(fmt.Sprint(stops, " stops by SIGSTOP"))
}

func (l *lane) stops(stops int) {
	s := l.newTrial("stops", l.TempDir())
	l.must(s, s.start())
	l.must(s, s.firstKey())
	load := standardLoad
	load.longLeases, load.operators = true, 0 // so that nobody cancels a held job
	c := newCrowd(s.u, load, "s", l.rng.Uint64())
	s.startErrands(c, 2)
	s.waitIdle = *full
	defer c.end()
	tried := 0
	for n := 0; n < stops; tried++ {
		if tried > 3*stops+5 {
			l.must(s, undecided("of %d stops %d said something: leases run out between the steps of this test", tried, n))
		}
		time.Sleep(l.between(0, time.Second)) // under load
		held := l.claimSome(s, c)
		if l.rng.IntN(2) == 0 { // close to the end of the leases
			time.Sleep(time.Duration(held[0].call) + l.between(1500*time.Millisecond, 2300*time.Millisecond) - time.Duration(s.h.now()))
		}
		l.must(s, rig.Freeze(s.server))
		s.h.serverFrozen()
		longest := 3 * time.Second
		if n%5 == 4 {
			longest = 10 * time.Second
		}
		time.Sleep(l.between(2800*time.Millisecond, longest))
		s.h.serverStarted()
		l.must(s, rig.Thaw(s.server))
		decided := 0
		for i, g := range held {
			if i == 0 { // immediately; the later ones when the server has noticed the stop
				c.retry(nil, func() (*reply, error) { return s.u.tickle(c.ctx, g) })
			}
			if i > 1 {
				time.Sleep(l.between(0, 700*time.Millisecond))
			}
			r, err := s.u.endAll(c.ctx, g, outcome{code: "ok"})
			switch {
			case err == nil && r.ok():
				decided++
			case err == nil && r.problem.Code == "claim_lost" && s.mayHaveLapsed(g, r.ret): // the test was too slow
			default:
				l.must(s, fmt.Errorf("stop %d: the jobs held since %v were taken away: %v, %+v", n, time.Duration(g.call), err, r))
			}
		}
		if decided > 0 {
			n++
		}
		// After a short stop, the server need not renew leases. The stop must do no harm.
		l.must(s, rig.Freeze(s.server))
		time.Sleep(l.between(0, 1500*time.Millisecond))
		l.must(s, rig.Thaw(s.server))
		if l.rng.IntN(3) == 0 { // killed while it is stopped
			l.must(s, rig.Freeze(s.server))
			l.must(s, s.kill())
			l.must(s, s.start())
		}
		l.progress("%d of %d stops", n, stops)
	}
	if tried > stops {
		l.Logf("%d stops did not count, since the leases ran out between the steps of this test", tried-stops)
	}
	c.end()
	l.finish(s)
}

// claimSome claims up to four times within a second, or less often on a slow machine.
func (l *lane) claimSome(s *trial, c *crowd) (held []*grant) {
	for began := time.Now(); len(held) < 4; {
		if len(held) > 0 && s.h.now()-held[0].call > int64(time.Second) {
			return held
		}
		if time.Since(began) > maxWait {
			l.must(s, undecided("there is nothing to claim after %v", maxWait))
		}
		g, r, err := s.u.claim(c.ctx, claimRequest{runner: "holder", max: 10 + l.rng.IntN(40), waitMs: 200})
		if err != nil || r.open() {
			l.must(s, fmt.Errorf("claim: %v, %+v", err, r))
		}
		if !g.empty() {
			held = append(held, g)
		}
	}
	return held
}

// mayHaveLapsed reports whether the leases of a grant of this lane may have run out by now, by the clock of the history.
func (s *trial) mayHaveLapsed(g *grant, now int64) bool {
	return s.h.mayLapse(g.call, longLease*ms, now)
}
