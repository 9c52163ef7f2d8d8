package client

import (
	"errors"
	"fmt"
	"time"
)

// What errors.Is can distinguish.
var (
	ErrBadRequest       = errors.New("the request is malformed")
	ErrNotFound         = errors.New("no such job, batch, queue, claim or sweep")
	ErrNotActive        = errors.New("the job is not active")
	ErrClaimLost        = errors.New("the claim does not hold the job any more")
	ErrOutcomeDiffers   = errors.New("the claim has ended the job with another outcome")
	ErrRunnerDiffers    = errors.New("the job is held by another runner")
	ErrCancelled        = errors.New("the job has been cancelled")
	ErrConflict         = errors.New("the state of the job or queue does not allow it")
	ErrKeyHeld          = errors.New("another unfinished job has the unique key")
	ErrKeyReused        = errors.New("the idempotency key or number was used for another request")
	ErrSessionNotFound  = errors.New("no such session: it was ended, or carried out no request for a day")
	ErrNumberPassed     = errors.New("the slot of the session has carried out a later request")
	ErrTooLarge         = errors.New("the request is larger than the server takes")
	ErrForbidden        = errors.New("the server does not serve this host or origin")
	ErrOverloaded       = errors.New("the server takes no more for now")
	ErrUnavailable      = errors.New("the server cannot be reached or does not serve now; nothing was stored")
	ErrUnknown          = errors.New("there was no answer that says whether it was stored")
	ErrUnexpectedAnswer = errors.New("the answer is not one of a Daybook server")
)

// Error is a refusal as the server answered it.
type Error struct {
	Status  int    `json:"status"`
	Code    string `json:"code"` // stable: see the API's list
	Detail  string `json:"detail"`
	Field   string `json:"field"`   // of the request, when one is to blame
	Outcome string `json:"outcome"` // not_stored, stored or unknown
	// RetryAfter is how long the server says to wait; 0 when it does not.
	RetryAfter time.Duration `json:"-"`
	// Lost names the jobs that a tickle found lost.
	Lost []Lost `json:"lost"`
}

func (e *Error) Error() string { return fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Detail) }

var sentinels = map[string]error{
	"bad_request": ErrBadRequest, "bad_id": ErrBadRequest, "claim_id_required": ErrBadRequest, "length_required": ErrBadRequest, "unsupported_media_type": ErrBadRequest,
	"job_not_found": ErrNotFound, "batch_not_found": ErrNotFound, "queue_not_found": ErrNotFound, "claim_not_found": ErrNotFound,
	"sweep_not_found": ErrNotFound, "session_not_found": ErrSessionNotFound,
	"number_reused": ErrKeyReused, "number_passed": ErrNumberPassed, "too_many_sessions": ErrOverloaded, "cancelled": ErrCancelled, "key_held": ErrKeyHeld, "key_reused": ErrKeyReused,
	"job_active": ErrConflict, "job_ended": ErrConflict, "job_not_ended": ErrConflict, "attempts_used": ErrConflict, "queue_not_empty": ErrConflict,
	"job_not_active": ErrNotActive, "claim_lost": ErrClaimLost, "outcome_differs": ErrOutcomeDiffers, "runner_differs": ErrRunnerDiffers,
	"body_too_large": ErrTooLarge, "payload_too_large": ErrTooLarge,
	"forbidden_host": ErrForbidden, "forbidden_origin": ErrForbidden, "forbidden_peer": ErrForbidden, "quit_disabled": ErrForbidden,
	"overloaded": ErrOverloaded, "too_many_queues": ErrOverloaded, "too_many_parked_claims": ErrOverloaded, "too_many_keys": ErrOverloaded, "too_many_sweeps": ErrOverloaded, "disk_full": ErrOverloaded,
	"body_too_slow": ErrUnavailable, "not_ready": ErrUnavailable, "shutting_down": ErrUnavailable, "writes_failed": ErrUnavailable,
}

// Is reports whether target is the sentinel of e's code. ErrUnknown is one of any refusal that says so; ErrUnavailable
// only one that says that nothing was stored.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrUnknown:
		return e.Outcome == "unknown" && e.Code != "session_not_found" // unless an answer was lost, which afterLost knows
	case ErrUnavailable:
		return sentinels[e.Code] == target && e.Outcome == "not_stored"
	}
	return sentinels[e.Code] == target && target != nil
}
