package store

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/machine"
	"github.com/daybookq/daybook/store/internal/row"
)

// lifecycle claims up to n jobs for a runner and completes them, with a commit after each command. It returns the next
// seq.
func lifecycle(t testing.TB, s *Store, seq uint64, at int64, runner string, n int) uint64 {
	t.Helper()
	c := mustApply(t, s, seq, at, plainClaim(runner, n)).(*applied.Claimed)
	if c.Jobs() == 0 {
		t.Fatal("nothing to claim")
	}
	mustCommit(t, s)
	mustApply(t, s, seq+1, at, job.Complete{Claim: c.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}})
	mustCommit(t, s)
	return seq + 2
}

// stepsToRead returns how many entries Pebble reads to find a key, or that it does not exist.
func stepsToRead(t testing.TB, s *Store, key string) int {
	t.Helper()
	v := s.db.View()
	defer v.Close()
	v.Get(key)
	stats := v.Stats()
	return stats.ForwardStepCount[pebble.InternalIterCall] + stats.ForwardSeekCount[pebble.InternalIterCall]
}

// TestRunnerRowStaysBetweenClaims: if the row of a runner were deleted and set again, each read of it would walk over
// all these versions until Pebble flushes.
func TestRunnerRowStaysBetweenClaims(t *testing.T) {
	s := mustOpen(t, Options{})
	const rounds = 2000
	mustApply(t, s, 1, 0, plainCreate("a", "x", rounds, 5))
	seq := uint64(2)
	for range rounds {
		seq = lifecycle(t, s, seq, 1, "r", 1)
	}
	if steps := stepsToRead(t, s, row.RunnerKey(row.RunnerTable, "r")); steps > 10 {
		t.Errorf("reading a runner that claimed %d times takes %d steps", rounds, steps)
	}
	timers := 0
	for _, entry := range dump(s) {
		if entry.key[0] == row.TimerTable && entry.key[9] == row.RunnerTimer {
			timers++
		}
	}
	testkit.Equal(t, timers, 1)
	if list, more, err := s.Runners("", 10); len(list) > 0 || more || err != nil {
		t.Errorf("runners that hold something: %v, %v, %v", list, more, err)
	}
}

// TestIdleRunnersAreForgotten: the row of a runner that does not return is deleted a minute later. The row of a runner
// that does return stays.
func TestIdleRunnersAreForgotten(t *testing.T) {
	s := mustOpen(t, Options{})
	const runners = 300 // more than a tick handles
	mustApply(t, s, 1, 0, plainCreate("a", "x", 1000, 5))
	seq := uint64(2)
	for i := range runners {
		seq = lifecycle(t, s, seq, 1, fmt.Sprintf("r%d", i), 1)
	}
	seq = lifecycle(t, s, seq, machine.RunnerIdleMs/2, "r7", 1)
	rows := func() (names []string) {
		for _, entry := range dump(s) {
			if entry.key[0] == row.RunnerTable {
				names = append(names, row.RunnerOfKey(entry.key))
			}
		}
		return names
	}
	tickAt := func(at int64) {
		for i := 0; i < 10 && s.NextDue() != 0 && s.NextDue() <= startAt+at; i++ {
			mustApply(t, s, seq, at, job.Tick{})
			mustCommit(t, s)
			seq++
		}
	}
	tickAt(machine.RunnerIdleMs)
	testkit.Equal(t, len(rows()), runners)
	tickAt(machine.RunnerIdleMs + 1)
	if got := rows(); len(got) != 1 || got[0] != "r7" {
		t.Errorf("rows of %v, want r7's alone", got)
	}
	claim := mustApply(t, s, seq, machine.RunnerIdleMs+2, plainClaim("r7", 1)).(*applied.Claimed)
	mustCommit(t, s)
	seq++
	tickAt(machine.RunnerIdleMs*3/2 + 2) // it holds a job
	testkit.Equal(t, len(rows()), 1)
	mustApply(t, s, seq, machine.RunnerIdleMs*3/2+3, job.Complete{Claim: claim.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}})
	mustCommit(t, s)
	seq++
	tickAt(machine.RunnerIdleMs*5/2 + 3)
	testkit.Equal(t, len(rows()), 0)
}
