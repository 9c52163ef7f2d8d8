package refusal

import (
	"context"
	"errors"
	"net/http"
	"syscall"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/client/fileset"
	"github.com/daybookq/daybook/client/fileset/archive"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/ingest/registry"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
	"github.com/daybookq/daybook/store/query"
)

// Err returns the problem for a refusal by package job, and nil for Granted.
func Err(r job.Refusal) error {
	status, f := http.StatusConflict, web.NotStored
	switch r {
	case job.Granted:
		return nil
	case job.NotFound, job.QueueNotFound, job.BatchNotFound, job.SweepNotFound, job.ClaimNotFound, job.HandlerNotFound, job.FilesetNotFound, job.KeyNotFound, job.LoginNotFound, job.QuotaNotFound:
		status = http.StatusNotFound
	case job.SessionNotFound:
		status, f = http.StatusNotFound, web.Unknown // an earlier try of the request may have been carried out
	case job.NotActive:
		status = http.StatusBadRequest
	case job.VersionDiffers:
		status = http.StatusPreconditionFailed
	case job.KeyReused, job.NumberReused:
		status = http.StatusUnprocessableEntity
	case job.TooManyQueues, job.TooManySweeps, job.TooManySessions, job.TooManyHandlers, job.TooManyFilesets, job.TooManyAccessKeys, job.TooManyLogins, job.TooManyQuotas:
		status = http.StatusTooManyRequests
	case job.NumberPassed:
		f = web.Unknown // an earlier try may have been carried out, and its results are deleted
	}
	return &web.Problem{Status: status, Code: r.Code(), Detail: r.Error(), Fate: f}
}

// Known maps the errors of the engine to problems. The first match counts. refused does this for refusals of package
// job.
var Known = []struct {
	Err    error
	status int
	Code   string
	fate   web.Fate
}{
	{web.ErrShuttingDown, http.StatusServiceUnavailable, web.CodeShutdown, web.NotStored},
	{ingest.ErrClosed, http.StatusServiceUnavailable, web.CodeShutdown, web.NotStored},
	{ingest.ErrDiskFull, http.StatusInsufficientStorage, "disk_full", web.NotStored},
	{ingest.ErrUnknown, http.StatusServiceUnavailable, "writes_failed", web.Unknown},
	{ingest.ErrNotStored, http.StatusServiceUnavailable, "writes_failed", web.NotStored},
	{ingest.ErrWritesFailed, http.StatusServiceUnavailable, "writes_failed", web.NotStored},
	{ingest.ErrNotReady, http.StatusServiceUnavailable, "not_ready", web.NotStored},
	{ingest.ErrStale, http.StatusServiceUnavailable, "not_ready", web.NotStored},
	{ingest.ErrSingle, http.StatusConflict, "no_cluster", web.NotStored},
	{job.ErrNoNode, http.StatusNotFound, "node_not_found", web.NotStored},
	{job.ErrQuorum, http.StatusConflict, "quorum_lost", web.NotStored},
	{ingest.ErrBackupRunning, http.StatusConflict, "backup_running", web.NotStored},
	{ingest.ErrOverloaded, http.StatusTooManyRequests, web.CodeOverloaded, web.NotStored},
	{ingest.ErrTooManyQueues, http.StatusTooManyRequests, "too_many_queues", web.NotStored},
	{ingest.ErrQuotaExceeded, http.StatusTooManyRequests, "quota_exceeded", web.NotStored},
	{ingest.ErrTooManyKeys, http.StatusTooManyRequests, "too_many_keys", web.NotStored},
	{ingest.ErrTooManySessionBytes, http.StatusTooManyRequests, "too_many_sessions", web.NotStored},
	{registry.ErrNotFound, http.StatusNotFound, "runner_not_found", web.NotStored},
	{registry.ErrTaken, http.StatusConflict, "runner_id_taken", web.NotStored},
	{registry.ErrReplaced, http.StatusConflict, "runner_replaced", web.NotStored},
	{registry.ErrLost, http.StatusConflict, "runner_lost", web.NotStored},
	{registry.ErrFull, http.StatusTooManyRequests, "too_many_runners", web.NotStored},
	{ingest.ErrTooManyParked, http.StatusTooManyRequests, "too_many_parked_claims", web.NotStored},
	{ingest.ErrMalformed, http.StatusBadRequest, web.CodeBadRequest, web.NotStored},
	{ingest.ErrTooLarge, http.StatusRequestEntityTooLarge, web.CodeTooLarge, web.NotStored},
	{job.ErrOutOfScope, http.StatusForbidden, web.CodeOutOfScope, web.NotStored},
	{query.ErrPrefixTooWide, http.StatusBadRequest, web.CodeBadRequest, web.NotStored},
	{ingest.ErrApply, http.StatusInternalServerError, "internal", web.Stored},
	{fileset.ErrPath, http.StatusBadRequest, "bad_path", web.NotStored}, // before the error of the archive that contains the path
	{fileset.ErrPattern, http.StatusBadRequest, "bad_pattern", web.NotStored},
	{fileset.ErrTooLarge, http.StatusRequestEntityTooLarge, "fileset_too_large", web.NotStored},
	{fileset.ErrManifest, http.StatusBadRequest, "bad_manifest", web.NotStored},
	{archive.ErrArchive, http.StatusBadRequest, "bad_archive", web.NotStored},
	{blob.ErrAddress, http.StatusBadRequest, web.CodeBadAddress, web.NotStored},
	{blob.ErrUnavailable, http.StatusServiceUnavailable, codeBlobsUnavailable, web.NotStored},
	{blob.ErrNotFound, http.StatusNotFound, "blob_not_found", web.NotStored},
	{blob.ErrTooLarge, http.StatusRequestEntityTooLarge, web.CodeTooLarge, web.NotStored},
	{blob.ErrDigest, http.StatusUnprocessableEntity, "wrong_digest", web.NotStored},
	{blob.ErrQuota, http.StatusInsufficientStorage, "blob_quota", web.NotStored},
	{blob.ErrNoSpace, http.StatusInsufficientStorage, "disk_full", web.NotStored},
	{blob.ErrOffset, http.StatusConflict, "offset_differs", web.NotStored},
	{blob.ErrBusy, http.StatusLocked, "upload_busy", web.NotStored},
	{blob.ErrVerifying, http.StatusServiceUnavailable, "blob_verifying", web.NotStored},
	{blob.ErrFiles, http.StatusTooManyRequests, web.CodeOverloaded, web.NotStored},
	{blob.ErrUploads, http.StatusTooManyRequests, "too_many_uploads", web.NotStored},
	{blob.ErrClients, http.StatusTooManyRequests, "too_many_blob_clients", web.NotStored},
	{blob.ErrCollecting, http.StatusConflict, "collecting_blobs", web.NotStored},
	{store.ErrDamaged, http.StatusInternalServerError, "store_damaged", web.Unknown},
	{store.ErrBusy, http.StatusServiceUnavailable, "not_ready", web.Unknown},
}

// quotaWait is the Retry-After of a client that has used up its quota. Jobs must end first, so a client that repeats requests for
// seconds reports it instead.
const quotaWait = time.Minute

// Of returns the problem for any error that a handler, the router or the engine returned. An unknown error is an
// internal error: its text is written to the log, and is not sent to the client.
func Of(err error) *web.Problem {
	if p, ok := errors.AsType[*web.Problem](err); ok {
		return p
	}
	if r, ok := errors.AsType[job.Refusal](err); ok && r != job.Granted {
		p := Err(r).(*web.Problem)
		if _, ok := errors.AsType[*job.OverShare](err); ok {
			p.Detail = err.Error() // it says whose share is full
		}
		return p
	}
	if errors.Is(err, context.Canceled) && !errors.Is(err, web.ErrShuttingDown) {
		p := &web.Problem{Status: web.StatusClientGone, Code: "client_gone", Detail: "the client hung up", Fate: web.Unknown}
		if errors.Is(err, ingest.ErrNotStored) {
			p.Fate = web.NotStored
		}
		return p
	}
	for _, k := range Known {
		if !errors.Is(err, k.Err) {
			continue
		}
		p := &web.Problem{Status: k.status, Code: k.Code, Detail: err.Error(), Fate: k.fate}
		if full, ok := errors.AsType[*ingest.TooManyQueues](err); ok {
			p.RetryAfter = full.RetryAfter
		}
		if k.Err == ingest.ErrQuotaExceeded {
			p.RetryAfter = quotaWait
		}
		p.Reported = k.Code == web.CodeShutdown || errors.Is(err, ingest.ErrNotReady)
		if k.Code == codeBlobsUnavailable { // the cause names the bucket, and is only for the log
			p.Detail = "the bucket that keeps the blobs does not answer, or refuses; the server's log has the cause; next step: try again later"
		}
		if k.Code == "writes_failed" && errors.Is(err, syscall.ENOSPC) {
			p.Status, p.Code = http.StatusInsufficientStorage, "disk_full"
		}
		return p
	}
	if damaged, ok := errors.AsType[*blob.DamagedError](err); ok {
		return &web.Problem{Status: http.StatusInternalServerError, Code: "blob_damaged", Detail: damaged.Detail()}
	}
	if e, ok := errors.AsType[*echo.HTTPError](err); ok {
		switch e.Code {
		case http.StatusNotFound:
			return web.RouteNotFound()
		case http.StatusMethodNotAllowed:
			return web.MethodNotAllowed("")
		}
	}
	return &web.Problem{Status: http.StatusInternalServerError, Code: "internal", Detail: "the server failed to process the request; the server's log has the cause", Fate: web.Unknown}
}

// After returns the problem of a request that failed after its change was stored.
func After(err error) *web.Problem {
	p := *Of(err)
	p.Fate = web.Stored
	return &p
}

const codeBlobsUnavailable = "blobs_unavailable"

// Placed adds the place in the body to the detail of a problem.
func Placed(place string, err error) error {
	p := *Of(err)
	p.Detail = place + ": " + p.Detail
	return &p
}
