// Package client talks to a Daybook server.
//
// A Client has one method for each request that the server answers. A method returns the server's document or an error.
// errors.Is compares the error with the sentinels of this package. errors.As finds a *Error in it, which holds what the
// server answered.
//
// A method repeats its request after a failure if the repeat cannot do anything twice. When an answer is lost:
//   - Reads, tickles, pauses, and completions that name their claim are repeated. They are safe to repeat.
//   - A create is repeated only if it is proven that nothing was stored. Otherwise the method returns ErrUnknown.
//   - A claim is sent again and hands out other jobs. The jobs of the lost answer become pending again when their lease
//     ends.
//   - Creates and claims with an idempotency key (NewKey), or with a number of a Session, are repeated. The server
//     carries each of them out once.
//
// Repeating stops when the context ends, or after Options.RetryFor. One try ends when the server is silent for
// Options.Timeout.
//
// A Worker is a runner. It claims jobs, calls a handler for each, tickles the jobs meanwhile, and reports the outcomes.
// When its context ends, it drains. Consume is a Worker for the jobs of batches, which are called chunks there: Submit fills a
// batch, Consume works on its chunks, and Results yields their outputs in order.
//
// Package daybooktest starts a server for tests.
//
// Files:
//   - client.go, try.go, retry.go, errors.go: a request; one try of it; when it is repeated; how it fails.
//   - add.go, add_bodies.go: bulk posts of lines, which can be resumed; how an input is split into bodies.
//   - create.go, create_many.go: creating jobs.
//   - create_joined.go, create_joined_run.go: how concurrent creates share the requests of a stream.
//   - claim.go, strategy.go: claims and tickles; which jobs a claim takes first.
//   - claim_answer.go, claim_runs.go: how the answer to a claim is read, in JSON and in runs.
//   - complete.go: completions and releases.
//   - output.go, job_log.go: outputs of jobs; what jobs print.
//   - operations.go: cancel, redrive, run, patch, delete, and sweeps.
//   - job.go, list.go, queues.go: documents of jobs; lists of jobs and types; queues.
//   - batches.go, batch_results.go, batch_result_runs.go, submission.go: batches with attributes; their results, in runs; how a program fills one.
//   - consume.go, chunk_cache.go: how a program works on the chunks of batches; what it remembers of them.
//   - chunks.go: long payloads and outputs, which are blobs.
//   - runners.go: runners, and their heartbeats.
//   - handlers.go: handlers, which say how the jobs of a type are run.
//   - blobs.go, blob_read.go, blob_upload.go: blobs, which are too long for payloads and outputs; how one is read; how a
//     long one is sent, which can be resumed.
//   - filesets.go, fileset_tar.go, fileset_directory.go: filesets; reading one as an archive; pushing and pulling directories.
//   - tar_reader.go: an archive that is read while it arrives.
//   - backup.go: backups of the server.
//   - server.go, discover.go: the server's stats, version, switches and time; servers on the local network.
//   - session.go: sessions, and the numbers of their requests.
//   - stream.go, stream_read.go, subscription.go: streams, which carry many requests at once; what arrives in them; the
//     jobs that they get.
//   - worker.go, worker_run.go: the Worker and its options; how it runs and stops.
//   - worker_claims.go: when the Worker claims, and how many jobs.
//   - worker_stream.go: how the Worker gets its jobs in a stream.
//   - worker_jobs.go: the jobs that it holds.
//   - worker_handlers.go, handler_errors.go: how it runs handlers; the errors of handlers.
//   - worker_begins.go: how it says when runs begin.
//   - worker_take.go: how it hands out jobs to a program that runs many together.
//   - worker_leases.go: tickles and lost leases.
//   - worker_reports.go, worker_outcomes.go: when ended jobs are reported; the requests that report them.
//   - worker_session.go: the session of the Worker.
package client
