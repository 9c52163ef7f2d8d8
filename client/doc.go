// Package client talks to a Daybook server.
//
// A Client has a method for each request that the server answers. Methods return the server's documents, or an error
// that errors.Is compares with the sentinels of this package. errors.As finds a *Error in it, with what the server
// answered.
//
// Broken requests are repeated so that nothing happens twice. Each method says what it does when an answer is lost:
//   - Reads, tickles, pauses and completions that name their claim are safe to repeat, and are repeated.
//   - A create is repeated only when it is proven that nothing was stored. Otherwise it ends in ErrUnknown.
//   - A claim whose answer was lost is made again. The jobs that nobody got are pending again when their lease runs
//     out.
//   - With an idempotency key (NewKey) or a number of a Session creates and claims are repeated like the rest, and
//     carried out once.
//
// Repeating ends with the context, or after Options.RetryFor. Each try ends when the server is silent for
// Options.Timeout.
//
// A Worker is a runner: it claims, calls a handler, tickles meanwhile, reports, and drains when its context ends.
//
// Package daybooktest starts a server for tests.
//
// Files:
//   - client.go, try.go, retry.go, errors.go: a request, one try of it, when it is repeated, and how it fails.
//   - add.go, add_bodies.go: bulk posts of lines, resumable; how an input becomes bodies. create.go, create_many.go:
//     creating jobs.
//   - claim.go, claim_answer.go: claims and tickles, and how the answer to a claim is read.
//   - complete.go: completions and releases. operations.go: cancel, redrive, run, patch, delete, and sweeps.
//   - job.go, list.go, queues.go: documents of jobs, lists of them, queues and batches.
//   - server.go, discover.go: the server itself: stats, version, stop and start, time; servers on the local network.
//   - worker.go: the Worker, its options, and how it stops.
//   - worker_jobs.go: the jobs that it holds. worker_handlers.go: the handlers that do them. handler_errors.go: their
//     errors.
//   - session.go: sessions, and the numbers of their requests. worker_session.go: the session of a Worker.
//   - worker_claims.go: when and how much it claims. worker_reports.go: how it reports. worker_leases.go: tickles and
//     lost leases.
package client
