// Package stream serves streams: WebSockets on which a client sends many requests, and gets jobs as soon as there are any.
// docs/reference/stream.md describes the protocol. The bodies of requests and the documents of answers are the same as in
// HTTP, from the packages command and answer.
//
//	message ──► requests, in their order ──► verb: begin ──► engine
//	            answers, joined in messages ◄── finisher ◄───┘
//	subscription: waits for credit ──► claims, and waits for jobs ──► sends them ──► Streams knows who holds the claim
//
// What must hold:
//
//   - A request without an answer was not carried out, if the server closed the stream with status 4001.
//   - The end of a stream returns its claims at once, unless it lingers, a successor takes them over, or the server shuts
//     down. Runs that have begun count as attempts, and the other jobs return as if they had never been claimed.
//   - Messages, answers, subscriptions and held claims take shares of budgets. An unused stream ends if another needs its
//     place.
package stream
