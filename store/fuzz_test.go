package store

import (
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// rowDecoders are the functions that decode the value of a row.
var rowDecoders = []func(value []byte){
	func(v []byte) { row.DecodeMeta(v) },
	func(v []byte) { row.DecodeSpan(1, v) },
	func(v []byte) { row.DecodeBatch(1, v) },
	func(v []byte) { row.DecodeBatchCounts(v) },
	func(v []byte) { row.DecodeClaim(1, v, nil) },
	func(v []byte) { row.DecodeClaimState((*lsm.Decoder)(&v)) },
	func(v []byte) { row.DecodeJobLease(v) },
	func(v []byte) { row.DecodeRunner("r", v) },
	func(v []byte) { row.DecodeAttempt(v) },
	func(v []byte) { row.DecodeResult(v) },
	func(v []byte) { row.DecodeProgress(v) },
	func(v []byte) { memory.DecodeQueue(1, v) },
	func(v []byte) { row.DecodeDone((*lsm.Decoder)(&v)) },
	func(v []byte) { row.DecodeSession(1, v) },
	func(v []byte) { row.DecodeSessionOwner(v) },
	func(v []byte) { row.DecodePurgedBatch(1, v) },
	func(v []byte) { row.DecodeSlot(v) },
	func(v []byte) { row.DecodeSweep(1, v) },
	func(v []byte) { row.DecodeDistinctState(1, v) },
	func(v []byte) { row.DecodeDistinctLeaf(job.MaxDistinctKeys, v) },
	func(v []byte) { row.DecodeActive(v) },
	func(v []byte) { row.EachEffects(1, v, func(job.Now, []row.Effect) {}) },
}

// FuzzRows: whatever bytes a row has, decoding it returns a value, or an error of damage that Catch returns to the
// caller. No panic escapes, and memory is bounded by the bytes of the row.
func FuzzRows(f *testing.F) {
	s := mustOpen(f, Options{})
	mustApply(f, s, 1, 0, plainCreate("a", "x", 1, 3))
	mustApply(f, s, 2, 0, job.Claim{Runner: "r", Max: 2, MaxBytes: 1000})
	mustApply(f, s, 3, 0, job.Claim{Runner: "r", Max: 2, MaxBytes: 1000, Strategy: mustDistinct("user", job.Newest)})
	mustCommit(f, s)
	v := s.db.View()
	v.Scan("A", "z", func(_ string, value []byte) bool {
		for n := range rowDecoders {
			f.Add(uint8(n), append([]byte{}, value...))
		}
		return true
	})
	v.Close()
	for _, row := range [][]byte{
		(&row.DistinctState{Strategy: mustDistinct("user", job.Oldest), From: "L", Levels: []int{0}}).Encode(),
		(&row.DistinctLeaf{QueueID: 1, Has: [4]bool{true}, Values: [4]string{"7"}, Spans: 2}).Encode(1),
	} {
		for n := range rowDecoders {
			f.Add(uint8(n), row)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, value []byte) {
		err := func() (err error) {
			defer lsm.Catch(&err)
			rowDecoders[int(which)%len(rowDecoders)](value)
			return nil
		}()
		damage, ok := err.(*row.Error)
		testkit.Holds(t, err == nil || ok && damage.Is(row.ErrDamaged), "decoder", which, "of", value, err)
	})
}

// FuzzApply: a command that its decoder accepts is applied without an error and leaves a store without problems. (The
// payloads of a create must be as announced.) A command is acknowledged or journaled before it is applied, so Apply
// cannot refuse it.
func FuzzApply(f *testing.F) {
	priority, attempts, runAt := 9, 7, int64(0)
	made := plainCreate("a", "x", 3, 5)
	made.Unique = []job.UniqueKey{{Line: 1, Key: "k"}}
	joined := plainCreate("a", "x", 2, 5)
	joined.Joined = true
	for _, cmd := range []job.Command{
		plainCreate("a", "y", 2, 0), made, joined, plainClaim("r", 2), job.Claim{Runner: "q", Max: 9, MaxBytes: 1, Strategy: job.Random},
		job.Claim{Runner: "q", Max: 2, MaxBytes: 100, Strategy: mustDistinct("user", mustDistinct("region", job.Fair))},
		job.Tickle{Claim: jobID(2, 3, 0), Progress: -1}, job.Tickle{IDs: []job.ID{jobID(0, 1, 0)}, Step: "s", Progress: 5},
		job.Tickle{Runner: "r", LeaseMs: job.MaxLeaseMs, Progress: -1},
		job.Complete{Claim: jobID(2, 3, 0), All: &job.Outcome{Code: job.Retry, ExitCode: 100, DelayMs: -1}},
		job.Complete{Outcomes: []job.Outcome{{ID: jobID(0, 1, 1), Code: job.Error, ExitCode: 500, DelayMs: job.MaxDelayMs, Error: "e"}}},
		job.Pause{Client: "a", Type: "x", Paused: true}, job.Switch{Stopped: true},
		job.Move{Op: job.Cancel, Job: jobID(0, 1, 2)}, job.Move{Op: job.Delete, Batch: jobID(1, 2, 0)}, job.Move{Op: job.Redrive, Client: "a", Type: "x"},
		job.Patch{Job: jobID(1, 2, 1), Priority: &priority, MaxAttempts: &attempts, RunAt: &runAt},
		job.Tick{AsOf: startAt + 5}, job.Tick{}, job.Grace{}, job.SetLevel{Level: job.Level},
	} {
		fields, body := cmd.Encode()
		f.Add(cmd.Verb(), string(fields), body, int64(10))
	}
	f.Fuzz(func(t *testing.T, verb, fields string, body []byte, at int64) {
		cmd, err := job.Decode(verb, []byte(fields), body)
		if err != nil {
			return
		}
		if c, ok := cmd.(*job.Create); ok && c.CheckPayloads() != nil {
			return
		}
		if level, ok := cmd.(job.SetLevel); ok && level.Level > job.Level {
			return
		}
		s := mustOpen(t, Options{Small: true})
		keyed := plainCreate("a", "x", 4, 5)
		keyed.Unique = []job.UniqueKey{{Line: 2, Key: "k"}}
		mustApply(t, s, 1, 0, keyed)
		mustApply(t, s, 2, 1, plainCreate("a", "x", 4, 5))
		mustApply(t, s, 3, 2, plainClaim("r", 3))
		mustCommit(t, s)
		at = min(max(at, 0), job.MaxTimeMs-startAt)
		mustApply(t, s, 4, at, cmd)
		mustApply(t, s, 5, at, job.Tick{})
		mustCommit(t, s) // mustOpen checks at the end
	})
}
