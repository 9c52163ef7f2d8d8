// Package works has the works that `daybook bench` and the benchmarks measure: creating, claiming and completing jobs in
// several ways, all through the Go client, as users do. Package load decides when they are called.
//
// A Target is a server and the queues that the works use on it. Its client name is random, so that nobody else's jobs
// are touched, and Delete deletes everything again.
//
// # Files
//
//	target.go    a server, its queues, filling and deleting them
//	work.go      the works
//	worker.go    the Worker: how fast it drains, and how long jobs that arrive at a fixed rate take
//	figures.go   the server's own figures: processor time, fsyncs, groups
package works
