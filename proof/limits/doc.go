// Package limits fills a server to its documented limits, in a memory cgroup of 1 GiB, the memory that
// docs/how-to/sizing.md requires. Then it sends the requests whose commands must find their way through all this data.
//
// # What it proves
//
//   - With -full: no command needs to hold the applier for more than 20 ms, according to the server's metrics. A step
//     that can be repeated passes if no command exceeds this in one of five attempts. Of commands that cannot be
//     repeated, 94 of 100 must not exceed it. Of the commands that fill the server, the mean must not. The
//     limit matters because all other changes wait for the applier, and each start repeats commands.
//   - The server takes no more memory than the page says, and is not killed for it.
//   - With -full: after a SIGKILL in the middle of sweeps the server is ready within 2 s, in the same memory.
//   - After all this, everything that was created still exists.
//
// # How
//
// The server is the real binary. Its soft memory limit comes from the cgroup. A short run has at most a hundredth of each
// amount, and asserts only facts that do not depend on how busy the machine is: memory, that all requests are answered,
// and that the server starts again.
//
// # What it does not prove
//
//   - There are 500,000 idempotency keys. Only their bytes on disk are bounded, and there may be 100 million.
//   - TestEveryCommandIsBounded of package store counts the cost of each verb. Here some of them are timed.
package limits
