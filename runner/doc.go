// Package runner runs jobs: it claims them from a server and runs each with its type's handler. `daybook work` starts a
// runner. The server never runs code, and imports none of this.
//
// Some handlers are written in the runner's configuration. The server stores others, and the runner runs them if it
// accepts their kind. Each handler has a lane, which holds the jobs of its type that this runner has claimed. A feed
// claims jobs for one or more lanes. It is a worker.Worker, which tickles the jobs and reports their outcomes. A lane
// divides its jobs into batches and runs each batch when it gets slots. The executor of the handler's kind then runs
// the batch.
//
//	feed (worker.Worker) ──► lane ──► slots ──► program, webhook, … ──► outcome (worker.Worker)
//
// The packages below:
//
//	task      the run of one job, and its end
//	answers   the lines with which a process or a web service answers a batch
//	slots     decides which handler may begin the next run
//	sandbox   starts processes that cannot outlive their run
//	pool      keeps processes for reuse: for script and wasi
//	runlog    keeps a run's output as the log of its job
//	program   runs handlers of kind exec
//	webhook   runs handlers of kind http
//	script    runs handlers of kind script
//	wasi      runs handlers of kind wasi, and jobs that name their own binaries
//	container runs handlers of kind container
//
// Not for: storing jobs (package store), settings from files and flags (cmd/daybook).
package runner
