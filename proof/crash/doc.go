// Package crash tries the real server binary: killed, frozen, on a full and on a read-only disk, and through power
// cuts, always under load. What its users asked and were told is recorded, and in the end must be true. `make crash`
// runs all of it, `make test` a little.
//
// # The lanes
//
//   - Kills: SIGKILL at any moment, one in four while the server starts.
//   - Workers: SIGKILL under the load of three workers of the Go client, which repeat by themselves what had no answer. What a worker says
//     was reported stands in the job, and each completed job has the output that one of its handlers returned.
//   - PowerCuts: the data lie on proof/powerfs. The power goes at a random time, or at the n-th write, sync or change of a name from a
//     random time on; also in the very first start, and again during the start after a cut. Now and then syncs fail with EIO: under load,
//     and at a start, which must then say why it ends.
//   - PowerCutsSmall: the same with a server whose segments (24 KiB), volumes (150 KiB) and memtables (128 KiB) are so small that it
//     begins new ones, flushes, and removes old volumes, all the time. The binary has no flags for these sizes; this test's own program
//     serves, made of the same packages as the binary, which checks the data afterwards.
//   - Stops: SIGSTOP for longer than the leases. Whoever held jobs must still hold them after SIGCONT. Shorter stops, and kills of a
//     stopped server, in between.
//   - FullDisk: somebody else's file fills a small tmpfs, first to the reserve (creates are refused with 507, the rest goes on, creates come
//     back by themselves), then to the last block, and what the server gives up as well. When there is space again it serves; if it was
//     started on the full disk it serves or says why not.
//   - ReadOnly: the file system answers every write and sync with EROFS, as after an error that made the kernel remount it (a remount
//     by hand is refused while files are open for writing). Writes are refused with 503 and reads go on. Caught in the middle of a write
//     of Pebble's manifest the server ends with exit code 1 and the reason; a restart then serves.
//
// Every data directory ends the same way: all jobs are worked off, and each that was acknowledged or seen is read back
// over HTTP and held against what was posted, byte by byte; jobs are counted; `daybook check` and `daybook journal
// verify` find nothing.
//
// # The load
//
// Producers post lines and JSON jobs (text, values, bytes), of all sizes up to some megabytes a body, with delays and
// with few or many attempts; some payloads look like records of the journal. Runners claim one or many, tickle, end
// jobs one by one, in lists and by claim, with every outcome, in a request of their own or together with the next
// claim, give back, come too late, die, and repeat what got no answer, sometimes what did. An operator cancels and
// redrives jobs, batches and the whole queue (not in Stops). Readers look at jobs meanwhile.
//
// In the lanes without a full or read-only disk, users with errands (errands.go, errand_plan.go, errand_jobs.go, errand_queues.go) take
// one job at a time from its create to its end, in queues that nobody else touches, with numbered requests of a session
// of the Go client. They know what each answer must be, and check it at once: a unique key that is held and is free
// again, a patch, the claim of the only job, a release, a completion, deletes of jobs and queues, queues that
// --queue-idle deletes, the session's document, and repeats of numbered requests, at once and when later ones have been
// carried out. What got no answer is repeated through kills and power cuts until it is answered. TestErrands shows that
// wrong answers are found out.
//
// # The model
//
// Each job's requests form a history of its own, which github.com/anishathalye/porcupine checks against model.go: is
// there an order, in agreement with the times at which requests began and ended, in which every answer is right? In the
// model a job is active under one claim at most; only that claim ends it, tickles it or gives it back; the same outcome
// may be reported twice, another is refused; an ended job stays as it is until it is redriven; a cancelled one is not
// handed out, and its runner is refused; attempts grow by one with each claim, end at max_attempts and begin again with
// a redrive; a delay keeps a job back. A cancel or redrive of a batch or of the queue that goes on as a sweep moves
// each job at some time until the sweep is seen to be finished. A document in the answer to a change is an observation
// of its own, made at some time of the request. A lease may run out only where the server was up, in one life, for the
// lease's whole length since the last renewal: each start, and each stop by SIGSTOP, renews it. A request without an
// answer happened or not, but not after the end of the server it was sent to. A claim without an answer may have taken
// any job; it shows as a jump of run_attempts. TestHistories shows that histories that must not be are found out.
//
// # Slow machines
//
// No deadline here decides anything about the server. What took longer than minutes, or a step of a test that came
// later than a lease allows, is reported as "undecided, machine too slow (or the server hangs)"; nothing is called lost
// that could not be read.
//
// # What is not covered
//
//   - A claim without an answer is only assumed where a job's history makes no sense otherwise, and then any such claim of that time may
//     explain it. That a lease runs out in time, and the order in which jobs are handed out, are not checked here (the drain must end).
//   - A tickle of a whole claim that renewed only some of its jobs proves nothing here.
//   - Unique keys, patches, deletes and sessions are in the errands alone, which nobody gets in the way of. Purging after a retention is not in
//     the load. Queues are left to --queue-idle, a minute at least, but only -full waits for it. Data directories are small: some dozen megabytes.
//   - On a full disk the store cannot be driven so far that its memtables fill and Pebble blocks, as creates are refused long before.
//   - The order of the processes' steps is the kernel's: a seed repeats the plan, not the run.
//   - What a power cut can do is powerfs's model. Disks that lose what they said was written are not in it.
package crash
