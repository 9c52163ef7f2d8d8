// Package problem has the errors of the calls: a refusal of the server, and the sentinels with which a caller compares
// it. Package client has the same under shorter names.
package problem

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
)

// The errors of the calls, for errors.Is.
var (
	ErrBadRequest       = errors.New("the request is malformed")
	ErrNotFound         = errors.New("no such job, batch, queue, claim, sweep, blob or fileset")
	ErrNotActive        = errors.New("the job is not active")
	ErrClaimLost        = errors.New("the claim no longer holds the job")
	ErrOutcomeDiffers   = errors.New("the claim has ended the job with another outcome")
	ErrRunnerDiffers    = errors.New("the job is held by another runner")
	ErrCancelled        = errors.New("the job has been cancelled")
	ErrConflict         = errors.New("the state of the job or queue does not allow the request")
	ErrVersionDiffers   = errors.New("another version of the handler or fileset is stored than the request requires")
	ErrKeyHeld          = errors.New("another unfinished job has the unique key")
	ErrKeyReused        = errors.New("the idempotency key or number was used for another request")
	ErrSessionNotFound  = errors.New("no such session: it was ended, or the server carried out no request of it for a day")
	ErrNumberPassed     = errors.New("the server has carried out a later request in this slot of the session")
	ErrRunnerTaken      = errors.New("another process holds the runner id")
	ErrRunnerReplaced   = errors.New("another process has taken the runner id over")
	ErrRunnerLost       = errors.New("the runner was declared lost, or has ended")
	ErrTooLarge         = errors.New("the request is larger than the server accepts")
	ErrNoBlobs          = errors.New("the server keeps no blobs")
	ErrBlobDamaged      = errors.New("the blob is damaged")
	ErrForbidden        = errors.New("the server refuses the key of the request, or its host or origin")
	ErrOverloaded       = errors.New("the server accepts no more requests of this kind for now")
	ErrUnavailable      = errors.New("the server cannot be reached or does not serve requests now; nothing was stored")
	ErrUnknown          = errors.New("no answer says whether the request was stored")
	ErrUndecodable      = errors.New("a content of a job cannot be decoded")
	ErrUnexpectedAnswer = errors.New("the answer is not that of a Daybook server")
)

// Error is a refusal by the server.
type Error struct {
	Status  int    `json:"status"`
	Code    string `json:"code"` // does not change between versions; docs/reference/errors.md lists all
	Detail  string `json:"detail"`
	Field   string `json:"field"`   // the field of the request that is wrong, if it is one
	Outcome string `json:"outcome"` // not_stored, stored or unknown
	// RetryAfter is the wait that the server requested; 0 if there was none.
	RetryAfter time.Duration `json:"-"`
	// Lost lists the jobs that a tickle found lost.
	Lost []Lost `json:"lost"`
	// Missing lists the blobs that a manifest names and that are not stored, up to 10,000.
	Missing []string `json:"missing"`
}

// UnmarshalJSON reads a problem document. In streams it has the wait, because there are no headers.
func (e *Error) UnmarshalJSON(text []byte) error {
	type document Error // without this method
	var wait struct {
		Seconds int64 `json:"retry_after"`
	}
	if err := json.Unmarshal(text, (*document)(e)); err != nil {
		return err
	}
	err := json.Unmarshal(text, &wait)
	e.RetryAfter = time.Duration(wait.Seconds) * time.Second
	return err
}

func (e *Error) Error() string {
	text := e.Code
	if e.Status != 0 { // of a request, not of one of its items
		text = fmt.Sprintf("%d %s", e.Status, e.Code)
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

var sentinels = map[string]error{
	"bad_request": ErrBadRequest, "bad_id": ErrBadRequest, "claim_id_required": ErrBadRequest, "length_required": ErrBadRequest, "upgrade_required": ErrBadRequest, "unsupported_media_type": ErrBadRequest,
	"job_not_found": ErrNotFound, "blob_not_found": ErrNotFound, "log_not_found": ErrNotFound, "bad_address": ErrBadRequest, "wrong_digest": ErrBadRequest, "bad_range": ErrBadRequest, "blob_quota": ErrOverloaded, "upload_not_found": ErrNotFound, "offset_differs": ErrConflict, "upload_busy": ErrConflict, "tus_version": ErrBadRequest, "version_differs": ErrVersionDiffers, "too_many_uploads": ErrOverloaded, "too_many_blob_clients": ErrOverloaded, "blob_damaged": ErrBlobDamaged, "blob_verifying": ErrUnavailable, "no_blobs": ErrNoBlobs, "collecting_blobs": ErrConflict, "backup_running": ErrConflict, "no_cluster": ErrConflict, "quorum_lost": ErrConflict, "node_not_found": ErrNotFound, "batch_not_found": ErrNotFound, "queue_not_found": ErrNotFound, "claim_not_found": ErrNotFound,
	"sweep_not_found": ErrNotFound, "session_not_found": ErrSessionNotFound, "fileset_not_found": ErrNotFound, "too_many_filesets": ErrOverloaded, "bad_path": ErrBadRequest, "bad_pattern": ErrBadRequest, "bad_manifest": ErrBadRequest, "bad_archive": ErrBadRequest, "blobs_missing": ErrConflict, "fileset_too_large": ErrTooLarge,
	"handler_not_found": ErrNotFound, "too_many_handlers": ErrOverloaded, "key_not_found": ErrNotFound, "runner_prefix_taken": ErrConflict, "quota_not_found": ErrNotFound, "quota_exceeded": ErrOverloaded, "too_many_quotas": ErrOverloaded, "key_required": ErrForbidden, "key_refused": ErrForbidden, "token_refused": ErrForbidden, "no_rule": ErrForbidden, "issuer_unavailable": ErrUnavailable, "login_ended": ErrForbidden, "login_failed": ErrForbidden, "login_not_found": ErrNotFound, "csrf_required": ErrForbidden, "no_issuer": ErrNotFound, "too_many_logins": ErrOverloaded, "role_missing": ErrForbidden, "out_of_scope": ErrForbidden, "rate_limited": ErrOverloaded, "key_exists": ErrConflict, "admin_key_first": ErrConflict, "too_many_access_keys": ErrOverloaded, "too_many_hops": ErrConflict, "batch_ended": ErrConflict, "batch_closed": ErrConflict,
	"runner_not_found": ErrNotFound, "runner_id_taken": ErrRunnerTaken, "runner_replaced": ErrRunnerReplaced, "runner_lost": ErrRunnerLost, "too_many_runners": ErrOverloaded,
	"number_reused": ErrKeyReused, "number_passed": ErrNumberPassed, "too_many_sessions": ErrOverloaded, "cancelled": ErrCancelled, "key_held": ErrKeyHeld, "key_reused": ErrKeyReused,
	"job_active": ErrConflict, "job_ended": ErrConflict, "job_not_ended": ErrConflict, "attempts_used": ErrConflict, "queue_not_empty": ErrConflict,
	"job_not_active": ErrNotActive, "claim_lost": ErrClaimLost, "outcome_differs": ErrOutcomeDiffers, "runner_differs": ErrRunnerDiffers,
	"body_too_large": ErrTooLarge, "payload_too_large": ErrTooLarge,
	"forbidden_host": ErrForbidden, "forbidden_origin": ErrForbidden, "forbidden_peer": ErrForbidden, "quit_disabled": ErrForbidden,
	"overloaded": ErrOverloaded, "too_many_queues": ErrOverloaded, "too_many_parked_claims": ErrOverloaded, "too_many_keys": ErrOverloaded, "too_many_sweeps": ErrOverloaded, "disk_full": ErrOverloaded,
	"body_too_slow": ErrUnavailable, "not_ready": ErrUnavailable, "shutting_down": ErrUnavailable, "writes_failed": ErrUnavailable, "blobs_unavailable": ErrUnavailable,
}

// WrongKey reports whether the server refuses the key itself: it is missing, wrong, revoked or expired. After many wrong keys the
// status is 429 instead of 401.
func (e *Error) WrongKey() bool {
	return e.Status == http.StatusUnauthorized && sentinels[e.Code] == ErrForbidden || e.Code == "rate_limited" && e.Field == "Authorization"
}

// Is reports whether target is the sentinel of e's code. The refusal of a key is ErrForbidden, also after many wrong keys. A refusal is ErrUnknown as well if its outcome is unknown. It
// is ErrUnavailable only if its outcome is not_stored.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrForbidden:
		return e.WrongKey() || sentinels[e.Code] == target
	case ErrUnknown:
		// session_not_found is ErrUnknown only if an answer was lost before, which afterLost finds out.
		return e.Outcome == "unknown" && e.Code != "session_not_found"
	case ErrUnavailable:
		return sentinels[e.Code] == target && e.Outcome == "not_stored"
	}
	return sentinels[e.Code] == target && target != nil
}

// Lost is a job that is no longer held, and the reason.
type Lost struct {
	JobID string `json:"job_id"`
	Code  string `json:"code"`
}
