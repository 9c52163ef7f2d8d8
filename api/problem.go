package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// fate is what became of the change that a refused request asked for; the field `outcome` of a problem.
type fate string

const (
	notStored fate = "not_stored"
	stored    fate = "stored"
	unknown   fate = "unknown"
)

// problem is a refusal on its way to the client (RFC 9457). Its code is stable; see the table in docs/api.md.
type problem struct {
	status int
	code   string
	detail string
	field  string // which field was wrong, where one was
	fate   fate   // empty: not stored
	allow  string // of a 405
	// retryAfter is when to try again, of a 429 or 503; 0: see the constant of that name.
	retryAfter time.Duration
	lost       []store.JobResult
	whole      bool // refuses a body as a whole, though each of its positions has a result
}

func (p *problem) Error() string { return p.code + ": " + p.detail }

// The codes that handlers refuse with by themselves.
const (
	codeBadRequest  = "bad_request"
	codeBadID       = "bad_id"
	codeTooLarge    = "body_too_large"
	codeOverloaded  = "overloaded"
	codeUnsupported = "unsupported_media_type"
	codeShutdown    = "shutting_down"
)

func badRequest(field, detail string) *problem {
	return &problem{status: http.StatusBadRequest, code: codeBadRequest, field: field, detail: detail}
}

// badField is badRequest with what one of job's checks had to say; nil stays nil.
func badField(field string, err error) error {
	if err == nil {
		return nil
	}
	return badRequest(field, err.Error())
}

func badID(field string) *problem {
	return &problem{status: http.StatusBadRequest, code: codeBadID, field: field, detail: job.ErrBadID.Error()}
}

func routeNotFound() *problem {
	return &problem{status: http.StatusNotFound, code: "route_not_found", detail: "there is no such route"}
}

func methodNotAllowed(allow string) *problem {
	return &problem{status: http.StatusMethodNotAllowed, code: "method_not_allowed", detail: strings.TrimSuffix("this route has no such method; it has "+allow, "; it has "), allow: allow}
}

// refused is the problem of a refusal by a rule of jobs; nil for Granted.
func refused(r job.Refusal) error {
	status, f := http.StatusConflict, notStored
	switch r {
	case job.Granted:
		return nil
	case job.NotFound, job.QueueNotFound, job.BatchNotFound, job.SweepNotFound, job.ClaimNotFound:
		status = http.StatusNotFound
	case job.SessionNotFound:
		status, f = http.StatusNotFound, unknown // an earlier try of a numbered request may have been carried out
	case job.NotActive:
		status = http.StatusBadRequest
	case job.KeyReused, job.NumberReused:
		status = http.StatusUnprocessableEntity
	case job.TooManyQueues, job.TooManySweeps, job.TooManySessions:
		status = http.StatusTooManyRequests
	case job.NumberPassed:
		f = unknown // an earlier try may have been carried out, and what it did is forgotten
	}
	return &problem{status: status, code: r.Code(), detail: r.Error(), fate: f}
}

// errShuttingDown ends the wait of parked claims when the server drains.
var errShuttingDown = errors.New("the server is shutting down")

// statusClientGone is what logs and metrics show for a request whose client hung up and does not read the answer.
const statusClientGone = 499

// known maps what the engine returns beside refusals of package job. The first match counts.
var known = []struct {
	err    error
	status int
	code   string
	fate   fate
}{
	{errShuttingDown, http.StatusServiceUnavailable, codeShutdown, notStored},
	{ingest.ErrClosed, http.StatusServiceUnavailable, codeShutdown, notStored},
	{ingest.ErrDiskFull, http.StatusInsufficientStorage, "disk_full", notStored},
	{ingest.ErrUnknown, http.StatusServiceUnavailable, "writes_failed", unknown},
	{ingest.ErrNotStored, http.StatusServiceUnavailable, "writes_failed", notStored},
	{ingest.ErrWritesFailed, http.StatusServiceUnavailable, "writes_failed", notStored},
	{ingest.ErrNotReady, http.StatusServiceUnavailable, "not_ready", notStored},
	{ingest.ErrStale, http.StatusServiceUnavailable, "not_ready", notStored},
	{ingest.ErrOverloaded, http.StatusTooManyRequests, codeOverloaded, notStored},
	{ingest.ErrTooManyQueues, http.StatusTooManyRequests, "too_many_queues", notStored},
	{ingest.ErrTooManyKeys, http.StatusTooManyRequests, "too_many_keys", notStored},
	{ingest.ErrTooManyParked, http.StatusTooManyRequests, "too_many_parked_claims", notStored},
	{ingest.ErrMalformed, http.StatusBadRequest, codeBadRequest, notStored},
	{ingest.ErrTooLarge, http.StatusRequestEntityTooLarge, codeTooLarge, notStored},
	{ingest.ErrApply, http.StatusInternalServerError, "internal", stored},
	{store.ErrDamaged, http.StatusInternalServerError, "store_damaged", unknown},
}

// problemOf finds the problem in any error that a handler, the router or the engine returned. What it does not know is
// an internal error, whose text is written to the log and not to the client.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if r, ok := errors.AsType[job.Refusal](err); ok && r != job.Granted {
		return refused(r).(*problem)
	}
	if errors.Is(err, context.Canceled) && !errors.Is(err, errShuttingDown) {
		p := &problem{status: statusClientGone, code: "client_gone", detail: "the client hung up", fate: unknown}
		if errors.Is(err, ingest.ErrNotStored) {
			p.fate = notStored
		}
		return p
	}
	for _, k := range known {
		if !errors.Is(err, k.err) {
			continue
		}
		p := &problem{status: k.status, code: k.code, detail: err.Error(), fate: k.fate}
		if full, ok := errors.AsType[*ingest.TooManyQueues](err); ok {
			p.retryAfter = full.RetryAfter
		}
		if k.code == "writes_failed" && errors.Is(err, syscall.ENOSPC) {
			p.status, p.code = http.StatusInsufficientStorage, "disk_full"
		}
		return p
	}
	if e, ok := errors.AsType[*echo.HTTPError](err); ok {
		switch e.Code {
		case http.StatusNotFound:
			return routeNotFound()
		case http.StatusMethodNotAllowed:
			return methodNotAllowed("")
		}
	}
	return &problem{status: http.StatusInternalServerError, code: "internal", detail: "the server failed; its log has the reason", fate: unknown}
}

// after is the problem of a request whose change is stored, though what was to follow it failed.
func after(err error) *problem {
	p := *problemOf(err)
	p.fate = stored
	return &p
}

// retryAfter is the answer to "when again" where a problem has none of its own: most causes of 429 and 503 pass within
// a second or are worth asking about as often.
const retryAfter = time.Second

// answerProblem writes p, unless the answer has begun.
func answerProblem(c echo.Context, p *problem) {
	w := c.Response()
	if w.Committed {
		return
	}
	h := w.Header()
	if p.allow != "" {
		h.Set(echo.HeaderAllow, p.allow)
	}
	if p.status == http.StatusTooManyRequests || p.status == http.StatusServiceUnavailable {
		seconds := (cmp.Or(p.retryAfter, retryAfter) + time.Second - 1) / time.Second
		h.Set(echo.HeaderRetryAfter, strconv.FormatInt(int64(seconds), 10))
	}
	// A failed write means that the client is gone; the access log has the request all the same.
	if text, err := encodeDocument(documentOfProblem(p)); err == nil { // texts and numbers can be encoded
		_ = answer(c, p.status, "application/problem+json", text)
	}
}

// problemDocument is RFC 9457's, with fields of our own from code on.
type problemDocument struct {
	Type    string    `json:"type"`
	Title   string    `json:"title"`
	Status  int       `json:"status"`
	Code    string    `json:"code"`
	Detail  string    `json:"detail"`
	Outcome fate      `json:"outcome"`
	Field   string    `json:"field,omitzero"`
	Lost    []lostJob `json:"lost,omitzero"` // of a tickle that found nothing to extend
}

func documentOfProblem(p *problem) problemDocument {
	doc := problemDocument{
		Type: "about:blank", Title: cmp.Or(http.StatusText(p.status), "Client Closed Request"), Status: p.status, Code: p.code,
		Detail: strings.TrimSpace(p.detail), Outcome: cmp.Or(p.fate, notStored), Field: p.field,
	}
	if p.lost != nil {
		doc.Lost = lostJobs(p.lost)
	}
	return doc
}
