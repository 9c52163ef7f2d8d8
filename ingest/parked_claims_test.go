package ingest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/job"
)

// names returns n names that begin with prefix.
func names(prefix string, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("%s%d", prefix, i))
	}
	return out
}

// woken returns the tickets of those of the given claims that have been woken.
func woken(claims []*parkedClaim) (tickets []uint64) {
	for _, c := range claims {
		select {
		case <-c.woken:
			tickets = append(tickets, c.ticket)
		default:
		}
	}
	return tickets
}

// TestParkedClaimsWakeInOrder: the oldest claims that accept the jobs of a queue are woken, whatever else they accept,
// until the woken claims may take all of the jobs.
func TestParkedClaimsWakeInOrder(t *testing.T) {
	l := newParkedClaims()
	var claims []*parkedClaim
	park := func(clients, types []string, max int) {
		claims = append(claims, l.park(clients, types, max))
	}
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
		if l.wake(at, step.jobs); fmt.Sprint(woken(claims)) != step.want {
			t.Fatalf("%d jobs woke others than %s", step.jobs, step.want)
		}
	}
	for _, c := range claims {
		l.leave(c)
	}
	if l.n.Load() != 0 || l.places != 0 || len(l.interests) != 0 || len(l.byQueue) != 0 {
		t.Errorf("all have left, and %d claims, %d places, %d interests, %d lists are there", l.n.Load(), l.places, len(l.interests), len(l.byQueue))
	}
}

// TestParkedClaimsLeave: the place of an interest depends on its oldest claim, whichever claims leave.
func TestParkedClaimsLeave(t *testing.T) {
	l := newParkedClaims()
	a, b, c := l.park(nil, nil, 1), l.park([]string{"a"}, nil, 1), l.park(nil, nil, 1)
	l.leave(a)
	l.wake(queueName{"a", "x"}, 1)
	if got := woken([]*parkedClaim{b, c}); fmt.Sprint(got) != "[2]" {
		t.Fatalf("woken: %v", got)
	}
	l.wake(queueName{"a", "x"}, 1)
	at, told := l.leave(c)
	if !told || at != (queueName{"a", "x"}) {
		t.Errorf("a claim that leaves after it was woken reports %v, %t", at, told)
	}
}

func TestParkedClaimsBounds(t *testing.T) {
	t.Run("pairs", func(t *testing.T) {
		l := newParkedClaims()
		clients := names("c", 100)
		for n := 0; ; n++ {
			if c := l.park(clients, append(names("t", 99), fmt.Sprint("u", n)), 1); c == nil {
				if want := maxPlaces / 10_000; n != want {
					t.Errorf("%d claims of ten thousand pairs were parked, want %d", n, want)
				}
				break
			}
		}
		if l.park(clients, append(names("t", 99), "u0"), 1) == nil {
			t.Error("a claim of an interest that is there already takes no further places, and was refused")
		}
	})
	t.Run("claims", func(t *testing.T) {
		l := newParkedClaims()
		for range job.MaxParkedClaims {
			if l.park(nil, nil, 1) == nil {
				t.Fatal("refused at the limit")
			}
		}
		if l.park(nil, nil, 1) != nil {
			t.Error("one past the limit was taken")
		}
	})
	t.Run("after the end", func(t *testing.T) {
		l := newParkedClaims()
		c := l.park(nil, nil, 1)
		l.close()
		if _, open := <-c.woken; open {
			t.Error("woken for a queue")
		}
		l.leave(c)
		if l.park(nil, nil, 1) != nil {
			t.Error("parked")
		}
	})
}

// TestWakingIsProportionalToTheWoken: the time to wake a claim hardly depends on how many other claims wait, and for
// what.
func TestWakingIsProportionalToTheWoken(t *testing.T) {
	perClaim := func(n int) (best time.Duration) {
		best = time.Hour
		for range 3 {
			l := newParkedClaims()
			var second []*parkedClaim
			for range n {
				l.park([]string{"default"}, names("image.", 17), 1)
			}
			for range n {
				second = append(second, l.park([]string{"default"}, names("video.", 17), 1))
			}
			began := time.Now()
			l.wake(queueName{"default", "video.16"}, int64(n))
			best = min(best, time.Since(began)/time.Duration(n))
			if got := len(woken(second)); got != n {
				t.Fatalf("%d of %d were woken", got, n)
			}
		}
		return best
	}
	few, many := perClaim(500), perClaim(16_000)
	t.Logf("waking one claim took %v beside 500 others, %v beside 16,000", few, many)
	if many > 16*few { // a loop over all waiting claims would take 32 times as long; the rest is for caches and a busy machine
		t.Errorf("waking one claim took %v beside 500 others, and %v beside 16,000", few, many)
	}
}

// TestWakingIsIndependentOfPairs: a claim that names ten thousand pairs of clients and types is woken about as fast as
// a claim that names one pair.
func TestWakingIsIndependentOfPairs(t *testing.T) {
	perClaim := func(clients, types int) (best time.Duration) {
		const n = 200
		best = time.Hour
		for range 3 {
			l := newParkedClaims()
			for range n {
				l.park(names("c", clients), names("t", types), 1)
			}
			began := time.Now()
			l.wake(queueName{"c0", "t0"}, n)
			best = min(best, time.Since(began)/n)
		}
		return best
	}
	few, many := perClaim(1, 1), perClaim(100, 100)
	t.Logf("waking one claim took %v with one pair, %v with 10,000", few, many)
	if many > 100*few { // a loop over the pairs would take some thousand times as long
		t.Errorf("waking one claim took %v with one pair, and %v with 10,000", few, many)
	}
}

// TestNoMoreClaimsWakeThanAreNeeded: if one claim may take all new jobs, only one claim is woken.
func TestNoMoreClaimsWakeThanAreNeeded(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine) {
		const n = 300
		var all sync.WaitGroup
		var mu sync.Mutex
		jobs := 0
		for range n {
			all.Go(func() {
				_, got, _, err := e.Claim(context.Background(), claimOf(1000), time.Second)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				jobs += len(got)
				mu.Unlock()
			})
		}
		synctest.Wait()
		if parked := e.parked.n.Load(); parked != n {
			t.Fatalf("%d claims are parked", parked)
		}
		if _, _, err := e.Create(t.Context(), lines(n)); err != nil {
			t.Fatal(err)
		}
		all.Wait()
		claims := 0
		for r, err := range e.log.Records(1) {
			if err != nil {
				t.Fatal(err)
			}
			if r.Verb == "claim" {
				claims++
			}
		}
		if jobs != n || claims != 1 {
			t.Errorf("%d jobs were handed out by %d journaled claims, want %d by 1", jobs, claims, n)
		}
	})
}

func BenchmarkWakeParkedClaimOfManyPairs(b *testing.B) {
	for _, n := range []int{10, 32, 100} {
		b.Run(fmt.Sprintf("pairs=%d", n*n), func(b *testing.B) {
			l := newParkedClaims()
			clients, types := names("c", n), names("t", n)
			for range 100 {
				l.park(clients, types, 1)
			}
			for i := range min(40, maxPlaces/n/n-1) { // other interests with as many pairs, which do not accept the queue
				l.park(clients, append(types[1:n:n], fmt.Sprint("u", i)), 1)
			}
			for b.Loop() {
				c := l.park(clients, types, 1)
				l.wake(queueName{"c0", "t0"}, 1)
				l.leave(c)
				l.park(clients, types, 1)
			}
		})
	}
}

func BenchmarkWakeParkedClaim(b *testing.B) {
	for _, n := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprintf("parked=%d", n), func(b *testing.B) {
			l := newParkedClaims()
			for i := range n - 1 {
				l.park([]string{"default"}, []string{fmt.Sprint("t", i%1000)}, 1)
			}
			for b.Loop() {
				c := l.park([]string{"default"}, []string{"video"}, 1)
				l.wake(queueName{"default", "video"}, 1)
				l.leave(c)
			}
		})
	}
}
