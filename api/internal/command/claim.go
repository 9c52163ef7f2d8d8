package command

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// ClaimFields select the jobs that a runner accepts, and how many at once.
type ClaimFields struct {
	Max      *int64         `json:"max" minimum:"1" maximum:"1000" doc:"maximum number of jobs; without it, the claim gets one job and the answer is its document"`
	Clients  []string       `json:"clients" schema:"Name" minItems:"1" maxItems:"100" nullable:"true"`
	Types    []string       `json:"types" schema:"Name" minItems:"1" maxItems:"100" nullable:"true"`
	LeaseMs  *int64         `json:"lease_ms" minimum:"1000" maximum:"86400000" doc:"the lease of the jobs; default: the lease_ms that they were created with"`
	MaxBytes *int64         `json:"max_bytes" minimum:"1" maximum:"8388608" doc:"maximum size of all payloads together; the claim gets at least one job"`
	Strategy jsontext.Value `json:"strategy" schema:"Strategy" nullable:"true"`
}

// Fill sets the fields of a claim that has a runner and default values.
func (r *ClaimFields) Fill(cmd *job.Claim) (err error) {
	cmd.Clients, cmd.Types = r.Clients, r.Types
	if r.Max != nil {
		if err := job.CheckRange("max", *r.Max, 1, job.MaxClaimJobs); err != nil {
			return web.BadField("max", err)
		}
		cmd.Max = int(*r.Max)
	}
	if err := checkNames("clients", r.Clients); err != nil {
		return err
	}
	if err := checkNames("types", r.Types); err != nil {
		return err
	}
	if !web.Absent(r.Strategy) {
		if cmd.Strategy, err = strategy("strategy", r.Strategy, 0); err != nil {
			return err
		}
	}
	if r.LeaseMs != nil {
		if err := job.CheckRange("lease_ms", *r.LeaseMs, job.MinLeaseMs, job.MaxLeaseMs); err != nil {
			return web.BadField("lease_ms", err)
		}
		cmd.LeaseMs = *r.LeaseMs
	}
	if r.MaxBytes != nil {
		if err := job.CheckRange("max_bytes", *r.MaxBytes, 1, job.MaxClaimBytes); err != nil {
			return web.BadField("max_bytes", err)
		}
		cmd.MaxBytes = *r.MaxBytes
	}
	return nil
}

// ClaimRequest is the body of POST /jobs/claim.
type ClaimRequest struct {
	RunnerID *string `json:"runner_id" required:"true" nullable:"false" schema:"RunnerId"`
	ClaimFields
	WaitMs   *int64         `json:"wait_ms" minimum:"0" maximum:"60000" doc:"how long the claim waits for a job"`
	Complete jsontext.Value `json:"complete" schema:"ClaimedOutcomes" nullable:"true" doc:"outcomes that the server applies before the claim; at most 1000, in the list or in the object"`
	Begins   *int64         `json:"begins" minimum:"0" maximum:"1000" doc:"how many of the jobs, in the order of the answer, begin with the claim; the others begin when a tickle names them. When the runner is lost, only runs that had begun count as attempts. Without it, all jobs begin with the claim."`
}

func (r *ClaimRequest) Command() (cmd job.Claim, wait time.Duration, err error) {
	cmd = job.Claim{Max: 1, MaxBytes: job.DefaultClaimBytes}
	if r.RunnerID == nil {
		return cmd, 0, web.BadRequest("runner_id", "runner_id is missing")
	}
	cmd.Runner = *r.RunnerID
	if err := job.CheckText("runner_id", cmd.Runner, 1, job.MaxRunnerBytes); err != nil {
		return cmd, 0, web.BadField("runner_id", err)
	}
	if err := r.Fill(&cmd); err != nil {
		return cmd, 0, err
	}
	if r.Begins != nil {
		if err := job.CheckRange("begins", *r.Begins, 0, job.MaxClaimJobs); err != nil {
			return cmd, 0, web.BadField("begins", err)
		}
		cmd.Announced, cmd.Begins = true, int(*r.Begins)
	}
	if r.WaitMs != nil {
		if err := job.CheckRange("wait_ms", *r.WaitMs, 0, job.MaxWaitMs); err != nil {
			return cmd, 0, web.BadField("wait_ms", err)
		}
		wait = time.Duration(*r.WaitMs) * time.Millisecond
	}
	return cmd, wait, nil
}

func checkNames(field string, names []string) error {
	if len(names) > job.MaxClaimNames {
		return web.BadRequest(field, fmt.Sprintf("%s has %d names; the maximum is %d", field, len(names), job.MaxClaimNames))
	}
	if names != nil && len(names) == 0 {
		return web.BadRequest(field, fmt.Sprintf("%s is an empty list; leave the field out to claim from all %s", field, field))
	}
	for i, name := range names {
		place := web.Item(field, i)
		if err := job.CheckName(place, name); err != nil {
			return web.BadField(place, err)
		}
	}
	return nil
}

// Completion reads the field complete: a list of outcomes, or an object like the body of POST /jobs/complete.
func (r *ClaimRequest) Completion(done *Completion) error {
	const field = "complete"
	switch r.Complete.Kind() {
	case jsontext.KindBeginArray:
		return done.list(field, r.Complete, job.ID{}, "")
	case jsontext.KindBeginObject:
		var all CompleteRequest
		if err := web.DecodeValue(field, r.Complete, &all); err != nil {
			return err
		}
		if err := all.Completion(done); err != nil {
			return web.Inside(field, err)
		}
		return nil
	}
	return web.BadRequest(field, "complete must be a list of outcomes or an object")
}
