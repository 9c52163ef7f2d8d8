// Package registry knows which runners are alive. Runners say so by heartbeats. The registry is in memory only: after a
// start it is empty, and runners are in it again after their next heartbeat.
//
// A runner id belongs to one process at a time. A process names itself by its instance, a random text. The registry
// refuses another instance while the runner is alive, unless that instance takes the id over. An instance whose runner
// was declared lost, that was replaced, or that has reported its end is refused from then on.
//
// A runner is overdue if no heartbeat of it arrived for MissedHeartbeats periods. The registry counts only time in which
// heartbeats could arrive: its owner calls Excuse after the process was stopped, and when it begins to lead. The owner
// calls Lose to declare overdue runners lost, and returns their jobs by a command (package ingest).
//
// Files:
//
//   - info.go: what a runner says of itself, and the bounds of it.
//   - runner.go: what the registry knows of a runner.
//   - registry.go: heartbeats and goodbyes.
//   - lost.go: declaring runners lost, and forgetting dead ones.
//   - list.go: reading.
//
// Not for: jobs and claims (package store), which are in the journal.
package registry
