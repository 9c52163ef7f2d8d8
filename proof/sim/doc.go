// Package sim plays whole servers: producers, runners, an operator, the committer, the applier and the clock, in one
// process and in virtual time, on a simulated disk that fails. A seed decides everything that happens.
//
//	users ──► ingest.Engine ──► journal ──► journal.Hooks ──► disk      real files, and which bytes of them are durable
//	  │             └─────────► store ────► errorfs ────────► MemFS     Pebble's own file system that can crash
//	  └─► account: the answers ──► compared with the results of the journal's commands
//	                     journal ──► reference: a store that never crashes, and the model ◄── compared with the server's store
//
// # What it proves
//
// The simulation checks the following after each start, once in the middle of each life, before a clean stop without
// users, and at the end:
//
//   - The journal has each acknowledged create once, with the bytes that were posted. It does not have creates that were
//     refused.
//   - The journal has the command of each answer, at the place that the answer names, and the answer is the result of that
//     command (answers.go). It does not matter which life carried the command out, or whether the answer was repeated.
//   - The rules (package proof/model) allow the result of each command, also of commands that were never answered: which
//     jobs a claim hands out, leases, attempts, repeats, ends, sweeps, expiry, time-outs, unique keys, paused queues,
//     batches with attributes, chained jobs, sessions, handlers and filesets.
//   - A reader of the server finds what the model has: each job with its payload, attributes, status and history, each
//     batch with its counts, status and results, each queue, claim, session, handler and fileset, and nothing else.
//   - store.Check finds no error.
//   - Each record has the actor of the request that led to it. In most worlds two tenants (tenants.go) with keys for some clients and
//     types share the server with users without a key. No answer to a tenant has a job, a payload or a count of
//     others; a tenant's commands with ids of others find nothing, and those that name others are refused.
//   - When a lease of a stream's runner has ended without a tickle, the stream sends the runner nothing until it hears of
//     the runner again. (streams.go plays the loops of package api; the journal says when the lease ended.)
//   - The server's store has the same keys and values as the reference store, which is made from the journal alone.
//
// Claims may hand out fewer jobs than they could, since the store bounds their work, and prefer_distinct may choose among
// the values of its keys. TestRandom of package store checks both to the last job.
//
// At the end nothing fails any more and all queues are resumed. Then all jobs must end.
//
// # How a world plays out
//
// A world (world.go) has a disk, a clock, and a server that lives three to six times (server.go, play.go). The seed
// decides how each life ends:
//
//   - The server is stopped, is killed, or loses its power.
//   - This happens at some call of the journal or of the store, or at some time, during a start or under load.
//   - At that instant, crash.go decides which data the next life finds. Nobody sees anything that the old life still
//     does.
//
// During a life
//
//   - calls to the disk fail, one at a time or for some seconds: EIO, ENOSPC, short writes, failed fsyncs;
//   - fsyncs are slow;
//   - the wall clock is set up to two hours forward or back;
//   - users (users.go, producers.go, runners.go, operators.go) hang up, lose answers, repeat requests, die, and return
//     with claims that ended long ago.
//
// # What is simulated, and where
//
// The journal's disk. tidwall/wal writes real files. So the disk is simulated in the calls that journal.Hooks names, and
// the real files are in memory if the machine has a file system in memory. The simulated disk knows which bytes of a file
// an fsync has covered, and which names of a directory are durable. At a power loss, chance decides for each sector of
// 512 bytes and for each name that was not durable whether it is lost. A rename is one step. A failed fsync may lose a
// sector for good, although the sector reads back and a later fsync succeeds.
//
// The store's disk. Pebble runs on its own MemFS and CrashClone. Errors are injected into writes of tables only. An error
// in Pebble's manifest would end the process (ingest.Options.Fatal), so it would be the same as a crash.
//
// # What it does not prove
//
//   - The HTTP API, a frozen process, and a store that blocks on a full disk are not played. Package crash tests these
//     with the real binary.
//   - All data that a killed process has written to the store counts as durable.
//   - No chain is as long as job.MaxHops. Tests of package store have one.
//   - Durable bytes are not damaged. Package corruption does that. Here runners end some runs as the engine does when it
//     cannot read a payload. The job must then be deferred and show as damaged, and nobody may get it until an operator
//     runs it. ingest/damage_test.go shows that the engine does this for a page that it cannot read, and only for the
//     jobs in that page.
//
// # Playing a seed again
//
// A seed plays out the same way each time, except for Pebble's own goroutines, which run in parallel. In two runs, six of
// seven seeds had the same log to the microsecond. If a seed fails, its log is kept in a file, since the seed may not
// fail again.
package sim
