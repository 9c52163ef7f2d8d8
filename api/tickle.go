package api

import (
	"context"
	"math"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

type tickler interface {
	Tickle(ctx context.Context, t job.Tickle) (applied.Tickled, ingest.Receipt, error)
}

// tickleFields are the fields that all tickles have.
type tickleFields struct {
	fences
	LeaseMs  *int64   `json:"lease_ms"`
	Step     *string  `json:"step"`
	Progress *float64 `json:"progress"`
}

func (f *tickleFields) command() (t job.Tickle, err error) {
	t.Claim, t.Progress = f.ClaimID, -1
	if t.Runner, err = f.runner(); err != nil {
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

// tickle answers POST /jobs/{id}/tickle.
func (s *Server) tickle(c echo.Context) error {
	var r tickleFields
	id, body, err := readJobRequest(c, &s.bodies.optional, &r)
	if err != nil {
		return err
	}
	defer body.Release()
	cmd, err := r.command()
	if err == nil {
		err = s.requireClaimID(cmd.Claim)
	}
	if err != nil {
		return err
	}
	cmd.IDs = []job.ID{id}
	tickled, receipt, err := s.engine.Tickle(c.Request().Context(), cmd)
	if err != nil {
		return err
	}
	s.streams.tickled(&cmd, &tickled)
	if len(tickled.Lost) > 0 {
		return refused(tickled.Lost[0].Refusal)
	}
	if err := refused(tickled.Refusal); err != nil {
		return err
	}
	return s.answerChanged(c, receipt, id, job.Active)
}

// tickleManyRequest is the body of POST /jobs/tickle.
type tickleManyRequest struct {
	tickleFields
	JobIDs *[]job.ID `json:"job_ids"`
}

func (r *tickleManyRequest) command() (job.Tickle, error) {
	cmd, err := r.tickleFields.command()
	if err != nil {
		return cmd, err
	}
	switch {
	case r.JobIDs != nil:
		if cmd.IDs, err = namedJobs(*r.JobIDs); err != nil {
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

// namedJobs checks the field job_ids.
func namedJobs(ids []job.ID) ([]job.ID, error) {
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

// nothingHeld refuses a tickle if none of its jobs is held.
func nothingHeld(t *applied.Tickled) error {
	if t.Held > 0 {
		return nil
	}
	r := t.Refusal
	if r == job.Granted {
		r = job.ClaimLost
	}
	p := *refused(r).(*web.Problem)
	p.Members = map[string]any{"lost": lostJobs(t.Lost)} // the document has the list even if it is empty
	return &p
}

// tickleMany answers POST /jobs/tickle. It extends the leases of the jobs in job_ids. Without job_ids, it extends the
// leases of all jobs that the claim holds. Without a claim_id, it extends the leases of all jobs that the runner holds.
func (s *Server) tickleMany(c echo.Context) error {
	var r tickleManyRequest
	body, err := web.ReadObject(c, &s.bodies.small, &r)
	if err != nil {
		return err
	}
	defer body.Release()
	cmd, err := r.command()
	if err == nil {
		err = s.requireClaimID(cmd.Claim)
	}
	if err != nil {
		return err
	}
	tickled, receipt, err := s.engine.Tickle(c.Request().Context(), cmd)
	if err != nil {
		return err
	}
	s.streams.tickled(&cmd, &tickled)
	if err := nothingHeld(&tickled); err != nil {
		return err
	}
	web.SetSeq(c, receipt.Seq)
	return web.AnswerDocument(c, http.StatusOK, tickledDocument{tickled.Held, lostJobs(tickled.Lost)})
}

// tickledDocument has the number of jobs that are still held, and the jobs that the runner has lost.
type tickledDocument struct {
	Held int       `json:"held"`
	Lost []lostJob `json:"lost"`
}

// lostJob is a job that the runner does not hold, although it named the job or held it before.
type lostJob struct {
	JobID job.ID `json:"job_id"`
	Code  string `json:"code"`
}

// lostJobs returns the list for a document. It is never nil, because nil would be encoded as null.
func lostJobs(results []applied.JobResult) []lostJob {
	list := make([]lostJob, len(results))
	for i := range results {
		list[i] = lostJob{results[i].ID, results[i].Refusal.Code()}
	}
	return list
}
