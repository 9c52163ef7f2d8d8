package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store/applied"
)

// claimOne answers a claim of one job with the document of that job.
func (s *claims) claimOne(c echo.Context, call *answer.ClaimCall) error {
	held := web.ShareOf(c, s.handouts)
	defer held.Release()
	seq, err := s.makeClaim(c, call, held)
	if err != nil {
		return err
	}
	setClaimHeaders(c, seq, &call.Claimed)
	switch {
	case len(call.Handed) == 0:
		return c.NoContent(http.StatusNoContent)
	case call.Form == answer.ClaimInRuns:
		return s.answerClaim(c, held, call)
	}
	if len(call.Handlers) > 0 {
		h := &call.Handlers[0]
		c.Response().Header().Set(answer.HeaderHandler, h.ID.String()+" "+h.Kind+" "+h.Digest.String())
	}
	docs, err := call.Handed[0].Documents(nil)
	return web.WithBuffer(func(b []byte) ([]byte, error) {
		if err == nil {
			b = append(call.Fields.AppendJob(b, &docs[0]), '\n')
		}
		return b, s.handOut(c, &call.Claimed, func() error {
			if err != nil {
				return err
			}
			return web.AnswerHeld(c, held, http.StatusOK, web.MIMEJSON, b)
		})
	})
}

// claimMany answers a claim of several jobs with the document of the claim. A repeated claim whose jobs have ended
// since gets a claim_id and no jobs.
func (s *claims) claimMany(c echo.Context, call *answer.ClaimCall) error {
	held := web.ShareOf(c, s.handouts)
	defer held.Release()
	seq, err := s.makeClaim(c, call, held)
	if err != nil {
		return err
	}
	setClaimHeaders(c, seq, &call.Claimed)
	if len(call.Handed) == 0 && call.Claimed.Claim.IsZero() {
		return c.NoContent(http.StatusNoContent)
	}
	return s.answerClaim(c, held, call)
}

func setClaimHeaders(c echo.Context, seq uint64, claimed *applied.Claimed) {
	if seq > 0 {
		web.SetSeq(c, seq)
	}
	web.SetReplayed(c, claimed.Replayed)
}

// makeClaim makes the claim, and grows the share to the memory that the answer needs. If the server shuts down, the
// claim stops waiting.
func (s *claims) makeClaim(c echo.Context, call *answer.ClaimCall, held *web.Share) (seq uint64, err error) {
	return s.finishClaim(c, call, held, func(ctx context.Context, wait time.Duration, admit func(int64) error) (applied.Claimed, []runs.Run, ingest.Receipt, error) {
		return s.engine.ClaimAdmitted(ctx, call.Cmd, wait, admit)
	})
}

// claimFunc carries out a claim; see claimer.
type claimFunc func(ctx context.Context, wait time.Duration, admit func(payloadBytes int64) error) (applied.Claimed, []runs.Run, ingest.Receipt, error)

// finishClaim carries out a claim within the budget of memory.
func (s *claims) finishClaim(c echo.Context, call *answer.ClaimCall, held *web.Share, claim claimFunc) (seq uint64, err error) {
	ctx := c.Request().Context()
	if call.Wait > 0 {
		waiting, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		stop := context.AfterFunc(s.draining, func() { cancel(web.ErrShuttingDown) })
		defer stop()
		defer s.web.WhileGranted(c, cancel)()
		ctx = waiting
	}
	before := held.Held
	admit := func(payloadBytes int64) error { // the engine calls it after the claim is stored
		err := held.Resize(ctx, before+payloadBytes+int64(call.Cmd.Max)*answer.JobStateBytes)
		if err != nil && call.Cmd.Once.Given() {
			return refusal.After(err)
		}
		return err
	}
	var receipt ingest.Receipt
	call.Claimed, call.Handed, receipt, err = claim(ctx, call.Wait, admit)
	call.Handlers = answer.HandlersOf(s.engine.HandlerFor, call.Handed)
	if n := before + call.Bytes(); err == nil && held.Held > n {
		held.Shrink(held.Held - n)
	}
	if _, refused := errors.AsType[*web.Problem](context.Cause(ctx)); err != nil && (refused || context.Cause(ctx) == web.ErrShuttingDown) {
		p := *refusal.Of(context.Cause(ctx))
		if call.Cmd.Once.Given() && !errors.Is(err, ingest.ErrNotStored) {
			p.Fate = web.Unknown // a claim with a key keeps jobs that it got before its wait ended
		}
		err = &p
	}
	return receipt.Seq, err
}

// answerClaim writes the answer to a claim of several jobs, or with outcomes, or in runs.
func (s *claims) answerClaim(c echo.Context, held *web.Share, call *answer.ClaimCall) error {
	kind := web.MIMEClaim
	switch call.Form {
	case answer.ClaimInLines:
		kind = web.MIMENDJSON
	case answer.ClaimInRuns:
		kind = web.MIMERuns
	}
	p := web.NewPieces(c, kind, held, nil)
	if size := min(call.TextBytes()+256, web.MaxPooledAnswer); cap(p.B) < size {
		p.B = make([]byte, 0, size)
	}
	return s.handOut(c, &call.Claimed, func() (err error) {
		if call.Form == answer.ClaimInRuns {
			err = call.WriteRuns(p)
		} else {
			err = call.WriteJSON(p)
		}
		if err != nil {
			return err
		}
		return p.End()
	})
}

// handOut writes the answer to a claim. If the answer cannot be written, or the client has already hung up, handOut
// releases the jobs with unget, so that other runners need not wait for the end of the lease. A client that hangs up
// after the answer was written may have read it, so the jobs stay claimed until they are completed or their lease ends.
//
// A claim with an idempotency key or a session number keeps its jobs, because the client can repeat the request.
// handOut releases those jobs only if it refuses the request, and the request is not a repeat.
func (s *claims) handOut(c echo.Context, claimed *applied.Claimed, write func() error) error {
	ctx := c.Request().Context()
	gone := ctx.Err() != nil
	failed := write()
	if failed == nil && !gone || claimed.Claim.IsZero() {
		return failed
	}
	if claimed.Keyed {
		p, refused := errors.AsType[*web.Problem](failed)
		if !refused || c.Response().Committed {
			return failed
		}
		if failed = refusal.After(p); claimed.Replayed {
			return failed
		}
	}
	_, _, err := s.engine.Complete(context.WithoutCancel(ctx), job.Complete{
		Claim: claimed.Claim, All: &job.Outcome{Code: job.Unget, DelayMs: -1},
	})
	if err != nil {
		s.log.Error().Err(err).Stringer("claim_id", claimed.Claim).Msg("cannot release the jobs of a client that hung up; they stay claimed until their lease ends")
	}
	return failed
}
