package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/wal"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/query"
)

// joinable returns the create of one job that may share a record.
func joinable(typ string, frame job.Frame, payload string) *job.Create {
	c := lines(1)
	c.Joined, c.Frame, c.Longest = true, frame, len(payload)
	c.Groups[0].Type = typ
	if frame == job.NoFrame {
		c.Groups[0].Kind = job.Nothing
	}
	c.Payloads = frame.Append(nil, []byte(payload))
	return c
}

// joinableList returns the create of several jobs that may share a record. Each payload is the type of its job.
func joinableList(frame job.Frame, types ...string) *job.Create {
	c := joinable(types[0], frame, types[0])
	for _, typ := range types[1:] {
		if last := &c.Groups[len(c.Groups)-1]; last.Type == typ {
			last.Lines++
		} else {
			g := c.Groups[0]
			g.Type, g.Lines = typ, 1
			c.Groups = append(c.Groups, g)
		}
		c.Longest, c.Payloads = max(c.Longest, len(typ)), frame.Append(c.Payloads, []byte(typ))
	}
	return c
}

// TestJoinedCreates blocks the fsync of a first create. Creates that arrive before it ends share one record, and each
// caller gets its job.
func TestJoinedCreates(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	var held sync.Mutex
	entered := make(chan struct{}, 1000)
	e, stop := startWith(t, Options{Dir: dir, Journal: journal.Options{Hooks: journal.Hooks{Sync: func(l *wal.Log) error {
		entered <- struct{}{}
		held.Lock()
		defer held.Unlock()
		return l.Sync()
	}}}})
	creates := []*job.Create{
		joinable("a", job.LineFrame, "one"), joinable("a", job.LineFrame, "two"), joinable("b", job.LineFrame, "three"),
		joinable("a", job.LenFrame, "four\nlines"), joinable("c", job.NoFrame, ""), joinable("a", job.LineFrame, "six"),
		joinableList(job.LineFrame, "a", "a", "b"), joinableList(job.LenFrame, "b", "c", "b", "b"), joinable("b", job.LineFrame, "nine"),
	}
	for len(entered) > 0 {
		<-entered
	}
	held.Lock()
	testkit.Must(mustPropose(e, joinable("first", job.LineFrame, "first")))(t)
	<-entered // the creates below wait for the next group
	made := make([]applied.Made, len(creates))
	var callers sync.WaitGroup
	for i, c := range creates {
		callers.Go(func() {
			got, receipt, err := e.Create(ctx, c)
			testkit.Holds(t, err == nil && receipt.Seq == got.Seq, "create", i, got, receipt, err)
			made[i] = got
		})
		testkit.Eventually(t, "the creates join in this order", func() bool { return joinedNow(e) > i })
	}
	held.Unlock()
	callers.Wait()
	verify := func(q *query.Queries) {
		t.Helper()
		first := 0
		for i, m := range made {
			want := creates[i]
			testkit.Holds(t, m.Batch.IsZero() && m.Job(0) == m.First && m.Lines == want.Lines() &&
				m.Seq == made[0].Seq && m.First.Line() == first, "create", i, "made", m)
			first += m.Lines
			line, payloads := 0, want.Payloads
			for _, g := range want.Groups {
				for range g.Lines {
					doc, err := q.Job(m.Job(line))
					var payload []byte
					if payload, payloads, _ = want.Frame.Next(payloads); err != nil || !doc.Batch.IsZero() || doc.Type != g.Type || doc.Kind != g.Kind || string(doc.Payload) != string(payload) {
						t.Errorf("create %d, job %d: %+v, %v", i, line, doc, err)
					}
					line++
				}
			}
		}
		testkit.Fails(q.Batch(made[0].First.WithLine(0)))(t, job.BatchNotFound)
	}
	verify(current(t, e))
	moved, _ := testkit.Must2(e.Move(ctx, job.Move{Op: job.Cancel, Job: made[1].First}))(t)
	testkit.Equal(t, moved.Refusal, job.Granted, "cancel one:", moved)
	swept, _ := testkit.Must2(e.MoveAll(ctx, job.Move{Op: job.Cancel, Batch: made[0].First.WithLine(0)}))(t)
	testkit.Equal(t, swept.Refusal, job.BatchNotFound, "cancel as a batch:", swept)
	doc := testkit.Must(current(t, e).Job(made[0].First))(t)
	testkit.Equal(t, doc.Status, job.Pending, "the job of another caller:", doc)
	stop()
	e, _ = start(t, dir)
	verify(current(t, e))
}

// mustPropose proposes a create and returns the channel for its answer.
func mustPropose(e *Engine, c *job.Create) (chan answer, error) {
	w := &waiter{synced: make(chan answer, 1)}
	p, err := newProposal(context.Background(), journal.Bulk, c, w)
	if err != nil {
		return nil, err
	}
	return w.synced, e.propose(context.Background(), p)
}

// joinedNow returns the number of creates in the open record.
func joinedNow(e *Engine) int {
	e.joined.mu.Lock()
	defer e.joined.mu.Unlock()
	if e.joined.open == nil {
		return 0
	}
	return len(e.joined.open.creates)
}

func TestJoinedCreatesOfManyCallers(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	e, stop := start(t, dir)
	const callers, each = 32, 50
	var mu sync.Mutex
	made := map[job.ID]string{}
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := range each {
				payload := fmt.Sprintf("job %d of %d%s", i, caller, strings.Repeat("x", i*100%5000))
				m, _, err := e.Create(ctx, joinable(fmt.Sprint("t", i%3), job.LineFrame, payload))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				testkit.Holds(t, made[m.Job(0)] == "", m.Job(0), "was answered twice")
				made[m.Job(0)] = payload
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	q := current(t, e)
	for id, payload := range made {
		testkit.Equal(t, string(testkit.Must(q.Job(id))(t).Payload), payload, "job", id)
	}
	totals := q.Totals()
	n := totals.Counts.Total()
	testkit.Holds(t, n == callers*each && len(made) == callers*each, n, "jobs", len(made), "answers")
	stop()
}

// TestJoinedRecordLimits: a record accepts creates up to each of its limits, and no further.
func TestJoinedRecordLimits(t *testing.T) {
	e, _ := start(t, t.TempDir())
	fill := func(next func(n int) *job.Create) *joinedRecord {
		r := &joinedRecord{bytes: joinedOverhead}
		for n := 0; ; n++ {
			c := next(n)
			groupBytes := testkit.Must(e.joined.check(c))(t)
			own := &joinedCreate{c: c, groupBytes: groupBytes}
			if !r.fits(own) {
				return r
			}
			r.add(own)
		}
	}
	for name, test := range map[string]struct {
		next        func(n int) *job.Create
		jobs, bytes int // minimum
	}{
		"empty jobs":     {func(int) *job.Create { return joinable("a", job.NoFrame, "") }, 1500, 0},
		"large payloads": {func(int) *job.Create { return joinable("a", job.LineFrame, strings.Repeat("x", maxJoinedCreate-1)) }, 3, 45_000},
		"other groups":   {func(n int) *job.Create { return joinable(fmt.Sprint("t", n), job.LineFrame, "x") }, 200, 20_000},
		"other frames": {func(n int) *job.Create {
			return joinable("a", []job.Frame{job.LineFrame, job.LenFrame}[n%2], strings.Repeat("x", 100))
		}, 400, 40_000},
		"lists": {func(n int) *job.Create {
			return joinableList(job.LineFrame, strings.Split(strings.Repeat("a,b,", 8)+"b", ",")...)
		}, 20, 45_000},
	} {
		r := fill(test.next)
		fields, body := r.command().Encode()
		testkit.Holds(t, len(fields)+len(body) <= maxJoinedBytes && len(fields)+len(body) >= test.bytes &&
			len(r.creates) >= test.jobs, name, len(r.creates), "jobs take", len(fields)+len(body), "bytes")
		cmd, err := job.Decode("create", fields, body)
		testkit.NoError(t, err, name)
		if c := cmd.(*job.Create); c.CheckPayloads() != nil || !c.Joined || len(c.Groups) != r.groups || c.Lines() != r.lines {
			t.Errorf("%s: %d lines in %d groups, %v", name, c.Lines(), len(c.Groups), c.CheckPayloads())
		}
	}
	full := &joinedRecord{groups: job.MaxGroups, creates: []*joinedCreate{{c: joinable("a", job.LineFrame, "x")}}}
	testkit.Holds(t, full.fits(&joinedCreate{c: joinable("a", job.LineFrame, "y")}) &&
		!full.fits(&joinedCreate{c: joinable("b", job.LineFrame, "y")}), "the bound of groups")
	largest := joinableList(job.LenFrame, slices.Repeat([]string{"a"}, maxJoinedLines-maxJoinedGroups)...)
	for i := range maxJoinedGroups {
		g := largest.Groups[0]
		g.Lines, g.Client, g.Type, g.Traceparent = 1, strings.Repeat("%", job.MaxNameBytes), strings.Repeat("%", job.MaxNameBytes), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		g.Priority, g.Meta = 1+i%2, job.Meta("k:"+strings.Repeat("v", maxJoinedCreate/maxJoinedGroups-2))
		if i > 0 {
			largest.Groups, largest.Payloads = append(largest.Groups, g), job.LenFrame.Append(largest.Payloads, []byte("a"))
		}
	}
	spare := maxJoinedCreate - len(largest.Payloads) - 10
	largest.Payloads, largest.Longest = job.LenFrame.Append(largest.Payloads, make([]byte, spare)), spare
	largest.Groups[len(largest.Groups)-1].Lines++
	fields, body := largest.Encode()
	testkit.Holds(t, joins(largest) && len(fields)+len(body)+joinedOverhead+largest.Lines()*joinedLine <= maxJoinedBytes,
		"the largest create takes", len(fields)+len(body), "bytes; joins", joins(largest))
	long := joinableList(job.LineFrame, slices.Repeat([]string{"a"}, maxJoinedLines+1)...)
	groups := joinableList(job.LineFrame, strings.Split(strings.Repeat("a,b,", maxJoinedGroups/2)+"a", ",")...)
	for _, c := range []*job.Create{lines(1), lines(2), joinable("a", job.LineFrame, strings.Repeat("x", maxJoinedCreate)), long, groups} {
		testkit.Holds(t, !joins(c), "a create of", c.Lines(), "lines and", len(c.Payloads), "bytes, joined", c.Joined, "shares a record")
	}
	large := joinable("a", job.LineFrame, strings.Repeat("x", 100_000))
	for _, c := range []*job.Create{large, long} {
		if m, _, err := e.Create(t.Context(), c); err != nil || !m.Batch.IsZero() || m.Job(0).IsZero() || m.Lines != c.Lines() || m.Job(m.Lines-1).Line() != m.Lines-1 {
			t.Errorf("a create with a record of its own: %+v, %v", m, err)
		}
	}
	keyed := joinable("a", job.LineFrame, "x")
	keyed.Unique = []job.UniqueKey{{Key: "k"}}
	testkit.Fails2(e.Create(t.Context(), keyed))(t, ErrMalformed)
}

// TestJoinedCreatesShareAFailure: if the record is not stored, every caller gets the error, and later creates use a new
// record.
func TestJoinedCreatesShareAFailure(t *testing.T) {
	var j joinedCreates
	r := &joinedRecord{}
	for range 3 {
		r.add(&joinedCreate{c: joinable("a", job.LineFrame, "x"), stored: make(chan answer, 1)})
	}
	j.offer(r)
	j.proposal(r).Done(0, 0, ErrNotStored)
	for i, own := range r.creates {
		a := <-own.stored
		testkit.Holds(t, errors.Is(a.err, ErrNotStored), "create", i, a)
	}
	j.offer(r)
	_, ok := j.add(&joinedCreate{c: joinable("a", job.LineFrame, "x")})
	testkit.Holds(t, !ok, "a create joined a record that had been answered")
}

// TestCreatesOfOneGoroutineKeepTheirOrder: creates that one goroutine starts are stored in that order, whether or not
// they share records, while other goroutines create jobs too.
func TestCreatesOfOneGoroutineKeepTheirOrder(t *testing.T) {
	ctx := t.Context()
	e, _ := start(t, t.TempDir())
	var callers sync.WaitGroup
	for caller := range 6 {
		callers.Go(func() {
			var waits []func() (applied.Made, Receipt, error)
			for i := range 300 {
				c := joinable("a", job.LineFrame, strings.Repeat("x", 1+i*caller%3000))
				if (i+caller)%7 == 0 {
					c = lines(1 + i%3)
				}
				waits = append(waits, e.StartCreate(ctx, c))
			}
			var last job.ID
			for i, wait := range waits {
				made, _, err := wait()
				if err != nil {
					t.Error(err)
					return
				}
				if id := made.Job(0); id.String() <= last.String() {
					t.Errorf("create %d of %d is job %v, after %v", i, caller, id, last)
				} else {
					last = made.Job(made.Lines - 1)
				}
			}
		})
	}
	callers.Wait()
}
