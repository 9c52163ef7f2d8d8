// Package runlog keeps a run's output as the log of its job. It sends the text to the server during the run, and stores
// the whole log as a blob afterwards.
//
// # Contract
//
//   - A log takes bounded memory and disk, however much is printed: it keeps everything up to a bound, and beyond it the
//     beginning and the end with a line between them.
//   - Write never fails and does not wait for the server. Text that the server does not take in time is not sent during
//     the run, but is in the blob.
//   - If the server is unreachable, storing the blob is repeated for a bounded time.
//   - The file of a log is unlinked, or is in a directory that the caller removes, so a killed runner leaves nothing
//     behind.
//
// Not for: the server's side of logs (packages joblog and api), and deciding which handlers keep logs (packages program
// and container).
package runlog
