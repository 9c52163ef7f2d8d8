package store

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// rowForms are values of every kind of row, with their decoders.
func rowForms() map[string]struct {
	value  any
	bytes  []byte
	decode func([]byte) any
} {
	exit := int64(-1)
	m := meta{version: formatVersion, journal: testJournal, cursor: math.MaxUint64, at: startAt, level: 1, graceAt: -1, nextQueue: math.MaxUint32, effects: []effectSegment{{1, startAt, 99}, {math.MaxUint64, startAt, 1 << 50}},
		stopped: true, served: "a", keys: []keyGeneration{{39351, 1, 2}, {39352, math.MaxUint64, math.MaxUint64}}, epochs: []epoch{{1, startAt}, {1<<24 - 1, startAt}}, sessions: 7, sessionBytes: 9000, purgedAt: startAt}
	sp := span{3, 1<<22 - 1, job.State{Status: job.Failed, Class: job.Fresh, Code: job.Error, ExitCode: 599, Attempts: 1000, Order: 812, Claim: 1 << 39,
		UpdatedAt: startAt, At: job.MaxTimeMs, Why: job.Expired, Changes: job.Changes{Priority: 10, MaxAttempts: 7, Redrives: math.MaxUint32}}}
	b := &batch{seq: 812, at: startAt, lines: 9, frame: job.LenFrame, longest: 4 << 20, groups: &groupPage{groupPageName: groupPageName{812, 8}, groups: []group{
		{first: 0, last: 4, queueID: 1, Attributes: job.Attributes{Kind: job.WASI, Priority: 9, RunAt: startAt, MaxAttempts: 1000, Backoff: job.Backoff{InitialMs: 1, FactorMilli: 2, MaxMs: 3},
			LeaseMs: 5, RetentionMs: job.MaxDelayMs, ExpiresAt: job.MaxTimeMs, TimeoutMs: 1, Traceparent: "00-", Meta: "a=b"}},
		{first: 5, last: 8, queueID: math.MaxUint32},
	}}, unique: true, joined: true}
	b.groups.texts = decodeBatch(812, b.encode()).groups.texts
	counts := batchCounts{counts: job.Counts{0, 1, 2, 3, 4, 5, 6, 1 << 22}, details: true}
	l := claimState{lease: job.Lease{Seq: 9, At: startAt, Ms: 1000}, timerAt: 5, held: 1000, refs: 1001, jobLeases: 3, cancelledAt: startAt}
	c := &claim{seq: 7, at: startAt, runner: "r1", runs: []Run{{1, 2, 3}, {math.MaxUint64, 0, math.MaxUint32}}, claimState: l}
	o := jobLease{lease: job.Lease{Seq: 9, At: startAt, Ms: 1000}, timerAt: 5}
	r := &runner{name: "r1", claims: 2, held: 3, tickledAt: 4, promise: job.Promise{From: 5, Until: 6, Seq: 7}, open: []uint64{1, math.MaxUint64}}
	left := &purgedBatch{812, []uint32{0, 7, 1<<22 - 1}, true}
	attempt := job.Attempt{At: 1, Runner: "r", Code: job.Error, ExitCode: 500, Error: "two\nlines", Why: job.Reported, StartedAt: 1}
	result := job.Result{ProcessExit: &exit, OutputAddr: "there", OutputAddrKind: job.JSON, LogAddr: "kept", OutputKind: job.Bytes, Output: []byte{0, 255}}
	made := &done{digest: job.Digest{1, 0xff}, seq: 812, at: startAt, lines: 9, group: b.groups.groups[0], queueName: queueName{"a", "x y"}, existing: []madeBy{{3, jobID(1, 2, 3)}}}
	made.group.first = 0
	made.ended = []endedPart{}
	took := &done{digest: job.Digest{2}, seq: 813, at: startAt, ended: []endedPart{
		{seq: 812, at: startAt, all: 1000, results: []resultRun{{999, job.Completed, job.Granted}, {1, 0, job.OutcomeDiffers}}},
		{seq: math.MaxUint64, at: startAt, refusal: job.ClaimLost, results: []resultRun{}},
	}}
	files := &fileset{filesetName{"a", "x"}, []filesetVersion{{8, startAt, 1, job.ManifestDigest{1}, 0, 0}, {9, startAt + 1, 2, job.ManifestDigest{2, 0xff}, 100_000, math.MaxInt64}}}
	opened := &session{seq: 9, at: startAt, runner: "r1", usedAt: startAt + 1, timerAt: startAt + 2, used: true, idleAt: startAt + 1, bytes: 640}
	last := slot{number: math.MaxInt64, done: took}
	encoded := func(d *done) (e lsm.Encoder) { d.encode(&e); return e }
	decoded := func(b []byte) any { return decodeDone((*lsm.Decoder)(&b)) }
	ofBatch := &sweep{Sweep: job.Sweep{Op: job.Cancel, Status: job.Active, Now: job.Now{Seq: 9, At: startAt}}, batch: jobID(1, 2, 0), nextLine: 77, moved: 1 << 40, skipped: 1}
	ofQueue := &sweep{Sweep: job.Sweep{Op: job.Delete, Now: job.Now{Seq: 9, At: startAt}}, queueID: 7, turn: 5, nextBatch: 1 << 39, nextLine: 1, finishedAt: startAt}
	type told struct {
		claim    uint64
		result   job.Result
		step     string
		progress int64
	}
	return map[string]struct {
		value  any
		bytes  []byte
		decode func([]byte) any
	}{
		"meta":      {m, m.encode(), func(b []byte) any { return decodeMeta(b) }},
		"span":      {sp, sp.encode(), func(b []byte) any { return decodeSpan(sp.last, b) }},
		"batch":     {b, b.encode(), func(v []byte) any { return decodeBatch(812, v) }},
		"counts":    {counts, counts.encode(), func(b []byte) any { return decodeBatchCounts(b) }},
		"claim":     {c, c.encode(), func(b []byte) any { return decodeClaim(7, b, nil) }},
		"purged":    {left, left.encode(), func(b []byte) any { return decodePurgedBatch(812, b) }},
		"lease":     {l, l.row(), func(b []byte) any { return decodeClaimState((*lsm.Decoder)(&b)) }},
		"job lease": {o, o.encode(), func(b []byte) any { return decodeJobLease(b) }},
		"done":      {made, encoded(made), decoded},
		"taken":     {took, encoded(took), decoded},
		"session":   {opened, opened.encode(), func(b []byte) any { return decodeSession(9, b) }},
		"fileset":   {files, files.encode(), func(b []byte) any { return decodeFileset(files.filesetName, b) }},
		"slot": {last, last.encode(), func(b []byte) any {
			number, done := decodeSlot(b)
			return slot{number: number, done: done}
		}},
		"sweep":   {ofBatch, ofBatch.encode(), func(b []byte) any { return decodeSweep(9, b) }},
		"sweep 2": {ofQueue, ofQueue.encode(), func(b []byte) any { return decodeSweep(9, b) }},
		"runner":  {r, r.encode(), func(b []byte) any { return decodeRunner("r1", b) }},
		"attempt": {attempt, encodeAttempt(&attempt), func(b []byte) any { return decodeAttempt(b) }},
		"result": {told{claim: 7, result: result}, encodeResult(7, &result), func(b []byte) any {
			claim, r := decodeResult(b)
			return told{claim: claim, result: r}
		}},
		"progress": {told{claim: 7, step: "half", progress: -1}, encodeProgress(7, "half", -1), func(b []byte) any {
			claim, step, progress := decodeProgress(b)
			return told{claim: claim, step: step, progress: progress}
		}},
		"step": {told{claim: 7, step: "half", progress: startAt}, encodeStep(7, &job.Step{At: startAt, Name: "half"}), func(b []byte) any {
			claim, step := decodeStep(b)
			return told{claim: claim, step: step.Name, progress: step.At}
		}},
	}
}

func TestRowsDecodeToWhatMadeThem(t *testing.T) {
	for name, form := range rowForms() {
		if got := form.decode(form.bytes); !reflect.DeepEqual(got, form.value) {
			t.Errorf("%s: %+v, want %+v", name, got, form.value)
		}
	}
	q := &queue{id: 7, queueName: queueName{"a", "x"}, paused: true, createdAt: startAt, idleAt: startAt, counts: job.Counts{0, 1, 2, 3, 4, 5, 6, 7}}
	for _, l := range []*lane{q.lane(laneID{4, job.Fresh}), q.lane(laneID{9, job.Returned})} {
		l.head = place{70, 60, 50}
		l.tail = l.head
		l.spans, l.divided = 1, l.class == job.Fresh
	}
	fresh, back := q.lane(laneID{4, job.Fresh}), q.lane(laneID{9, job.Returned})
	fresh.pending, fresh.spans, fresh.tail, back.pending = 2, 2, place{70, 61, 5}, 1
	q.counts[job.Pending] = 3
	q.lane(laneID{0, job.Returned}) // without jobs, so it is not stored
	got := decodeQueue(7, q.encode())
	if fresh.next == nil || fresh.next.class != job.Returned || fresh.next.priority != 0 {
		t.Fatalf("lanes %+v, %+v", back, fresh)
	}
	fresh.next = nil
	if !reflect.DeepEqual(got, q) {
		t.Errorf("queue %+v, want %+v", got, q)
	}
}

func TestShortRowsFail(t *testing.T) {
	for name, form := range rowForms() {
		for n := range form.bytes {
			err := func() (err error) {
				defer lsm.Catch(&err)
				form.decode(form.bytes[:n])
				return nil
			}()
			if !errors.Is(err, lsm.ErrShortRow) {
				t.Errorf("%s cut to %d of %d bytes: %v", name, n, len(form.bytes), err)
			}
		}
	}
}

func TestHistoryKeepsTheNewest(t *testing.T) {
	s := mustOpen(t, Options{})
	apply := func(seq uint64, cmd job.Command) any {
		t.Helper()
		result, err := s.Apply(seq, startAt+int64(seq), cmd)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	apply(1, &job.Create{Frame: job.NoFrame, Groups: []job.Group{{Lines: 1, Client: "a", Type: "x", Attributes: job.Attributes{MaxAttempts: 1000, LeaseMs: 1000, RetentionMs: 1000}}}})
	id := job.NewID(startAt+1, 1, 0)
	for n := range 2 * job.MaxHistory {
		seq := uint64(2 + 2*n)
		apply(seq, job.Claim{Runner: "r", Max: 1, MaxBytes: 1})
		apply(seq+1, job.Complete{Outcomes: []job.Outcome{{ID: id, Code: job.Error, ExitCode: 500, Error: strings.Repeat("x", n), DelayMs: 0}}})
		if err := s.Commit(); err != nil {
			t.Fatal(err)
		}
		doc, err := s.Job(id)
		if err != nil {
			t.Fatal(err)
		}
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
		pages    []Run
	}{
		{"one short line", job.LineFrame, []string{"a"}, []Run{{1, 0, 0}}},
		{"lines that fill pages", job.LineFrame, []string{"aaaa", "bbbb", "cccc", "dddd", "eeee", "f"}, []Run{{1, 0, 3}, {1, 4, 5}}},
		{"lines across the end of a page", job.LineFrame, []string{"aaaaa", "bbbbb", "ccccc", "ddddd", "eeeee"}, []Run{{1, 0, 2}, {1, 3, 4}}},
		{"a line longer than a page", job.LineFrame, []string{"a", long, "b"}, []Run{{1, 0, 0}, {1, 1, 1}, {1, 2, 2}}},
		{"lengths", job.LenFrame, []string{"a\n", "", "\n\n", long, "b", "c"}, []Run{{1, 0, 3}, {1, 4, 5}}},
		{"only empty payloads", job.LenFrame, []string{"", "", "", "", "", "", "", ""}, []Run{{1, 0, 6}, {1, 7, 7}}},
		{"no payloads", job.NoFrame, []string{"", "", ""}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := mustOpen(t, Options{bounds: &bounds{minWindow: 1, maxWindow: 9, rules: &rules{pageBytes: 20, commandRows: 99, claimRows: 99, claimBytes: 1 << 20, cellSpans: 3, sweepRows: 60, purgedGroups: 1, effectBytes: 200, effectRowBytes: 50, distinctStep: 2, distinctRows: 1000, distinctBytes: 1 << 20, distinctNodes: 16, distinctLooks: 256, sessions: job.MaxSessions}}})
			c := &job.Create{Groups: []job.Group{plainGroup("a", "x", len(test.payloads))}, Frame: test.frame}
			for _, p := range test.payloads {
				c.Longest = max(c.Longest, len(p))
				c.Payloads = c.Frame.Append(c.Payloads, []byte(p))
			}
			if err := c.CheckPayloads(); err != nil {
				t.Fatal(err)
			}
			mustApply(t, s, 1, 0, c)
			mustCommit(t, s)
			var pages []Run
			var body []byte
			for _, entry := range dump(s) {
				if entry.key[0] == pageTable {
					last, first := splitPageKey(entry.key)
					pages = append(pages, Run{seqOfKey(entry.key), first, last})
					body = append(body, entry.value...)
				}
			}
			if fmt.Sprint(pages) != fmt.Sprint(test.pages) || !bytes.Equal(body, c.Payloads) {
				t.Errorf("pages %v of %q, want %v", pages, body, test.pages)
			}
			v := s.db.View()
			defer v.Close()
			b := readBatch(v, 1)
			for first := range test.payloads {
				for last := first; last < len(test.payloads); last++ {
					var got []string
					eachPayload(v, b, uint32(first), uint32(last), func(line uint32, payload []byte) bool {
						if int(line) != first+len(got) {
							t.Errorf("line %d where %d was next", line, first+len(got))
						}
						got = append(got, string(payload))
						return true
					})
					if fmt.Sprint(got) != fmt.Sprint(test.payloads[first:last+1]) {
						t.Errorf("lines %d-%d: %q", first, last, got)
					}
				}
			}
		})
	}
}
