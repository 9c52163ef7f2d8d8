// Package works defines the works that `daybook bench` and the benchmarks measure: creating, claiming and completing jobs
// in several ways, through the Go client, as users do. Package load decides when to call them.
//
// A Target is a server, with the queues that the works use on it. Its client name is random, so the works touch no other
// jobs. Delete deletes everything again.
//
// # Files
//
//	target.go    a server, its queues, filling and deleting them
//	work.go      the works
//	worker.go    the Worker: how fast it drains a queue, and the latency of jobs that arrive at a fixed rate
//	figures.go   the server's own figures: processor time, fsyncs, groups
package works
