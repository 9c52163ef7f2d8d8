// Package ingest runs the engine: a command is proposed, journaled, applied and answered.
//
//	propose ──► Log (one leader stamps) ──► hand-over (bounded) ──► store.Apply (one applier) ──► answer
//
// A create is answered when the log has stored it: its ids are a function of its record. Every command that returns a
// decision is answered when it is applied and committed. Reads wait until the state includes all that was stored when
// they arrived.
//
// Time passes only in the log: the timekeeper proposes a tick when, and only when, a timer row is due. A claim that can
// find nothing is not journaled; it may wait, parked, until one of its queues has a job.
//
// Start and rebuild apply the log through the same function as the live path. The engine sees the log through the
// interface Log, so that a log that several processes replicate can take the place of the journal. Only the process that
// leads the log proposes ticks, graces, the level and the deletion of idle queues.
//
// Files, in the order of a command:
//
//   - engine.go, lifecycle.go, directory.go: the engine's parts and options; start, readiness and stop; the data
//     directory and its lock.
//   - log.go, local_log.go: what the engine requires of a log; the journal as a log of that kind.
//   - create.go, claim.go, completion.go, operations.go, session.go, idle_queues.go: the requests.
//   - idempotency.go: requests with a key or a number of a session.
//   - proposal.go, stray_claims.go: proposing a command and waiting for its answer; claims whose callers hung up.
//   - parked_claims.go: claims that wait for a job.
//   - handover.go, applier.go, commits.go, broadcast.go: from the log to the store; commits, and waiting for them.
//   - reads.go: reads, and what they wait for.
//   - timekeeper.go, ticks.go, stall_watch.go: what time requires; how large ticks are; noticing that the process was
//     stopped.
//   - disk_space.go, maintenance.go: the reserve of disk space; flushing the store and cutting the log.
//   - replay.go, rebuild.go, check.go: bringing a store up to a log; making a store from a log; checking a store.
//   - stats.go, errors.go: figures for operators; reasons why a request could not be carried out.
//
// Not for: HTTP, rules about jobs (package job), files of the journal or the store.
package ingest
