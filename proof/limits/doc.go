// Package limits fills a server to its documented limits, in a memory cgroup of 1 GiB, which is the memory that
// docs/how-to/sizing.md asks for. Then it sends the requests whose commands find their way through all that.
//
// # What it proves
//
//   - With -full: no command needs to hold the applier for more than 20 ms, as the server's metrics have it: what can be
//     repeated does not in one of five attempts, of other commands 94 of 100 do not, and those that fill the server do not
//     in the mean. All other changes wait meanwhile, and a command is repeated at each start.
//   - The server takes no more memory than the page says, and is not killed for it.
//   - With -full: after a SIGKILL in the middle of sweeps the server is ready within 2 s, in the same memory.
//   - Whatever was created is there afterwards.
//
// # How
//
// The server is the real binary. Its soft memory limit comes from the cgroup. A short run has a hundredth of each thing or
// less, and asserts only what does not depend on how busy the machine is: memory, that all requests are answered, and that
// the server starts again.
//
// # What it does not prove
//
//   - There are 500,000 idempotency keys, which are bounded by their bytes on disk alone: there may be 100 million.
//   - TestEveryCommandIsBounded of package store counts what each verb costs; here they are timed, some of them.
//
// # Files
//
//	server.go       the server in the cgroup, its metrics, and requests to it
//	fill.go         very much of each thing
//	requests.go     the requests whose commands are measured
//	limits_test.go  TestLimits
package limits
