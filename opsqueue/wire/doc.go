// Package wire encodes and decodes the protocol of Opsqueue (https://github.com/channable/opsqueue, version 0.40.1): its
// messages in CBOR and its documents in JSON. It has no connections, no state and no clock.
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
// Both sides of the original use serde, ciborium and serde_json. So the decoders follow the rules of these libraries:
// enums are a text or a map with one entry, unknown fields are ignored, an optional field may be missing.
// docs/how-to/from-opsqueue.md lists where they are stricter.
//
// Invariants:
//
//   - A decoder never panics. Its allocations are bounded by a small multiple of the message.
//   - The original's clients accept everything that an encoder writes: text is UTF-8, lengths are definite.
//   - A number of 63 bits never becomes a float.
//   - A decoded value can be encoded, and decoding that gives the same value.
//
// A consumer reserves and completes chunks one at a time, so the server encodes and decodes three messages for each
// chunk. That takes about 1 µs of processor time: encoders append to a buffer that the caller reuses, and decoders
// allocate only their results. The CBOR library checks first that a message is well formed.
//
// To add a message, add its type and its AppendCBOR here, its fields as a list of names, a vector in testdata/vectors, a
// line in the tables of the tests, and a fuzz target if it has a separate decoder.
package wire
