package store

import (
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/row"
)

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
				if got.All != number || got.Refusal != refusal || len(got.Results) != len(results) {
					t.Fatalf("%+v: %+v", cmd, got)
				}
				for i, r := range results {
					if r.ID = cmd.Outcomes[i].ID; got.Results[i] != r {
						t.Fatalf("%+v: result %d is %+v, not %+v", cmd, i, got.Results[i], r)
					}
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
