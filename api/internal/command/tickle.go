package command

import (
	"math"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// TickleFields are the fields that all tickles have.
type TickleFields struct {
	Fences
	LeaseMs  *int64   `json:"lease_ms" minimum:"1000" maximum:"86400000" doc:"the new length of the lease"`
	Step     *string  `json:"step" minLength:"0" maxLength:"1024" doc:"what the runner does now; shown in the document of the job"`
	Progress *float64 `json:"progress" minimum:"0" maximum:"1" doc:"how much of the run is done; shown in the document of the job"`
}

func (f *TickleFields) Command() (t job.Tickle, err error) {
	t.Claim, t.Progress = f.ClaimID, -1
	if t.Runner, err = f.Runner(); err != nil {
		return t, err
	}
	if f.LeaseMs != nil {
		if err := job.CheckRange("lease_ms", *f.LeaseMs, job.MinLeaseMs, job.MaxLeaseMs); err != nil {
			return t, web.BadField("lease_ms", err)
		}
		t.LeaseMs = *f.LeaseMs
	}
	if f.Step != nil {
		if err := job.CheckText("step", *f.Step, 0, job.MaxStepBytes); err != nil {
			return t, web.BadField("step", err)
		}
		t.Step = *f.Step
	}
	if f.Progress != nil {
		if *f.Progress < 0 || *f.Progress > 1 {
			return t, web.BadRequest("progress", "progress must be a number from 0 to 1")
		}
		t.Progress = int64(math.Round(*f.Progress * job.ProgressUnit))
	}
	return t, nil
}

// TickleManyRequest is the body of POST /jobs/tickle.
type TickleManyRequest struct {
	TickleFields
	JobIDs *[]job.ID `json:"job_ids" minItems:"1" maxItems:"1000"`
}

func (r *TickleManyRequest) Command() (job.Tickle, error) {
	cmd, err := r.TickleFields.Command()
	if err != nil {
		return cmd, err
	}
	switch {
	case r.JobIDs != nil:
		if cmd.IDs, err = NamedJobs(*r.JobIDs); err != nil {
			return cmd, err
		}
	case cmd.Claim.IsZero() && cmd.Runner == "":
		return cmd, web.BadRequest("job_ids", "job_ids, claim_id or runner_id is required")
	case r.Step != nil:
		return cmd, web.BadRequest("step", "step requires job_ids")
	case r.Progress != nil:
		return cmd, web.BadRequest("progress", "progress requires job_ids")
	}
	return cmd, nil
}

// NamedJobs checks the field job_ids.
func NamedJobs(ids []job.ID) ([]job.ID, error) {
	if err := job.CheckRange("job_ids", int64(len(ids)), 1, job.MaxTickleIDs); err != nil {
		return nil, web.BadField("job_ids", err)
	}
	for i, id := range ids {
		if id.IsZero() {
			return nil, web.BadID(web.Item("job_ids", i))
		}
	}
	return ids, nil
}
