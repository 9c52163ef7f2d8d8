package slots

import (
	"container/list"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// simulation runs a schedule without goroutines, on a simulated clock.
type simulation struct {
	t        testing.TB
	a        *Allocator
	random   *rand.Rand
	clock    int
	shares   []*Share
	lasts    []func() int // per share: the time that a run takes
	callers  [][]*caller  // per share: the waiting callers
	ends     []end
	began    []int // per share: runs that began
	longest  []int // per share: the longest time between two beginnings
	previous []int
	used     int
}

type end struct{ at, share int }

func newSimulation(t testing.TB, total int) *simulation {
	t.Helper()
	a := testkit.Must(New(total))(t)
	return &simulation{t: t, a: a, random: rand.New(rand.NewPCG(1, 2))}
}

// add registers a share whose callers always wait: two more than the share may have runs.
func (s *simulation) add(weight, slots, most int, lasts func() int) {
	s.t.Helper()
	share := testkit.Must(s.a.Register(fmt.Sprintf("share %d", len(s.shares)), weight, slots, most))(s.t)
	s.shares, s.lasts = append(s.shares, share), append(s.lasts, lasts)
	s.callers, s.began, s.longest, s.previous = append(s.callers, nil), append(s.began, 0), append(s.longest, 0), append(s.previous, s.clock)
	s.call(len(s.shares)-1, min(most, s.a.schedule.total)+2)
}

// call adds callers to a share.
func (s *simulation) call(share, n int) {
	for range n {
		c := &caller{granted: make(chan struct{})}
		s.callers[share] = append(s.callers[share], c)
		s.a.schedule.wait(s.shares[share], c)
	}
	s.note()
}

// note records which runs began, and checks the invariants.
func (s *simulation) note() {
	s.t.Helper()
	for i, waiting := range s.callers {
		for len(waiting) > 0 && waiting[0].began {
			waiting = waiting[1:]
			s.began[i]++
			s.longest[i], s.previous[i] = max(s.longest[i], s.clock-s.previous[i]), s.clock
			s.used += s.shares[i].slots
			s.ends = append(s.ends, end{s.clock + s.lasts[i](), i})
		}
		s.callers[i] = waiting
	}
	testkit.MustHold(s.t, s.used <= s.a.schedule.total && s.used+s.a.schedule.free == s.a.schedule.total, s.used, "slots are used and",
		s.a.schedule.free, "free, of", s.a.schedule.total)
}

// step ends the next run, and its caller calls again.
func (s *simulation) step() {
	s.t.Helper()
	next := 0
	for i, e := range s.ends {
		if e.at < s.ends[next].at {
			next = i
		}
	}
	e := s.ends[next]
	s.ends = slices.Delete(s.ends, next, next+1)
	s.clock = e.at
	s.used -= s.shares[e.share].slots
	s.a.schedule.release(s.shares[e.share])
	s.note()
	s.call(e.share, 1)
}

func (s *simulation) steps(n int) {
	s.t.Helper()
	for range n {
		s.step()
	}
}

// slotsOf returns each share's fraction of all slots taken.
func (s *simulation) slotsOf() (parts []float64) {
	total := 0
	for i, n := range s.began {
		total += n * s.shares[i].slots
	}
	for i, n := range s.began {
		parts = append(parts, float64(n*s.shares[i].slots)/float64(total))
	}
	return parts
}

func within(t testing.TB, what string, got, want, relative float64) {
	t.Helper()
	testkit.Holds(t, math.Abs(got-want) <= relative*want, what, fmt.Sprintf("%.4f", got), "not", fmt.Sprintf("%.4f", want))
}

func always(n int) func() int { return func() int { return n } }

// TestWeights: slots are taken in proportion to the weights, within 2 %, however long runs last.
func TestWeights(t *testing.T) {
	for name, c := range map[string]struct {
		total   int
		weights []int
		slots   []int
	}{
		"3 to 1":                   {8, []int{3, 1}, []int{1, 1}},
		"3 to 1 in one slot":       {1, []int{3, 1}, []int{1, 1}},
		"equal, as miniq has them": {10, []int{1, 1, 1, 1, 1}, []int{1, 1, 1, 1, 1}},
		"a large run":              {8, []int{1, 1}, []int{4, 1}},
		"a run of all slots":       {8, []int{1, 1, 2}, []int{8, 1, 1}},
		"many weights":             {16, []int{7, 5, 3, 2, 1}, []int{2, 3, 1, 4, 1}},
		"the highest weight":       {4, []int{1000, 999, 1}, []int{1, 1, 1}},
	} {
		for _, last := range []string{"equal", "random", "by share"} {
			t.Run(name+", "+last, func(t *testing.T) {
				s := newSimulation(t, c.total)
				sum := 0
				for i, w := range c.weights {
					sum += w
					lasts := map[string]func() int{
						"equal": always(10), "random": func() int { return 1 + s.random.IntN(100) }, "by share": always(1 + 7*i),
					}[last]
					s.add(w, c.slots[i], c.total, lasts)
				}
				s.steps(20_000)
				for i, part := range s.slotsOf() {
					want := float64(c.weights[i]) / float64(sum)
					if want < 0.01 {
						continue // too few runs for a precision of 2 %
					}
					within(t, fmt.Sprintf("share %d", i), part, want, 0.02)
				}
			})
		}
	}
}

// TestLargeRuns: a handler whose runs take all 4 slots competes with handlers whose runs take one, and each waits only
// a bounded time.
func TestLargeRuns(t *testing.T) {
	s := newSimulation(t, 4)
	s.add(1, 4, 1, always(10))
	for range 3 {
		s.add(1, 1, 4, func() int { return 5 + s.random.IntN(10) })
	}
	s.steps(10_000)
	for i, part := range s.slotsOf() {
		within(t, fmt.Sprintf("share %d", i), part, 0.25, 0.02)
	}
	testkit.Holds(t, s.longest[0] <= 100, "the large run waited for", s.longest[0])
}

// TestLimitKeepsNothing: a share at its limit is skipped, and the other shares use all slots that its runs leave.
func TestLimitKeepsNothing(t *testing.T) {
	s := newSimulation(t, 5)
	s.add(1000, 4, 1, always(1_000_000)) // without the limit it would always be next
	s.add(1, 1, 100, always(10))
	for range 1000 {
		s.step()
		testkit.MustHold(t, s.a.schedule.free <= 0, s.a.schedule.free, "slots are idle")
	}
	testkit.Holds(t, s.began[0] == 1 && s.began[1] == 1001, s.began, "runs began")
}

// TestKept: free slots are kept for the next share, and only for it.
func TestKept(t *testing.T) {
	s := newSimulation(t, 4)
	s.add(1, 1, 4, always(1))
	s.steps(3)
	s.add(1, 4, 1, always(1))
	for range 20 {
		free := s.a.schedule.free
		next := s.a.schedule.turns[0]
		testkit.MustHold(t, free <= 0 || next == s.shares[1], free, "slots are kept for", next.name)
		s.step()
	}
	testkit.Holds(t, s.began[1] != 0, "the large run never began")
}

// TestNoCredit: a share that waited for nothing, or was at its limit, begins no more than its part afterwards.
func TestNoCredit(t *testing.T) {
	s := newSimulation(t, 1)
	s.add(1, 1, 1, always(1))
	s.steps(1000)
	s.add(1, 1, 1, always(1))
	before := s.began[0]
	s.steps(100)
	if newer, older := s.began[1], s.began[0]-before; newer < 49 || newer > 51 || older < 49 || older > 51 {
		t.Errorf("after a while without callers a share began %d runs, and the other %d", newer, older)
	}

	s = newSimulation(t, 3)
	long := 10_000
	s.add(1, 1, 1, func() int { return long })
	s.add(1, 1, 3, always(1))
	s.steps(1000)
	long = 1
	for s.began[0] < 2 {
		s.step()
	}
	before, s.began[0] = s.began[1], 0
	s.steps(300)
	limited, other := s.began[0], s.began[1]-before
	testkit.Holds(t, limited >= 95 && other >= 195, "after a long run at its limit a share began", limited, "runs, and the other", other)
}

// TestOrder: callers of a share are served in order of arrival.
func TestOrder(t *testing.T) {
	s := newSimulation(t, 2)
	s.add(1, 1, 2, always(1))
	for range 100 {
		all := slices.Clone(s.callers[0])
		s.step()
		for i, c := range all {
			later := all[i+1:]
			testkit.MustHold(t, c.began || !slices.ContainsFunc(later, func(l *caller) bool { return l.began }), "a caller was overtaken")
		}
	}
}

// TestPassesAreLowered: the proportions hold while passes reach their maximum, and no pass exceeds it by more than a
// stride.
func TestPassesAreLowered(t *testing.T) {
	s := newSimulation(t, 8)
	s.add(3, 1, 8, always(3))
	s.add(1, 4, 2, always(5))
	idle := testkit.Must(s.a.Register("idle", 1, 1, 1))(t)
	lowered := 0
	for range 200 {
		far := maxPass - s.a.schedule.now - 50*oneSlot // so that the maximum is reached after some runs
		s.a.schedule.now += far
		for _, share := range s.shares {
			share.pass += far
		}
		idle.pass = int64(s.random.IntN(1 << 30))
		for range 200 {
			now := s.a.schedule.now
			s.step()
			if s.a.schedule.now < now {
				lowered++
			}
			for _, share := range append(slices.Clone(s.shares), idle) {
				testkit.MustHold(t, share.pass >= 0 && share.pass <= maxPass+share.stride &&
					(share.place < 0 || share.pass >= s.a.schedule.now), share.name, "has the pass", share.pass, "and now is", s.a.schedule.now)
			}
		}
	}
	testkit.Holds(t, lowered >= 200, "passes were lowered", lowered, "times")
	parts := s.slotsOf()
	within(t, "weight 3", parts[0], 0.75, 0.02)
	within(t, "weight 1", parts[1], 0.25, 0.02)
}

// model computes in the simplest way which callers have begun, as a check of schedule.
type model struct {
	total  int
	now    int
	shares []*modelShare
}

type modelShare struct {
	weight, slots, most int // weights divide 8, so that passes in eighths are exact
	pass                int
	hadTurn             bool
	running             int
	waiting             []*caller
	began               map[*caller]bool
	gone                bool
}

func (m *model) free() int {
	free := m.total
	for _, s := range m.shares {
		free -= s.running * s.slots
	}
	return free
}

// settle begins runs until the next share's run does not fit.
func (m *model) settle() {
	for {
		var next *modelShare
		for _, s := range m.shares {
			hasTurn := len(s.waiting) > 0 && s.running < s.most
			if hasTurn && !s.hadTurn {
				s.pass = max(s.pass, m.now)
			}
			s.hadTurn = hasTurn
			if hasTurn && (next == nil || s.pass < next.pass) {
				next = s
			}
		}
		if next == nil || next.slots > m.free() {
			return
		}
		m.now = next.pass
		next.pass += 8 * next.slots / next.weight
		next.running++
		next.began[next.waiting[0]] = true
		next.waiting = next.waiting[1:]
	}
}

// TestModel: with random calls, cancellations, releases, registrations and unregistrations, the same runs begin as in
// the model.
func TestModel(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, seed))
		total := 1 + random.IntN(12)
		a := testkit.Must(New(total))(t)
		m := &model{total: total}
		var shares []*Share
		var elements []map[*caller]*list.Element
		for step := range 500 {
			if len(shares) == 0 || len(shares) < 8 && random.IntN(20) == 0 {
				s := &modelShare{weight: 1 << random.IntN(4), slots: 1 + random.IntN(total), most: 1 + random.IntN(4), began: map[*caller]bool{}}
				share := testkit.Must(a.Register("a", s.weight, s.slots, s.most))(t)
				m.shares, shares, elements = append(m.shares, s), append(shares, share), append(elements, map[*caller]*list.Element{})
			}
			i := random.IntN(len(shares))
			s, share := m.shares[i], shares[i]
			switch what := random.IntN(100); {
			case what < 45 && !s.gone:
				c := &caller{granted: make(chan struct{})}
				elements[i][c] = a.schedule.wait(share, c)
				s.waiting = append(s.waiting, c)
			case what < 85 && s.running > 0:
				share.Release()
				s.running--
			case what < 97 && len(s.waiting) > 0:
				at := random.IntN(len(s.waiting))
				a.schedule.leave(share, elements[i][s.waiting[at]])
				s.waiting = slices.Delete(s.waiting, at, at+1)
			case what == 99 && len(shares) > 3:
				share.Unregister()
				s.gone, s.waiting = true, nil
			}
			m.settle()
			for i, s := range m.shares {
				testkit.MustHold(t, shares[i].running == s.running && shares[i].waiting.Len() == len(s.waiting), "seed", seed, "step",
					step, "share", i, "has", shares[i].running, "runs and", shares[i].waiting.Len(), "callers, not", s.running, "and", len(s.waiting))
				for c := range elements[i] {
					testkit.MustEqual(t, c.began, s.began[c], "seed", seed, "step", step, "a caller of share", i, "began")
				}
			}
			free := a.schedule.free
			testkit.MustHold(t, free >= 0 && free == m.free(), "seed", seed, "step", step, free, "slots are free, not", m.free())
		}
	}
}
