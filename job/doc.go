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
// # To add an attribute of jobs
//
//  1. attributes.go: the field of Attributes, and its form in commands (both directions), in rows (both directions; a
//     row needs a new format) and in documents (Document, if a document shows another value than the attribute).
//  2. api/job_attributes.go: its JSON field, its query parameter and its check.
//  3. api/job_document.go: its field in documents.
//  4. runs/claim.go: its field in runs of claimed jobs, if documents show it, and docs/reference/format-runs.md.
//  5. client/job.go: the field of Attributes and, if documents show it, of Job, and client/claim_runs.go.
//  6. api/openapi.yaml, and 7. docs/reference/api.md.
//
// TestGolden and FuzzDecode here, the model test of package store and the OpenAPI test of package api fail if you forget
// one of these.
//
// # To add a command
//
// Write the type with Verb and Encode, and a decoder that Decode calls. Add it to the golden texts (testdata/v1), to
// store.Apply, to the model test of package store, and to the simulation. Raise the level if Apply makes a decision that
// it did not make before.
//
// Subpackage runs is the format in which jobs, outcomes and results travel many at a time. Subpackage handler is the
// document that describes how to run the jobs of a type.
//
// Not for: storage, HTTP, time. Commands carry the time; no code here reads it.
package job
