package store

import (
	"errors"
	"slices"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
	"github.com/daybookq/daybook/store/query"
)

// partOf is a create of n lines that opens a submission or, if into is not zero, adds a part to one.
func partOf(into job.ID, n int) *job.Create {
	c := plainCreate("a", "x", n, 3)
	if c.Into = into; into.IsZero() {
		c.Submission = &job.Submission{Open: true}
	}
	return c
}

// TestLinesOfBatches: a job of any part of a submission has a line, the line has that job, and lines beyond all parts
// are refused.
func TestLinesOfBatches(t *testing.T) {
	s := mustOpen(t, Options{})
	mustApply(t, s, 1, 0, job.SetLevel{Level: job.Level})
	mustApply(t, s, 2, 0, plainCreate("a", "x", 3, 3))
	mustApply(t, s, 3, 0, partOf(job.ID{}, 5))
	batch := job.NewID(startAt, 3, 0)
	mustApply(t, s, 4, 1, partOf(batch, 2))
	mustStore(t, s, 5, 1, partOf(batch, 4))
	first := []job.ID{batch, job.NewID(startAt+1, 4, 0), job.NewID(startAt+1, 5, 0)}
	line := int64(0)
	same := func(part, of int) {
		t.Helper()
		id := first[part].WithLine(of)
		in, got, err := s.LineOf(id)
		testkit.Holds(t, err == nil && in == batch && got == line, "job", id, "is line", got, "of", in, err)
		testkit.Equal(t, testkit.Must(s.JobOf(batch, line))(t), id, "line", line, "is job")
		line++
	}
	for part, lines := range []int{5, 2, 4} {
		for of := range lines {
			same(part, of)
		}
	}
	for _, id := range []job.ID{{}, job.NewID(startAt, 2, 1), batch.WithLine(5), first[1].WithLine(2), job.NewID(startAt, 4, 0), job.NewID(startAt, 9, 0)} {
		of, line, err := s.LineOf(id)
		testkit.Holds(t, errors.Is(err, job.NotFound), "job", id, "is line", line, "of", of, err)
	}
	for _, line := range []int64{-1, 11, 1 << 62} {
		id, err := s.JobOf(batch, line)
		testkit.Holds(t, errors.Is(err, job.NotFound), "line", line, "is job", id, err)
	}
	for _, id := range []job.ID{{}, job.NewID(startAt, 2, 0), first[1], batch.WithLine(1), job.NewID(startAt+1, 3, 0)} {
		got, err := s.JobOf(id, 0)
		testkit.Holds(t, errors.Is(err, job.BatchNotFound), "line 0 of", id, "is job", got, err)
	}
	t.Run("purged part", func(t *testing.T) {
		for _, line := range []int{0, 1} {
			mustApply(t, s, uint64(6+line), 2, job.Move{Op: job.Delete, Job: first[1].WithLine(line)})
		}
		mustCommit(t, s)
		testkit.Fails(s.JobOf(batch, 5))(t, job.NotFound)
		testkit.Fails2(s.LineOf(first[1]))(t, job.NotFound) // a job of a purged part
		line = 7
		same(2, 0)
	})
}

// TestListOfAttributedBatches: a list that can have only batches with attributes does not look at other batches,
// however many there are.
func TestListOfAttributedBatches(t *testing.T) {
	s := mustOpen(t, Options{})
	mustApply(t, s, 1, 0, job.SetLevel{Level: job.Level})
	const plain = 50
	for i := range uint64(plain) {
		mustApply(t, s, 2+i, 0, plainCreate("a", "x", 1, 3))
	}
	paused := plainCreate("a", "x", 1, 3)
	paused.Submission = &job.Submission{Paused: true}
	mustApply(t, s, 2+plain, 0, paused)
	mustStore(t, s, 3+plain, 0, partOf(job.ID{}, 1))
	for _, c := range []struct {
		name string
		f    query.BatchFilter
		want uint64 // the seq of the first batch
	}{
		{"attributed", query.BatchFilter{Attributed: true, Client: "a", Type: "x"}, 2 + plain},
		{"attributed, in progress", query.BatchFilter{Attributed: true, Status: job.BatchInProgress}, 3 + plain},
		{"paused", query.BatchFilter{Status: job.BatchPaused}, 2 + plain},
	} {
		c.f.Limit = 1
		docs, _, err := s.BatchesWithin(c.f, 4)
		want := job.NewID(startAt, c.want, 0)
		testkit.Holds(t, err == nil && len(docs) == 1 && docs[0].ID == want, c.name, docs, err, "want", want)
	}
}

// TestListByPrefixAfterBatch: a list by prefix can begin after a batch that exists or, with its name, after a deleted
// batch. Wherever it begins, it has only batches whose name begins with the prefix.
func TestListByPrefixAfterBatch(t *testing.T) {
	s := mustOpen(t, Options{})
	mustApply(t, s, 1, 0, job.SetLevel{Level: job.Level})
	var ids []job.ID
	for i, name := range []string{"a", "b", "p", "p", "pq", "q"} {
		c := plainCreate("a", "x", 1, 3)
		c.Submission = &job.Submission{Name: name}
		mustApply(t, s, 2+uint64(i), 0, c)
		ids = append(ids, job.NewID(startAt, 2+uint64(i), 0))
	}
	mustStore(t, s, 8, 1, job.Move{Op: job.Delete, Batch: ids[2]})
	for _, c := range []struct {
		name  string
		after query.BatchPlace
		want  []job.ID
	}{
		{"none", query.BatchPlace{}, ids[3:5]},
		{"batch before the prefix", query.BatchPlace{ID: ids[0]}, ids[3:5]},
		{"name before the prefix", query.BatchPlace{ID: ids[4], Name: "a"}, ids[3:5]},
		{"batch", query.BatchPlace{ID: ids[3]}, ids[4:5]},
		{"deleted batch", query.BatchPlace{ID: ids[2], Name: "p"}, ids[3:5]},
		{"last batch", query.BatchPlace{ID: ids[4], Name: "pq"}, nil},
		{"batch after the prefix", query.BatchPlace{ID: ids[5]}, nil},
	} {
		docs, next, err := s.Batches(query.BatchFilter{NamePrefix: "p", Limit: 9, After: c.after})
		var got []job.ID
		for i := range docs {
			got = append(got, docs[i].ID)
		}
		testkit.NoError(t, err)
		testkit.Holds(t, next.IsZero() && slices.Equal(got, c.want), "after", c.name, got, next, "want", c.want)
	}
	testkit.Fails2(s.Batches(query.BatchFilter{NamePrefix: "p", Limit: 9, After: query.BatchPlace{ID: ids[2]}}))(t, job.BatchNotFound)
}

// TestTicksCountPages: the pages of jobs whose retention ends count as rows of a tick.
func TestTicksCountPages(t *testing.T) {
	rules := row.RulesAt(job.Level)
	rules.PageBytes = 1
	b := memory.StandardBounds
	b.Rules = &rules
	f := &feeder{t: t, s: mustOpen(t, Options{bounds: &b})}
	const pages = 200
	for range 100 {
		create := plainCreate("a", "x", pages, 1)
		create.Groups[0].RetentionMs = 1
		f.Apply(create)
	}
	f.Apply(job.Move{Op: job.Cancel, Client: "a", Type: "x"})
	mustCommit(t, f.s)
	f.seq += 10
	for ticks := 0; f.s.machine.Counts.Total() > 0; ticks++ {
		got := f.s.costOf(t, func() { f.Apply(job.Tick{}) })
		testkit.MustHold(t, got.writes <= rules.CommandRows+pages+row.TickSpanRows && ticks <= 100, "tick", ticks, got)
		mustCommit(t, f.s)
	}
}

// TestPurgedBatchesGoInSteps: a batch of many groups is deleted with its last line. Ticks remove its rows, and do other
// due work in between.
func TestPurgedBatchesGoInSteps(t *testing.T) {
	s := mustOpen(t, Options{})
	f := &feeder{t: t, s: s}
	for _, groups := range []int{8, 9, job.MaxGroups, job.MaxGroups} {
		create := &job.Create{Frame: job.NoFrame}
		for range groups {
			g := plainGroup("a", "x", 1)
			g.Kind, g.RetentionMs = job.Nothing, 0
			create.Groups = append(create.Groups, g)
		}
		f.Apply(create)
	}
	rows := func(table byte) (n int) {
		mustCommit(t, s)
		v := s.db.View()
		defer v.Close()
		v.Scan(string(table), string(table+1), func(string, []byte) bool { n++; return true })
		return n
	}
	for f.s.machine.Counts.Total() > 0 {
		f.Apply(job.Move{Op: job.Cancel, Client: "a", Type: "x"})
		f.Apply(job.Tick{})
	}
	b, c, left := rows(row.BatchTable), rows(row.CountsTable), rows(row.PurgedBatchTable)
	testkit.MustHold(t, b == 0 && c == 0 && left == 2, b, "batches and", c, "counts are there, and", left, "purged batches are left")
	for _, id := range []job.ID{jobID(2, 2, 0), jobID(3, 3, 5)} {
		_, err := s.Batch(id.WithLine(0))
		testkit.Holds(t, err != nil, "the purged batch of", id, "is found")
		_, err = s.Job(id)
		testkit.Holds(t, err != nil, "the purged job", id, "is found")
	}
	create := plainCreate("a", "x", 1, 1)
	create.Groups[0].RunAt = startAt + int64(f.seq) + 2
	f.Apply(create)
	f.seq++
	f.Apply(job.Tick{})
	testkit.Equal(t, s.machine.Counts[job.Pending], 1, "a job whose time has come waits for purged batches")
	for ticks := 0; s.machine.Meta.PurgedAt != 0; ticks++ {
		sound(t, s)
		got := s.costOf(t, func() { f.Apply(job.Tick{}) })
		testkit.MustHold(t, got.writes <= 500 && ticks <= 30, "tick", ticks, got)
	}
	if spans, groups, left := rows(row.SpanTable), rows(row.GroupTable), rows(row.PurgedBatchTable); spans != 1 || groups != 0 || left != 0 {
		t.Errorf("%d spans, %d pages of groups and %d purged batches are left", spans, groups, left)
	}
}

// TestRepeatAfterPurge: the answer to a completion was lost, its jobs were purged, and the runner repeats the
// completion. Within a minute of the completion the repeat gets the first answer. A repeat with a different outcome,
// runner, claim or job does not. Later no trace is left.
func TestRepeatAfterPurge(t *testing.T) {
	for name, retention := range map[string]int64{"at once": 0, "within the minute": 1000} {
		t.Run(name, func(t *testing.T) {
			c := newCompleting(t)
			first := c.Create(5, func(cmd *job.Create) { cmd.Groups[0].RetentionMs = retention })
			claim := c.Apply(plainClaim("r", 5)).(*applied.Claimed).Claim
			ok, failed := outcomeOf(first, job.OK), outcomeOf(first.WithLine(4), job.Fail)
			single := job.Complete{Claim: claim, Outcomes: []job.Outcome{ok, failed}}
			all := job.Complete{Claim: claim, Runner: "r", All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}, Outcomes: []job.Outcome{outcomeOf(first.WithLine(1), job.OK)}}
			want := func(cmd job.Complete, number int, refusal job.Refusal, results ...applied.JobResult) {
				t.Helper()
				got := c.Apply(cmd).(*applied.Ended)
				testkit.MustHold(t, got.All == number && got.Refusal == refusal && len(got.Results) == len(results), cmd, got)
				for i, r := range results {
					r.ID = cmd.Outcomes[i].ID
					testkit.MustEqual(t, got.Results[i], r, cmd, "result", i)
				}
			}
			completed, lost := applied.JobResult{Status: job.Completed}, job.ClaimLost
			answers := func() {
				t.Helper()
				want(single, 0, job.Granted, completed, applied.JobResult{Status: job.Failed})
				want(all, 3, job.Granted, completed) // lines 0, 2 and 3
			}
			answers()
			c.at += 2000
			c.Apply(job.Tick{})
			mustCommit(t, c.s)
			for table, rows := range map[byte]int{row.BatchTable: 0, row.ClaimTable: 0, row.ClaimStateTable: 0, row.PurgedEndTable: 4} {
				if retention > 0 && table == row.PurgedEndTable {
					rows = 2 // neighbours that ended together are purged together
				}
				testkit.Equal(t, rowsOf(t, c.s, table), rows, "table", table)
			}
			answers()
			refused := func(id, claim job.ID, runner string, code job.Code, refusal job.Refusal) {
				t.Helper()
				want(job.Complete{Claim: claim, Runner: runner, Outcomes: []job.Outcome{outcomeOf(id, code)}}, 0, job.Granted, applied.JobResult{Refusal: refusal})
			}
			refused(first, claim, "", job.Error, job.OutcomeDiffers)
			refused(first, claim, "s", job.OK, job.RunnerDiffers)
			refused(first, job.ID{}, "", job.OK, job.NotFound)
			refused(first, first, "", job.OK, job.NotFound)
			refused(first.WithLine(5), claim, "", job.OK, job.NotFound)
			refused(job.NewID(first.At()+1, 2, 0), claim, "", job.OK, job.NotFound)
			refused(first, job.NewID(claim.At()+1, 3, 0), "", job.OK, job.NotFound)
			all.Outcomes, all.Runner = nil, "s"
			want(all, 0, job.RunnerDiffers)
			all.Runner, all.All.Code, all.All.ExitCode = "", job.Error, 500
			want(all, 0, lost)
			all.All.Code, all.All.ExitCode = job.OK, 200
			want(all, 4, job.Granted)

			c.at = job.RepeatMs - 1
			want(all, 4, job.Granted)
			c.at++
			want(all, 0, lost)
			refused(first, claim, "", job.OK, job.NotFound)
			for c.s.NextDue() != 0 {
				c.at = c.s.NextDue() - startAt
				c.Apply(job.Tick{})
				mustCommit(t, c.s)
			}
			testkit.Equal(t, rowsOf(t, c.s, row.PurgedEndTable), 0)
		})
	}
}

// TestDeletedJobIsNotRepeated: the end of a job that a user deleted is not kept.
func TestDeletedJobIsNotRepeated(t *testing.T) {
	c := newCompleting(t)
	id := c.Create(1, nil)
	claim := c.Apply(plainClaim("r", 1)).(*applied.Claimed).Claim
	end := job.Complete{Claim: claim, Outcomes: []job.Outcome{outcomeOf(id, job.OK)}}
	c.Apply(end)
	c.Apply(job.Move{Op: job.Delete, Job: id})
	testkit.Equal(t, c.Apply(end).(*applied.Ended).Results[0].Refusal, job.NotFound)
}
