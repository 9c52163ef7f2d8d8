// Package client talks to a Daybook server.
//
// A Client has a method for each thing that the server can be asked. Methods return the server's documents, or an error that
// errors.Is compares with the sentinels of this package and errors.As finds a *Error in, with what the server said.
//
// Broken requests are repeated so that nothing doubles. Each method says what it does about a lost answer: reads, tickles, pauses
// and completions that name their claim are safe to repeat, and are; a create is repeated only when it is proven that nothing was
// stored, and otherwise ends in ErrUnknown; a claim whose answer was lost is made again, and the jobs that nobody got come back when
// their lease runs out. With an idempotency key (NewKey) creates and claims are repeated like the rest, and carried out once. Repeating ends with the context, or after Options.RetryFor; each try ends when the server is silent for
// Options.Timeout.
//
// A Worker is a runner: it claims, calls a handler, tickles meanwhile, reports, and drains when its context ends.
//
// Package daybooktest starts a server for tests.
package client
