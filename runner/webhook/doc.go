// Package webhook runs handlers of kind http: it posts the payloads of jobs to a URL, and reads how they ended from the
// answers.
//
// By default there is one request for each job. The HTTP status is the exit code, and the body the output. With
// options.batch there is one request for all jobs of a batch, and package answers reads a line for each from the body.
//
// Contract:
//
//   - A handler has at most Options.Concurrency requests and connections at a time; 10 by default.
//   - Redirects are not followed, cookies are not kept, and compressed answers are not asked for.
//   - A request, its answer, and what is kept of them are bounded: see the constants, Options.TimeoutMs and
//     Options.InlineBytes.
//   - An address that is not public is refused unless Settings.Allow has it. Anybody who may store a handler chooses its
//     URL, so a runner must not open its own network to it. The address is checked when it is dialled, so it makes no
//     difference what a name meant when it was looked up before.
//   - A request may arrive twice: a job can run more than once, and a request on a connection that was kept alive is sent
//     again if the connection was closed before the answer began. Its Idempotency-Key is then the same.
//
// Not for: claiming and reporting (package client), how many runs begin (package slots).
//
// # Files
//
//	special.go   addresses that are not public
//	allow.go     the list of addresses that are allowed though they are not public
//	dial.go      connections, and the check of their addresses
//	failure.go   runs that get no complete answer
//	response.go  from an answer to the end of a run
//	request.go   the headers and bodies of requests
//	webhook.go   the executor, and what one of its requests may take
//	single.go    one request for each job
//	batch.go     one request for all jobs of a batch
package webhook
