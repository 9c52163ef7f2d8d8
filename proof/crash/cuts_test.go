package crash

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/proof/powerfs"
	"github.com/daybookq/daybook/proof/report"
)

// TestPowerCuts cuts the power of the server's disk under load, at random moments, sometimes during a start.
func TestPowerCuts(t *testing.T) {
	l := newLane(t, 2)
	l.powerCuts(*cuts, "power cuts", func(*trial) {})
}

// TestPowerCutsSmall is TestPowerCuts for a server with such small segments, volumes and memtables that it constantly
// begins new ones, flushes, and removes old volumes.
func TestPowerCutsSmall(t *testing.T) {
	l := newLane(t, 3)
	l.powerCuts(*cuts/2, "power cuts of a server with small files", l.useSmallFiles)
}

// powerCuts cuts the power this many times, and some more times if no cut met unsynced data. what names the cuts in the report.
func (l *lane) powerCuts(cuts int, what string, prepare func(*trial)) {
	var unsynced powerfs.Lost
	most := 10 * cuts
	for done := 0; done < cuts; {
		f, dir := l.powerFS()
		f.SetSize(1 << 30)
		s := l.newTrial("cuts", filepath.Join(dir, "data"))
		s.u.badDisk = true
		prepare(s)
		// cut cuts the power at a random moment, no later than after longest.
		cut := func(longest time.Duration) {
			timer := time.NewTimer(l.between(0, longest)) // the load, or a start, continues until the cut
			defer timer.Stop()
			var moment <-chan struct{}
			if n := l.rng.IntN(5); n < 3 {
				latest := []int{200, 15, 100}[n]
				moment = f.CutAt(powerfs.Moment(n), 1+l.rng.IntN(latest), l.rng.Uint64())
			}
			select {
			case <-moment:
			case <-timer.C:
				f.Cut(l.rng.Uint64())
			}
			l.must(s, s.kill())
			f.PowerOn()
			done++
		}
		if l.rng.IntN(2) == 0 { // the very first start
			l.must(s, s.launch())
			cut(60 * time.Millisecond)
		}
		l.must(s, s.start())
		l.must(s, s.firstKey())
		c := newCrowd(s.u, l.load(), "c", l.rng.Uint64())
		s.startErrands(c, 2)
		for n := 0; n < perTrial && done < cuts; n++ {
			longest := 1200 * time.Millisecond
			if l.rng.IntN(25) == 0 && *full {
				longest = 12 * time.Second // longer than the interval of the store's flushes
			}
			if n == 5 { // the cut is at about the time at which runners are lost
				time.Sleep(lossTime + l.between(0, 600*time.Millisecond))
			}
			cut(longest)
			for l.rng.IntN(3) == 0 && done < cuts {
				l.must(s, s.launch())
				cut(80 * time.Millisecond)
			}
			// A start on a failing disk must report this, and the next start must not trust data that this one could not
			// sync.
			if l.rng.IntN(12) == 0 {
				f.FailSyncs(1 + l.rng.IntN(3))
				if s.start() != nil {
					l.must(s, s.says("input/output error"))
					f.FailSyncs(0)
				}
				if l.rng.IntN(2) == 0 {
					cut(time.Millisecond)
				} else {
					l.must(s, s.kill())
				}
			}
			l.must(s, s.start())
			// Under load the server keeps running, or ends with a reason in its log. The next cut then starts it again.
			if l.rng.IntN(10) == 0 && n+1 < perTrial && done < cuts {
				time.Sleep(l.between(0, 300*time.Millisecond))
				f.FailSyncs(1 + l.rng.IntN(3))
			}
		}
		l.awaitLoad(s, c, 1)
		time.Sleep(l.between(0, 300*time.Millisecond))
		c.end()
		l.finish(s)
		report.Add(&unsynced, f.Unsynced())
		if done >= cuts && cuts < most && (unsynced.Names == 0 || unsynced.Sectors == 0) {
			cuts += perTrial // a few cuts may all have met a disk without unsynced data
		}
		l.progress("%d of %d cuts, unsynced at them %+v, %d jobs, %d operations checked", done, cuts, unsynced, l.tally.Jobs, l.tally.Operations)
	}
	testkit.Holds(l, unsynced.Names != 0 &&
		unsynced.Sectors != 0, "nothing was unsynced at any of", cuts, "cuts, so they prove nothing", unsynced)
	l.mustChain()
	l.mustLose()
	l.report(fmt.Sprintf("%d %s, at which %d sectors of %d files and %d changes of names were unsynced", cuts, what, unsynced.Sectors, unsynced.Files, unsynced.Names))
}
