package api

import (
	"context"
	"errors"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/command"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store/applied"
)

// claimer calls admit with the total size of the payloads before it reads them. If admit returns an error, the claim
// fails. The payloads must not be changed.
type claimer interface {
	ClaimAdmitted(ctx context.Context, c job.Claim, wait time.Duration, admit func(payloadBytes int64) error) (applied.Claimed, []runs.Run, ingest.Receipt, error)
}

// exchanger carries out the outcomes of a claim and the claim.
type exchanger interface {
	Exchange(ctx context.Context, commands []job.Complete, c job.Claim) (*ingest.Exchange, error)
}

// claim answers POST /jobs/claim.
func (s *Server) claim(c echo.Context) error {
	var call answer.ClaimCall
	if err := call.ChooseForm(c); err != nil {
		return err
	}
	var r command.ClaimRequest
	body, err := web.ReadObject(c, &s.bodies.outcomes, &r)
	if err != nil {
		return err
	}
	defer body.Release()
	call.Cmd, call.Wait, err = r.Command()
	if err == nil {
		call.Cmd.Once, err = web.Once(c, "claim", call.Cmd.Runner, body.Bytes)
	}
	if err != nil {
		return err
	}
	if !web.Absent(r.Complete) {
		return s.completeAndClaim(c, body, &r, &call)
	}
	body.Release() // before the claim, which may wait for a minute
	if r.Max == nil {
		return s.claimOne(c, &call)
	}
	return s.claimMany(c, &call)
}

// completeAndClaim answers a claim with outcomes. The server applies the outcomes first, and answers with their results
// even if it refuses the claim. Only the claim can wait.
//
// The results stay in memory until the answer is written, so completeAndClaim takes a share for them before it applies
// anything. A claim that waits must not hold a share of the budget that other claims need. So the results of claims
// that wait have a separate budget. If that budget is used up, the claim does not wait.
func (s *Server) completeAndClaim(c echo.Context, body *web.Body, r *command.ClaimRequest, call *answer.ClaimCall) error {
	ctx := c.Request().Context()
	done := command.Completion{Decoder: s.decode, Most: job.MaxOutcomes, Reserve: func(n int64) error { return body.Reserve(ctx, n) }}
	err := r.Completion(&done)
	if err == nil {
		err = s.decode.RequireClaimIDs(&done)
	}
	if err == nil {
		err = done.SetOnce(call.Cmd.Once)
	}
	if err != nil {
		return err
	}
	held, parked := web.ShareOf(c, s.handouts), web.ShareOf(c, s.parked)
	defer held.Release()
	defer parked.Release()
	if results := answer.ResultsBytes(done.Count); call.Wait == 0 || !parked.Grow(ctx, results, 0) {
		call.Wait = 0
		if err := held.Resize(ctx, results); err != nil {
			return err
		}
	}
	all := done.All
	exchange, err := s.engine.Exchange(ctx, done.Commands, call.Cmd)
	if err != nil {
		return err
	}
	defer exchange.Close()
	each, receipt, err := exchange.Ended(ctx)
	s.streams.Completed(done.Commands, each)
	ended, seq, err := command.JoinEnded(each, receipt, err)
	if err != nil {
		return err
	}
	done.Commands, r.Complete = nil, nil
	body.Release()
	claimSeq, err := s.finishClaim(ctx, call, held, exchange.Claimed)
	if err != nil && ctx.Err() != nil {
		return err // the client hung up
	}
	if seq = max(seq, claimSeq); seq > 0 {
		web.SetSeq(c, seq)
	}
	web.SetReplayed(c, ended.Replayed || call.Claimed.Replayed)
	call.Ended = &answer.EndedJobs{Ended: ended, ForAll: all}
	if err != nil {
		call.Ended.Err = refusal.Of(err)
		s.logFailure(c, call.Ended.Err, err)
	}
	err = s.answerClaim(c, held, call)
	if p, ok := errors.AsType[*web.Problem](err); ok {
		return refusal.After(p)
	}
	return err
}

// logFailure logs why a claim was refused after its outcomes were applied. The answer is then a success, so logAccess
// does not log the cause.
func (s *Server) logFailure(c echo.Context, p *web.Problem, err error) {
	s.log.Warn().Str("route", c.Path()).Str("code", p.Code).AnErr("error", err).Msg("claim refused after its outcomes were applied")
}
