// Package opsqueue serves the protocol of Opsqueue (https://github.com/channable/opsqueue, version 0.40.1), so that its
// producers and consumers can use a Daybook server unchanged. It only translates. Package wire defines the messages.
//
// A submission is a batch with attributes. Its chunks are the jobs of that batch, in the queue of Client and Type:
//
//	producer ──HTTP, JSON──► producer.go ──► insert.go, submissions.go ──────► Engine, Queries
//	consumer ──WebSocket, CBOR──► consumer.go ──► reserve.go ── claims ──────► Engine
//	                                   └──► holding.go ──► endings.go ── ends of runs ──► Engine
//
// Invariants:
//
//   - Stock clients crash on duplicate, unsolicited or malformed replies, and time out without a reply. The server sends
//     exactly one valid reply to each message and request that has a reply, and none to reports.
//   - Every report of a consumer is stored, in the order of arrival. If it cannot be stored, the server tries again.
//     Reports about one chunk are reordered only when a store is retried or an output is long.
//   - If a chunk does not reach its connection, or the connection ends while it holds the chunk, the chunk is immediately
//     available again.
//   - Memory is bounded for each connection and for all connections together.
//
// Files, in the order in which a server starts:
//
//   - config.go, server.go, engine.go: the settings; the server; the interfaces to the engine and its state.
//   - listener.go, quickack_linux.go, quickack_other.go: connections that acknowledge each read immediately.
//
// In the order in which a request passes through them:
//
//   - producer.go: the routes, and the requests of producers.
//   - insert.go, submissions.go, about.go: creating a submission; its status, its end, lookups; its unchanging part.
//   - names.go, trace_carrier.go: strategic metadata and strategies in Daybook's terms; the trace context.
//   - consumer.go, heartbeat.go: a consumer's connection; when to ping it and when to drop it.
//   - reserve.go, holding.go: reserving chunks; the chunks that a connection holds, and their expiry.
//   - endings.go: the ends of runs: consumers' reports, and reservations that end without a report.
//   - restart.go: cleaning up after an earlier server.
//   - metrics.go, backlog.go: the original's metrics; chunks that have not ended.
package opsqueue
