package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store/applied"
)

// claimForm is the format of the answer to a claim.
type claimForm uint8

const (
	claimInJSON  claimForm = iota // one document
	claimInLines                  // NDJSON: a line for the claim, and one for each job
	claimInRuns                   // package runs
)

// chooseForm sets the format that the client prefers, and the fields of the job documents in it.
func (call *claimCall) chooseForm(c echo.Context) (err error) {
	switch web.Preferred(c.Request(), web.MIMERuns, web.MIMENDJSON) {
	case web.MIMERuns:
		call.form = claimInRuns
	case web.MIMENDJSON:
		call.form = claimInLines
	}
	list := web.Parameters(c)
	switch {
	case len(list) == 0:
	case call.form == claimInRuns:
		err = web.BadRequest("fields", "fields is for answers in JSON; an answer in runs has all fields of its jobs")
	default:
		call.fields, err = selectFields(list[0].Value) // the only parameter of the route
	}
	return err
}

// claimCall is a call of POST /jobs/claim: the claim, and its answer.
type claimCall struct {
	cmd    job.Claim
	wait   time.Duration
	form   claimForm
	fields selection

	claimed  applied.Claimed
	handed   []runs.Run
	handlers []runs.Handler // of the jobs
	ended    *endedJobs     // of a claim with outcomes
}

// endedJobs is the additional part of the answer to a claim with outcomes.
type endedJobs struct {
	applied.Ended
	all     bool         // the request had an outcome for all jobs of a claim
	refused *web.Problem // why the claim was refused after the outcomes were applied
}

// claimOne answers a claim of one job with the document of that job.
func (s *Server) claimOne(c echo.Context, call *claimCall) error {
	held := web.ShareOf(c, s.handouts)
	defer held.Release()
	seq, err := s.makeClaim(c.Request().Context(), call, held)
	if err != nil {
		return err
	}
	setClaimHeaders(c, seq, &call.claimed)
	switch {
	case len(call.handed) == 0:
		return c.NoContent(http.StatusNoContent)
	case call.form == claimInRuns:
		return s.answerClaim(c, held, call)
	}
	if len(call.handlers) > 0 {
		h := &call.handlers[0]
		c.Response().Header().Set(headerHandler, h.ID.String()+" "+h.Kind+" "+h.Digest.String())
	}
	docs, err := call.handed[0].Documents(nil)
	return web.WithBuffer(func(b []byte) ([]byte, error) {
		if err == nil {
			b = append(call.fields.appendJob(b, &docs[0]), '\n')
		}
		return b, s.handOut(c, &call.claimed, func() error {
			if err != nil {
				return err
			}
			return web.AnswerHeld(c, held, http.StatusOK, web.MIMEJSON, b)
		})
	})
}

// claimMany answers a claim of several jobs with the document of the claim. A repeated claim whose jobs have ended
// since gets a claim_id and no jobs.
func (s *Server) claimMany(c echo.Context, call *claimCall) error {
	held := web.ShareOf(c, s.handouts)
	defer held.Release()
	seq, err := s.makeClaim(c.Request().Context(), call, held)
	if err != nil {
		return err
	}
	setClaimHeaders(c, seq, &call.claimed)
	if len(call.handed) == 0 && call.claimed.Claim.IsZero() {
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
func (s *Server) makeClaim(ctx context.Context, call *claimCall, held *web.Share) (seq uint64, err error) {
	return s.finishClaim(ctx, call, held, func(ctx context.Context, wait time.Duration, admit func(int64) error) (applied.Claimed, []runs.Run, ingest.Receipt, error) {
		return s.engine.ClaimAdmitted(ctx, call.cmd, wait, admit)
	})
}

// claimFunc carries out a claim; see claimer.
type claimFunc func(ctx context.Context, wait time.Duration, admit func(payloadBytes int64) error) (applied.Claimed, []runs.Run, ingest.Receipt, error)

// finishClaim carries out a claim within the budget of memory.
func (s *Server) finishClaim(ctx context.Context, call *claimCall, held *web.Share, claim claimFunc) (seq uint64, err error) {
	if call.wait > 0 {
		waiting, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		stop := context.AfterFunc(s.draining, func() { cancel(web.ErrShuttingDown) })
		defer stop()
		ctx = waiting
	}
	before := held.Held
	admit := func(payloadBytes int64) error { // the engine calls it after the claim is stored
		err := held.Resize(ctx, before+payloadBytes+int64(call.cmd.Max)*jobStateBytes)
		if err != nil && call.cmd.Once.Given() {
			return after(err)
		}
		return err
	}
	var receipt ingest.Receipt
	call.claimed, call.handed, receipt, err = claim(ctx, call.wait, admit)
	call.handlers = s.handlersOf(call.handed)
	if n := before + call.bytes(); err == nil && held.Held > n {
		held.Shrink(held.Held - n)
	}
	if err != nil && context.Cause(ctx) == web.ErrShuttingDown {
		p := *problemOf(web.ErrShuttingDown)
		if call.cmd.Once.Given() && !errors.Is(err, ingest.ErrNotStored) {
			p.Fate = web.Unknown // a claim with a key keeps jobs that it got before its wait ended
		}
		err = &p
	}
	return receipt.Seq, err
}

// bytes is about the memory for the answer's jobs and for the part of its text that is in memory at a time.
func (call *claimCall) bytes() int64 {
	var data int64
	for i := range call.handed {
		data += runBytes(&call.handed[i])
	}
	return data + min(int64(call.textBytes()), web.MaxPooledAnswer)
}

func runBytes(r *runs.Run) int64 { return stateBytes(&r.First) + int64(r.Bytes()) }

// textBytes is about the length of the jobs' text in an answer.
func (call *claimCall) textBytes() (n int) {
	for i := range call.handed {
		r := &call.handed[i]
		if n += r.Bytes(); call.form == claimInRuns {
			n += runHeadBytes + len(r.First.Meta) + len(r.First.Error)
		} else {
			n += r.N * jobTextBytes
		}
	}
	return n
}

// answerClaim writes the answer to a claim of several jobs, or with outcomes, or in runs.
func (s *Server) answerClaim(c echo.Context, held *web.Share, call *claimCall) error {
	kind := web.MIMEClaim
	switch call.form {
	case claimInLines:
		kind = web.MIMENDJSON
	case claimInRuns:
		kind = web.MIMERuns
	}
	p := web.NewPieces(c, kind, held, nil)
	if size := min(call.textBytes()+256, web.MaxPooledAnswer); cap(p.B) < size {
		p.B = make([]byte, 0, size)
	}
	return s.handOut(c, &call.claimed, func() (err error) {
		if call.form == claimInRuns {
			err = call.writeRuns(p)
		} else {
			err = call.writeJSON(p)
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
func (s *Server) handOut(c echo.Context, claimed *applied.Claimed, write func() error) error {
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
