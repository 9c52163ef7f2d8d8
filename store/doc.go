// Package store keeps the state of all jobs and its indexes in Pebble. Its function Apply is the one state machine.
//
// State is a base plus the journal after it. The store is the newest base, and its cursor is the last command that it
// includes. Its contract:
//
//   - the same commands, in order, always make the same keys and values, whether the server applied them when they
//     arrived, after a restart, or all again from the first one;
//   - the cursor moves in the same Pebble batch as the effects of the commands;
//   - rows are durable only after Pebble flushes, because the journal is the log.
//
// # A job costs nothing but its bytes until a runner touches it
//
// A batch is stored as its payload bytes, in pages, and a piecewise-constant function from line to state, as spans. A
// fresh batch is one span. A claim splits lines off the head of a span, and completing them splits the span again. In
// the worst case each span is one line long, and then a job costs about as much as a row per job.
//
// The key of a span has its last line. So one seek finds the span that holds a line, and taking lines off the head of a
// pending span changes neither its key nor its place in the queue.
//
// Data of a single line (history, output, progress) is in detail rows beside the span, and never splits it. The lease
// belongs to the claim, which active spans name: a tickle writes one small row, however many jobs the claim holds.
//
// # The key space
//
// One letter names a table. Numbers are big-endian, and :n gives their width in bytes. "last" is the last line of a span
// or page.
//
//	M                                                  meta: format, journal, cursor, time, level, epochs, effects' segments
//	Q queue:4                                          a queue: client, type, paused, counts by status, lanes, next span in line
//	B seq:8                                            a batch: time, lines, frame; its groups, or where their pages end
//	G seq:8 last:4                                     a page of groups, about 4 KiB, if a batch has more than one page of them
//	b seq:8                                            its counts by status
//	P seq:8 last:4 first:4                             a page of framed payloads, about 64 KiB
//	p seq:8 last:4 first:4                             lengths of a page's payloads, unless all of the batch have one length
//	S seq:8 last:4                                     a span
//	D seq:8 line:4 kind:1 …                            a detail: 2 result, 3 progress; 1 one attempt of the
//	                                                   history, followed by the command that ended it:8
//	R queue:4 ^priority:4 class:1 order:8 seq:8 last:4 a pending span in its place in line
//	N queue:4 ^priority:4 class:1 level:1 …            a cell: how many spans and jobs of a part of a lane are pending
//	L queue:4 status:1 seq:8 last:4                    a span by queue and status, in order of ids
//	l queue:4 status:1 updated_at:8 seq:8 last:4       a span that has ended, or waits since a later time than its create, by queue, status and time
//	T at:8 kind:1 …                                    a timer: 1 run_at, 4 purge, 6 expires_at, 7 timeout: seq:8 last:4;
//	                                                   2 claim: claim:8; 3 lease of one job: claim:8 seq:8 line:4;
//	                                                   8 sweep: seq:8; 9 keys: generation:8;
//	                                                   10 runner: len:1 runner; 11 session: seq:8;
//	                                                   12 submission that need not be kept any longer: seq:8;
//	                                                   13 submission whose jobs a step looks at: seq:8;
//	                                                   14 index of prefer_distinct that is being built: index:8;
//	                                                   15 ends of purged runs: generation:8; 16 rest of purged batches: 0:8
//	C claim:8                                          a claim: time, runner, the runs it handed out; its first state
//	c claim:8                                          its state once that has changed: its lease, how many lines it holds,
//	                                                   and how many lines name it
//	O claim:8 seq:8 line:4                             the lease of a job that was tickled individually
//	W len:1 runner                                     a runner that holds jobs, or did a minute ago: counts, its last tickle
//	                                                   of all of them, some open claims
//	w len:1 runner claim:8                             a claim that holds jobs and that W does not list, by runner
//	x len:1 runner claim:8                             a claim with jobs that were cancelled lately, by runner
//	E seq:8                                            effects: the moves of the commands from seq onwards, each with its verb and key
//	j segment:8 batch:8 seq:8                          a command that moved lines of a batch of several, by segment of effects
//	U queue:4 key                                      the job that last took a unique key, and has it while it is unfinished
//	K seq:8 line:4                                     the unique key of a line
//	I generation:4 len:2 scope key                     the result of a command with an idempotency key
//	i generation:4 owner                               size of the keys of a client or runner
//	A seq:8                                            a session: runner, when it was last used
//	a seq:8 slot:1                                     the result of the last request of a slot of a session
//	y runner                                           how many sessions name a runner, and about the size of their rows
//	Z used:1 at:8 seq:8                                a session by whether, and when, it carried out a request; may be early
//	H kind:1 deleted:1 name 0 client                   a named document: its versions, without their texts
//	h seq:8                                            the text of a version
//	F kind:1 seq:8                                     the name of the document that a command deleted; 0: the highest
//	                                                   number of a version of those whose histories are gone
//	V seq:8                                            a submission: its attributes from its creation
//	v seq:8                                            its state: status, counts, the jobs that a step must still look at
//	g seq:8                                            its metadata
//	J seq:8 last:8                                     a part of a submission: a batch, and the number of its first line
//	X kind:1 … seq:8                                   a submission by 1 status:1, 2 name 0, 3 pair of meta 0, 4 snowflake:8
//	q type 0 client                                    how many submissions of a queue are in each status
//	d index:1                                          an index of prefer_distinct: its strategy, and how far it is built
//	d index:1 1 leaf:8                                 queue and values of waiting jobs: how many spans, the first span
//	d index:1 2 key:1 client 0 value                   how many jobs of a value are active
//	d index:1 3 leaf:8 ^priority:4 class:1 order:8 seq:8 last:4
//	                                                   a pending span by queue and values, in its place in line
//	e generation:4 claim:8 seq:8 last:4                how runs ended whose jobs were purged less than a minute later
//	z seq:8                                            a purged batch of many groups: its remaining rows S and G
//	Y seq:8                                            a sweep: its operation, its jobs, and how far it has come
//
// # How Apply reads and writes
//
// The writes of all commands since the last commit are in an overlay (see package lsm), and Apply reads through it.
// Before the overlay Apply looks into caches. They hold all queues, windows of the next spans of the queues in use, and
// recently used rows. Apply's decisions never depend on the contents of a cache.
//
// # Packages
//
// Each package uses only those before it: lsm (bounded views of Pebble, without knowledge of jobs), document, row, applied,
// memory, machine, query, check. Package store joins them: Open, Apply, Commit, Flush.
//
// Not for: files outside of Pebble, HTTP, clocks. Only Open, Commit (when Pebble holds writers back) and reads that miss
// the caches wait for a disk.
package store
