// Package runners attacks runners. One server (`daybook serve`) and some runners (`daybook work`), all of the real
// binary, work under load. The test takes turns at killing a runner, a process that a runner has started, and the server,
// each with SIGKILL at a random moment. It starts the server and the runner again immediately. `make prove LANE=runner-kills` kills
// 200 times, `make prove-short` a few times.
//
// # The load
//
// A producer posts lines with an idempotency key. Half of the posts have an on_complete.
//
//   - tree: an exec handler. A shell starts processes in new sessions, with nohup, and by a double fork, one of which
//     ignores SIGTERM. They sleep for minutes. Then the shell writes its output and a J: line.
//   - lines: an exec handler with frames = "lines". It has a child that sleeps for minutes.
//   - script: a Python handler. Its context has a global and a process in a separate session. Some jobs sleep.
//   - web: an http handler with batches. Now and then its server ends the connection in the middle of an answer.
//   - hook: an http handler with a request for each job.
//   - guest and blob: stored handlers of kind wasi, whose binary is a blob. Some guests sleep, and some are busy. Each
//     start of a runner has an empty cache, so it fetches and compiles the module again. The output of blob is a blob,
//     and some of these have 300 kB.
//   - next and after: the chained jobs, which J: lines and on_complete create.
//
// # What it proves
//
//   - If a post was acknowledged, each of its payloads is exactly one job. If it got no answer, each is at most one job.
//   - Each job is completed once, with the output of its own payload. It may have run more than once.
//   - Each completed job has exactly the chained jobs that its handler and its on_complete name, with the right payloads,
//     and these are completed, too. No other jobs exist.
//   - Soon after a runner has ended, by SIGKILL or SIGTERM, none of its processes is alive. Each start of a runner has a
//     mark, in the path of its binary, in its arguments, and in the environment of all processes that it starts. The test
//     searches all of /proc for it. So the parents of a process, its session and its name do not matter.
//   - The blob of each output exists.
//   - `daybook check` finds no error in the server's data.
//
// In TestKills leases are short, so they end before a runner is declared lost. TestKilledRunnerLosesBegunRuns has leases
// of an hour: exactly the jobs that ran when their runner was killed have lost an attempt, with a row that says why.
// TestFrozenRunner stops a runner with SIGSTOP: it loses each job that it held once, and is sent no jobs until it
// continues.
//
// TestFaults shows that the checks find lost, doubled and wrong jobs and chains, and TestMarked that they find remaining
// processes.
//
// TestTreeEndsWithItsTimeout runs a tree of seven processes through `daybook work`, and all of them are gone when the job
// has been reported as too slow.
//
// TestSoak runs jobs of all kinds in one runner for 20 seconds (`make prove LANE=runner-soak`: ten minutes). The memory, descriptors
// and processes of the runner must not grow. TestGrown shows that growth is noticed.
//
// # What it does not prove
//
//   - The test searches for processes up to a minute after the end of a runner, so they may live a moment longer.
//   - Machines lose their power only in proof/crash, and their disks fail only in proof/sim.
//   - The kernel decides the order in which processes run. So a seed repeats the plan, not the run.
package runners
