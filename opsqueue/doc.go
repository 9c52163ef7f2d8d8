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
package opsqueue
