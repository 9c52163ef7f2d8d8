package client

import (
	"github.com/daybookq/daybook/client/internal/transport"
	"github.com/daybookq/daybook/client/problem"
)

// The errors of the calls, for errors.Is. After ErrAnswerTooLarge, a claim of fewer jobs may succeed.
var (
	ErrBadRequest       = problem.ErrBadRequest
	ErrNotFound         = problem.ErrNotFound
	ErrNotActive        = problem.ErrNotActive
	ErrClaimLost        = problem.ErrClaimLost
	ErrOutcomeDiffers   = problem.ErrOutcomeDiffers
	ErrRunnerDiffers    = problem.ErrRunnerDiffers
	ErrCancelled        = problem.ErrCancelled
	ErrConflict         = problem.ErrConflict
	ErrVersionDiffers   = problem.ErrVersionDiffers
	ErrKeyHeld          = problem.ErrKeyHeld
	ErrKeyReused        = problem.ErrKeyReused
	ErrSessionNotFound  = problem.ErrSessionNotFound
	ErrNumberPassed     = problem.ErrNumberPassed
	ErrRunnerTaken      = problem.ErrRunnerTaken
	ErrRunnerReplaced   = problem.ErrRunnerReplaced
	ErrRunnerLost       = problem.ErrRunnerLost
	ErrTooLarge         = problem.ErrTooLarge
	ErrNoBlobs          = problem.ErrNoBlobs
	ErrBlobDamaged      = problem.ErrBlobDamaged
	ErrForbidden        = problem.ErrForbidden
	ErrOverloaded       = problem.ErrOverloaded
	ErrUnavailable      = problem.ErrUnavailable
	ErrUnknown          = problem.ErrUnknown
	ErrUndecodable      = problem.ErrUndecodable // see Options.Codec
	ErrUnexpectedAnswer = problem.ErrUnexpectedAnswer
	ErrAnswerTooLarge   = transport.ErrAnswerTooLarge
)

// Error is a refusal by the server, for errors.As.
type Error = problem.Error

// Lost is a job that is no longer held, and the reason.
type Lost = problem.Lost

// StatusOf returns the HTTP status of the answer that refused a request, by the server or a proxy. It is 0 if err is no
// refusal.
func StatusOf(err error) int { return transport.StatusOf(err) }
