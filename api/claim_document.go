package api

import (
	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
)

// claimHead is the document of a claim without its list of jobs.
type claimHead struct {
	ClaimID    job.ID  `json:"claim_id"`
	RunnerID   *string `json:"runner_id" schema:"RunnerId" doc:"null if the jobs ended by the protocol of Opsqueue and nobody had claimed them"`
	CreatedAt  int64   `json:"created_at" minimum:"0"`
	LeaseMs    int64   `json:"lease_ms" minimum:"0"`
	TickledAt  int64   `json:"tickled_at" minimum:"0"`
	DeadlineAt *int64  `json:"deadline_at" minimum:"0"` // null if the claim holds no jobs
	HandedOut  int     `json:"handed_out" minimum:"0" maximum:"1000" doc:"number of jobs that the claim handed out"`
	Held       int     `json:"held" minimum:"0" maximum:"1000"`
}

// claimDocument is the document of a claim. It is sent in pieces.
type claimDocument struct {
	claimHead
	Jobs []answer.JobPart `json:"jobs"`
}

type claimQuery struct {
	onlyID
	selected
	caughtUp
}

// claim answers with a claim and the jobs that it still holds.
func (s *jobs) claim(c echo.Context, in *claimQuery) error {
	fields := in.selection()
	held, err := s.page(c, in.caughtUp, fields.Bytes(job.MaxClaimJobs))
	if err != nil {
		return err
	}
	defer held.Release()
	var claim document.Claim
	var list []job.Job
	err = s.pages.Do(c.Request().Context(), func() error {
		claim, list, err = s.engine.ClaimDocument(in.ID, fields.Parts())
		answer.ConcealAll(job.KeyOf(c.Request().Context()), list)
		return err
	})
	if err != nil {
		return err
	}
	if err := held.Resize(c.Request().Context(), answer.StatesBytes(list)); err != nil {
		return err
	}
	head, err := web.EncodeHead(claimHead{
		ClaimID: claim.ID, RunnerID: web.OrNull(claim.Runner), CreatedAt: claim.CreatedAt, LeaseMs: claim.LeaseMs, TickledAt: claim.TickledAt,
		DeadlineAt: web.OrNull(claim.DeadlineAt), HandedOut: claim.HandedOut, Held: claim.Held,
	})
	if err != nil {
		return err
	}
	p := web.NewPieces(c, web.MIMEJSON, held, s.pages)
	p.B = append(append(p.B, head...), `,"jobs":`...)
	if err := fields.Write(p, list); err != nil {
		return err
	}
	p.B = append(p.B, "}\n"...)
	return p.End()
}
