// Package api is Daybook's HTTP API: JSON over HTTP/1.1 on echo. docs/api.md is its contract, routes.go the list of
// what there is. A handler decodes the request, calls the engine once or twice and encodes the answer; what a job may
// do next is decided elsewhere.
//
//	guard ──► route ──► read (bounded) ──► decode (strict) ──► Engine ──► encode
//	  └──────────┴───────────┴──────────────────┴────────────────┴──► problem (application/problem+json)
//
// What must hold:
//
//   - Every refusal, the router's own and a panic included, is a problem document with a stable code that says whether
//     anything was stored.
//   - Whatever can refuse a create is checked before the engine is called, since a create is acknowledged before it is
//     applied. The applier has no configuration, so a create carries every default explicitly.
//   - Nothing is read of a body that will be refused for its length, its type or its route, and the bytes of all bodies
//     together are bounded.
//   - The buffer of a create belongs to the journal once it is handed over; it is neither touched nor used again here.
//   - Documents are structs that the JSON library encodes. Documents and ids of jobs and results of outcomes are
//     encoded by hand, since one answer has up to a thousand of them.
//
// Files, in the order of a request:
//
//   - server.go, routes.go: the server and its options; the table of all routes.
//   - listener.go, connection.go, request_framing.go: how many connections there are, how fast each must be, and which
//     requests are malformed.
//   - origin.go, query_parameters.go: which hosts and origins are served; parameters and headers that a route does not
//     know.
//   - request_body.go, media_types.go, memory_budget.go, strict_json.go: bodies within the memory that they may take,
//     their types, and their JSON.
//   - idempotency.go: idempotency keys and numbers of sessions.
//   - create.go, create_many.go, add.go, job_attributes.go: creating one job, several as JSON, lines; the attributes of
//     jobs.
//   - claim.go, claim_answer.go, tickle.go: claims, what they hand out, and how runners extend them.
//   - complete.go, completion.go, outcomes.go: how runners report; the commands of a report; one outcome.
//   - operations.go, switches.go, session.go: cancel, redrive, run, patch, delete; stop, start and quit; sessions.
//   - jobs.go, list.go, queues.go, runners.go: reading.
//   - system.go, metrics.go, openapi.go: health, stats and metrics; the description of this API.
//   - documents.go: how all other documents are encoded.
//   - job_document.go, json_text.go: documents of jobs and results of outcomes, and the JSON values in them, by hand.
//   - answer_memory.go, compress.go, entity_tag.go: answers within the memory that they may take, compressed, or
//     unchanged.
//   - problem.go, access_log.go: refusals; the log and the metrics of each request.
//   - engine.go: the parts of the engine and of its state that handlers use.
//
// Not for: rules about jobs (package job), waiting and ordering (package ingest), TLS and logins (a proxy does them).
package api
