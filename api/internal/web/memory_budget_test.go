package web

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

func TestLane(t *testing.T) {
	const large = SmallShareBytes + 1
	inTime := func(t *testing.T, test func(t *testing.T)) { t.Helper(); synctest.Test(t, test) }
	// grown starts to grow a share, waits until all goroutines are blocked, and reports whether the share has grown.
	grown := func(t *testing.T, s *Share, n int64) *bool {
		given := new(bool)
		go func() { *given = s.Grow(t.Context(), n, time.Second) }()
		synctest.Wait()
		return given
	}
	t.Run("in order of arrival", func(t *testing.T) {
		inTime(t, func(t *testing.T) {
			b := NewLane("", 10*large)
			var one, two, three Share
			one.Lane, two.Lane, three.Lane = b, b, b
			testkit.MustHold(t, one.Grow(t.Context(), 8*large, time.Second), "the first is not given")
			second := grown(t, &two, 2*large)
			third := grown(t, &three, large/2+large)
			testkit.Holds(t, !*second && !*third, "more is given than there is")
			one.Release()
			synctest.Wait()
			testkit.Holds(t, *second && *third && b.Used() == 2*large+large/2+large, *second, *third, b.Used(), "used")
		})
	})
	t.Run("small ones do not wait for large ones", func(t *testing.T) {
		inTime(t, func(t *testing.T) {
			b := NewLane("", 80*large)
			one, two, small := Share{Lane: b}, Share{Lane: b}, Share{Lane: b}
			one.Grow(t.Context(), 70*large, 0)
			testkit.Holds(t, !*grown(t, &two, large), "a large one is given what is for small ones")
			testkit.Holds(t, small.Grow(t.Context(), SmallShareBytes, 0), "the small one waits")
		})
	})
	t.Run("one that gives up lets those after it pass", func(t *testing.T) {
		inTime(t, func(t *testing.T) {
			b := NewLane("", 100*large)
			one, two, three := Share{Lane: b}, Share{Lane: b}, Share{Lane: b}
			one.Grow(t.Context(), 60*large, 0)
			second := grown(t, &two, 80*large)
			given := false
			go func() { given = three.Grow(t.Context(), 20*large, 2*time.Second) }()
			time.Sleep(1500 * time.Millisecond) // fake time
			synctest.Wait()
			testkit.Holds(t, !*second && given, *second, given)
		})
	})
	t.Run("shares that wait for each other all end", func(t *testing.T) {
		inTime(t, func(t *testing.T) {
			b := NewLane("", 10*large)
			var done sync.WaitGroup
			for range 20 {
				done.Go(func() {
					s := Share{Lane: b}
					defer s.Release()
					for range 8 {
						if !s.Grow(t.Context(), large, time.Second) {
							t.Error("not given")
							return
						}
						time.Sleep(time.Millisecond)
					}
				})
			}
			for range 20 {
				time.Sleep(time.Millisecond)
				used := b.Used()
				testkit.Holds(t, used <= 18*large, used, "used of", 10*large)
			}
			done.Wait()
			testkit.Holds(t, b.Used() == 0 && b.oldest == nil && len(b.peers) == 0, b.Used(), "used at the end")
		})
	})
	t.Run("one address gets half", func(t *testing.T) {
		inTime(t, func(t *testing.T) {
			b := NewLane("", 100*large)
			first := Share{Lane: b}
			first.Grow(t.Context(), large, 0)
			here, there := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
			one, two, other := Share{Lane: b, Peer: here}, Share{Lane: b, Peer: here}, Share{Lane: b, Peer: there}
			testkit.MustHold(t, one.Grow(t.Context(), 50*large, 0), "half is not given")
			second := grown(t, &two, large)
			third := grown(t, &other, 20*large)
			testkit.Holds(t, !*second && *third, *second, *third)
			one.Shrink(large)
			synctest.Wait()
			testkit.Holds(t, *second, "not given although there is room")
		})
	})
	t.Run("at random", func(t *testing.T) {
		inTime(t, func(t *testing.T) {
			const total = 40 * large
			b := NewLane("", total)
			peers := []netip.Addr{{}, netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")}
			var done sync.WaitGroup
			for seed := range uint64(200) {
				done.Go(func() {
					r := rand.New(rand.NewPCG(1, seed))
					s := Share{Lane: b, Peer: peers[seed%3]}
					for range r.IntN(8) {
						time.Sleep(time.Duration(r.IntN(5)) * time.Millisecond)
						if !s.Grow(t.Context(), 1+r.Int64N(large), time.Duration(r.IntN(2000))*time.Millisecond) {
							break
						}
						used := b.Used()
						testkit.Holds(t, used <= total+8*large, used, "used of", total)
					}
					s.Release()
				})
			}
			done.Wait()
			testkit.Holds(t, b.Used() == 0 && b.oldest == nil && b.newest == nil && len(b.peers)+len(b.waiting[0])+len(b.waiting[1]) == 0,
				b.Used(), "used at the end", len(b.waiting[0])+len(b.waiting[1]), "waiting")
		})
	})
}
