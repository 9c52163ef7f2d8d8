package crash

import (
	"fmt"
	"testing"
	"time"
)

// TestStops freezes the server for longer than its leases, as SIGSTOP, a laptop's lid or a hypervisor does. Whoever held jobs then must
// still hold them: nobody could tickle.
func TestStops(t *testing.T) {
	l := newLane(t, 4)
	stops := 1
	if *full {
		stops = 15
	}
	l.stops(stops)
	l.report(fmt.Sprint(stops, " stops by SIGSTOP"))
}

func (l *lane) stops(stops int) {
	s := l.stage("stops", l.TempDir())
	l.must(s, s.start())
	load := standardLoad
	load.longLeases = true
	c := newCrowd(s.u, load, "s", l.rng.Uint64())
	defer c.end()
	for n := range stops {
		time.Sleep(l.between(0, time.Second)) // of load
		var held []*grant
		began := time.Now()
		claimed := began // before the first
		for len(held) < 4 {
			if time.Since(claimed) > time.Second { // there was little to claim
				held, claimed = nil, time.Now()
			}
			if time.Since(began) > 30*time.Second {
				l.must(s, fmt.Errorf("stop %d: there is nothing to claim", n))
			}
			g, r, err := s.u.claim(c.ctx, wish{runner: "holder", max: 10 + l.rng.IntN(40), waitMs: 200})
			if err != nil || r.open() {
				l.must(s, fmt.Errorf("claim: %v, %+v", err, r))
			}
			if !g.empty() {
				held = append(held, g)
			}
		}
		if l.rng.IntN(2) == 0 { // close to the end of their leases
			time.Sleep(time.Until(claimed.Add(l.between(1500*time.Millisecond, 2300*time.Millisecond))))
		}
		l.must(s, s.server.Freeze())
		s.h.still()
		longest := 3 * time.Second
		if n%5 == 4 {
			longest = 10 * time.Second
		}
		time.Sleep(l.between(2800*time.Millisecond, longest))
		s.h.live()
		l.must(s, s.server.Thaw())
		for i, g := range held {
			if i == 0 { // at once; the others when the server has come to itself
				c.insist(nil, func() (*reply, error) { return s.u.tickle(c.ctx, g) })
			}
			if i > 1 {
				time.Sleep(l.between(0, 700*time.Millisecond))
			}
			r, err := s.u.endAll(c.ctx, g, outcome{code: "ok"})
			if err != nil || !r.ok() {
				l.must(s, fmt.Errorf("stop %d: what was held is lost: %v, %+v", n, err, r))
			}
		}
		// A short stop is none that the server must make up for; it must do no harm.
		l.must(s, s.server.Freeze())
		time.Sleep(l.between(0, 1500*time.Millisecond))
		l.must(s, s.server.Thaw())
		if l.rng.IntN(3) == 0 { // killed while it is stopped
			l.must(s, s.server.Freeze())
			l.must(s, s.kill())
			l.must(s, s.start())
		}
		l.progress("%d of %d stops", n+1, stops)
	}
	c.end()
	l.finish(s)
}
