// Package works defines the works that `daybook bench` and the benchmarks measure: creating, claiming and completing jobs
// in several ways, through the Go client, as users do. Package load decides when to call them.
//
// A Target is a server, with the queues that the works use on it. Its client name is random, so the works touch no other
// jobs. Delete deletes everything again.
package works
