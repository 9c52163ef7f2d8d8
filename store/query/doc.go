// Package query answers questions about the state: documents of jobs, batches, queues and the rest, lists, and figures for metrics.
// Any goroutine may ask. An answer shows the last commit, or a later one.
//
// A query never waits for the disk to take writes. It waits at most Options.Patience for the command that is being applied, and then
// fails with ErrBusy.
package query
