// Package stockclient is a producer and a consumer that behave as the clients of Opsqueue 0.40.1 do. It is for tests and
// benchmarks only: of package opsqueue, and of the commands that serve its protocol.
//
// A client of the original ends, hangs or fails if the server breaks certain rules. This one notices each such break and
// records it in Violations, which a test checks at its end:
//
//   - a reservation is answered twice, or a nonce is answered that no reservation has;
//   - a message is not a binary frame, or is not the CBOR of a message;
//   - the first message is not Init, or a second Init arrives;
//   - no frame arrives for longer than Init allows;
//   - more chunks arrive than were requested, or chunks that are not of their submission;
//   - an answer to a producer has a status or a shape that its route does not have.
//
// Like the original, a consumer leaves Nagle's algorithm on, sends no pings and no close frames, connects at the first use,
// connects again after every error, and then knows nothing of the reservations that it had.
//
// Files:
//
//   - violations.go: the record of what the server did wrong.
//   - backoff.go: the pauses between tries.
//   - producer.go, exchange.go: requests of a producer; how one request is sent and tried again.
//   - submission.go: inserting a submission, waiting for its end and reading its results.
//   - object_store.go: a map that stands for the object store.
//   - consumer.go, connection.go: reserving, completing and failing chunks; one connection.
//   - runner.go: the loop that runs each chunk.
package stockclient
