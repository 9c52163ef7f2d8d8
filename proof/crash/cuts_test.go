package crash

import (
	"path/filepath"
	"testing"
	"time"
)

// TestPowerCuts cuts the power of the server's disk under load, at any moment, also while it starts.
func TestPowerCuts(t *testing.T) {
	l := newLane(t, 2)
	for done := 0; done < *cuts; {
		f, dir := l.powerFS()
		s := l.stage("cuts", filepath.Join(dir, "data"))
		cut := func() {
			f.Cut(l.rng.Uint64())
			l.must(s, s.kill())
			f.PowerOn()
			done++
		}
		if l.rng.IntN(2) == 0 { // the very first start
			l.must(s, s.launch())
			time.Sleep(l.between(0, 60*time.Millisecond))
			cut()
		}
		l.must(s, s.start())
		c := newCrowd(s.u, standardLoad, "c", l.rng.Uint64())
		for n := 0; n < perStage && done < *cuts; n++ {
			time.Sleep(l.between(10*time.Millisecond, 900*time.Millisecond)) // of load: when the cut comes is the point
			cut()
			for l.rng.IntN(3) == 0 && done < *cuts {
				l.must(s, s.launch())
				time.Sleep(l.between(0, 80*time.Millisecond))
				cut()
			}
			if l.rng.IntN(20) == 0 {
				f.FailSyncs(1 + l.rng.IntN(3))
			}
			l.must(s, s.start())
		}
		time.Sleep(l.between(0, 300*time.Millisecond))
		c.end()
		l.finish(s)
		l.progress("%d of %d cuts, %+v, %d jobs, %d operations checked", done, *cuts, f.Unsynced(), l.tally.Jobs, l.tally.Operations)
	}
	l.report("power cuts")
}
