// Package runner runs jobs: it claims them from a server, and runs each by the handler of its type. `daybook work` starts
// it. The server never runs code, and imports none of this.
//
// A handler is one of the runner's configuration, or one that the server stores and whose kind the runner accepts. Each
// handler has a lane: the jobs of its type that this runner holds. Feeds claim jobs for lanes, by a client.Worker, which
// tickles them and reports their outcomes. A lane divides its jobs into batches, and runs each when it gets slots. Then
// the kind of the handler runs the batch.
//
//	feed (client.Worker) ──► lane ──► slots ──► program, webhook, … ──► outcome (client.Worker)
//
// The packages below:
//
//	task      the run of one job, and how it ended
//	answers   the lines with which a process or a web service answers a batch
//	slots     which handler may begin the next run
//	sandbox   starts processes so that none outlives its run
//	pool      keeps processes that are used again: for script and wasi
//	runlog    keeps what a run prints as the log of its job
//	program   runs handlers of kind exec
//	webhook   runs handlers of kind http
//	script    runs handlers of kind script
//	wasi      runs handlers of kind wasi, and jobs that name their own binaries
//	container runs handlers of kind container
//
// The files, each of which uses only those before it:
//
//	counters.go  what the runner has done
//	usage_linux.go, usage_other.go: processor time and memory
//	blobs.go     the blobs of the server
//	containers.go what the server does for containers
//	kinds.go     executors of handlers, by kind
//	rest.go      lanes that claim nothing for a while
//	lane.go      the jobs of one handler: waiting, batches, runs
//	feeds.go     which jobs are claimed for which lanes
//	failures.go  runs that have ended badly, in the log
//	dispatch.go  from the jobs that a worker hands out to those of lanes, and back to outcomes
//	catalog.go   which handlers there are
//	heartbeat.go the registry of runners: heartbeats, and what the server says to them
//	runner.go    Settings, Runner: the life of a runner
//	guest_metrics.go metrics of WASI guests
//	container_metrics.go: the metrics of containers and logs
//	metrics.go   /metrics and /healthz
//
// Not for: what a server stores (package store), settings from files and flags (cmd/daybook).
package runner
