// Package stockclient is a producer and a consumer that behave like the clients of Opsqueue 0.40.1. It is only for tests
// and benchmarks of package opsqueue and of the commands that serve its protocol.
//
// If the server breaks certain rules, a client of the original exits, hangs or fails. This client records each such case
// in Violations, which tests check at their end:
//
//   - a reservation is answered twice, or a reply has a nonce without a reservation;
//   - a message is not a binary frame, or not a valid message in CBOR;
//   - the first message is not Init, or a second Init arrives;
//   - no frame arrives for longer than Init allows;
//   - more chunks arrive than were requested, or a chunk comes with the wrong submission;
//   - a response to a producer has a status or a shape that its route does not define.
//
// Like the original, a consumer leaves Nagle's algorithm on, and sends no pings and no close frames. It connects on first
// use and again after every error, and then has forgotten its reservations.
package stockclient
