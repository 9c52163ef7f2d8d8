// Package wire is the protocol of Opsqueue (https://github.com/channable/opsqueue, version 0.40.1): the shapes of its
// messages in CBOR and of its documents in JSON, and nothing else. It has no connections, no state and no clock.
//
// A producer creates a submission, an ordered list of chunks, by HTTP with JSON. A consumer holds a WebSocket. It requests
// chunks, gets them, and reports each one as completed or failed. Each message on the WebSocket is one CBOR value:
//
//	producer  ──InsertSubmission──►  server  ──Init──────────────────────►  consumer
//	          ◄─SubmissionID───────          ◄─WantToReserveChunks (n)────
//	          ──lookups, cancel───►          ──ChunksReserved (n)────────►
//	          ◄─SubmissionStatus───          ◄─CompleteChunk, FailChunk───
//	                                         ──ChunkReservationExpired───►
//
// The original is written with serde, ciborium and serde_json, and both sides of the wire are. So the decoders follow
// their rules: enums are a text or a map with one entry, unknown fields are ignored, an optional field may be missing.
// docs/how-to/from-opsqueue.md lists where they are stricter.
//
// What must hold:
//
//   - A decoder never panics. What it allocates is bounded by a small multiple of the message.
//   - Nothing that an encoder writes is refused by a client of the original: text is UTF-8, lengths are definite.
//   - A number of 63 bits never becomes a float.
//   - What a decoder returns can be encoded, and decoding that gives the same value.
//
// A consumer reserves and completes chunks one at a time, so the server encodes and decodes three messages for each chunk.
// That takes about 1 µs of processor: encoders append to a buffer that the caller reuses, and decoders allocate only what
// they return. The library for CBOR checks first that a message is well formed.
//
// Files, in the order of a reader:
//
//   - limits.go, errors.go: the bounds; the two kinds of errors.
//   - fields.go: the names of the fields of a struct, for both formats.
//   - submission_id.go, metadata.go, strategy.go, chunks.go, submissions.go: the types that messages consist of.
//   - cbor_reader.go, cbor_append.go: values in CBOR.
//   - client_messages.go: the messages of consumers.
//   - server_messages.go, server_decode.go: the messages to consumers, and how a consumer decodes them.
//   - json_reader.go, json_append.go, json_bytes.go: values in JSON; byte vectors in JSON.
//   - producer_requests.go: the requests of producers, and the answers that are numbers and strings.
//   - status_json.go, status_decode.go: the answers with submissions, and how a producer decodes them.
//
// To add a message: its type and its AppendCBOR here, its fields as a list of names, a vector in testdata/vectors, a line
// in the tables of the tests, a fuzz target if it has a decoder of its own.
package wire
