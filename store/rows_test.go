package store

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// rowForms are values of every kind of row, with their decoders.
func rowForms() map[string]struct {
	value  any
	bytes  []byte
	decode func([]byte) any
} {
	exit := int64(-1)
	m := row.Meta{Version: row.FormatVersion, Journal: testJournal, Cursor: math.MaxUint64, At: startAt, Level: 1, GraceAt: -1, NextQueue: math.MaxUint32, Effects: []row.Segment{{1, startAt, 99}, {math.MaxUint64, startAt, 1 << 50}}, Audit: [2][]row.Segment{[]row.Segment{{7, startAt, 5}}, {{9, startAt, 6}}},
		Stopped: true, Served: "a", Keys: []row.KeyGeneration{{39351, 1, 2}, {39352, math.MaxUint64, math.MaxUint64}}, Epochs: []row.Epoch{{1, startAt}, {1<<24 - 1, startAt}}, Sessions: 7, SessionBytes: 9000, PurgedAt: startAt}
	sp := row.Span{3, 1<<22 - 1, job.State{Status: job.Failed, Class: job.Fresh, Code: job.Error, ExitCode: 599, Attempts: 1000, Order: 812, Claim: 1 << 39,
		UpdatedAt: startAt, At: job.MaxTimeMs, Why: job.Expired, Changes: job.Changes{Priority: 10, MaxAttempts: 7, Redrives: math.MaxUint32}}, 1 << 40}
	b := &row.Batch{Seq: 812, At: startAt, Lines: 9, Frame: job.LenFrame, Longest: 4 << 20, Groups: &row.GroupPage{GroupPageName: row.GroupPageName{812, 8}, Groups: []row.Group{
		{First: 0, Last: 4, QueueID: 1, Attributes: job.Attributes{Kind: job.WASI, Priority: 9, RunAt: startAt, MaxAttempts: 1000, Backoff: job.Backoff{InitialMs: 1, FactorMilli: 2, MaxMs: 3},
			LeaseMs: 5, RetentionMs: job.MaxDelayMs, ExpiresAt: job.MaxTimeMs, TimeoutMs: 1, Traceparent: "00-", Meta: "a=b"}},
		{First: 5, Last: 8, QueueID: math.MaxUint32},
	}}, Unique: true, Joined: true}
	b.Groups.Texts = row.DecodeBatch(812, b.Encode()).Groups.Texts
	counts := row.BatchCounts{Counts: job.Counts{0, 1, 2, 3, 4, 5, 6, 1 << 22}, Details: true}
	l := row.ClaimState{Lease: job.Lease{Seq: 9, At: startAt, Ms: 1000}, TimerAt: 5, Held: 1000, Refs: 1001, JobLeases: 3, CancelledAt: startAt}
	c := &row.Claim{Seq: 7, At: startAt, Runner: "r1", Runs: []row.Run{{1, 2, 3}, {math.MaxUint64, 0, math.MaxUint32}}, ClaimState: l}
	o := row.JobLease{Lease: job.Lease{Seq: 9, At: startAt, Ms: 1000}, TimerAt: 5}
	r := &row.Runner{Name: "r1", Claims: 2, Held: 3, TickledAt: 4, Promise: job.Promise{From: 5, Until: 6, Seq: 7}, Open: []uint64{1, math.MaxUint64}}
	left := &row.PurgedBatch{812, []uint32{0, 7, 1<<22 - 1}, true}
	attempt := job.Attempt{At: 1, Runner: "r", Code: job.Error, ExitCode: 500, Error: "two\nlines", Why: job.Reported, StartedAt: 1, Claim: job.NewID(1, 3, 0), ProcessExit: new(int64(-9)), LogAddr: "sha256:a"}
	result := job.Result{ProcessExit: &exit, OutputAddr: "there", OutputAddrKind: job.JSON, LogAddr: "kept", OutputKind: job.Bytes, Output: []byte{0, 255}}
	made := &row.Done{Digest: job.Digest{1, 0xff}, Seq: 812, At: startAt, Lines: 9, Group: b.Groups.Groups[0], QueueName: row.QueueName{"a", "x y"}, Existing: []row.MadeBy{{3, jobID(1, 2, 3)}}}
	made.Group.First = 0
	made.Ended = []row.EndedPart{}
	took := &row.Done{Digest: job.Digest{2}, Seq: 813, At: startAt, Ended: []row.EndedPart{
		{Seq: 812, At: startAt, All: 1000, Results: []row.ResultRun{{999, job.Completed, job.Granted}, {1, 0, job.OutcomeDiffers}}},
		{Seq: math.MaxUint64, At: startAt, Refusal: job.ClaimLost, Results: []row.ResultRun{}},
	}}
	named := &row.Document{row.DocumentName{job.HandlerDocument, "a", "x"}, []row.DocumentVersion{
		{Seq: 8, At: startAt, Number: 1, Digest: job.DocumentDigest{1, 0xff}, Bytes: math.MaxInt32, Summary: "exec"}, {Seq: 9, At: startAt + 1, Number: 2, Deleted: true, By: "anna"}}}
	opened := &row.Session{Seq: 9, At: startAt, Runner: "r1", By: "acme", UsedAt: startAt + 1, TimerAt: startAt + 2, Used: true, IdleAt: startAt + 1, Bytes: 640}
	last := row.Slot{Number: math.MaxInt64, Done: took}
	encoded := func(d *row.Done) (e lsm.Encoder) { d.Encode(&e); return e }
	decoded := func(b []byte) any { return row.DecodeDone((*lsm.Decoder)(&b)) }
	ofBatch := &row.Sweep{Sweep: job.Sweep{Op: job.Cancel, Status: job.Active, Now: job.Now{Seq: 9, At: startAt}}, Batch: jobID(1, 2, 0), NextLine: 77, Moved: 1 << 40, Skipped: 1}
	ofQueue := &row.Sweep{Sweep: job.Sweep{Op: job.Delete, Now: job.Now{Seq: 9, At: startAt}}, QueueID: 7, Turn: 5, NextBatch: 1 << 39, NextLine: 1, FinishedAt: startAt}
	half, step := row.Progress{Claim: 7, Step: "half", Progress: -1, Steps: 1 << 40}, job.Step{At: startAt, Name: "half"}
	moves := []said{{row.Cause{job.Now{1 << 40, startAt}, "complete", "acme"}, []row.Effect{
		{Run: row.Run{1<<40 - 300, 0, 0}, From: job.Active, To: job.Completed, Reason: job.ReasonEnded, Queue: math.MaxUint32, Claim: 1<<40 - 2, Runner: "r1", Before: 1<<40 - 2},
		{Run: row.Run{7, 3, 1<<22 - 1}, From: job.Active, To: job.Cancelled, Reason: job.ReasonCancelled, Queue: 7, Claim: 9, Runner: "r2", Sweep: 8},
		{Run: row.Run{7, 0, 0}, From: job.Pending, To: job.Completed, Reason: job.ReasonEnded, Queue: 7, Claim: 1 << 40},
		{Run: row.Run{1 << 40, 0, 8}, To: job.Pending, Reason: job.ReasonCreated, Queue: 1, By: "another"},
		{Run: row.Run{1 << 40, 9, 9}, From: job.Pending, To: job.Purged, Reason: job.ReasonPurged, Queue: 1, Before: 1 << 40},
	}}}
	type told struct {
		claim  uint64
		result job.Result
	}
	return map[string]struct {
		value  any
		bytes  []byte
		decode func([]byte) any
	}{
		"meta":      {m, m.Encode(), func(b []byte) any { return row.DecodeMeta(b) }},
		"span":      {sp, sp.Encode(), func(b []byte) any { return row.DecodeSpan(sp.Last, b) }},
		"batch":     {b, b.Encode(), func(v []byte) any { return row.DecodeBatch(812, v) }},
		"counts":    {counts, counts.Encode(), func(b []byte) any { return row.DecodeBatchCounts(b) }},
		"claim":     {c, c.Encode(), func(b []byte) any { return row.DecodeClaim(7, b, nil) }},
		"purged":    {left, left.Encode(), func(b []byte) any { return row.DecodePurgedBatch(812, b) }},
		"lease":     {l, l.Row(), func(b []byte) any { return row.DecodeClaimState((*lsm.Decoder)(&b)) }},
		"job lease": {o, o.Encode(), func(b []byte) any { return row.DecodeJobLease(b) }},
		"done":      {made, encoded(made), decoded},
		"taken":     {took, encoded(took), decoded},
		"session":   {opened, opened.Encode(), func(b []byte) any { return row.DecodeSession(9, b) }},
		"document":  {named, named.Encode(), func(b []byte) any { return row.DecodeDocument(named.DocumentName, b) }},
		"deletion":  {named.DocumentName, named.EncodeDeletion(), func(b []byte) any { return row.DecodeDeletion(job.HandlerDocument, b) }},
		"forgotten": {math.MaxInt32, row.EncodeForgotten(math.MaxInt32), func(b []byte) any { return row.DecodeForgotten(b) }},
		"slot":      {last, last.Encode(), func(b []byte) any { number, done := row.DecodeSlot(b); return row.Slot{Number: number, Done: done} }},
		"sweep":     {ofBatch, ofBatch.Encode(), func(b []byte) any { return row.DecodeSweep(9, b) }},
		"sweep 2":   {ofQueue, ofQueue.Encode(), func(b []byte) any { return row.DecodeSweep(9, b) }},
		"runner":    {r, r.Encode(), func(b []byte) any { return row.DecodeRunner("r1", b) }},
		"attempt":   {attempt, row.EncodeAttempt(&attempt), func(b []byte) any { return row.DecodeAttempt(b) }},
		"result":    {told{7, result}, row.EncodeResult(7, &result), func(b []byte) any { c, r := row.DecodeResult(b); return told{c, r} }},
		"progress":  {half, half.Encode(), func(b []byte) any { return row.DecodeProgress(b) }},
		"audited":   {document.Audited{Seq: 9, At: startAt, By: "boss", Verb: "pause", Fields: "client=a type=x", Refusal: job.QueueNotFound}, row.EncodeAudited(&document.Audited{At: startAt, By: "boss", Verb: "pause", Fields: "client=a type=x", Refusal: job.QueueNotFound}), func(b []byte) any { return row.DecodeAudited(9, b) }},
		"effects":   {moves, encodedEffects(moves), func(b []byte) any { return decodedEffects(1<<40, b) }},
		"step":      {step, row.EncodeStep(&step), func(b []byte) any { return row.DecodeStep(b) }},
	}
}

func TestRowsDecodeToWhatMadeThem(t *testing.T) {
	for name, form := range rowForms() {
		testkit.DeepEqual(t, form.decode(form.bytes), form.value, name)
	}
	q := &memory.Queue{Id: 7, QueueName: row.QueueName{"a", "x"}, Paused: true, CreatedAt: startAt, IdleAt: startAt, Counts: job.Counts{0, 1, 2, 3, 4, 5, 6, 7}}
	for _, l := range []*memory.Lane{q.Lane(row.LaneID{4, job.Fresh}), q.Lane(row.LaneID{9, job.Returned})} {
		l.Head = memory.Place{70, 60, 50}
		l.Tail = l.Head
		l.Spans, l.Divided = 1, l.Class == job.Fresh
	}
	fresh, back := q.Lane(row.LaneID{4, job.Fresh}), q.Lane(row.LaneID{9, job.Returned})
	fresh.Pending, fresh.Spans, fresh.Tail, back.Pending = 2, 2, memory.Place{70, 61, 5}, 1
	q.Counts[job.Pending] = 3
	q.Lane(row.LaneID{0, job.Returned}) // without jobs, so it is not stored
	got := memory.DecodeQueue(7, q.Encode())
	testkit.MustHold(t, fresh.Next != nil && fresh.Next.Class == job.Returned && fresh.Next.Priority == 0, "lanes", back, fresh)
	fresh.Next = nil
	testkit.DeepEqual(t, got, q)
}

// encodedEffects returns the value of the row of effects that some commands make.
func encodedEffects(commands []said) []byte {
	var r row.EffectsRow
	r.Begin(commands[0].Now)
	for i := range commands {
		r.Add(&commands[i].Cause, commands[i].effects)
	}
	return r.Value
}

func decodedEffects(seq uint64, value []byte) (commands []said) {
	row.EachEffects(seq, value, func(c *row.Cause, effects []row.Effect) { commands = append(commands, said{*c, effects}) })
	return commands
}

// TestEffectsOfSeveralCommands: the commands of a row share their texts. A row that was closed in between is the same, and a row that is
// cut has the commands before the cut, or does not decode.
func TestEffectsOfSeveralCommands(t *testing.T) {
	var commands []said
	for n := range uint64(20) {
		e := row.Effect{Run: row.Run{7, uint32(n), uint32(n)}, From: job.Pending, To: job.Active, Reason: job.ReasonClaimed, Queue: 1, Claim: 900 + n, Runner: fmt.Sprint("runner ", n%3)}
		commands = append(commands, said{row.Cause{job.Now{900 + n, startAt + int64(n)*1000}, []string{"claim", "tick"}[n%2], []string{"", "acme"}[n%2]}, []row.Effect{e}})
	}
	value := encodedEffects(commands)
	testkit.DeepEqual(t, decodedEffects(900, value), commands, "the row")
	for _, text := range []string{"claim", "tick", "acme", "runner 0", "runner 1", "runner 2"} {
		testkit.Equal(t, strings.Count(string(value), text), 1, text)
	}
	whole := 0
	for n := range len(value) {
		var got []said
		err := func() (err error) {
			defer lsm.Catch(&err)
			got = decodedEffects(900, value[:n])
			return nil
		}()
		if err == nil {
			whole++
			testkit.DeepEqual(t, got, commands[:whole], "cut to", n, "of", len(value), "bytes")
			r := row.OpenEffects(row.SeqKey(row.EffectTable, 900), value[:n])
			for i := range commands[whole:] {
				r.Add(&commands[whole+i].Cause, commands[whole+i].effects)
			}
			testkit.Equal(t, string(r.Value), string(value), "opened with", whole, "commands")
		} else {
			testkit.Holds(t, errors.Is(err, lsm.ErrShortRow), "cut to", n, "of", len(value), "bytes", err)
		}
	}
	testkit.Equal(t, whole, len(commands)-1, "cuts between commands")
	err := func() (err error) {
		defer lsm.Catch(&err)
		decodedEffects(900, []byte{0, 0, 0, 2, 0, 1}) // text 2 before text 1
		return nil
	}()
	testkit.Holds(t, errors.Is(err, row.ErrDamaged), "an unknown text", err)
}

func TestShortRowsFail(t *testing.T) {
	for name, form := range rowForms() {
		for n := range form.bytes {
			err := func() (err error) {
				defer lsm.Catch(&err)
				form.decode(form.bytes[:n])
				return nil
			}()
			testkit.Holds(t, errors.Is(err, lsm.ErrShortRow), name, "cut to", n, "of", len(form.bytes), "bytes", err)
		}
	}
}

func TestHistoryKeepsTheNewest(t *testing.T) {
	s := mustOpen(t, Options{})
	apply := func(seq uint64, cmd job.Command) any {
		t.Helper()
		return testkit.Must(s.Apply(seq, startAt+int64(seq), cmd))(t)
	}
	apply(1, &job.Create{Frame: job.NoFrame, Groups: []job.Group{{Lines: 1, Client: "a", Type: "x", Attributes: job.Attributes{MaxAttempts: 1000, LeaseMs: 1000, RetentionMs: 1000}}}})
	id := job.NewID(startAt+1, 1, 0)
	for n := range 2 * job.MaxHistory {
		seq := uint64(2 + 2*n)
		apply(seq, job.Claim{Runner: "r", Max: 1, MaxBytes: 1})
		apply(seq+1, job.Complete{Outcomes: []job.Outcome{{ID: id, Code: job.Error, ExitCode: 500, Error: strings.Repeat("x", n), DelayMs: 0}}})
		testkit.NoError(t, s.Commit())
		doc := testkit.Must(s.Job(id))(t)
		if want := min(n+1, job.MaxHistory); len(doc.Attempts) != want || len(doc.Attempts[want-1].Error) != n || len(doc.Attempts[0].Error) != n+1-want {
			t.Fatalf("after %d attempts: %+v", n+1, doc.Attempts)
		}
	}
}

func TestPages(t *testing.T) {
	long := strings.Repeat("y", 50)
	for _, test := range []struct {
		name     string
		frame    job.Frame
		payloads []string
		pages    []row.Run
	}{
		{"one short line", job.LineFrame, []string{"a"}, []row.Run{{1, 0, 0}}},
		{"lines that fill pages", job.LineFrame, []string{"aaaa", "bbbb", "cccc", "dddd", "eeee", "f"}, []row.Run{{1, 0, 3}, {1, 4, 5}}},
		{"lines across the end of a page", job.LineFrame, []string{"aaaaa", "bbbbb", "ccccc", "ddddd", "eeeee"}, []row.Run{{1, 0, 2}, {1, 3, 4}}},
		{"a line longer than a page", job.LineFrame, []string{"a", long, "b"}, []row.Run{{1, 0, 0}, {1, 1, 1}, {1, 2, 2}}},
		{"lengths", job.LenFrame, []string{"a\n", "", "\n\n", long, "b", "c"}, []row.Run{{1, 0, 3}, {1, 4, 5}}},
		{"only empty payloads", job.LenFrame, []string{"", "", "", "", "", "", "", ""}, []row.Run{{1, 0, 6}, {1, 7, 7}}},
		{"no payloads", job.NoFrame, []string{"", "", ""}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := mustOpen(t, Options{bounds: &memory.Bounds{MinWindow: 1, MaxWindow: 9, Rules: &row.Rules{PageBytes: 20, CommandRows: 99, ClaimRows: 99, ClaimBytes: 1 << 20, CellSpans: 3, SweepRows: 60, PurgedGroups: 1, EffectBytes: 200, AuditBytes: 200, EffectRowBytes: 50, DistinctStep: 2, DistinctRows: 1000, DistinctBytes: 1 << 20, DistinctNodes: 16, DistinctLooks: 256, Sessions: job.MaxSessions}}})
			c := &job.Create{Groups: []job.Group{plainGroup("a", "x", len(test.payloads))}, Frame: test.frame}
			for _, p := range test.payloads {
				c.Longest = max(c.Longest, len(p))
				c.Payloads = c.Frame.Append(c.Payloads, []byte(p))
			}
			testkit.NoError(t, c.CheckPayloads())
			mustStore(t, s, 1, 0, c)
			var pages []row.Run
			var body []byte
			for _, entry := range dump(s) {
				if entry.key[0] == row.PageTable {
					last, first := row.SplitPageKey(entry.key)
					pages = append(pages, row.Run{row.SeqOfKey(entry.key), first, last})
					body = append(body, entry.value...)
				}
			}
			testkit.Equal(t, fmt.Sprint(pages), fmt.Sprint(test.pages))
			testkit.EqualSlices(t, body, c.Payloads)
			v := s.db.View()
			defer v.Close()
			b := row.ReadBatch(v, 1)
			for first := range test.payloads {
				for last := first; last < len(test.payloads); last++ {
					var got []string
					row.EachPayload(v, b, uint32(first), uint32(last), func(line uint32, payload []byte) bool {
						testkit.Equal(t, int(line), first+len(got))
						got = append(got, string(payload))
						return true
					})
					testkit.Equal(t, fmt.Sprint(got), fmt.Sprint(test.payloads[first:last+1]))
				}
			}
		})
	}
}

func TestKeysSplitIntoWhatMadeThem(t *testing.T) {
	for _, n := range []uint64{0, 1, 255, 256, 1<<40 - 1, math.MaxUint64} {
		for _, line := range []uint32{0, 1, 1<<22 - 1, math.MaxUint32} {
			for _, table := range []byte{row.SpanTable, row.BatchTable, row.CountsTable} {
				testkit.Equal(t, row.SeqOfKey(row.SeqKey(table, n)), n)
			}
			if key := row.LineKey(row.SpanTable, n, line); row.SeqOfKey(key) != n || row.LineOfKey(key) != line {
				t.Errorf("lineKey %d %d: %x", n, line, key)
			}
			if key := row.DetailKey(n, line, row.ResultDetail); row.SeqOfKey(key) != n || row.LineOfKey(key) != line || key[13] != row.ResultDetail {
				t.Errorf("detailKey %d %d: %x", n, line, key)
			}
			key := row.PageKey(n, line, line/2)
			last, first := row.SplitPageKey(key)
			testkit.Holds(t, row.SeqOfKey(key) == n && last == line && first == line/2, "pageKey", n, line, line/2, row.SeqOfKey(key), last, first)
			claim, seq, l := row.SplitJobLeaseKey(row.JobLeaseKey(n, n/3, line))
			testkit.Holds(t, claim == n && seq == n/3 && l == line, "jobLeaseKey", n, line, claim, seq, l)
			segment, batch, by := row.SplitEffectIndexKey(row.EffectIndexKey(n/2, n/3, n))
			testkit.Holds(t, segment == n/2 && batch == n/3 && by == n, "effectIndexKey", n, segment, batch, by)
			lane, end := row.LaneID{line, job.Fresh}, row.Position{n, line}
			queue, of, e := row.SplitReadyKey(row.ReadyKey(7, lane, n/5, end))
			testkit.Holds(t, queue == 7 && of == lane && e == end, "readyKey", n, line, queue, of, e)
			for kind, want := range map[byte][2]uint64{row.RunAtTimer: {0, uint64(line)}, row.PurgeTimer: {0, uint64(line)}, row.ClaimTimer: {},
				row.JobLeaseTimer: {n / 7, uint64(line)}} {
				got := row.SplitTimer(row.TimerKey(startAt, kind, n, n/7, line))
				testkit.Equal(t, got, (row.Timer{got.Key, startAt, kind, n, want[0], uint32(want[1])}), "timerKey kind", kind)
			}
		}
	}
	for _, name := range []string{"r", "r2", strings.Repeat("ü", 64)} {
		testkit.Equal(t, row.RunnerOfKey(row.RunnerKey(row.RunnerTable, name)), name)
		got := row.SplitTimer(row.RunnerTimerKey(startAt, name))
		testkit.Holds(t, got.At == startAt && got.Kind == row.RunnerTimer, "runnerTimerKey", name, got)
		if key := row.RunnerTimerKey(startAt, name); row.RunnerOfTimer(key) != name || !row.WellFormed(key) || row.WellFormed(key[:len(key)-1]) {
			t.Errorf("runnerTimerKey %q: %x", name, key)
		}
		if key := row.HoldKey(row.HoldTable, name, 812); row.RunnerOfKey(key) != name || lsm.U64At(key, len(key)-8) != 812 {
			t.Errorf("holdKey %q: %x", name, key)
		}
	}
}

// TestKeysSort lists keys in the order in which they must be sorted.
func TestKeysSort(t *testing.T) {
	for name, keys := range map[string][]string{
		"a line's span is the first at or after it": {
			row.LineKey(row.SpanTable, 1, 9), row.LineKey(row.SpanTable, 1, 10), row.LineKey(row.SpanTable, 1, 1<<20), row.LineKey(row.SpanTable, 2, 0), row.LineKey(row.SpanTable, 256, 0),
		},
		"pages stand by their last line": {row.PageKey(1, 5, 0), row.PageKey(1, 6, 6), row.PageKey(1, 300, 7), row.PageKey(2, 0, 0)},
		"service: priority, class, order, id": {
			row.ReadyKey(1, row.LaneID{9, job.Returned}, 7, row.Position{7, 3}), row.ReadyKey(1, row.LaneID{9, job.Fresh}, 2, row.Position{2, 9}), row.ReadyKey(1, row.LaneID{4, job.Returned}, 3, row.Position{3, 1}), row.ReadyKey(1, row.LaneID{4, job.Returned}, 3, row.Position{3, 2}),
			row.ReadyKey(1, row.LaneID{4, job.Fresh}, 2, row.Position{2, 0}), row.ReadyKey(1, row.LaneID{4, job.Fresh}, 5, row.Position{1, 0}), row.ReadyKey(1, row.LaneID{4, job.Fresh}, 5, row.Position{2, 0}), row.ReadyKey(1, row.LaneID{0, job.Returned}, 1, row.Position{1, 0}),
			row.ReadyKey(2, row.LaneID{9, job.Returned}, 1, row.Position{1, 0}),
		},
		"a lane ends before the next": {
			row.LaneKey(1, row.LaneID{4, job.Returned}), row.ReadyKey(1, row.LaneID{4, job.Returned}, math.MaxUint64, row.Position{math.MaxUint64, math.MaxUint32}), lsm.After(row.LaneKey(1, row.LaneID{4, job.Returned})), row.ReadyKey(1, row.LaneID{4, job.Fresh}, 0, row.Position{0, 0}),
		},
		"lists stand by id": {row.ListKey(1, job.Pending, 2, 9), row.ListKey(1, job.Pending, 3, 1), row.ListKey(1, job.Active, 1, 0), row.ListKey(2, job.Deferred, 1, 0)},
		"a segment's list of effects is by batch, then command": {
			row.EffectIndexKey(1, 2, 300), row.EffectIndexKey(1, 256, 257), row.EffectIndexKey(1, 256, 258), row.EffectIndexKey(1, math.MaxUint64, math.MaxUint64),
			row.SeqKey(row.EffectIndexTable, 256), row.EffectIndexKey(256, 1, 256),
		},
		"timers stand by time, then kind": {
			row.TimerKey(6, row.RunAtTimer, 9, 0, 9), row.TimerKey(6, row.ClaimTimer, 1, 0, 0), row.TimerKey(6, row.JobLeaseTimer, 1, 1, 1),
			row.TimerKey(6, row.PurgeTimer, 1, 0, 0), row.TimerKey(256, row.RunAtTimer, 0, 0, 0),
		},
		"no runner's rows begin with another's": {
			row.HoldKey(row.HoldTable, "r", 1), row.HoldKey(row.HoldTable, "r", math.MaxUint64), lsm.After(row.RunnerKey(row.HoldTable, "r")), row.HoldKey(row.HoldTable, "r1", 0), row.HoldKey(row.HoldTable, "r\xff", 0),
		},
	} {
		if !slices.IsSorted(keys) || len(slices.Compact(slices.Clone(keys))) != len(keys) {
			t.Errorf("%s: %x", name, keys)
		}
	}
	a, b := row.ReadyKey(1, row.LaneID{4, job.Fresh}, 2, row.Position{2, 0}), row.ReadyKey(9, row.LaneID{9, job.Returned}, 7, row.Position{7, 0})
	testkit.Holds(t, row.ReadyRank(b) <= row.ReadyRank(a), "rank compares queues before priorities")
}

func TestAfter(t *testing.T) {
	for prefix, want := range map[string]string{"a": "b", "a\xff": "b", "a\xff\xff": "b", "ab\x00": "ab\x01"} {
		testkit.Equal(t, lsm.After(prefix), want, "after", prefix)
	}
	defer func() { testkit.Holds(t, recover() != nil, "after 0xff has a result") }()
	lsm.After("\xff\xff")
}

func TestShortKeysFail(t *testing.T) {
	for name, split := range map[string]func(){
		"span":   func() { row.LineOfKey("S1234567890") },
		"page":   func() { row.SplitPageKey("P123456789012") },
		"timer":  func() { row.SplitTimer("T123456789") },
		"ready":  func() { row.SplitReadyKey("R1234567890") },
		"effect": func() { row.SplitEffectIndexKey("j12345678901234567890123") },
		"number": func() { lsm.U64At("", 1) },
	} {
		err := func() (err error) {
			defer lsm.Catch(&err)
			split()
			return nil
		}()
		var broken *row.Error
		testkit.Holds(t, errors.As(err, &broken), name, err)
	}
}

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
	func(v []byte) { row.EachEffects(1, v, func(*row.Cause, []row.Effect) {}) },
}

// FuzzRows: whatever bytes a row has, decoding it returns a value, or an error of damage that Catch returns to the
// caller. No panic escapes, and memory is bounded by the bytes of the row.
func FuzzRows(f *testing.F) {
	s := mustOpen(f, Options{})
	mustApply(f, s, 1, 0, plainCreate("a", "x", 1, 3))
	mustApply(f, s, 2, 0, job.Claim{Runner: "r", Max: 2, MaxBytes: 1000})
	mustStore(f, s, 3, 0, job.Claim{Runner: "r", Max: 2, MaxBytes: 1000, Strategy: mustDistinct("user", job.Newest)})
	v := s.db.View()
	v.Scan("A", "z", func(_ string, value []byte) bool {
		for n := range rowDecoders {
			f.Add(uint8(n), append([]byte{}, value...))
		}
		return true
	})
	v.Close()
	for _, row := range [][]byte{
		rowForms()["effects"].bytes,
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
		job.SetHistory{Bytes: job.MinHistoryBytes, AgeMs: job.MinHistoryMs, Before: 2},
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
		mustStore(t, s, 3, 2, plainClaim("r", 3))
		at = min(max(at, 0), job.MaxTimeMs-startAt)
		mustApply(t, s, 4, at, cmd)
		mustApply(t, s, 5, at, job.Tick{})
		mustCommit(t, s) // mustOpen checks at the end
	})
}
