package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// claimOne answers a claim of one job with the document of that job.
func (s *Server) claimOne(c echo.Context, cmd job.Claim, wait time.Duration) error {
	held := s.shareOf(c, s.handouts)
	defer held.release()
	claimed, jobs, seq, err := s.makeClaim(c.Request().Context(), cmd, wait, held)
	if err != nil {
		return err
	}
	setClaimHeaders(c, seq, &claimed)
	if len(jobs) == 0 {
		return c.NoContent(http.StatusNoContent)
	}
	return withBuffer(func(b []byte) ([]byte, error) {
		b = append(appendJob(b, &jobs[0], inJSON), '\n')
		return b, s.handOut(c, &claimed, func() error { return answerHeld(c, held, http.StatusOK, mimeJSON, b) })
	})
}

// claimMany answers a claim of several jobs with the document of the claim. A repeated claim whose jobs have ended
// since has a claim_id and no jobs.
func (s *Server) claimMany(c echo.Context, cmd job.Claim, wait time.Duration) error {
	held := s.shareOf(c, s.handouts)
	defer held.release()
	claimed, jobs, seq, err := s.makeClaim(c.Request().Context(), cmd, wait, held)
	if err != nil {
		return err
	}
	setClaimHeaders(c, seq, &claimed)
	if len(jobs) == 0 && claimed.Claim.IsZero() {
		return c.NoContent(http.StatusNoContent)
	}
	return s.answerClaim(c, held, []byte{'{'}, &claimed, jobs)
}

func setClaimHeaders(c echo.Context, seq uint64, claimed *store.Claimed) {
	if seq > 0 {
		setSeq(c, seq)
	}
	setReplayed(c, claimed.Replayed)
}

// makeClaim makes the claim, and grows the share by what the claimed jobs take in memory. If the server shuts down, the
// claim stops waiting.
func (s *Server) makeClaim(ctx context.Context, cmd job.Claim, wait time.Duration, held *share) (store.Claimed, []job.Job, uint64, error) {
	return s.finishClaim(ctx, &cmd, wait, held, func(ctx context.Context, wait time.Duration, admit func(int64) error) (store.Claimed, []job.Job, ingest.Receipt, error) {
		return s.engine.ClaimAdmitted(ctx, cmd, wait, admit)
	})
}

// claimFunc carries out a claim; see claimer.
type claimFunc func(ctx context.Context, wait time.Duration, admit func(payloadBytes int64) error) (store.Claimed, []job.Job, ingest.Receipt, error)

// finishClaim carries out a claim within the budget of memory.
func (s *Server) finishClaim(ctx context.Context, cmd *job.Claim, wait time.Duration, held *share, claim claimFunc) (store.Claimed, []job.Job, uint64, error) {
	if wait > 0 {
		waiting, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		stop := context.AfterFunc(s.draining, func() { cancel(errShuttingDown) })
		defer stop()
		ctx = waiting
	}
	before := held.held
	admit := func(payloadBytes int64) error { // the engine calls it after the claim is stored
		err := held.resize(ctx, before+payloadBytes+int64(cmd.Max)*jobStateBytes)
		if err != nil && cmd.Once.Given() {
			return after(err)
		}
		return err
	}
	claimed, jobs, receipt, err := claim(ctx, wait, admit)
	if n := before + statesBytes(jobs); err == nil && held.held > n {
		held.shrink(held.held - n)
	}
	if err != nil && context.Cause(ctx) == errShuttingDown {
		p := *problemOf(errShuttingDown)
		if cmd.Once.Given() && !errors.Is(err, ingest.ErrNotStored) {
			p.fate = unknown // a claim with a key keeps jobs that it got before its wait ended
		}
		err = &p
	}
	return claimed, jobs, receipt.Seq, err
}

// answerClaim writes the claim and its jobs: as one JSON document, or as NDJSON with one job per line if the client
// prefers that. begun is the beginning of the JSON object.
func (s *Server) answerClaim(c echo.Context, held *share, begun []byte, claimed *store.Claimed, list []job.Job) error {
	f, kind := inJSON, mimeClaim
	if prefers(c.Request(), mimeNDJSON) {
		f, kind = inLines, mimeNDJSON
	}
	p := newPieces(c, kind, held, nil)
	b := append(p.b, begun...)
	size := len(b) + 256
	for i := range list {
		size += jobTextBytes + len(list[i].Payload)
	}
	if size = min(size, maxPooledAnswer); cap(b) < size {
		b = append(make([]byte, 0, size), b...)
	}
	b = append(b, `"claim_id":`...)
	if claimed.Claim.IsZero() {
		b = append(b, `null,"lease_ms":null`...)
	} else {
		b = appendID(b, claimed.Claim)
		b = append(b, `,"lease_ms":`...)
		b = appendNumber(b, claimed.LeaseMs)
	}
	separator, end, last := ",", "", "]}\n"
	if f == inLines {
		separator, end, last = "", "\n", ""
		p.b = append(b, "}\n"...)
	} else {
		p.b = append(b, `,"jobs":[`...)
	}
	return s.handOut(c, claimed, func() error {
		err := p.jobs(list, separator, end, func(b []byte, before *jobs, j *job.Job) []byte { return before.append(b, j, f) })
		if err != nil {
			return err
		}
		p.b = append(p.b, last...)
		return p.end()
	})
}

// handOut writes the answer to a claim. If the answer cannot be written, or the client hung up before, handOut releases
// the jobs with unget, so that they do not wait for the end of their lease. A client that hangs up after the answer was
// written may have read it, so the jobs stay claimed until they are completed or their lease ends.
//
// A claim with an idempotency key or a session number keeps its jobs, because the client can repeat the request.
// handOut releases those jobs only if it refuses the request, and the request is not a repeat.
func (s *Server) handOut(c echo.Context, claimed *store.Claimed, write func() error) error {
	ctx := c.Request().Context()
	gone := ctx.Err() != nil
	failed := write()
	if failed == nil && !gone || claimed.Claim.IsZero() {
		return failed
	}
	if claimed.Keyed {
		p, refused := errors.AsType[*problem](failed)
		if !refused || c.Response().Committed {
			return failed
		}
		if failed = after(p); claimed.Replayed {
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
