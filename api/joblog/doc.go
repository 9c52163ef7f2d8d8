// Package joblog keeps the ends of what jobs print while they run. Nothing of it is stored: a restart of the server loses
// it, and the runner keeps the whole log itself.
//
// # Contract
//
//   - A log has the last MaxBytes that the runner has sent. Parts that did not arrive are replaced by a line that counts
//     them.
//   - All logs together have at most maxTotalBytes, and there are at most maxLogs. Beyond that, the log that has waited
//     longest for more text is dropped.
//   - A log is dropped a minute after its job has ended. The caller says which jobs run.
//   - Append never waits for a reader. A reader that is slower than the job misses a part, and gets a line that says so.
//
// # Files
//
//	logs.go   Logs: the text of each job, and its readers
//
// Not for: whether a runner may write to the log of a job (package api), the whole log (a blob).
package joblog
