package sim

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store/applied"
)

// claim makes a claim as a runner does that reads its jobs in runs: the server's code writes the jobs, and the client's
// code reads them. A runner that reads JSON gets the same jobs.
func (s *server) claim(ctx context.Context, c job.Claim, wait time.Duration) (claimed applied.Claimed, docs []job.Job, receipt ingest.Receipt, err error) {
	claimed, handed, receipt, err := s.engine.ClaimAdmitted(ctx, c, wait, admitAll)
	if err == nil {
		docs, err = documents(c.Runner, &claimed, handed)
	}
	return claimed, docs, receipt, err
}

func admitAll(int64) error { return nil }

// documents reads the jobs of a claim from runs and directly, and compares the two.
func documents(runner string, claimed *applied.Claimed, handed []runs.Run) (docs []job.Job, err error) {
	if docs, err = runs.Documents(handed); err != nil {
		return nil, err
	}
	read, err := throughRuns(&runs.Claim{ID: claimed.Claim, LeaseMs: claimed.LeaseMs, Jobs: len(docs), Runs: len(handed)}, runner, handed)
	if err != nil {
		return nil, fmt.Errorf("the claim %v in runs: %w", claimed.Claim, err)
	}
	for i := range docs {
		want := docs[i]
		want.Backoff, want.RetentionMs, want.OnComplete, want.Hops = job.Backoff{}, 0, "", 0 // runs do not have them
		if len(want.Payload)+len(read[i].Payload) == 0 {
			want.Payload = read[i].Payload
		}
		if !reflect.DeepEqual(read[i], want) {
			return nil, fmt.Errorf("the claim %v in runs has %+v, want %+v", claimed.Claim, read[i], want)
		}
	}
	return docs, nil
}

// throughRuns writes the jobs of a claim as runs, and reads them back.
func throughRuns(head *runs.Claim, runner string, handed []runs.Run) (docs []job.Job, err error) {
	if !head.ID.IsZero() {
		head.Runner = runner
	}
	text := runs.AppendClaim(nil, head)
	for i := range handed {
		text = runs.AppendRun(text, head, &handed[i])
	}
	d := runs.NewDecoder(text)
	c, err := d.Claim()
	for range c.Runs {
		var r runs.Run
		if r, err = d.Run(&c); err == nil {
			docs, err = r.Documents(docs)
		}
		if err != nil {
			return nil, err
		}
	}
	if err == nil {
		err = d.End()
	}
	if err == nil && len(docs) != head.Jobs {
		err = fmt.Errorf("%d jobs are read of %d", len(docs), head.Jobs)
	}
	return docs, err
}
