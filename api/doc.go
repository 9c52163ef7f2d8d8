// Package api is Daybook's HTTP API: JSON over HTTP/1.1 on echo. docs/api.md is its contract, routes.go the list of what there
// is. A handler decodes the request, calls the engine once or twice and encodes the answer; what a job may do next is decided
// elsewhere.
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
//   - Documents are built without reflection: an answer to a claim holds up to a thousand of them.
//
// Not for: rules about jobs (package job), waiting and ordering (package ingest), TLS and logins (a proxy's work).
package api
