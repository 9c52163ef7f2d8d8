package command

import (
	"errors"
	"fmt"

	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
)

// InRuns adds the outcomes of a body in runs (package runs), and returns the runner_id of its head line. Nothing is
// applied if a part of the body is malformed. The outputs share memory with the body.
func (d *Completion) InRuns(text []byte) (runner string, err error) {
	d.Brief = true
	from := runs.NewDecoder(text)
	head, err := from.Completion()
	if err == nil {
		err = d.admitRuns(&head)
	}
	for i := 0; i < head.Runs && err == nil; i++ {
		var r runs.OutcomeRun
		if r, err = from.Outcomes(&head); err != nil {
			break
		}
		if err = d.addRun(&head, &r); err != nil {
			err = refusal.Placed(fmt.Sprintf("run %d", i+1), err)
		}
	}
	if err == nil {
		err = from.End()
	}
	if malformed, ok := errors.AsType[*runs.Error](err); ok {
		return "", web.BadRequest("", "the text is not a completion in runs: "+malformed.Error())
	}
	if err == nil && head.All != nil {
		d.addAll(head.Claim, head.Runner, head.All)
	}
	return head.Runner, err
}

// admitRuns checks the head of a body, and reserves memory for all outcomes. The share of the body does not cover them,
// because a run takes a few bytes for any number of jobs.
func (d *Completion) admitRuns(head *runs.Completion) error {
	if head.All != nil {
		err := checkAll(head.All)
		if err == nil {
			err = checkOutput(head.All)
		}
		if err == nil {
			err = checkExceptions("jobs", head.Jobs)
		}
		if err != nil {
			return err
		}
	}
	if d.Most > 0 && head.Jobs > d.Most {
		return web.BadRequest("jobs", fmt.Sprintf("the request has %d outcomes; the maximum here is %d; send the others in further requests", head.Jobs, d.Most))
	}
	d.Count = head.Jobs
	if head.Jobs == 0 {
		return nil
	}
	return d.Reserve(int64(head.Jobs) * outcomeBytes)
}

func (d *Completion) addRun(head *runs.Completion, r *runs.OutcomeRun) error {
	if head.All != nil && (r.Claim != head.Claim || r.Runner != head.Runner) {
		return web.BadRequest("claim_id", "beside an outcome for all other jobs of a claim, all outcomes must have the claim_id and runner_id of the first line")
	}
	return r.Each(func(o job.Outcome) error {
		if err := checkOutput(&o); err != nil {
			return refusal.Placed("job "+o.ID.String(), err)
		}
		d.Add(r.Claim, r.Runner, o)
		return nil
	})
}

// checkOutput checks an output that was not sent in JSON.
func checkOutput(o *job.Outcome) error {
	if err := checkOutputBytes(o); err != nil {
		return err
	}
	return checkContent("output", o.OutputKind, o.Output)
}
