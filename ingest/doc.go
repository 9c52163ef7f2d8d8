// Package ingest runs the engine: it proposes, journals, applies and answers commands.
//
//	propose ──► Log (one leader stamps) ──► hand-over (bounded) ──► store.Apply (one applier) ──► answer
//
// The engine answers a create when the log has stored it, because the ids of the jobs follow from its record. It answers
// every other command when the command is applied and committed, because Apply decides the answer. A read waits until the
// state includes all commands that were stored when the read arrived.
//
// The state depends on time only through commands: the timekeeper proposes a tick when a timer row is due, and at no
// other time.
//
// A claim is not journaled while there is no job for it. It can wait, parked, until one of its queues has a job that is
// offered to no other claim (docs/025-offers.md). There is one exception: a claim may be journaled directly after the
// create of the job that it was woken for, so that one group of the log has both. If that create is not stored, the claim
// finds nothing, and waits again in its old place.
//
// A start and a rebuild apply the log with the same function as a running server. The engine uses the log through the
// interface Log, so that a log that several processes replicate can replace the journal. Only the process that leads the
// log proposes ticks, graces, the level, the return of the jobs of lost runners and the deletion of idle queues.
//
// Files, in the order of a command:
//
//   - engine.go, lifecycle.go, directory.go: the engine's parts and options; start, readiness and stop; the data
//     directory and its lock.
//   - log.go, local_log.go: the interface of a log; the journal as a log.
//   - joined_creates.go: creates that share a record.
//   - exchange.go: completions and a claim in one request.
//   - create.go, claim.go, completion.go, operations.go, session.go, handler.go, fileset.go, runners.go, idle_queues.go:
//     the requests.
//   - queue_limits.go: the limits of queues.
//   - idempotency.go: requests with a key or a session number.
//   - proposal.go, stray_claims.go: proposing a command and waiting for its answer; claims whose callers gave up.
//   - parked_claims.go, interests.go: claims that wait for a job, and the order in which they are woken; claims by the jobs
//     that they accept.
//   - handover.go, applier.go, command_times.go, blocked_commits.go, broadcast.go: from the log to the store; commits that
//     Pebble blocks, and waiting for commits.
//   - reads.go: reads, and waiting for the state that they need.
//   - timekeeper.go, ticks.go, stall_watch.go: when ticks, graces and other timed commands are proposed; the size of ticks;
//     how the engine notices that the process was suspended.
//   - lost_runners.go: declaring runners lost, and returning their jobs.
//   - silences.go: runners that let a lease end without a tickle, or were declared lost.
//   - disk_space.go, maintenance.go: the reserve of disk space; flushing the store and cutting the log.
//   - free_space_unix.go, free_space_other.go, fallocate_linux.go, fallocate_other.go: the system calls for disk space.
//   - replay.go, rebuild.go, check.go: applying a log to a store; making a store from a log; checking a store.
//   - backup.go: the files of a backup of a running engine.
//   - stats.go, errors.go: figures for operators; reasons why a request was not carried out.
//
// Not for: HTTP, rules about jobs (package job), files of the journal or the store.
package ingest
