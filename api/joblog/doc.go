// Package joblog keeps the last part of each running job's output in memory. It stores nothing: a restart of the server
// loses the text. The runner keeps the whole log.
//
// # Contract
//
//   - A log has the last MaxBytes that the runner has sent. A line that counts the missing bytes replaces parts that
//     did not arrive.
//   - All logs together have at most maxTotalBytes, and there are at most maxLogs. Beyond that, Append drops the log
//     that has waited longest for more text.
//   - A log is dropped a minute after its job has ended. The caller of Append supplies the End that reports this.
//   - Append never waits for a reader. A reader that is slower than the job misses a part, and gets a line that says
//     so.
//
// Not for: checking that a runner may write to the log of a job (package api), the whole log (a blob).
package joblog
