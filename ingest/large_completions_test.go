package ingest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/wal"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
)

// TestLargeCompletionsAreBounded: completions with many bytes of outputs wait before they are proposed, so that the log
// has few of them at a time, and small requests overtake them.
func TestLargeCompletionsAreBounded(t *testing.T) {
	ctx := t.Context()
	var held sync.Mutex
	e, _ := startWith(t, Options{Dir: t.TempDir(), Journal: journal.Options{Hooks: journal.Hooks{Sync: func(l *wal.Log) error {
		held.Lock()
		defer held.Unlock()
		return l.Sync()
	}}}})
	const callers = 12
	testkit.Must2(e.Create(ctx, lines(callers+2)))(t)
	large := func() job.Complete {
		done := completeOf(claimOne(t, e))
		_, jobs := testkit.Must2(e.Queries().ClaimDocument(done.Claim, 0))(t)
		testkit.MustEqual(t, len(jobs), 1)
		done.All = nil
		done.Outcomes = []job.Outcome{{ID: jobs[0].ID, Code: job.OK, ExitCode: 200, DelayMs: -1, Result: job.Result{OutputKind: job.Text, Output: []byte(strings.Repeat("x", largeInFlight/4))}}}
		return done
	}
	var commands []job.Complete
	for range callers {
		commands = append(commands, large())
	}
	last, small := large(), completeOf(claimOne(t, e))
	held.Lock()
	var others sync.WaitGroup
	for _, c := range commands {
		others.Go(func() {
			ended, _, err := e.Complete(ctx, c)
			testkit.Holds(t, err == nil && ended.Results[0].Status == job.Completed, ended, err)
		})
	}
	testkit.Eventually(t, "they have taken all of it", func() bool {
		if !e.large.TryAcquire(largeInFlight / 4) {
			return true
		}
		e.large.Release(largeInFlight / 4)
		return false
	})
	time.Sleep(20 * time.Millisecond) // real time: without a bound, the other completions would exceed it now
	n := e.log.Status().InFlightBytes
	testkit.Holds(t, n <= largeInFlight+largeInFlight/4, "the log has", n, "bytes")
	gone, leave := context.WithTimeout(ctx, time.Millisecond)
	defer leave()
	if _, _, err := e.Complete(gone, last); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnknown) {
		t.Errorf("a caller that gives up before its completion is proposed: %v", err)
	}
	passed := make(chan error, 1)
	go func() {
		_, _, err := e.Complete(ctx, small)
		passed <- err
	}()
	held.Unlock()
	testkit.Check(t, <-passed)
	others.Wait()
	testkit.Holds(t, e.large.TryAcquire(largeInFlight), "a share was not returned")
}
