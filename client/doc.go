// Package client talks to a Daybook server.
//
// A Client has one method for each request that the server answers. A method returns the server's document or an error.
// Compare the error with the sentinels of this package by errors.Is. If the server refused the request, errors.As finds its
// answer as a *Error.
//
// A method repeats its request after a failure if this cannot have an effect twice. When an answer is lost:
//   - Reads, tickles, pauses, and completions that name their claim are repeated. They are safe to repeat.
//   - A create is repeated only if it is proven that nothing was stored. Otherwise the method returns ErrUnknown.
//   - A claim is sent again and hands out other jobs. The jobs of the lost answer become pending again when their lease
//     ends.
//   - Creates and claims with an idempotency key (NewKey), or with a number of a Session, are repeated. The server
//     carries each of them out once.
//
// Repeating stops when the context ends, or after Options.RetryFor. One try ends when the server is silent for
// Options.Timeout.
//
// With Options.Codec, the server cannot read payloads, outputs and errors; package encryption has a Codec.
//
// Client.Blobs and Client.Filesets store and read files; package files has their methods. Package worker runs jobs: it claims
// them, calls a handler for each, and reports the outcomes. Package chunks fills batches with large inputs and works through
// them. Package daybooktest starts a server for tests.
package client
