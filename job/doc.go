// Package job is the domain of Daybook: what a job is, what may happen to it next, and how a request to change it
// is written down. It is pure: no clock, no I/O, no goroutine, nothing but the standard library. The packages around it
// store jobs, journal commands and serve them; whether a transition is allowed, and what it leads to, is decided here.
//
// A job is one line of a batch: a payload and its state.
//
//	create ──► deferred ──run_at──► pending ──claim──► active ──ok──► completed
//	              ▲                   ▲  ▲               │ └──failed──► failed
//	              │                   │  └────unget──────┤
//	              └──retry/error: backoff────────────────┤   retry, error or abandoned with all attempts used ──► failed
//	                                  └──abandoned───────┘
//
// The outcome of a run is a Code and a numeric exit code of the same class. ok and failed are final; retry and error run
// again after a backoff until MaxAttempts runs have been counted. A run is counted by the claim that hands the job out; unget
// gives it back.
//
// A Command is a request to change state as the journal keeps it. Its text form is a list of fields and a body, and parsing
// it yields the same command again, so that what is applied is always what was written down.
//
// Not for: storage, HTTP, time. Nothing here knows what now is; commands carry the times that matter.
package job
