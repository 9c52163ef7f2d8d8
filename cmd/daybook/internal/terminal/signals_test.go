package terminal

import (
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestWishes: signals within half a second of the first are one wish, and later signals are another.
func TestWishes(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		at    []time.Duration // when the signals arrive
		again int             // which of them is the second wish, counted from 0; -1: none
	}{
		"one":                   {[]time.Duration{0}, -1},
		"a pair":                {[]time.Duration{0, 0}, -1},
		"a pair 2 ms apart":     {[]time.Duration{0, 2 * ms}, -1},
		"five":                  {[]time.Duration{0, 1 * ms, 10 * ms, 100 * ms, 499 * ms}, -1},
		"a second wish":         {[]time.Duration{0, 501 * ms}, 1},
		"a pair, and a second":  {[]time.Duration{0, 2 * ms, 30 * time.Second}, 2},
		"a pair after a minute": {[]time.Duration{0, time.Minute, time.Minute + 2*ms}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				signals := make(chan os.Signal, 2)
				var firsts, agains []os.Signal
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					wishes(signals, func(s os.Signal) { firsts = append(firsts, s) }, func(s os.Signal) { agains = append(agains, s) })
				}()
				began := time.Now()
				for i, at := range c.at {
					time.Sleep(at - time.Since(began))
					synctest.Wait()
					if c.again >= 0 && i > c.again {
						break // wishes has returned
					}
					signals <- syscall.Signal(i + 1)
				}
				synctest.Wait()
				testkit.EqualSlices(t, firsts, []os.Signal{syscall.Signal(1)}, "first was called")
				var want []os.Signal
				if c.again >= 0 {
					want = []os.Signal{syscall.Signal(c.again + 1)}
				}
				testkit.EqualSlices(t, agains, want, "again was called")
				close(signals)
				<-ended
			})
		})
	}
}

// TestWishesOfALateProcess: signals that arrived while the process did not run belong to the first wish.
func TestWishesOfALateProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal, 2)
		signals <- syscall.SIGTERM
		wishes(signals, func(os.Signal) {
			time.Sleep(time.Second) // the machine is busy
			signals <- syscall.SIGTERM
			close(signals)
		}, func(s os.Signal) { t.Errorf("again was called with %s", s) })
	})
}
