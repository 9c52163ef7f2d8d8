// Package ingest runs the engine: it proposes, journals, applies and answers commands.
//
//	propose ──► Log (one leader stamps) ──► apply queue (bounded) ──► store.Apply (one applier) ──► answer
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
// Not for: HTTP, rules about jobs (package job), files of the journal or the store.
package ingest
