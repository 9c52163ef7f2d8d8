// Package ingest runs the engine: a command is proposed, journaled, applied and answered.
//
//	propose ──► journal (one committer) ──► hand-over (bounded) ──► store.Apply (one applier) ──► answer
//
// A create is answered when the journal has synced it: its ids are a function of its record. Everything that returns a decision is
// answered when it is applied and committed. Reads wait until the state includes all that was synced when they arrived.
//
// Time passes only in the journal: a timer proposes a tick when, and only when, a timer row is due. A claim that can find
// nothing is not journaled; it may wait, parked, until one of its queues has a job.
//
// Start and rebuild apply the journal through the same loop as the live path. What the engine needs of a journal is an ordered
// log of commands (propose, deliver, read from a seq, cut), so that a replicated log can take its place.
//
// Not for: HTTP, job rules, files.
package ingest
