// Package api is Daybook's HTTP API: JSON over HTTP/1.1 on echo. docs/reference/api.md describes it for clients, and
// routes.go lists all routes. A handler decodes the request, calls the engine once or twice, and encodes the answer.
// Package job decides what a job may do next.
//
//	guard ──► route ──► read (bounded) ──► decode (strict) ──► Engine ──► encode
//	  └──────────┴───────────┴──────────────────┴────────────────┴──► problem (application/problem+json)
//
// What must hold:
//
//   - Every refusal is a problem document with a stable code, and it says whether anything was stored. This includes
//     the router's refusals and panics.
//   - A handler checks a create completely before it calls the engine, because a create is acknowledged before it is
//     applied. The applier has no configuration, so a create contains every default value.
//   - The server reads no byte of a body that it refuses for its length, its type or its route. The bytes of all bodies
//     in memory are bounded.
//   - Once a handler has passed a create to the engine, its buffer belongs to the journal. This package does not use it
//     again.
//   - Documents are structs that the JSON library encodes. Only the documents and ids of jobs and the results of
//     outcomes are encoded by hand, because one answer has up to a thousand of them.
//
// Files, in the order of a request:
//
//   - server.go, routes.go: the server and its options; the table of all routes.
//   - listener.go, arrived_unix.go, arrived_other.go, connection.go, request_framing.go: the limit on open connections,
//     and the check for an unread request on a connection; the minimum speed of each, and the check for requests with
//     an ambiguous length.
//   - origin.go, query_parameters.go: the checks of Host and Origin, of query parameters and of header names.
//   - request_body.go, media_types.go, memory_budget.go, strict_json.go: request bodies, their media types, the limits
//     on memory for bodies and answers, and strict decoding of JSON.
//   - idempotency.go: idempotency keys, and the numbers of requests in a session.
//   - create.go, create_many.go, creation_runs.go, add.go, job_attributes.go, runnable_payloads.go: the creation of one
//     job, of several jobs as JSON or in runs, and of one job per line; the attributes of jobs; payloads with which a
//     job could never run.
//   - claim.go, strategy.go, claim_answer.go, claim_json.go, claim_runs.go, claim_handlers.go: claims, and their
//     strategies; their answers in JSON and in runs; the handlers in these answers.
//   - tickle.go: the tickles that extend leases.
//   - job_output.go, job_log.go, job_states.go, job_place.go: the output of a job; its log; a job as the list of its
//     states; its place in its batch.
//   - chain.go: jobs that are created when a job ends.
//   - complete.go, completion.go, completion_runs.go, outcomes.go: the routes for completions; a completion as
//     commands, from JSON and from runs; one outcome.
//   - operations.go, switches.go, session.go: cancel, redrive, run, patch, delete; stop, start and quit; sessions.
//   - handlers.go, handlers_miniq.go: the routes that store and read handlers; miniq's forms of them.
//   - batches.go, batch_create.go, batch_results.go: batches with attributes; their creation and the addition of jobs;
//     their results.
//   - jobs.go, list.go, queues.go, runners.go: the routes that read jobs, batches, queues, runners and claims.
//   - heartbeat.go: heartbeats and goodbyes of runners.
//   - system.go, metrics.go, openapi.go: health, stats and metrics; the description of this API.
//   - job_document.go, json_text.go: the documents of jobs and the results of outcomes, encoded by hand.
//   - documents.go: the encoding of all other documents.
//   - answer_memory.go, compress.go, entity_tag.go: the memory for answers, their compression, and their entity tags.
//   - stream.go, stream_messages.go, stream_binary.go: streams; their messages; messages in runs.
//   - stream_verbs.go, stream_create.go, stream_finishers.go: the requests in streams; requests that create jobs; the
//     goroutines that wait for the results of requests.
//   - streams.go, stream_room.go: all streams, and the holders of their claims; the limits on their number and memory.
//   - stream_hello.go, stream_subscriptions.go, stream_push.go, stream_holding.go: the name and the settings of a
//     stream; its subscriptions; the jobs that it sends and the jobs that it holds.
//   - stream_answers.go, stream_window.go: the messages that a stream sends; the limit on its outstanding requests.
//   - blobs.go, uploads.go, streamed_body.go, blob_metrics.go: blobs; resumable uploads; bodies that are stored while
//     they arrive; metrics of blobs.
//   - filesets.go, fileset_put.go, fileset_ahead.go, fileset_get.go, fileset_compression.go, fileset_marks.go,
//     fileset_metrics.go: filesets; storing archives and manifests; reading files from a bucket before their turn;
//     sending filesets; the compression of archives; the blobs that filesets name; metrics of filesets.
//   - log_metrics.go, trace_metrics.go, queue_metrics.go: metrics of the logs of jobs; of the spans of runs; of queues.
//   - backup.go: backups of the running server, and their metrics.
//   - problem.go, access_log.go: refusals; the log entry and the metrics of each request.
//   - engine.go: the interfaces to the engine and to its state.
//
// Not in this package: rules about jobs (package job), waiting and ordering (package ingest), TLS and logins (use a
// proxy).
package api
