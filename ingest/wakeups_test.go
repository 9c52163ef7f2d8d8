package ingest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

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
			testkit.Equal(t, total, 2, "of 2 jobs were handed out within a second")
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
