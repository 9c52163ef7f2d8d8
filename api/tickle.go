package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/command"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// tickle answers POST /jobs/{id}/tickle.
func (s *claims) tickle(c echo.Context) error {
	var r command.TickleFields
	id, body, err := readJobRequest(c, &s.bodies.optional, &r)
	if err != nil {
		return err
	}
	defer body.Release()
	cmd, err := r.Command()
	if err == nil {
		err = s.decode.RequireClaimID(cmd.Claim)
	}
	if err != nil {
		return err
	}
	cmd.IDs = []job.ID{id}
	tickled, receipt, err := s.engine.Tickle(c.Request().Context(), cmd)
	if err != nil {
		return err
	}
	s.streams.Tickled(c.Request().Context(), &cmd, &tickled, receipt.At)
	if len(tickled.Lost) > 0 {
		return refusal.Err(tickled.Lost[0].Refusal)
	}
	if err := refusal.Err(tickled.Refusal); err != nil {
		return err
	}
	return s.answerChanged(c, receipt, id, job.Active)
}

// tickleMany answers POST /jobs/tickle. It extends the leases of the jobs in job_ids. Without job_ids, it extends the
// leases of all jobs that the claim holds. Without a claim_id, it extends the leases of all jobs that the runner holds.
func (s *claims) tickleMany(c echo.Context) error {
	var r command.TickleManyRequest
	body, err := web.ReadObject(c, &s.bodies.small, &r)
	if err != nil {
		return err
	}
	defer body.Release()
	cmd, err := r.Command()
	if err == nil {
		err = s.decode.RequireClaimID(cmd.Claim)
	}
	if err != nil {
		return err
	}
	tickled, receipt, err := s.engine.Tickle(c.Request().Context(), cmd)
	if err != nil {
		return err
	}
	s.streams.Tickled(c.Request().Context(), &cmd, &tickled, receipt.At)
	if err := answer.NothingHeld(&tickled); err != nil {
		return err
	}
	web.SetSeq(c, receipt.Seq)
	return web.AnswerDocument(c, http.StatusOK, answer.HeldDocument{Held: tickled.Held, Lost: answer.LostJobs(tickled.Lost)})
}
