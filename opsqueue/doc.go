// Package opsqueue serves the protocol of Opsqueue (https://github.com/channable/opsqueue, version 0.40.1), so that its
// producers and consumers can use a Daybook server without a change. It is a translation only. Package wire has the shapes
// of the messages.
//
// A submission is a batch with attributes, and a chunk is a job of it, in the queue of Client and Type:
//
//	producer ──HTTP, JSON──► producer.go ──► insert.go, submissions.go ──────► Engine, Queries
//	consumer ──WebSocket, CBOR──► consumer.go ──► reserve.go ── claims ──────► Engine
//	                                   └──► holding.go ──► endings.go ── ends of runs ──► Engine
//
// What must hold:
//
//   - The client never gets what breaks it: a second answer to a request, an answer to none, a message of another shape, or
//     silence.
//   - What a consumer reports is stored, in the order in which it arrived, and tried again if it cannot be stored now. Only
//     then, and for reports with long outputs, two about one chunk may change places.
//   - A chunk that a connection does not get, or still holds at its end, is available again at once.
//   - Memory is bounded for each connection and for all of them.
//
// Files, in the order of a start:
//
//   - config.go, server.go, engine.go: the settings; the server; the interfaces to the engine and to its state.
//   - listener.go, quickack_linux.go, quickack_other.go: connections that acknowledge each read at once.
//
// In the order of a request:
//
//   - producer.go: the routes, and the requests of producers.
//   - insert.go, submissions.go, about.go: creating a submission; its status, its end, lookups; what never changes of it.
//   - names.go, trace_carrier.go: strategic metadata and strategies in Daybook's terms; the trace context.
//   - consumer.go, heartbeat.go: the connection of a consumer; when it is pinged, and when it is dropped.
//   - reserve.go, holding.go: reserving chunks; the chunks that a connection holds, and their expiry.
//   - endings.go: the ends of runs: reports of consumers, and the ends of reservations without a report.
//   - restart.go: what an earlier server left.
//   - metrics.go, backlog.go: the original's metrics; chunks that have not ended.
package opsqueue
