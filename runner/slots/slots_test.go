package slots

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

func register(t testing.TB, a *Allocator, weight, slots, most int) *Share {
	t.Helper()
	return testkit.Must(a.Register("mail", weight, slots, most))(t)
}

func newAllocator(t testing.TB, total int) *Allocator { t.Helper(); return testkit.Must(New(total))(t) }

func TestBounds(t *testing.T) {
	for _, total := range []int{-1, 0, MaxSlots + 1} {
		_, err := New(total)
		testkit.Holds(t, err != nil, total, "slots are accepted")
	}
	a := newAllocator(t, 4)
	for what, c := range map[string][3]int{
		"weight":                              {0, 1, 1},
		"weight must":                         {MaxWeight + 1, 1, 1},
		"at least one slot":                   {1, 0, 1},
		"takes 5 slots, and the runner has 4": {1, 5, 1},
		"at least one run":                    {1, 1, 0},
	} {
		_, err := a.Register("mail", c[0], c[1], c[2])
		testkit.Holds(t, err != nil && strings.Contains(err.Error(), "mail") && strings.Contains(err.Error(), what), c, err)
	}
	register(t, a, MaxWeight, 4, 1<<40)
	largest := register(t, newAllocator(t, MaxSlots), 1, MaxSlots, 1)
	testkit.Holds(t, largest.stride <= maxPass, "a stride of", largest.stride, "can overflow")
	defer func() { testkit.Contains(t, fmt.Sprint(recover()), "mail") }()
	register(t, a, 1, 1, 1).Release()
}

// TestAcquire: callers wait for slots, for their turn, and for their share's limit.
func TestAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAllocator(t, 4)
		small, large := register(t, a, 1, 1, 10), register(t, a, 1, 4, 1)
		for range 4 {
			testkit.NoError(t, small.Acquire(t.Context()))
		}
		var began []string
		var calls sync.WaitGroup
		acquire := func(name string, s *Share) {
			calls.Go(func() { testkit.Check(t, s.Acquire(t.Context())); began = append(began, name) })
			synctest.Wait()
		}
		expect := func(want string) {
			t.Helper()
			synctest.Wait()
			testkit.Equal(t, strings.Join(began, " "), want, "began")
		}
		acquire("large 1", large)
		acquire("small 5", small)
		acquire("large 2", large)
		expect("")
		for range 3 {
			small.Release()
			expect("") // the slots are kept
		}
		small.Release()
		expect("large 1") // it has begun fewer slots than small
		large.Release()
		expect("large 1 small 5")
		small.Release()
		expect("large 1 small 5 large 2")
		large.Release()
		calls.Wait()
		testkit.Equal(t, a.schedule.free, 4, "slots are free")
	})
}

// TestCancel: if the caller that is next gives up, the slots that were kept for it are used immediately.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAllocator(t, 2)
		small, large := register(t, a, 1, 1, 10), register(t, a, 100, 2, 1)
		testkit.NoError(t, small.Acquire(t.Context()))
		gaveUp := errors.New("gave up")
		ctx, cancel := context.WithCancelCause(t.Context())
		results := make(chan error, 2)
		go func() { results <- large.Acquire(ctx) }()
		synctest.Wait()
		go func() { results <- small.Acquire(t.Context()) }()
		synctest.Wait()
		if len(results) > 0 {
			t.Fatalf("a run began beside kept slots: %v", <-results)
		}
		cancel(gaveUp)
		first, second := <-results, <-results
		testkit.Holds(t, first == gaveUp && second == nil || first == nil && second == gaveUp, first, "and", second)
		testkit.Equal(t, small.Acquire(ctx), gaveUp, "a call whose context has ended")
		testkit.Holds(t, small.running == 2 && large.running == 0, small.running, "and", large.running, "runs")
	})
}

func TestUnregister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAllocator(t, 2)
		old, next := register(t, a, 100, 2, 5), register(t, a, 1, 1, 5)
		testkit.NoError(t, old.Acquire(t.Context()))
		waits, begins := make(chan error, 3), make(chan error, 2)
		for range 3 {
			go func() { waits <- old.Acquire(t.Context()) }()
		}
		synctest.Wait()
		go func() { begins <- next.Acquire(t.Context()) }()
		synctest.Wait()
		old.Unregister()
		old.Unregister()
		for range 3 {
			testkit.Equal(t, <-waits, ErrUnregistered)
		}
		testkit.Equal(t, old.Acquire(t.Context()), ErrUnregistered)
		synctest.Wait()
		testkit.Holds(t, len(begins) == 0, "the slots of a run of an unregistered share were used")
		old.Release()
		testkit.Check(t, <-begins)
		testkit.Holds(t, len(a.schedule.shares) == 1 && a.schedule.free == 1, len(a.schedule.shares), "shares", a.schedule.free, "free slots")
	})
}

// TestNoLostWakeUps: goroutines acquire and release, some with contexts that end at random moments. All of them finish,
// and they never use more slots than there are.
func TestNoLostWakeUps(t *testing.T) {
	const total = 7
	a := newAllocator(t, total)
	var used, cancelled, did atomic.Int64
	var callers sync.WaitGroup
	for i := range 12 {
		slots, most := 1+i%total, 1+i%3
		share := register(t, a, 1+i, slots, most)
		var runs atomic.Int64
		for g := range 6 {
			callers.Go(func() {
				random := rand.New(rand.NewPCG(uint64(i), uint64(g)))
				for range 150 {
					ctx, cancel := t.Context(), context.CancelFunc(func() {})
					if random.IntN(3) == 0 {
						ctx, cancel = context.WithTimeout(ctx, time.Duration(random.IntN(300))*time.Microsecond)
					}
					err := share.Acquire(ctx)
					cancel()
					if err != nil {
						cancelled.Add(1)
						continue
					}
					n := used.Add(int64(slots))
					testkit.Holds(t, n <= total, n, "slots are used")
					n = runs.Add(1)
					testkit.Holds(t, n <= int64(most), n, "runs at a time of at most", most)
					if random.IntN(4) == 0 {
						time.Sleep(time.Duration(random.IntN(50)) * time.Microsecond) // real time: varies the order of events
					}
					runs.Add(-1)
					used.Add(int64(-slots))
					did.Add(1)
					share.Release()
				}
			})
		}
	}
	callers.Wait()
	testkit.Holds(t, a.schedule.free == total && len(a.schedule.turns) == 0, a.schedule.free, "slots are free",
		len(a.schedule.turns), "shares have a turn")
	testkit.Holds(t, did.Load()+cancelled.Load() == 12*6*150 && did.Load() >= 1000, did.Load(), "runs", cancelled.Load(), "cancelled calls")
	t.Logf("%d runs, %d cancelled calls", did.Load(), cancelled.Load())
}

// TestManyShares: 10,000 handlers that all wait share 10 slots.
func TestManyShares(t *testing.T) {
	a := newAllocator(t, 10)
	var callers sync.WaitGroup
	for i := range 10_000 {
		share := register(t, a, 1+i%5, 1+i%10, 1)
		callers.Go(func() {
			for range 3 {
				if err := share.Acquire(t.Context()); err != nil {
					t.Error(err)
					return
				}
				share.Release()
			}
		})
	}
	callers.Wait()
	testkit.Equal(t, a.schedule.free, 10, "slots are free")
}
