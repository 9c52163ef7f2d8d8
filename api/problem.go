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

	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/client/fileset"
	"github.com/daybookq/daybook/client/fileset/archive"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/ingest/registry"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
	"github.com/daybookq/daybook/store/applied"
)

// fate records whether the change of a refused request was stored. It is the field outcome of a problem document.
type fate string

const (
	notStored fate = "not_stored"
	stored    fate = "stored"
	unknown   fate = "unknown"
)

// problem is the refusal of a request, as in RFC 9457. Its code is stable. docs/reference/errors.md has a table of all codes.
type problem struct {
	status int
	code   string
	detail string
	field  string // the wrong field; empty if there is no single one
	fate   fate   // empty: not stored
	allow  string // the Allow header of a 405
	// retryAfter is the Retry-After of a 429 or 503. 0 means defaultRetryAfter.
	retryAfter time.Duration
	lost       []applied.JobResult
	missing    []string // blobs that a manifest names
	whole      bool     // refuses the whole body, even if each position has a result
}

func (p *problem) Error() string { return p.code + ": " + p.detail }

// The codes that several handlers use.
const (
	codeBadRequest  = "bad_request"
	codeBadID       = "bad_id"
	codeTooLarge    = "body_too_large"
	codeOverloaded  = "overloaded"
	codeUnsupported = "unsupported_media_type"
	codeShutdown    = "shutting_down"
	codeBadAddress  = "bad_address"

	codeBlobsUnavailable = "blobs_unavailable"
)

func badRequest(field, detail string) *problem {
	return &problem{status: http.StatusBadRequest, code: codeBadRequest, field: field, detail: detail}
}

// badField turns the error of a check of package job into a problem with the field. It returns nil for nil.
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
	return &problem{status: http.StatusNotFound, code: "route_not_found", detail: "there is no route with this path"}
}

func methodNotAllowed(allow string) *problem {
	return &problem{status: http.StatusMethodNotAllowed, code: "method_not_allowed", detail: strings.TrimSuffix("this path does not support the method; it supports "+allow, "; it supports "), allow: allow}
}

// refused returns the problem for a refusal by package job, and nil for Granted.
func refused(r job.Refusal) error {
	status, f := http.StatusConflict, notStored
	switch r {
	case job.Granted:
		return nil
	case job.NotFound, job.QueueNotFound, job.BatchNotFound, job.SweepNotFound, job.ClaimNotFound, job.HandlerNotFound, job.FilesetNotFound:
		status = http.StatusNotFound
	case job.SessionNotFound:
		status, f = http.StatusNotFound, unknown // an earlier try of the request may have been carried out
	case job.NotActive:
		status = http.StatusBadRequest
	case job.KeyReused, job.NumberReused:
		status = http.StatusUnprocessableEntity
	case job.TooManyQueues, job.TooManySweeps, job.TooManySessions, job.TooManyHandlers, job.TooManyFilesets:
		status = http.StatusTooManyRequests
	case job.NumberPassed:
		f = unknown // an earlier try may have been carried out, and its results are deleted
	}
	return &problem{status: status, code: r.Code(), detail: r.Error(), fate: f}
}

// errShuttingDown ends the wait of parked claims when the server shuts down.
var errShuttingDown = errors.New("the server is shutting down")

// statusClientGone is the status in logs and metrics if the client hung up and cannot read the answer.
const statusClientGone = 499

// known maps the errors of the engine to problems. The first match counts. refused does this for refusals of package
// job.
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
	{ingest.ErrBackupRunning, http.StatusConflict, "backup_running", notStored},
	{ingest.ErrOverloaded, http.StatusTooManyRequests, codeOverloaded, notStored},
	{ingest.ErrTooManyQueues, http.StatusTooManyRequests, "too_many_queues", notStored},
	{ingest.ErrTooManyKeys, http.StatusTooManyRequests, "too_many_keys", notStored},
	{ingest.ErrTooManySessionBytes, http.StatusTooManyRequests, "too_many_sessions", notStored},
	{registry.ErrNotFound, http.StatusNotFound, "runner_not_found", notStored},
	{registry.ErrTaken, http.StatusConflict, "runner_id_taken", notStored},
	{registry.ErrReplaced, http.StatusConflict, "runner_replaced", notStored},
	{registry.ErrLost, http.StatusConflict, "runner_lost", notStored},
	{registry.ErrFull, http.StatusTooManyRequests, "too_many_runners", notStored},
	{ingest.ErrTooManyParked, http.StatusTooManyRequests, "too_many_parked_claims", notStored},
	{ingest.ErrMalformed, http.StatusBadRequest, codeBadRequest, notStored},
	{ingest.ErrTooLarge, http.StatusRequestEntityTooLarge, codeTooLarge, notStored},
	{ingest.ErrApply, http.StatusInternalServerError, "internal", stored},
	{fileset.ErrPath, http.StatusBadRequest, "bad_path", notStored}, // before the error of the archive that contains the path
	{fileset.ErrPattern, http.StatusBadRequest, "bad_pattern", notStored},
	{fileset.ErrTooLarge, http.StatusRequestEntityTooLarge, "fileset_too_large", notStored},
	{fileset.ErrManifest, http.StatusBadRequest, "bad_manifest", notStored},
	{archive.ErrArchive, http.StatusBadRequest, "bad_archive", notStored},
	{blob.ErrAddress, http.StatusBadRequest, codeBadAddress, notStored},
	{blob.ErrUnavailable, http.StatusServiceUnavailable, codeBlobsUnavailable, notStored},
	{blob.ErrNotFound, http.StatusNotFound, "blob_not_found", notStored},
	{blob.ErrTooLarge, http.StatusRequestEntityTooLarge, codeTooLarge, notStored},
	{blob.ErrDigest, http.StatusUnprocessableEntity, "wrong_digest", notStored},
	{blob.ErrQuota, http.StatusInsufficientStorage, "blob_quota", notStored},
	{blob.ErrNoSpace, http.StatusInsufficientStorage, "disk_full", notStored},
	{blob.ErrOffset, http.StatusConflict, "offset_differs", notStored},
	{blob.ErrBusy, http.StatusLocked, "upload_busy", notStored},
	{blob.ErrVerifying, http.StatusServiceUnavailable, "blob_verifying", notStored},
	{blob.ErrFiles, http.StatusTooManyRequests, codeOverloaded, notStored},
	{blob.ErrUploads, http.StatusTooManyRequests, "too_many_uploads", notStored},
	{blob.ErrClients, http.StatusTooManyRequests, "too_many_blob_clients", notStored},
	{blob.ErrCollecting, http.StatusConflict, "collecting_blobs", notStored},
	{store.ErrDamaged, http.StatusInternalServerError, "store_damaged", unknown},
	{store.ErrBusy, http.StatusServiceUnavailable, "not_ready", unknown},
}

// problemOf returns the problem for any error that a handler, the router or the engine returned. An unknown error is an
// internal error: its text is written to the log, and is not sent to the client.
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
		if k.code == codeBlobsUnavailable { // the cause names the bucket, and is only for the log
			p.detail = "the bucket that keeps the blobs does not answer, or refuses; the server's log has the cause; next step: try again later"
		}
		if k.code == "writes_failed" && errors.Is(err, syscall.ENOSPC) {
			p.status, p.code = http.StatusInsufficientStorage, "disk_full"
		}
		return p
	}
	if damaged, ok := errors.AsType[*blob.DamagedError](err); ok {
		return &problem{status: http.StatusInternalServerError, code: "blob_damaged", detail: damaged.Detail()}
	}
	if e, ok := errors.AsType[*echo.HTTPError](err); ok {
		switch e.Code {
		case http.StatusNotFound:
			return routeNotFound()
		case http.StatusMethodNotAllowed:
			return methodNotAllowed("")
		}
	}
	return &problem{status: http.StatusInternalServerError, code: "internal", detail: "the server failed to process the request; the server's log has the cause", fate: unknown}
}

// after returns the problem of a request that failed after its change was stored.
func after(err error) *problem {
	p := *problemOf(err)
	p.fate = stored
	return &p
}

// defaultRetryAfter is the Retry-After of a problem that sets none. Most causes of 429 and 503 end within a second, and
// one request per second is a small load while they last.
const defaultRetryAfter = time.Second

// answerProblem writes p, unless the handler has already begun to write an answer.
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
		seconds := (cmp.Or(p.retryAfter, defaultRetryAfter) + time.Second - 1) / time.Second
		h.Set(echo.HeaderRetryAfter, strconv.FormatInt(int64(seconds), 10))
	}
	// If the write fails, the client hung up. The access log has the request anyway.
	if text, err := encodeDocument(documentOfProblem(p)); err == nil { // the encoding of texts and numbers cannot fail
		_ = answer(c, p.status, "application/problem+json", text)
	}
}

// problemDocument is a problem document of RFC 9457. The fields from code on are extensions.
type problemDocument struct {
	Type    string    `json:"type"`
	Title   string    `json:"title"`
	Status  int       `json:"status"`
	Code    string    `json:"code"`
	Detail  string    `json:"detail"`
	Outcome fate      `json:"outcome"`
	Field   string    `json:"field,omitzero"`
	Lost    []lostJob `json:"lost,omitzero"`    // only in the refusal of a tickle
	Missing []string  `json:"missing,omitzero"` // only in the refusal of a manifest
}

func documentOfProblem(p *problem) problemDocument {
	doc := problemDocument{
		Type: "about:blank", Title: cmp.Or(http.StatusText(p.status), "Client Closed Request"), Status: p.status, Code: p.code,
		Detail: strings.TrimSpace(p.detail), Outcome: cmp.Or(p.fate, notStored), Field: p.field, Missing: p.missing,
	}
	if p.lost != nil {
		doc.Lost = lostJobs(p.lost)
	}
	return doc
}
