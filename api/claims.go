package api

import (
	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/labstack/echo/v4"
)

// claimHead is the document of a claim without its list of jobs.
type claimHead struct {
	ClaimID    job.ID  `json:"claim_id"`
	RunnerID   *string `json:"runner_id"` // null if nobody claimed the jobs; see job.Complete
	CreatedAt  int64   `json:"created_at"`
	LeaseMs    int64   `json:"lease_ms"`
	TickledAt  int64   `json:"tickled_at"`
	DeadlineAt *int64  `json:"deadline_at"` // null if the claim holds no jobs
	HandedOut  int     `json:"handed_out"`
	Held       int     `json:"held"`
}

// claimDocument answers GET /claims/{id}.
func (s *Server) claimDocument(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	fields, err := onlyFields(web.Parameters(c))
	if err != nil {
		return err
	}
	held, err := s.holdPage(c, fields.Bytes(job.MaxClaimJobs))
	if err != nil {
		return err
	}
	defer held.Release()
	var claim document.Claim
	var list []job.Job
	err = s.pages.Do(c.Request().Context(), func() error {
		claim, list, err = s.engine.ClaimDocument(id, fields.Parts())
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
