package memory

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

func newStateLock(patience time.Duration) *stateLock {
	l := new(stateLock)
	l.Open(patience)
	return l
}

// TestQueriesGiveUpOnALongChange: a query gives up when the change that it waits for takes longer than patience. Later
// queries give up immediately, until the change has ended.
func TestQueriesGiveUpOnALongChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newStateLock(5 * time.Second)
		for round := range 2 { // the second round reuses the timer of the first
			l.Lock()
			time.Sleep(time.Duration(round) * time.Second)
			began := time.Now()
			got := l.TryRLock()
			waited := time.Since(began)
			testkit.MustHold(t, !got && waited >= l.patience &&
				waited <= l.patience*5/4, "round", round, "a query did not give up after", l.patience, "but after", waited)
			testkit.MustHold(t, !l.TryRLock() && time.Since(began) == waited, "the second query waited again for a change that is known to be long")
			patient := make(chan bool)
			go func() { l.RLock(); patient <- true }()
			synctest.Wait()
			l.Unlock()
			<-patient
			testkit.MustHold(t, l.TryRLock(), "a query gave up after the end of the change")
			l.RUnlock()
			l.RUnlock()
		}
	})
}

// TestQueriesWaitForManyShortChanges: a waiting query does not give up because of earlier changes.
func TestQueriesWaitForManyShortChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newStateLock(5 * time.Second)
		for range 10 {
			l.Lock()
			got := make(chan bool)
			go func() { got <- l.TryRLock() }()
			time.Sleep(4 * time.Second)
			l.Unlock()
			testkit.MustHold(t, <-got, "a query gave up on a change of four seconds")
			l.RUnlock()
		}
	})
}

// TestQueriesAndChangesTakeTurns: a change waits for the queries before it. Queries that arrive then wait for the
// change, and precede the next change.
func TestQueriesAndChangesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, turns := newStateLock(time.Hour), make(chan string, 4)
		l.RLock()
		change := func(name string) { l.Lock(); turns <- name; time.Sleep(time.Second); l.Unlock() }
		go change("first change")
		synctest.Wait()
		for range 2 {
			go func() { l.RLock(); turns <- "query"; time.Sleep(time.Second); l.RUnlock() }()
		}
		synctest.Wait()
		go change("second change")
		synctest.Wait()
		testkit.MustEqual(t, len(turns), 0)
		l.RUnlock()
		for _, want := range []string{"first change", "query", "query", "second change"} {
			testkit.MustEqual(t, <-turns, want, "the turn")
		}
		l.RLock() // after the second change
		defer l.RUnlock()
	})
}

// TestQueriesAndChangesExcludeEachOther: no query sees a change that has not ended, and two changes never overlap.
func TestQueriesAndChangesExcludeEachOther(t *testing.T) {
	l, n, same := newStateLock(time.Hour), 0, 0
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for range 2000 {
				l.Lock()
				n++
				same++
				l.Unlock()
			}
		})
	}
	for range 4 {
		all.Go(func() {
			for range 2000 {
				if !l.TryRLock() {
					t.Error("a query gave up within an hour")
					return
				}
				testkit.Equal(t, n, same, "a query saw a change that had not ended")
				l.RUnlock()
			}
		})
	}
	all.Wait()
	testkit.Equal(t, n, 4000)
}
