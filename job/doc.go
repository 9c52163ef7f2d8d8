// Package job is the domain of Daybook: what a job is, what may happen to it next, and how a request to change it is
// written down. It is pure: it has no clock, no I/O and no goroutines, and it imports only the standard library. Other
// packages store jobs, journal commands and serve them. Whether a transition is allowed, and what it leads to, is
// decided here.
//
// A job is one line of a batch: a payload and its State.
//
//	create ──► deferred ──run_at──► pending ──claim──► active ──ok──► completed
//	              ▲                   ▲  ▲               │ └──failed──► failed
//	              │                   │  └────unget──────┤
//	              └──retry/error: backoff────────────────┤   retry, error or abandoned, and all attempts used ──► failed
//	                                  └──abandoned───────┘
//
// The outcome of a run is a Code and a numeric exit code of the same class. ok and failed are final. After retry and
// error the job runs again when a backoff has passed, until MaxAttempts claims have been counted. Unget returns the
// job, and the claim does not count.
//
// A Command is a request to change state, in the form in which the journal keeps it. Its text is a list of fields and a
// body. Decoding the text gives the same command again, so that what is applied is always what was written.
//
// # To add an attribute of jobs
//
//  1. attributes.go: the field of Attributes, and its form in commands (both directions), in rows (both directions; a
//     row needs a new format) and in documents (Document, if it is not shown as it is).
//  2. api/job_attributes.go: its JSON field, its query parameter and its check.
//  3. api/job_document.go: its field in documents.
//  4. runs/claim.go: its field in runs of claimed jobs, if documents show it, and docs/reference/format-runs.md.
//  5. client/job.go: the field of Attributes and, if documents show it, of Job, and client/claim_runs.go.
//  6. api/openapi.yaml, and 7. docs/reference/api.md.
//
// TestGolden and FuzzDecode here, the model test of package store and the OpenAPI test of package api fail where one of
// them was forgotten.
//
// # To add a command
//
// Write the type with Verb and Encode, and a decoder that Decode calls. Add it to the golden texts (testdata/v1), to
// store.Apply, to the model test of package store, and to the simulation. Raise the level if Apply decides something
// that it did not decide before.
//
// Package runs in a folder of this one is the format in which jobs, outcomes and results travel many at a time. Package
// handler in another one is the document that says how the jobs of a type are run.
//
// The files:
//
//	id.go           ID: the address of a job, batch or claim
//	status.go       Status and Code
//	outcome.go      Outcome, Result, Attempt
//	backoff.go      Backoff: how long a job waits after a failed attempt
//	job.go          Job: the document
//	attributes.go   Attributes: what a create sets, in all forms; Group
//	state.go        State: the part of a job that changes
//	transition.go   the rules: from a state and a command to the next state, or a refusal
//	fence.go        Fence: whether a request may act on a job that a claim holds
//	lease.go        Lease and Promise: when a claim counts as abandoned
//	sweep.go        Sweep: operations on all jobs of a batch or queue, and which of several prevails
//	refusal.go      Refusal: the reasons why not
//	limits.go       every bound, and the defaults
//	command.go      Command, Decode, Level
//	create.go       Create
//	claim.go        Claim
//	tickle.go       Tickle
//	complete.go     Complete
//	chain.go        jobs that are created when another one ends
//	move.go         Move and Patch: what operators do to jobs
//	queue.go        Pause, Switch, and commands that delete queues
//	tick.go         Tick, Grace, SetLevel and Mark, which the server itself proposes
//	session.go      commands that open and end sessions
//	run_end.go      RunEnd: the end of runs, for observers
//	runner.go       LoseRunner: returns the jobs of a lost runner
//	handler.go      commands that store and delete handlers
//	fileset.go      commands that store and delete versions of filesets
//	submission.go   Submission: what a create says about its batch; commands that close and resume batches
//	batch_meta.go   BatchMeta: labels of batches
//	once.go         Once: an idempotency key or a session's number
//	strategy.go     the orders in which a claim may take jobs
//	payload.go      payload kinds and frames
//	meta.go         Meta: labels of jobs, and trace context
//	fields.go       the text form of commands: key=value
//
// Not for: storage, HTTP, time. Nothing here knows the time; commands carry it.
package job
