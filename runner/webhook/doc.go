// Package webhook runs handlers of kind http: it posts the payloads of jobs to a URL, and reads their outcomes from the
// answers.
//
// By default it sends one request per job. The HTTP status is the exit code, and the body is the output. With
// options.batch it sends one request per batch, and package answers reads a line for each job from the body.
//
// Contract:
//
//   - A handler has at most Options.Concurrency requests and connections at a time; 10 by default.
//   - Redirects are not followed, cookies are not kept, and compressed answers are not requested.
//   - Requests, answers, and the parts of them that are kept are bounded: see the constants, Options.TimeoutMs and
//     Options.InlineBytes.
//   - An address that is not public is refused unless Settings.Allow lists it. Anybody who may store a handler chooses
//     its URL, and must not thereby reach the runner's own network. The address is checked when the runner connects to
//     it, so it does not matter what earlier lookups of the name returned.
//   - A request may arrive twice. A job can run more than once, and a request on a reused connection is sent again if
//     the server closes the connection before its answer begins. The Idempotency-Key is then the same.
//
// Not for: claiming and reporting (package client), limiting the runs that begin (package slots).
package webhook
