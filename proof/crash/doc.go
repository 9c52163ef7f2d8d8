// Package crash attacks the real server binary under load. It kills and freezes the process, cuts its power, and gives it
// a full or a read-only disk. It records all requests and answers, which must agree with the server's data at the end.
// `make prove LANE=crash` runs everything, `make prove-short` a small part.
//
// # The lanes
//
// Each lane is a test that does one kind of harm:
//
//   - Kills: SIGKILL at a random moment. After one kill in four, a second one follows during the start.
//   - Workers: SIGKILL under the load of three Workers of the Go client, which repeat requests without an answer. A job
//     must have every outcome that a Worker saw acknowledged. A completed job must have the output that one of its
//     handlers returned.
//   - PowerCuts: the data directory is on proof/powerfs. The power is cut at a random time, or at the n-th write, sync or
//     change of a name; also during the very first start, and again during the start after a cut. Now and then syncs fail
//     with EIO, under load and during a start. If the start then fails, it must log why.
//   - PowerCutsSmall: the same, with a server whose segments (24 KiB), volumes (150 KiB) and memtables (128 KiB) are so
//     small that it constantly begins new ones, flushes and removes old volumes. The binary has no flags for these sizes,
//     so this test's own program serves, from the same packages. The real binary checks the data.
//   - Stops: SIGSTOP for longer than the leases. A runner that held jobs must still hold them after SIGCONT. There are
//     also shorter stops, and kills of a stopped server.
//   - FullDisk: another program's file fills a small tmpfs. First it fills the tmpfs up to the reserve: creates are
//     refused with 507, all other requests work, and creates are accepted again as soon as there is space. Then it fills
//     the tmpfs completely, including the reserve that the server gives up. When there is space again, the server serves.
//     A server that is started on the full disk must serve, or log why it cannot.
//   - ReadOnly: the file system answers each write and sync with EROFS, as after an error that made the kernel remount
//     it. (A real remount is refused while files are open for writing.) Writes are refused with 503, and reads still
//     work. If Pebble is in the middle of a write of its manifest, the server ends with exit code 1 and logs the reason.
//     After a restart it serves.
//
// At the end of each data directory
//
//   - all jobs are completed;
//   - each job that was acknowledged or seen is read over HTTP and compared with the posted bytes, and the jobs are
//     counted;
//   - `daybook check` and `daybook journal verify` find no error;
//   - the histories of all jobs are checked against a model (see below).
//
// # The load
//
//   - Producers post lines and JSON jobs (text, values, bytes). Bodies have up to some megabytes. Jobs have delays, and
//     few or many attempts. Some payloads look like records of the journal.
//   - Runners claim one job or many, and tickle. They end jobs one by one, in lists or by claim, with every outcome, in a
//     separate request or together with the next claim. They unget jobs, are late, die, and repeat requests that got no
//     answer, and sometimes requests that did.
//   - Some jobs have an on_complete, and some outcomes of single jobs create other jobs (not in Workers). Chained jobs
//     have their own type, and are claimed, ended, cancelled and redriven like other jobs.
//   - Some producers and runners use streams: creates with and without keys, tickles, completions and releases in a
//     pipeline of one, and jobs of subscriptions. Streams break. The runner then opens another stream, which resumes the
//     last one and names its claims, or omits them; the server keeps their jobs for a while, or not. Now and then such a
//     runner freezes for longer than a lease: the server must not send it more jobs than it had credit for.
//   - An operator cancels and redrives jobs, batches and the whole queue (not in Stops).
//   - Readers read jobs at the same time.
//
// In parallel with this load, users run errands (not in FullDisk and ReadOnly). An errand takes one job from its create
// to its end, in a queue that nobody else touches, with numbered requests of a session of the Go client. So the user can
// predict each answer, and checks it immediately. Errands cover
//
//   - unique keys that are held, and that are free again;
//   - a completion that creates two jobs and is repeated: each job must exist once;
//   - patches, the claim of the only job, releases and completions;
//   - deletes of jobs and of queues, and queues that --queue-idle deletes;
//   - lost runners: a runner claims a job for an hour, sends one heartbeat, and falls silent. The job must be returned,
//     but not before the server ran for three periods without a break; one attempt is spent. The server must refuse the
//     runner's tickles and heartbeats. It must accept the runner's outcome while the job waits, and refuse it after
//     another runner has claimed the job. When the outcome is repeated, the server must give the same answer, although
//     the job is gone;
//   - batches with attributes: creates and additions that are repeated, pauses, closes, cancels, cancel_rest, and
//     results. After its end a batch must not change, and must accept no request;
//   - blobs: each stored blob must exist, with its bytes, under its SHA-256 and under its SHA-1;
//   - keys: the server must know each key that was created, and refuse each key that was revoked. All users of a server with errands
//     have a key themselves;
//   - the document of the session;
//   - repeats of numbered requests, immediately and after later requests were carried out.
//
// A request without an answer is repeated, through kills and power cuts, until it is answered. The server knows runners
// in memory only, so after a restart a silent runner sends another heartbeat. Some kills and cuts happen at about the
// time at which it is lost. TestErrands shows that errands notice wrong answers.
//
// # The model
//
// The requests for a job form its history. For each job, github.com/anishathalye/porcupine checks the history against
// model.go: is there an order of the requests that agrees with the times at which they began and ended, and in which
// every answer is right? In the model
//
//   - a job is active under at most one claim, and only that claim ends it, tickles it or ungets it;
//   - the same outcome may be reported twice; a different outcome is refused;
//   - an ended job does not change until it is redriven;
//   - a cancelled job is not handed out, and its runner is refused;
//   - each claim adds one attempt, up to max_attempts; a redrive begins again at 0;
//   - the jobs of an outcome exist if and only if that request ended the job, whether or not it was answered. A job with
//     an on_complete is followed by one job for each time that it completed;
//   - a deferred job is not handed out before its delay ends;
//   - a cancel or redrive that continues as a sweep changes each job at some time before the sweep was seen to be
//     finished;
//   - a document in the answer to a change is a separate observation, made at some time during the request;
//   - a lease may run out only if the server ran without a break for the whole lease since it was renewed. Each start,
//     and the end of each SIGSTOP, renews all leases;
//   - a request without an answer was carried out or not, but not after the server that received it had ended;
//   - when a stream breaks, the jobs of its claims return to their queues at some time or never, like an unget without an
//     answer; a subscription that did not end counts as three claims without an answer;
//   - a claim without an answer may have taken any job. Then run_attempts is one more than the answers explain.
//
// TestHistories shows that the checker notices impossible histories, and TestChains that the history notices chained jobs
// that are lost, torn or doubled.
//
// # Slow machines
//
// No deadline decides anything about the server. If something takes longer than minutes, or if a step of the test came
// later than a lease allows, the result is "undecided, machine too slow (or the server hangs)". A job that could not be
// read is not reported as lost.
//
// # What it does not prove
//
//   - A claim without an answer is assumed to have taken a job only if the job's history is impossible otherwise. Then
//     any unanswered claim of that time may explain the history.
//   - The tests do not check that a lease runs out in time, nor the order in which jobs are handed out. But all jobs must
//     be completed at the end.
//   - A tickle of a whole claim that renewed only some of its jobs proves nothing here.
//   - Unique keys, patches, deletes, sessions and lost runners are in the errands only, where nobody else touches the
//     jobs.
//   - If several completions of a redriven job end without an output, the jobs that follow them lack a payload, so they
//     are only counted.
//   - The tests do not check how soon a runner is lost after three periods. A job that is still held after minutes is
//     undecided.
//   - Purging after a retention is not in the load.
//   - Only full runs wait for queues that --queue-idle deletes, since this takes at least a minute.
//   - Data directories are small, some dozen megabytes.
//   - A full disk does not fill Pebble's memtables until Pebble blocks, since creates are refused long before.
//   - The kernel decides the order in which processes run. So a seed repeats the plan, not the run.
//   - powerfs decides the outcome of a power cut. Disks that lose data after they reported it as written are not tried.
package crash
