// Package sim plays whole servers: producers, runners, an operator, the committer, the applier and the clock, in one
// process and in virtual time, on a simulated disk that fails. A seed decides everything that happens.
//
//	users ──► ingest.Engine ──► journal ──► journal.Hooks ──► disk      real files, and which bytes of them are durable
//	  │             └─────────► store ────► errorfs ────────► MemFS     Pebble's own file system that can crash
//	  └─► account: the answers ──► audit ◄── documents that were read back
//	                     journal ──► reference store, which never crashes ◄── compared with the server's store
//
// # What it proves
//
// The simulation checks the following after each start, once in the middle of each life, before a clean stop without
// users, and at the end:
//
//   - Every acknowledged job has a document under its id, with its payload and its attributes. (In the middle of a life,
//     one job in four is read.)
//   - The journal has each create once, with the bytes that were posted. It does not have creates that were refused.
//   - All answers are right in the order of the journal (audit.go). Nobody is handed a job while another runner has its
//     lease. An ended job stays ended. A superseded claim changes nothing. No job gets more attempts than allowed. A
//     paused queue hands out nothing.
//   - Operations of operators are respected (operations.go, moved.go). If the server answered that a job was cancelled,
//     ended or deleted, alone or by a finished sweep, the job is not handed out unless the journal has a later redrive,
//     and its runner is refused. Patches, expiry, time-outs and unique keys are respected. A deleted queue had no jobs.
//     An operation without an answer excuses nothing, since the journal says whether and when it was carried out.
//   - Batches with attributes keep their promises (submission_audit.go). Their counts are exact. Their status follows
//     from their jobs and from the commands in the journal, and never changes after the end, through crashes and
//     rebuilds. With cancel_rest, nobody is handed a job after the first failure, and completed jobs keep their outputs.
//     Added jobs, a close and a resume are not lost. An open batch does not end, and a paused one hands out nothing.
//     Results are in the order of lines.
//   - Chained jobs exist if and only if the journal has the completion that ended the job before them, even if that
//     completion was never answered (chain_audit.go): each once, with its payload, attributes and hops. Refused and
//     repeated outcomes create none. (This is checked after each start and at the end.)
//   - store.Check finds no error.
//   - The jobs of a runner that was declared lost are handed to other runners. Otherwise nobody is handed a job before
//     its lease ends.
//   - When a stream ends without a goodbye, its begun runs are lost, and each job records and counts its lost run. A late
//     outcome of a lost run is accepted while nobody has claimed the job since; a late outcome of any other run is
//     refused. When a lease of the stream's runner has ended without a tickle, the stream sends the runner nothing until
//     it hears of the runner again. (streams.go plays the loops of package api; the journal says when the lease ended.)
//   - The server recognizes a completion that is repeated within a minute, even if its job has been purged since.
//   - The server's store has the same keys and values as the reference store, which is made from the journal alone.
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
//   - Jobs that operators move create no jobs, and no chain is as long as job.MaxHops. Tests of package store have both.
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
