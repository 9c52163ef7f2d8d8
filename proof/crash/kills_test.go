package crash

import (
	"fmt"
	"testing"
	"time"
)

// perTrial is how many times a server is killed before all its data is read. The next kills use a new data directory.
const perTrial = 25

// TestKills ends the server with SIGKILL at random moments, under load and now and then during a start.
func TestKills(t *testing.T) {
	l := newLane(t, 1)
	for killed := 0; killed < *kills; {
		s := l.newTrial("kills", t.TempDir())
		l.must(s, s.start())
		l.must(s, s.firstKey())
		c := newCrowd(s.u, standardLoad, "k", l.rng.Uint64())
		s.startErrands(c, 2)
		l.awaitLoad(s, c, 1)
		for range min(perTrial, *kills-killed) {
			if killed%8 == 1 { // the kill is at about the time at which runners are lost
				time.Sleep(lossTime + 200*time.Millisecond)
			}
			time.Sleep(l.between(20*time.Millisecond, 900*time.Millisecond)) // the load continues until the kill
			l.must(s, s.kill())
			killed++
			for l.rng.IntN(4) == 0 && killed < *kills {
				l.must(s, s.launch())
				time.Sleep(l.between(0, 60*time.Millisecond))
				l.must(s, s.kill())
				killed++
			}
			l.must(s, s.start())
		}
		l.awaitLoad(s, c, 1)
		time.Sleep(l.between(0, 300*time.Millisecond))
		c.end()
		s.waitIdle = *full && killed >= *kills
		l.finish(s)
		l.progress("%d of %d kills, %d jobs, %d operations checked", killed, *kills, l.tally.Jobs, l.tally.Operations)
	}
	l.mustChain()
	l.mustLose()
	l.report(fmt.Sprint(*kills, " kills by SIGKILL"))
}
