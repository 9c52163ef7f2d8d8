package pool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

// member imitates a process.
type member struct {
	class                int
	dead, killed, closed atomic.Bool
	looked               atomic.Int64
}

// rig is a pool with all its members.
type rig struct {
	*testing.T
	*Pool[*member]
	mu      sync.Mutex
	started []*member
}

// closing is the time that it takes to close a member.
const closing = time.Second

func newRig(t *testing.T, most int) *rig {
	r := &rig{T: t}
	r.Pool = New(Options[*member]{
		Most: most, Usable: func(m *member) bool { return !m.dead.Load() }, Kill: func(m *member) { m.killed.Store(true) }, Look: func(m *member) { m.looked.Add(1) },
		Close: func(m *member) {
			time.Sleep(closing) // fake time: every caller is in a bubble
			testkit.Holds(t, !m.closed.Swap(true), "a member was closed twice")
		},
	})
	return r
}

func always() (context.Context, func()) { return context.Background(), func() {} }

// start starts a member of a class.
func (r *rig) start(class int) (*member, error) {
	m := &member{class: class}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = append(r.started, m)
	return m, nil
}

// get acquires a member of a class.
func (r *rig) get(class int) *member {
	r.Helper()
	m, err := r.Acquire(always, func(m *member) bool { return m.class == class }, func() (*member, error) { return r.start(class) })
	testkit.MustHold(r, err == nil && m.class == class && !m.dead.Load() && !m.closed.Load(), m, err)
	return m
}

// end closes the pool, and checks that nothing is left.
func (r *rig) end() {
	r.Helper()
	r.Close()
	r.Close()
	s := r.State()
	testkit.Holds(r, s.Places == 0 && s.Waiting == 0 && len(s.Idle) == 0 && len(s.Busy) == 0, "after Close", s)
	for i, m := range r.started {
		testkit.Holds(r, m.closed.Load(), "member", i, "was not closed")
	}
	testkit.Fails(r.Acquire(always, func(*member) bool { return true }, func() (*member, error) { return r.start(1) }))(r, ErrClosed)
}

func (r *rig) want(idle []*member, busy, places, waiting int) {
	r.Helper()
	synctest.Wait()
	if s := r.State(); !slices.Equal(s.Idle, idle) || len(s.Busy) != busy || s.Places != places || s.Waiting != waiting {
		r.Errorf("%d idle, %d busy, %d places, %d wait; want %d, %d, %d, %d", len(s.Idle), len(s.Busy), s.Places, s.Waiting, len(idle), busy, places, waiting)
	}
}

// TestUsedAgain: the pool reuses the member that was used last, if it fits and is usable.
func TestUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4)
		defer r.end()
		a, b, other := r.get(1), r.get(1), r.get(2)
		r.Release(a, time.Hour)
		r.Release(b, time.Hour)
		r.Release(other, time.Hour)
		r.want([]*member{a, b, other}, 0, 3, 0)
		testkit.Equal(t, r.get(1), b, "another member than the last one")
		a.dead.Store(true)
		c := r.get(1)
		testkit.Holds(t, c != a, "a dead member is used again")
		r.want([]*member{other}, 2, 4, 0)
		b.dead.Store(true)
		r.Release(b, time.Hour)
		r.Release(c, 0)
		time.Sleep(2 * closing)
		r.want([]*member{other}, 0, 1, 0)
	})
}

// TestIdle: an idle member ends after the time that Release set, or when it is no longer usable.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4)
		defer r.end()
		short, long, dies, swept := r.get(1), r.get(2), r.get(3), r.get(4)
		r.Release(short, 10*time.Second)
		r.Release(long, time.Minute)
		r.Release(dies, time.Minute)
		r.Release(swept, time.Minute)
		swept.dead.Store(true)
		r.Sweep()
		r.want([]*member{short, long, dies}, 0, 4, 0)
		dies.dead.Store(true)
		time.Sleep(9 * time.Second)
		r.want([]*member{short, long}, 0, 2, 0)
		time.Sleep(time.Second + lookInterval + closing)
		r.want([]*member{long}, 0, 1, 0)
		n := long.looked.Load()
		testkit.Holds(t, n >= 40, "it was looked at", n, "times")
	})
}

// TestPlaces: there are never more members than Most. An idle member makes room. If all are busy, Acquire waits.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		defer r.end()
		oldest, newer := r.get(1), r.get(2)
		r.Release(oldest, time.Hour)
		r.Release(newer, time.Hour)
		began := time.Now()
		third := r.get(3)
		testkit.Equal(t, time.Since(began), closing, "the place was free after")
		r.want([]*member{newer}, 1, 2, 0)
		newer = r.get(2)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { r.Release(r.get(2), time.Hour) })
		}
		ctx, cancel := context.WithCancel(t.Context())
		freed := false
		all.Go(func() {
			wanted := func() (context.Context, func()) { return ctx, func() { freed = true } }
			testkit.Fails(r.Acquire(wanted, func(*member) bool { return false }, func() (*member, error) { return r.start(4) }))(t, ErrUnwanted)
		})
		r.want(nil, 2, 2, 4)
		cancel()
		r.want(nil, 2, 2, 3)
		testkit.Holds(t, freed, "the context was not freed")
		r.Release(newer, time.Hour) // all three use it, one after another
		all.Wait()
		r.Release(third, 0)
		time.Sleep(closing) // fake time: every caller is in a bubble
		r.want([]*member{newer}, 0, 1, 0)
	})
}

// TestStartFails: a member that does not start leaves its place to the next caller.
func TestStartFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		defer r.end()
		failure := errors.New("no process")
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				_, err := r.Acquire(always, func(*member) bool { return true }, func() (*member, error) {
					time.Sleep(time.Second)
					return nil, failure
				})
				testkit.Failed(t, err, failure)
			})
		}
		all.Wait()
		r.want(nil, 0, 0, 0)
		r.Release(r.get(1), time.Hour)
	})
}

// TestClose: Close kills members that run or start, ends the wait of callers, and waits for all members.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3)
		idle, busy := r.get(1), r.get(2)
		r.Release(idle, time.Hour)
		var all sync.WaitGroup
		all.Go(func() {
			m, err := r.Acquire(always, func(*member) bool { return false }, func() (*member, error) {
				time.Sleep(5 * time.Second)
				return r.start(3)
			})
			testkit.Holds(t, err == nil && m.killed.Load(), "a member that starts", m, err)
			r.Release(m, time.Hour)
		})
		all.Go(func() {
			for !busy.killed.Load() {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(time.Second)
			r.Release(busy, time.Hour)
		})
		synctest.Wait()
		for range 2 {
			all.Go(func() {
				m, err := r.Acquire(always, func(*member) bool { return false }, func() (*member, error) { return r.start(4) })
				if err == nil {
					r.Release(m, 0)
				} else if !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		r.end()
		took := time.Since(began)
		testkit.Holds(t, took >= 5*time.Second, "Close took", took, "and a member took 5 s to start")
		all.Wait()
		testkit.Holds(t, !idle.killed.Load(), "an idle member was killed")
	})
}

// TestRandom: many goroutines share few places. No two use a member at the same time, and no member is lost.
func TestRandom(t *testing.T) {
	seed := rand.Uint64()
	defer func() {
		if t.Failed() {
			fmt.Println("seed", seed)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		const most = 3
		r := newRig(t, most)
		var all sync.WaitGroup
		var users sync.Map // by member
		for n := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, n))
			all.Go(func() {
				for range 50 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(3000))*time.Millisecond)
					class := rng.IntN(5)
					m, err := r.Acquire(func() (context.Context, func()) { return ctx, func() {} }, func(m *member) bool { return m.class == class }, func() (*member, error) {
						if rng.IntN(10) == 0 {
							return nil, errors.New("no process")
						}
						return r.start(class)
					})
					cancel()
					s := r.State()
					testkit.Holds(t, s.Places <= most && len(s.Busy)+len(s.Idle) <= s.Places, s.Places, "places", len(s.Busy), "busy", len(s.Idle), "idle")
					if err != nil {
						continue
					}
					_, used := users.LoadOrStore(m, true)
					testkit.Holds(t, !used && !m.closed.Load(), "a member is used by two, or was closed")
					time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
					m.dead.Store(rng.IntN(10) == 0)
					users.Delete(m)
					r.Release(m, time.Duration(rng.IntN(2000)-200)*time.Millisecond)
				}
			})
		}
		all.Wait()
		r.end()
	})
}
