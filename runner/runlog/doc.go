// Package runlog keeps what a run prints, as the log of its job: it sends the text to the server while the run goes on, and
// stores the whole as a blob after its end.
//
// # Contract
//
//   - A log takes the same memory and disk however much is printed: all of it up to a bound, or the beginning and the end
//     with a line between them.
//   - Write never fails and does not wait for the server. What the server does not take in time is not sent while the run
//     goes on, but is in the blob.
//   - The blob is stored again while the server is away, for a bounded time.
//   - The file of a log has no name, or is in a directory that the caller removes, so a runner that is killed leaves nothing.
//
// # Files
//
//	away.go  a server that is away, and trying again
//	live.go  the text as it is sent while the run goes on
//	file.go  the text as it is kept
//	keep.go  Keeper, Log: both of them for one run
//
// Not for: what the server does with logs (packages joblog and api), which handlers keep logs (packages program and
// container).
package runlog
