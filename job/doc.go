// Package job is the domain of Daybook. It defines jobs, the changes that they may go through, and the commands that
// request a change. It decides whether a transition is allowed and which state it leads to. The package is pure: it uses
// no clock, no I/O and no goroutines, and imports only the standard library. Other packages store jobs, journal commands
// and serve them.
//
// A job is one line of a batch: a payload and its State.
//
//	create ──► deferred ──run_at──► pending ──claim──► active ──ok──► completed
//	              ▲                   ▲  ▲               │ └──failed──► failed
//	              │                   │  └────unget──────┤
//	              └──retry/error: backoff────────────────┤   retry, error or abandoned, and all attempts used ──► failed
//	                                  └──abandoned───────┘
//
// The outcome of a run is a Code and a numeric exit code of the same class. ok and failed are final. After retry or error
// the job runs again when a backoff has passed, until MaxAttempts claims have been counted. Unget returns the job, and
// the claim does not count.
//
// A Command is a request to change state, in the form in which the journal keeps it: a list of fields and a body.
// Decoding the text gives the same command again, so the server always applies exactly what it has written.
//
// Subpackage runs is the format in which jobs, outcomes and results travel many at a time. Subpackage handler is the
// document that describes how to run the jobs of a type.
//
// Not for: storage, HTTP, time. Commands carry the time; no code here reads it.
package job
