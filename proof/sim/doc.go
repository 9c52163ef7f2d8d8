// Package sim plays a whole server by seed: producers, runners, an operator, the committer, the applier and the clock,
// in one process, in virtual time, on a disk that fails.
//
//	users ──► ingest.Engine ──► journal ──► journal.Hooks ──► disk      real files, and what of them is durable
//	  │             └─────────► store ────► errorfs ────────► MemFS     Pebble's own crashable file system
//	  └─► account: what was answered ──► audit ◄── documents read back
//	                     journal ──► book: a store that nothing ever happens to ◄── compared with the server's
//
// A world (world.go) has a disk, a clock, and a server (server.go) that lives three to six times (play.go). A life ends by seed:
// stopped, killed, or with its power lost; at some call of the journal or of the store, or at some time; in a start as
// well as under load. What it finds next is decided in that instant (crash.go), and nothing that the old life still
// does reaches anybody. Now and then a call fails, or many for some seconds: EIO, ENOSPC, short writes, failed fsyncs,
// slow ones. The wall clock jumps by up to two hours either way. Users (users.go, producers.go, runners.go, operators.go) hang up, lose answers, repeat
// requests, die, and come back with claims that are long lost.
//
// After each start, once in the middle of each life, before each quiet stop and at the end:
//
//   - every job that was acknowledged is there under its id with its payload and attributes (in the middle of a life: one in four);
//     each create stands in the journal once, with the bytes that were posted; one that was refused stands there nowhere;
//   - all answers are checked in the order of the journal (audit.go): nobody is handed a job whose lease another still has, what
//     ended stays ended, a claim that was superseded changes nothing, no attempt is one too many, a paused queue hands out nothing;
//   - so are the operations of operators (operations.go, moved.go): a job that was answered as cancelled, ended or deleted, alone or by a
//     sweep that is finished, is not handed out unless the journal has a redrive of it after that, and its runner is refused; patches, expiry,
//     time-outs and unique keys hold; a queue that was deleted had no jobs. An operation without an answer excuses nothing: the journal says whether and when it was carried out;
//   - store.Check finds nothing, and the server's store has the same keys and values as the book, whatever crashes it came through.
//
// At last nothing fails any more, all queues are resumed, and all work must come to its end.
//
// # What is simulated, and where
//
// tidwall/wal writes real files, so the journal's disk sits in the calls that journal.Hooks names, with real files in
// memory below, and keeps of each file the bytes that an fsync has covered and of each directory the names. At a power
// loss every sector of 512 bytes and every name that was not durable is lost or kept by chance; a rename is one step. A
// failed fsync may lose a sector for good although it reads back and a later fsync succeeds. Pebble runs on its own
// MemFS.CrashClone; errors are injected into its tables. An error in its manifest ends the process (DESIGN: Fatalf), so
// there a crash stands for it.
//
// # What is not
//
// The api and HTTP are not played, nor is a process that is frozen, nor a store that blocks on a full disk: package
// crash has those, with the real binary. A killed process's writes to the store count as durable. Damage to what was
// durable is package corruption's: here no page of payloads is damaged, but runners end some runs as the engine ends
// those whose payloads it cannot read, and such jobs must be deferred, show as damaged, and be handed out to nobody
// until an operator runs them. That the engine does so for a page that it cannot read, and only for the jobs in it, is
// in ingest/damage_test.go.
//
// # The same again
//
// A seed plays out the same way each time, but for Pebble's own goroutines, which run beside the rest: six seeds of
// seven had the same log, to the microsecond, in two runs. So the log of a seed that failed is kept in a file, and is
// there even if it does not fail again.
package sim
