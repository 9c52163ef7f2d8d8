package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
)

// names returns n names that begin with prefix.
func names(prefix string, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("%s%d", prefix, i))
	}
	return out
}

// fakeQueues are queues with a number of pending jobs.
type fakeQueues map[queueName]int64

func (f fakeQueues) Pending(client, typ string) (int64, bool) { return f[queueName{client, typ}], true }

func (f fakeQueues) Ready(clients, types []string, visit func(client, typ string, pending int64) bool) {
	for q, n := range f {
		if n > 0 && (len(clients) == 0 || slices.Contains(clients, q.client)) && (len(types) == 0 || slices.Contains(types, q.typ)) && !visit(q.client, q.typ, n) {
			return
		}
	}
}

func (f fakeQueues) ReadyQueues(string, string) (ready []document.Readied, _, _ string) {
	for q, n := range f {
		ready = append(ready, document.Readied{Client: q.client, Type: q.typ, Pending: n})
	}
	return ready, "", ""
}

// line is a line of claims and its queues.
type line struct {
	*parkedClaims
	queues fakeQueues
}

func newLine() line { queues := fakeQueues{}; return line{newParkedClaims(queues), queues} }

// parkFor parks a new claim.
func (l line) parkFor(clients, types []string, max int) *parkedClaim {
	p, _ := l.park(l.enter(), job.Owner{}, &job.Claim{Clients: clients, Types: types, Max: max})
	return p
}

// wakes returns the tickets of the given claims that are woken when a queue has this many jobs that are not offered. It
// ends their offers.
func (l line) wakes(q queueName, jobs int64, claims []*parkedClaim) (tickets []uint64) {
	l.queues[q] = jobs
	l.wakeFor(q)
	l.queues[q] = 0
	for _, c := range claims {
		select {
		case o := <-c.woken:
			l.end(o)
			tickets = append(tickets, c.ticket)
		default:
		}
	}
	return tickets
}

// TestParkedClaimsWakeInOrder: the oldest claims that accept the jobs of a queue are woken, whatever else they accept,
// until the woken claims may take all of the jobs.
func TestParkedClaimsWakeInOrder(t *testing.T) {
	l := newLine()
	var claims []*parkedClaim
	park := func(clients, types []string, max int) { claims = append(claims, l.parkFor(clients, types, max)) }
	park(nil, nil, 1)                                                 // 1
	park([]string{"a"}, nil, 2)                                       // 2
	park(nil, []string{"y"}, 1)                                       // 3: does not accept x
	park([]string{"a", "b"}, []string{"x", "z"}, 1)                   // 4
	park([]string{"b", "a", "a"}, []string{"z", "x"}, 1)              // 5: the same interest as 4
	park(append(names("c", 50), "a"), append(names("t", 50), "x"), 5) // 6: 2601 pairs
	park(nil, []string{"x"}, 1)                                       // 7
	park([]string{"b"}, []string{"x"}, 1)                             // 8: another client than a
	at := queueName{"a", "x"}
	for _, step := range []struct {
		jobs int64
		want string
	}{{1, "[1]"}, {2, "[2]"}, {1, "[4]"}, {3, "[5 6]"}, {9, "[7]"}, {9, "[]"}} {
		testkit.MustEqual(t, fmt.Sprint(l.wakes(at, step.jobs, claims)), step.want, step.jobs, "jobs woke")
	}
	for _, c := range claims {
		l.leave(c)
	}
	if in := &l.interests; l.n.Load() != 0 || in.places.All() != 0 || len(in.byKey) != 0 || len(in.byQueue) != 0 || in.wide.Len() != 0 || len(l.offered) != 0 {
		t.Errorf("all have left, and %d claims, %d places, %d interests, %d lists, %d wide interests, offers %v are there",
			l.n.Load(), in.places.All(), len(in.byKey), len(in.byQueue), in.wide.Len(), l.offered)
	}
}

// TestParkedClaimsLeave: the place of an interest depends on its oldest claim, whichever claims leave.
func TestParkedClaimsLeave(t *testing.T) {
	l := newLine()
	a, b, c := l.parkFor(nil, nil, 1), l.parkFor([]string{"a"}, nil, 1), l.parkFor(nil, nil, 1)
	l.leave(a)
	at := queueName{"a", "x"}
	testkit.MustEqual(t, fmt.Sprint(l.wakes(at, 1, []*parkedClaim{b, c})), "[2]", "woken")
	l.queues[at] = 1
	l.wakeFor(at)
	l.leave(c)
	testkit.Holds(t, len(l.offered) == 0, "a claim left after it was woken: offers", l.offered)
	d := l.parkFor(nil, nil, 1)
	count(l.offered, at, 1)
	l.endApplied(offer{queue: at, n: 1}) // committed is called later, once for many claims
	l.leave(b)
	l.leave(d)
	l.committed(nil, true)
	testkit.Holds(t, len(l.looks) == 0 && !l.lookAll, "no claim waits, and run is to look at", l.looks, l.lookAll)
}

// TestParkedClaimsKeepTheirPlace: a claim that was woken without getting a job waits before the claims that arrived
// later.
func TestParkedClaimsKeepTheirPlace(t *testing.T) {
	l, at := newLine(), queueName{"a", "x"}
	first, second, third := l.parkFor(nil, nil, 1), l.parkFor(nil, nil, 1), l.parkFor(nil, []string{"x"}, 1)
	testkit.MustEqual(t, fmt.Sprint(l.wakes(at, 2, []*parkedClaim{first, second, third})), "[1 2]", "woken")
	l.leave(second)
	second, _ = l.park(second.ticket, job.Owner{}, &job.Claim{Max: 1})
	testkit.Equal(t, fmt.Sprint(l.wakes(at, 1, []*parkedClaim{second, third})), "[2]", "woken, beside the claim that was woken in vain")
}

// TestOffers: claims are woken only for jobs that are not offered, and an arriving claim gets no offer of jobs for which
// an older claim waits.
func TestOffers(t *testing.T) {
	any, at := &job.Claim{Max: 1}, queueName{"a", "x"}
	t.Run("found jobs are offered", func(t *testing.T) {
		l := newLine()
		l.queues[at] = 1
		o, ok := l.find(any)
		_, again := l.find(any)
		testkit.MustHold(t, ok && !again && !o.early, "one job was offered", o, ok, "and again", again)
		l.end(o)
		_, again = l.find(any)
		testkit.Holds(t, again, "its offer has ended, and the job is not found")
	})
	t.Run("the next queue", func(t *testing.T) {
		l := newLine()
		l.queues[at], l.queues[queueName{"b", "y"}] = 1, 1
		a, _ := l.find(any)
		b, ok := l.find(any)
		testkit.Holds(t, ok && a.queue != b.queue, "offers of", a.queue, "and", b.queue)
	})
	t.Run("an older claim waits", func(t *testing.T) {
		l := newLine()
		l.parkFor(nil, nil, 1)
		l.queues[at] = 1
		_, ok := l.find(any)
		testkit.Holds(t, !ok, "a new claim got the job")
	})
	t.Run("parked too late", func(t *testing.T) { // the job was committed between find and park
		l := newLine()
		l.queues[at] = 1
		l.parkFor(nil, nil, 1)
		_, looks := l.looks[at]
		testkit.Holds(t, looks && len(l.changed) == 1, "nobody looks at the queue")
	})
	t.Run("more queues than a claim looks at", func(t *testing.T) {
		l := newLine()
		for i := range maxLooks + 1 {
			l.queues[queueName{"a", fmt.Sprint(i)}] = 1
			l.offered[queueName{"a", fmt.Sprint(i)}] = 1
		}
		p := l.parkFor(nil, nil, 1)
		testkit.MustHold(t, l.lookAll && len(l.changed) == 1, "nobody looks at the others")
		l.queues[at] = 1
		l.wakeAll()
		testkit.Equal(t, len(p.woken), 1, "the claim was not woken")
	})
	t.Run("coming jobs", func(t *testing.T) {
		l := newLine()
		p := l.parkFor(nil, nil, 1)
		l.expect(at, 2)
		testkit.Holds(t, (<-p.woken).early, "the claim need not follow the create")
		second, ok := l.find(&job.Claim{Types: []string{"x"}, Max: 1})
		testkit.Holds(t, ok && second.early, "the second of the coming jobs", second, ok)
		_, ok = l.find(any)
		testkit.Holds(t, !ok, "a third of two coming jobs was offered")
		l.queues[at] = 2
		l.arrived(at, 2)
		testkit.Holds(t, len(l.coming) == 0, "coming", l.coming)
		l.end(second)
		o, ok := l.find(any)
		testkit.Holds(t, ok && !o.early, "a job that has arrived", o, ok)
	})
}

func TestParkedClaimsBounds(t *testing.T) {
	t.Run("pairs", func(t *testing.T) {
		l := newLine()
		clients := names("c", 100)
		for n := 0; ; n++ {
			if c := l.parkFor(clients, append(names("t", 99), fmt.Sprint("u", n)), 1); c == nil {
				testkit.Equal(t, n, maxPlaces/10_000, "claims of ten thousand pairs were parked")
				break
			}
		}
		testkit.Holds(t, l.parkFor(clients, append(names("t", 99), "u0"), 1) != nil,
			"a claim of an interest that is there already takes no further places, and was refused")
	})
	t.Run("claims", func(t *testing.T) {
		l := newLine()
		for range job.MaxParkedClaims {
			testkit.MustHold(t, l.parkFor(nil, nil, 1) != nil, "refused at the limit")
		}
		testkit.Holds(t, l.parkFor(nil, nil, 1) == nil, "one past the limit was taken")
	})
	t.Run("after the end", func(t *testing.T) {
		l := newLine()
		c := l.parkFor(nil, nil, 1)
		l.close()
		_, open := <-c.woken
		testkit.Holds(t, !open, "woken for a queue")
		l.leave(c)
		testkit.Holds(t, l.parkFor(nil, nil, 1) == nil, "parked")
	})
}

// TestNoMoreClaimsWakeThanAreNeeded: if one claim may take all new jobs, only that claim is woken.
func TestNoMoreClaimsWakeThanAreNeeded(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine) {
		const n = 300
		var all sync.WaitGroup
		var mu sync.Mutex
		jobs := 0
		for range n {
			all.Go(func() {
				_, got, _, err := e.Claim(context.Background(), claimOf(1000), time.Second)
				testkit.Check(t, err)
				mu.Lock()
				jobs += len(got)
				mu.Unlock()
			})
		}
		synctest.Wait()
		testkit.MustEqual(t, e.parked.n.Load(), n, "claims are parked")
		testkit.Must2(e.Create(t.Context(), lines(n)))(t)
		all.Wait()
		claims := countRecords(t, e, "claim")
		testkit.Equal(t, jobs, n, "jobs were handed out by", claims, "journaled claims by 1")
		testkit.Equal(t, claims, 1, jobs, "jobs were handed out by journaled claims", n, "by 1")
	})
}

func BenchmarkWakeParkedClaimOfManyPairs(b *testing.B) {
	for _, n := range []int{1, 10, 32, 100} {
		b.Run(fmt.Sprintf("pairs=%d", n*n), func(b *testing.B) {
			l, at := newLine(), queueName{"c0", "t0"}
			clients, types := names("c", n), names("t", n)
			for range 100 {
				l.parkFor(clients, types, 1)
			}
			for i := range min(40, maxPlaces/n/n-1) { // other interests with as many pairs, which do not accept the queue
				l.parkFor(clients, append(types[1:n:n], fmt.Sprint("u", i)), 1)
			}
			for b.Loop() {
				c := l.parkFor(clients, types, 1)
				l.queues[at]++
				l.wake(at)
				l.leave(c)
				l.parkFor(clients, types, 1)
			}
		})
	}
}

// TestParkedClaimsAreBounded: one waiting claim more than the limit is refused. Claims that find a job, or do not wait,
// are served. When a claim leaves there is room for another.
func TestParkedClaimsAreBounded(t *testing.T) {
	ctx := t.Context()
	e, _ := startWith(t, Options{Dir: t.TempDir()})
	parked := func(n int64) { // as if there were more, or fewer
		e.parked.n.Add(n)
		e.parked.places.Return("", -n)
	}
	parked(job.MaxParkedClaims)
	_, _, _, err := e.Claim(ctx, claimOf(1), time.Hour)
	testkit.Holds(t, errors.Is(err, ErrTooManyParked), "a claim past the bound", err)
	_, jobs := mustClaim(t, e, claimOf(1))
	testkit.Equal(t, len(jobs), 0, "a claim that does not wait")
	testkit.Must2(e.Create(ctx, lines(2)))(t)
	for range 2 {
		_, jobs, _, err := e.Claim(ctx, claimOf(1), time.Hour)
		testkit.Holds(t, err == nil && len(jobs) == 1, "a claim that finds a job", len(jobs), "jobs", err)
	}
	parked(-1) // a claim leaves
	got := make(chan int, 1)
	go func() {
		_, jobs, _, err := e.Claim(ctx, claimOf(1), time.Hour)
		testkit.Check(t, err, "the last claim that may wait")
		got <- len(jobs)
	}()
	testkit.Eventually(t, "all claims are parked", func() bool { return e.parked.n.Load() >= job.MaxParkedClaims })
	_, _, _, err = e.Claim(ctx, claimOf(1), time.Hour)
	testkit.Holds(t, errors.Is(err, ErrTooManyParked), "a claim past the bound again", err)
	testkit.Must2(e.Create(ctx, lines(1)))(t)
	testkit.Equal(t, <-got, 1, "jobs of the claim that waited")
	parked(1 - job.MaxParkedClaims)
}

// park makes a claim wait in the background, and returns the channel for its jobs when it is parked.
func park(t *testing.T, e *Engine, clients, types []string) <-chan int {
	t.Helper()
	got := make(chan int, 1)
	c := claimOf(1)
	c.Clients, c.Types = clients, types
	go func() {
		_, jobs, _, err := e.Claim(t.Context(), c, time.Minute)
		testkit.Check(t, err)
		got <- len(jobs)
	}()
	synctest.Wait()
	return got
}

func typed(n int, typ string, priority int) job.Group {
	g := lines(n).Groups[0]
	g.Type, g.Priority = typ, priority
	return g
}

// TestWakesAreNotLost: if a woken claim takes a job of another queue, or none, the next claim is woken.
func TestWakesAreNotLost(t *testing.T) {
	t.Run("two queues at once", func(t *testing.T) {
		bubble(t, func(t *testing.T, e *Engine) {
			a, b, c := park(t, e, nil, nil), park(t, e, nil, []string{"q2"}), park(t, e, nil, []string{"q1"})
			both := lines(2)
			both.Groups = []job.Group{typed(1, "q1", 4), typed(1, "q2", 9)}
			testkit.Must2(e.Create(t.Context(), both))(t)
			time.Sleep(time.Second)
			synctest.Wait()
			total := 0
			var waiting []<-chan int
			for _, got := range []<-chan int{a, b, c} {
				select {
				case n := <-got:
					total += n
				default:
					waiting = append(waiting, got)
				}
			}
			testkit.Equal(t, total, 2, "jobs were handed out within a second")
			for _, got := range waiting {
				<-got // without a job, when their minute is over
			}
		})
	})
	t.Run("a claim of many names", func(t *testing.T) {
		bubble(t, func(t *testing.T, e *Engine) {
			var names []string
			for c := 'a'; c <= 'h'; c++ {
				names = append(names, "c"+string(c))
			}
			a := park(t, e, names, names) // so many pairs that its interest is wide
			b := park(t, e, []string{"ca"}, []string{"other"})
			one := lines(1)
			one.Groups[0].Client, one.Groups[0].Type = "ca", "other"
			testkit.Must2(e.Create(t.Context(), one))(t)
			testkit.Equal(t, <-b, 1, "the claim that wants the job")
			one = lines(1)
			one.Groups[0].Client, one.Groups[0].Type = "ch", "cb"
			testkit.Must2(e.Create(t.Context(), one))(t)
			testkit.Equal(t, <-a, 1, "the claim of many names")
		})
	})
	t.Run("a caller that goes away", func(t *testing.T) {
		bubble(t, func(t *testing.T, e *Engine) {
			first, second := park(t, e, nil, nil), park(t, e, nil, nil)
			testkit.Must2(e.Create(t.Context(), lines(1)))(t)
			testkit.Equal(t, <-first, 1, "the first")
			testkit.Equal(t, <-second, 0, "the second")
		})
	})
}

// TestStandstill: time in which runners could not tickle ends no lease, however busy the timer is.
func TestStandstill(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine) {
		testkit.Must2(e.Create(t.Context(), lines(1)))(t)
		claimed, _ := mustClaim(t, e, claimOf(1))
		time.Sleep(50 * time.Second) // of a lease of 60
		k := timekeeper{e: e, term: 1}
		k.turn(t.Context(), time.Now().Add(-3*time.Second)) // it should have been awake three seconds ago
		time.Sleep(50 * time.Second)
		tickled, _ := testkit.Must2(e.Tickle(t.Context(), job.Tickle{Claim: claimed.Claim, Progress: -1}))(t)
		testkit.Equal(t, tickled.Held, 1, "tickled", tickled)
		testkit.Equal(t, e.counters.graces.Load(), 1, "graces")

		time.Sleep(50 * time.Second)
		k.down = time.Now().Add(-3 * time.Second) // the journal was down for three seconds, and is up
		k.turn(t.Context(), time.Now())
		time.Sleep(50 * time.Second)
		tickled, _ = testkit.Must2(e.Tickle(t.Context(), job.Tickle{Claim: claimed.Claim, Progress: -1}))(t)
		testkit.Equal(t, tickled.Held, 1, "tickled after an outage", tickled)

		// A tick that was proposed before the time was skipped, but journaled afterwards, does not see the skipped time.
		asOf := e.Now()
		time.Sleep(59 * time.Second)
		testkit.Must2(e.decide(t.Context(), job.Tick{AsOf: asOf}))(t)
		tickled, _ = testkit.Must2(e.Tickle(t.Context(), job.Tickle{Claim: claimed.Claim, Progress: -1}))(t)
		testkit.Equal(t, tickled.Held, 1, "tickled after an old tick", tickled)
	})
}
