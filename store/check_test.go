package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// mustOpen opens a store in memory. At the end of the test it runs Check, unless the test has closed the store.
func mustOpen(t testing.TB, o Options) *Store {
	t.Helper()
	if o.FS == nil {
		o.FS = vfs.NewMem()
	}
	if o.Journal == "" {
		o.Journal = testJournal
	}
	s := testkit.Must(Open("store", o))(t)
	t.Cleanup(func() {
		if s.closed {
			return
		}
		if !t.Failed() {
			mustCommit(t, s)
			testkit.Must(s.Check(func(problem string) bool { t.Errorf("check: %s", problem); return true }))(t)
		}
		testkit.Check(t, s.Close())
	})
	return s
}

func mustApply(t testing.TB, s *Store, seq uint64, at int64, cmd job.Command) applied.Result {
	t.Helper()
	result, err := s.Apply(seq, startAt+at, cmd)
	testkit.NoError(t, err, "apply", seq)
	return result
}

func mustCommit(t testing.TB, s *Store) { t.Helper(); testkit.NoError(t, s.Commit()) }

// mustStore applies a command, and commits.
func mustStore(t testing.TB, s *Store, seq uint64, at int64, cmd job.Command) applied.Result {
	t.Helper()
	result := mustApply(t, s, seq, at, cmd)
	mustCommit(t, s)
	return result
}

func jobID(at int64, seq uint64, line int) job.ID { return job.NewID(startAt+at, seq, line) }

// plainGroup returns a group of n lines with the API's defaults.
func plainGroup(client, typ string, n int) job.Group {
	return job.Group{
		Lines: n, Client: client, Type: typ, Attributes: job.Attributes{Kind: job.Text, Priority: job.DefaultPriority, MaxAttempts: job.DefaultMaxAttempts,
			Backoff: job.Backoff{InitialMs: 1000, FactorMilli: 2000, MaxMs: 3_600_000}, LeaseMs: job.DefaultLeaseMs, RetentionMs: job.DefaultRetentionMs},
	}
}

// plainCreate returns a create of n lines with payloads of the given size.
func plainCreate(client, typ string, n, size int) *job.Create {
	c := &job.Create{Groups: []job.Group{plainGroup(client, typ, n)}, Frame: job.LineFrame, Longest: size}
	payload := []byte(strings.Repeat("x", size))
	for range n {
		c.Payloads = c.Frame.Append(c.Payloads, payload)
	}
	return c
}

func plainClaim(runner string, n int) job.Claim {
	return job.Claim{Runner: runner, Max: n, MaxBytes: job.MaxClaimBytes}
}

// richStore returns a store with rows of every table and kind.
func richStore(t testing.TB) *Store {
	s := mustOpen(t, Options{bounds: &memory.Bounds{SpanBytes: 20_000, BatchBytes: 40_000, RowBytes: 40_000, MinWindow: 2, MaxWindow: 9,
		Rules: &row.Rules{PageBytes: 20, GroupPageBytes: 20, CommandRows: 60, ClaimRows: 400, QueueRows: 5, ClaimBytes: 1 << 20, CellSpans: 3, SweepRows: 60, PurgedGroups: 1, EffectBytes: 200, AuditBytes: 200, EffectRowBytes: 50, DistinctStep: 2, DistinctRows: 1000, DistinctBytes: 1 << 20, DistinctNodes: 16, DistinctLooks: 256, Sessions: job.MaxSessions}}})
	c := plainCreate("a", "x", 12, 9)
	c.Groups[0].RetentionMs = 1000
	mustApply(t, s, 1, 0, c)
	two := plainCreate("b", "y", 6, 5)
	two.Groups = []job.Group{plainGroup("b", "y", 3), plainGroup("a", "y", 3)}
	two.Groups[0].Priority, two.Groups[1].RunAt = 9, startAt+50_000
	mustApply(t, s, 2, 10, two)
	mustApply(t, s, 3, 20, job.Claim{Runner: "r1", Max: 7, Clients: []string{"a"}, MaxBytes: job.MaxClaimBytes})
	mustApply(t, s, 4, 30, plainClaim("r2", 2))
	exit := int64(3)
	mustApply(t, s, 5, 40, job.Complete{Claim: jobID(20, 3, 0), Outcomes: []job.Outcome{
		{ID: jobID(0, 1, 0), Code: job.OK, ExitCode: 200, DelayMs: -1, Result: job.Result{ProcessExit: &exit, OutputKind: job.Text, Output: []byte("out")}},
		{ID: jobID(0, 1, 1), Code: job.OK, ExitCode: 200, DelayMs: -1, Result: job.Result{OutputAddr: "there"}},
		{ID: jobID(0, 1, 2), Code: job.Error, ExitCode: 500, DelayMs: -1, Error: "no luck"},
		{ID: jobID(0, 1, 3), Code: job.Unget, DelayMs: -1},
	}})
	mustApply(t, s, 6, 1045, job.Tick{}) // purges lines 0 and 1
	mustApply(t, s, 7, 1050, job.Complete{Claim: jobID(20, 3, 0), Outcomes: []job.Outcome{
		{ID: jobID(0, 1, 4), Code: job.Fail, ExitCode: 400, DelayMs: -1, Error: "bad"},
	}})
	mustApply(t, s, 8, 1060, job.Tickle{IDs: []job.ID{jobID(0, 1, 5)}, Step: "half way", Progress: 500_000})
	keyed := plainCreate("a", "x", 3, 9)
	keyed.Groups[0].ExpiresAt, keyed.Groups[0].TimeoutMs = startAt+90_000, 5000
	keyed.Unique = []job.UniqueKey{{Line: 1, Key: "k"}, {Line: 2, Key: "k"}}
	keyed.Once = job.Once{Scope: "create a", Key: "1"}
	mustApply(t, s, 9, 1070, keyed)
	timed := plainClaim("r3", 10)
	timed.Once = job.Once{Scope: "claim r3", Key: "1"}
	mustApply(t, s, 10, 1080, timed)
	mustApply(t, s, 11, 1090, job.Move{Op: job.Cancel, Job: jobID(1070, 9, 0)})
	for seq := range uint64(12) {
		mustApply(t, s, 12+seq, 1100, plainCreate("c", "z", 1, 3))
	}
	mustApply(t, s, 24, 1110, job.Move{Op: job.Cancel, Client: "c", Type: "z"})
	another := plainCreate("a", "x", 2, 9)
	another.Groups[0].ExpiresAt = startAt + 90_000
	another.Unique = []job.UniqueKey{{Line: 1, Key: "k2"}}
	another.Payloads, another.Longest = []byte("short\nlonger by far\n"), len("longer by far")
	mustApply(t, s, 25, 1120, another)
	meta := testkit.Must(job.NewBatchMeta(map[string]job.MetaValue{"user": {Text: "7"}}))(t)
	filled := plainCreate("d", "w", 3, 4)
	filled.Submission = &job.Submission{Name: "n", Meta: meta, Metadata: []byte("about it"), Open: true}
	mustApply(t, s, 26, 1130, filled)
	more := plainCreate("d", "w", 2, 4)
	more.Into = jobID(1130, 26, 0)
	mustApply(t, s, 27, 1140, more)
	held := plainCreate("d", "v", 12, 4) // more than one command moves
	held.Submission = &job.Submission{Paused: true}
	held.Groups = nil
	for i := range 12 {
		g := plainGroup("d", "v", 1)
		g.Priority = i % 2
		held.Groups = append(held.Groups, g)
	}
	mustApply(t, s, 28, 1150, held)
	mustApply(t, s, 29, 1160, &job.Create{Groups: []job.Group{plainGroup("d", "w", 0)}, Submission: &job.Submission{Name: "empty"}})
	mustStore(t, s, 30, 1170, job.ChangeBatch{Op: job.ResumeBatch, Batch: jobID(1150, 28, 0)})
	have := map[string]bool{}
	for _, entry := range dump(s) {
		kind := entry.key[:1]
		switch entry.key[0] {
		case row.TimerTable:
			kind += fmt.Sprint(entry.key[9])
		case row.DetailTable:
			kind += fmt.Sprint(entry.key[13])
		}
		have[kind] = true
	}
	for _, kind := range strings.Fields("M Q B b P S D1 D2 D3 R L l T1 T2 T3 T4 T6 T7 T8 T9 C c O W w E U K I x Y N V v g J X q T12 T13 e T15 j") {
		// Progress and results of purged lines are deleted. If there is no result, one is written below.
		testkit.MustHold(t, have[kind] || kind == "D2", "the rich store has no row of kind", kind)
	}
	return s
}

// set writes a row without the store's knowledge.
func (row storedRow) set(t testing.TB, s *Store) {
	t.Helper()
	testkit.NoError(t, s.db.Pebble().Set([]byte(row.key), row.value, pebble.NoSync))
}

func (row storedRow) del(t testing.TB, s *Store) {
	t.Helper()
	testkit.NoError(t, s.db.Pebble().Delete([]byte(row.key), pebble.NoSync))
}

// unwatched reports whether no other row refers to a row: details, and ends of runs whose jobs are deleted.
func unwatched(key string) bool {
	return key[0] == row.DetailTable || key[0] == row.PurgedEndTable
}

func TestCheckNoticesEachMissingRow(t *testing.T) {
	s := richStore(t)
	for _, row := range dump(s) {
		row.del(t, s)
		if problems := problemsOf(t, s); len(problems) == 0 && !unwatched(row.key) {
			t.Errorf("a missing row is not noticed: %s", describeRow(row.key, row.value))
		}
		row.set(t, s)
	}
}

func TestCheckNoticesEachRowTooMany(t *testing.T) {
	s := richStore(t)
	rows := dump(s)
	there := map[string]bool{}
	for _, row := range rows {
		there[row.key] = true
	}
	for _, entry := range rows {
		for at := range entry.key {
			key := []byte(entry.key)
			key[at]++
			more := storedRow{string(key), entry.value}
			// A different line, or a different command, may also have had this row.
			lineOfBatch := entry.key[0] == row.DetailTable && (at == 12 || at == 21)
			if there[more.key] || unwatched(more.key) && entry.key[0] != row.DetailTable || lineOfBatch {
				continue
			}
			more.set(t, s)
			problems := problemsOf(t, s)
			if len(problems) == 0 {
				t.Errorf("an additional row is not noticed: %s", describeRow(more.key, more.value))
			}
			more.del(t, s)
		}
		longer, shorter := storedRow{entry.key + "\x00", entry.value}, storedRow{entry.key[:len(entry.key)-1], entry.value}
		for _, odd := range []storedRow{longer, shorter} {
			if odd.key == "" || there[odd.key] {
				continue
			}
			odd.set(t, s)
			if len(problemsOf(t, s)) == 0 {
				t.Errorf("a key of a wrong form is not noticed: %x", odd.key)
			}
			odd.del(t, s)
		}
	}
}

func TestCheckNoticesEachShortRow(t *testing.T) {
	s := richStore(t)
	for _, entry := range dump(s) {
		for n := range entry.value {
			storedRow{entry.key, entry.value[:n]}.set(t, s)
			if problems := problemsOf(t, s); len(problems) == 0 {
				t.Errorf("a row cut to %d of %d bytes is not noticed: %s", n, len(entry.value), describeRow(entry.key, entry.value))
			}
		}
		entry.set(t, s)
	}
}

// TestCheckSurvivesAnyByte changes each byte of each value. Not every change breaks an invariant, but no change may
// make the check itself fail.
func TestCheckSurvivesAnyByte(t *testing.T) {
	s := richStore(t)
	noticed, all := 0, 0
	for _, row := range dump(s) {
		for at := range row.value {
			values := []byte{0xff, 0, row.value[at] ^ 0x80}
			if testing.Short() {
				values = values[:1]
			}
			for _, to := range values {
				value := append([]byte{}, row.value...)
				value[at] = to
				storedRow{row.key, value}.set(t, s)
				all++
				if len(problemsOf(t, s)) > 0 {
					noticed++
				}
			}
		}
		row.set(t, s)
	}
	t.Logf("%d of %d changes broke an invariant", noticed, all)
}

// TestCheckNames breaks one invariant after another. The check must name each.
func TestCheckNames(t *testing.T) {
	s := richStore(t)
	find := func(table byte, what string) storedRow {
		for _, row := range dump(s) {
			if row.key[0] == table && strings.Contains(describeRow(row.key, row.value), what) {
				return row
			}
		}
		t.Fatalf("no row of table %c is like %q", table, what)
		return storedRow{}
	}
	changeSpan := func(entry storedRow, change func(sp *row.Span)) storedRow {
		sp := row.DecodeSpan(row.LineOfKey(entry.key), entry.value)
		change(&sp)
		return storedRow{entry.key, sp.Encode()}
	}
	active := find(row.SpanTable, "Status:active ")
	listed := find(row.EffectIndexTable, "")
	segment, batch, by := row.SplitEffectIndexKey(listed.key)
	changeEffect := func(change func(c *row.Cause, e *row.Effect)) (changed storedRow) {
		for _, entry := range dump(s) {
			if entry.key[0] != row.EffectTable {
				continue
			}
			commands := decodedEffects(row.SeqOfKey(entry.key), entry.value)
			for i := range commands {
				for j := range commands[i].effects {
					if e := &commands[i].effects[j]; commands[i].Seq == by && e.Run.Batch == batch {
						change(&commands[i].Cause, e)
						return storedRow{entry.key, encodedEffects(commands)}
					}
				}
			}
		}
		t.Fatalf("no effect of batch %d by %d", batch, by)
		return changed
	}
	alone := find(row.SpanTable, "Moved:24") // cancelled by a sweep
	claimRow, leaseRow := find(row.ClaimTable, `"r1"`), find(row.ClaimStateTable, "claim 3 ")
	for _, test := range []struct {
		name, want string
		broken     storedRow
		gone       bool
	}{
		{"gap", "was next", changeSpan(active, func(sp *row.Span) { sp.First++ }), false},
		{"overlap", "was next", changeSpan(active, func(sp *row.Span) { sp.First-- }), false},
		{"missing span", "are in no span", find(row.SpanTable, "Last:11"), true},
		{"unknown status", "are status(9)", changeSpan(active, func(sp *row.Span) { sp.Status = 9 }), false},
		{"no claim", "active under no claim", changeSpan(active, func(sp *row.Span) { sp.Claim = 0 }), false},
		{"claim of nothing", "claim 77 is named by lines 2-2 of batch 1 and has no row", changeSpan(active, func(sp *row.Span) { sp.Claim = 77 }), false},
		{"claimed too often", "were claimed 4 times of 3", changeSpan(active, func(sp *row.Span) { sp.Attempts = 4 }), false},
		{"purged with memory", "purged lines 0-1 remember", changeSpan(find(row.SpanTable, "Status:purged "), func(sp *row.Span) { sp.UpdatedAt = 1 }), false},
		{"ready row", "is missing", find(row.ReadyTable, "queue 1"), true},
		{"list row", "is missing", find(row.ListTable, "queue 2"), true},
		{"row by time", "is missing", find(row.MovedTable, "queue 1"), true},
		{"run_at timer", "is missing", find(row.TimerTable, "kind 1"), true},
		{"purge timer", "is missing", find(row.TimerTable, "kind 4"), true},
		{"claim timer", "is missing", find(row.TimerTable, "kind 2"), true},
		{"line timer", "is missing", find(row.TimerTable, "kind 3"), true},
		{"hold row", "is missing", find(row.HoldTable, ""), true},
		{"ready row too many", "table R has", storedRow{row.ReadyKey(1, row.LaneID{4, job.Fresh}, 1, row.Position{1, 6}), nil}, false},
		{"batch counts", "batch 1 counts", storedRow{row.SeqKey(row.CountsTable, 1), (&row.BatchCounts{Details: true}).Encode()}, false},
		{"batch counts gone", "batch 1: ", find(row.CountsTable, "batch 1 "), true},
		{"unknown details", "does not know of", storedRow{row.SeqKey(row.CountsTable, 1), func() []byte {
			b := row.DecodeBatchCounts(find(row.CountsTable, "batch 1 ").value)
			b.Details = false
			return b.Encode()
		}()}, false},
		{"queue counts", "queue a/x counts", storedRow{row.QueueKey(1), (&memory.Queue{QueueName: row.QueueName{"a", "x"}}).Encode()}, false},
		{"queue gone", "has jobs and no row", find(row.QueueTable, "queue 3"), true},
		{"queue twice", "is there twice", storedRow{row.QueueKey(4), find(row.QueueTable, "queue 3").value}, false},
		{"queue's head", "next in line", func() storedRow {
			row := find(row.QueueTable, "queue 1")
			q := memory.DecodeQueue(1, row.value)
			q.Lanes.Head = memory.Place{0, 1, 1}
			return storedRow{row.key, q.Encode()}
		}(), false},
		{"queue's tail", "last in line", func() storedRow {
			row := find(row.QueueTable, "queue 4")
			q := memory.DecodeQueue(4, row.value)
			q.Lanes.Spans, q.Lanes.Tail = 2, memory.Place{9, 9, 9}
			return storedRow{row.key, q.Encode()}
		}(), false},
		{"cell counts", "jobs in 9 spans", func() storedRow {
			entry := find(row.CellTable, "")
			return storedRow{entry.key, (&row.Cell{Jobs: 1, Spans: 9, Divided: true}).Encode()}
		}(), false},
		{"cell gone", "is missing", find(row.CellTable, ""), true},
		{"page gone", "has no page", find(row.PageTable, "of batch 2 "), true},
		{"page too many", "overlaps another", storedRow{row.PageKey(2, 2, 1), []byte("x\ny\n")}, false},
		{"page short", "does not hold its lines", storedRow{find(row.PageTable, "of batch 2 ").key, []byte("x\n")}, false},
		{"page of purged lines", "holds purged lines only", storedRow{row.PageKey(1, 0, 0), []byte("x\n")}, false},
		{"sizes gone", "are not those of its payloads", find(row.SizesTable, ""), true},
		{"sizes of another page", "which is not there", storedRow{row.SizesKey(1, 5, 0), []byte{1}}, false},
		{"sizes of no batch", "belongs to no batch", storedRow{row.SizesKey(99, 5, 0), []byte{1}}, false},
		{"detail of purged line", "line 0 has details", storedRow{row.DetailKey(1, 0, row.ProgressDetail), row.Progress{Claim: 3}.Encode()}, false},
		{"detail of no line", "line 12 has details", storedRow{row.DetailKey(1, 12, row.ProgressDetail), row.Progress{Claim: 3}.Encode()}, false},
		{"detail of unknown kind", "unknown kind 9", storedRow{row.DetailKey(1, 5, 9), nil}, false},
		{"detail of no batch", "belongs to no batch", storedRow{row.DetailKey(99, 0, row.ProgressDetail), row.Progress{Claim: 3}.Encode()}, false},
		{"span of no batch", "belongs to no batch", storedRow{row.LineKey(row.SpanTable, 99, 0), active.value}, false},
		{"span beyond", "lies beyond its", storedRow{row.LineKey(row.SpanTable, 1, 20), changeSpan(active, func(sp *row.Span) { sp.First = 20 }).value}, false},
		{"claim counts", "counts held, refs, job leases", storedRow{leaseRow.key, (&row.ClaimState{}).Row()}, false},
		{"claim row gone", "of batch 1 and has no row", claimRow, true},
		{"claim of no line", "claim 5 is named by no line", storedRow{row.SeqKey(row.ClaimTable, 5), claimRow.value}, false},
		{"lease of no claim", "belongs to no claim", storedRow{row.SeqKey(row.ClaimStateTable, 5), leaseRow.value}, false},
		{"claim ranges", "which did not hand them out", storedRow{claimRow.key, (&row.Claim{At: startAt + 20, Runner: "r1"}).Encode()}, false},
		{"claim timer late", "after its deadline", storedRow{leaseRow.key, func() []byte {
			value := leaseRow.value
			l := row.DecodeClaimState((*lsm.Decoder)(&value))
			l.TimerAt += 1 << 40
			return l.Row()
		}()}, false},
		{"lease of a line not held", "which it does not hold", storedRow{row.JobLeaseKey(3, 1, 4), find(row.JobLeaseTable, "").value}, false},
		{"runner counts", "counts 9 claims and 0 jobs, and holds 1 and 2", storedRow{row.RunnerKey(row.RunnerTable, "r1"), (&row.Runner{Claims: 9}).Encode()}, false},
		{"idle runner remembers", "remembers", storedRow{row.RunnerKey(row.RunnerTable, "idle"), (&row.Runner{TickledAt: 9, IdleSince: 9, TimerAt: 9}).Encode()}, false},
		{"idle runner without a timer", "has held nothing since", storedRow{row.RunnerKey(row.RunnerTable, "idle"), (&row.Runner{IdleSince: 9}).Encode()}, false},
		{"idle runner's timer gone", "is missing", storedRow{row.RunnerKey(row.RunnerTable, "idle"), (&row.Runner{IdleSince: 9, TimerAt: 9}).Encode()}, false},
		{"runner gone", "holds jobs and has no row", find(row.RunnerTable, "r1"), true},
		{"effects gone", "effects", find(row.EffectTable, ""), true},
		{"effect of another batch", "is missing", changeEffect(func(_ *row.Cause, e *row.Effect) { e.Run.Batch-- }), false},
		{"effects longer", "effects", changeEffect(func(c *row.Cause, _ *row.Effect) { c.By = "somebody" }), false},
		{"effects in the future", "effects of command", changeEffect(func(c *row.Cause, _ *row.Effect) { c.At += 1 << 40 }), false},
		{"effect index gone", "is missing", listed, true},
		{"effect index too much", "table j has", storedRow{row.EffectIndexKey(segment, batch, by+1), nil}, false},
		{"effect index of another segment", "table j has", storedRow{row.EffectIndexKey(segment+1, batch, by), nil}, false},
		{"moved by nobody", "as the last that moved them", changeSpan(alone, func(sp *row.Span) { sp.Moved = 99 }), false},
		{"moved before its create", "as the last that moved them", changeSpan(alone, func(sp *row.Span) { sp.Moved = 1 }), false},
		{"moved in a batch of several", "as the last that moved them", changeSpan(active, func(sp *row.Span) { sp.Moved = 3 }), false},
		{"effects beyond", "beyond the cursor", storedRow{row.SeqKey(row.EffectTable, 99), nil}, false},
		{"meta", "meta row: a row is shorter", storedRow{row.MetaKey, []byte{1}}, false},
		{"next queue", "and the next one is 1", storedRow{row.MetaKey, (&row.Meta{Version: row.FormatVersion, Cursor: 30, NextQueue: 1}).Encode()}, false},
		{"submission counts", "counts 4 jobs that are pending", func() storedRow {
			entry := find(row.SubmissionStateTable, "")
			state := row.DecodeSubmissionState(entry.value)
			state.Counts[job.Pending]--
			return storedRow{entry.key, state.Encode()}
		}(), false},
		{"submission status", "has 5 jobs that have not ended", func() storedRow {
			entry := find(row.SubmissionStateTable, "")
			state := row.DecodeSubmissionState(entry.value)
			state.Status, state.StillOpen, state.EndedAt = job.BatchCompleted, false, startAt
			return storedRow{entry.key, state.Encode()}
		}(), false},
		{"submission gone", "belongs to no submission", find(row.SubmissionTable, ""), true},
		{"submission's metadata gone", "has 0 bytes of metadata, and says 8", find(row.BatchMetadataTable, ""), true},
		{"submission's part gone", "parts", find(row.PartTable, ""), true},
		{"counts by status", "are not those of the submissions", storedRow{row.StatusCountsKey(row.QueueName{"d", "w"}), (&row.StatusCounts{0, 1, 0, 2}).Encode()}, false},
		{"counts by status of none", "counts no submission", storedRow{row.StatusCountsKey(row.QueueName{"none", "w"}), (&row.StatusCounts{}).Encode()}, false},
		{"no table", "is of no table", storedRow{"Z", nil}, false},
		{"batch", "batch 1: a row is shorter", storedRow{row.SeqKey(row.BatchTable, 1), []byte{1, 2}}, false},
		{"batch lines", "are not those of its", storedRow{row.SeqKey(row.BatchTable, 1), func() []byte {
			b := row.DecodeBatch(1, find(row.BatchTable, "batch 1 ").value)
			b.Lines++
			return b.Encode()
		}()}, false},
		{"batch groups", "batch 1: a row is shorter", storedRow{row.SeqKey(row.BatchTable, 1), func() (e lsm.Encoder) {
			e.Int(startAt)
			for _, n := range []uint64{12, 1, 9, 1 << 50} {
				e.Uint(n)
			}
			return e
		}()}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := s.machine.O.Get(test.broken.key)
			if test.gone {
				test.broken.del(t, s)
			} else {
				test.broken.set(t, s)
			}
			named := false
			problems := problemsOf(t, s)
			for _, problem := range problems {
				named = named || strings.Contains(problem, test.want)
			}
			testkit.Holds(t, named, "want", test.want, "got", problems)
			if before == nil {
				test.broken.del(t, s)
			} else {
				storedRow{test.broken.key, before}.set(t, s)
			}
		})
	}
}

func TestCheckStops(t *testing.T) {
	s := richStore(t)
	for _, r := range dump(s) {
		if r.key[0] == row.ListTable {
			r.del(t, s)
			defer r.set(t, s)
		}
	}
	calls := 0
	problems, err := s.Check(func(string) bool { calls++; return calls < 2 })
	testkit.Holds(t, problems == 2 && calls == 2 && err == nil, problems, "problems in", calls, "calls", err)
}

func TestCheckOfANewStore(t *testing.T) {
	s := mustOpen(t, Options{})
	sound(t, s)
}

// TestCheckNoticesDamagedDocuments: versions out of order, too many or too few, from the future, without their texts,
// with those of others, in the wrong row, and wrong keys.
func TestCheckNoticesDamagedDocuments(t *testing.T) {
	s := mustOpen(t, Options{Small: true})
	for i := range byte(5) {
		mustApply(t, s, uint64(1+i), int64(i), job.PutDocument{Kind: job.HandlerDocument, Client: "a", Name: "x", Document: []byte{'0' + i}})
	}
	mustApply(t, s, 6, 5, job.PutDocument{Kind: job.HandlerDocument, Name: "y", Document: []byte("y")})
	mustStore(t, s, 7, 6, job.DeleteDocument{Kind: job.HandlerDocument, Name: "y"})
	noticed := func(name string) { t.Helper(); testkit.Holds(t, len(problemsOf(t, s)) != 0, name, "not noticed") }
	name, deleted := row.DocumentName{job.HandlerDocument, "a", "x"}, row.DocumentName{job.HandlerDocument, "", "y"}
	key := row.DocumentKey(name, false)
	good := storedRow{key, s.machine.O.Get(key)}
	d := func() *row.Document { return row.DecodeDocument(name, good.value) }
	n := len(d().Versions)
	testkit.MustHold(t, n == 3 && d().Newest().Number == 5, n, "versions, the newest is", d().Newest().Number)
	for name, damage := range map[string]func(d *row.Document){
		"no versions": func(d *row.Document) { d.Versions = nil },
		"too many versions": func(d *row.Document) {
			d.Versions = append(d.Versions, row.DocumentVersion{Seq: 6, At: startAt + 5, Number: 6})
		},
		"versions out of order":  func(d *row.Document) { d.Versions[0], d.Versions[1] = d.Versions[1], d.Versions[0] },
		"a number twice":         func(d *row.Document) { d.Versions[1].Number = d.Versions[0].Number },
		"a number left out":      func(d *row.Document) { d.Versions[2].Number++ },
		"a later command":        func(d *row.Document) { d.Versions[2].Seq = 8 },
		"a later time":           func(d *row.Document) { d.Versions[2].At = startAt + 7 },
		"a document twice":       func(d *row.Document) { d.Versions[2].Digest = d.Versions[1].Digest },
		"another length":         func(d *row.Document) { d.Versions[2].Bytes++ },
		"a deletion, not listed": func(d *row.Document) { d.Versions[2].Deleted = true },
	} {
		damaged := d()
		damage(damaged)
		storedRow{key, damaged.Encode()}.set(t, s)
		noticed(name)
	}
	good.set(t, s)
	for _, wrong := range []string{"H", "H\x01", "H\x01\x00", "H\x01\x00\x00a", "H\x01\x00x", "H\x00\x00x\x00", "H\xff\x00x\x00", "H\x01\x02x\x00", row.DeletionKey(job.HandlerDocument, 6),
		"F\x01", "F\xff12345678", row.DeletionKey(job.HandlerDocument, 0) + "x", row.SeqKey(row.DocumentTextTable, 6)} {
		row := storedRow{wrong, good.value}
		row.set(t, s)
		noticed("key " + wrong)
		row.del(t, s)
	}
	for _, value := range [][]byte{nil, good.value[:len(good.value)-1]} {
		storedRow{key, value}.set(t, s)
		noticed("a short row")
	}
	good.set(t, s)
	gone := row.DocumentKey(deleted, true)
	for _, key := range []string{row.DeletionKey(job.HandlerDocument, 7), row.SeqKey(row.DocumentTextTable, 4), gone} {
		lost := storedRow{key, s.machine.O.Get(key)}
		lost.del(t, s)
		noticed("no row " + key)
		storedRow{key, good.value}.set(t, s)
		noticed("another row " + key)
		lost.set(t, s)
	}
	problems := problemsOf(t, s)
	testkit.Holds(t, len(problems) == 0, problems)
}
