// Package api is Daybook's HTTP API: JSON over HTTP/1.1 on echo. docs/reference/api.md describes it for clients. A resource
// is a struct whose method routes lists its routes, and all resources are fields of one struct. Most routes are typed functions;
// those that are called for each job are functions of echo. Both decode the request, call the engine once or twice, and encode
// the answer. Package job decides what a job may do next.
//
// The parts that know no single route are packages in the folder internal: web has the connections, checks, bodies and
// problems, operation makes routes of typed functions and openapi describes them, command turns requests into commands,
// answer encodes jobs, refusal has the codes, stream has the streams over WebSocket, files has blobs, uploads and
// filesets, named has the routes that named documents share, and backend has the interface of the engine.
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
// Not in this package: rules about jobs (package job), waiting and ordering (package ingest), logins (use a proxy),
// and the files of certificates (cmd/daybook).
package api
