// Package wire encodes and decodes the protocol of Opsqueue (https://github.com/channable/opsqueue, version 0.40.1): its
// messages in CBOR and its documents in JSON. It is without connections, state and clock.
//
// A producer creates a submission, which is an ordered list of chunks, with HTTP and JSON. A consumer keeps a WebSocket
// open. It requests chunks, receives them, and reports each as completed or failed. Each message on the WebSocket is one
// CBOR value:
//
//	producer  ──InsertSubmission──►  server  ──Init──────────────────────►  consumer
//	          ◄─SubmissionID───────          ◄─WantToReserveChunks (n)────
//	          ──lookups, cancel───►          ──ChunksReserved (n)────────►
//	          ◄─SubmissionStatus───          ◄─CompleteChunk, FailChunk───
//	                                         ──ChunkReservationExpired───►
//
// Messages are Go structs. The tag json has the names of their fields for both formats, and for a number that may be
// negative there is a tag wire. An enum is a struct of pointers, of which one is set. The libraries encode these structs.
//
// Both sides of the original use serde, ciborium and serde_json. The decoder follows the rules of these: enums are a text
// or a map with one entry, unknown fields are ignored, an optional field may be missing, and a required one may be
// neither missing nor null. The libraries lack the last rule, so decode.go takes structs apart. The libraries check
// whole messages and decode numbers and texts. docs/how-to/from-opsqueue.md lists where the decoder is stricter
// than the original.
//
// Invariants:
//
//   - A decoder never panics. Its allocations are bounded by a small multiple of the message.
//   - The original's clients accept everything that an encoder writes: text is UTF-8, lengths are definite.
//   - A number of 63 bits never becomes a float.
//   - A decoded value can be encoded, and decoding that gives the same value.
//
// A consumer reserves and completes chunks one at a time, so the server encodes and decodes three messages for each
// chunk (BenchmarkCycle).
//
// To add a message, add its type and the field of its enum, a vector in testdata/vectors or a document in testdata/json,
// and lines in the tables of the tests.
package wire
