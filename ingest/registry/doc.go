// Package registry knows which runners are alive. Runners report themselves with heartbeats. The registry is in memory
// only: it is empty after a start, and runners reappear with their next heartbeat.
//
// A runner id belongs to one process at a time. A process identifies itself by its instance, a random text. While the
// runner is alive, the registry refuses another instance, unless that instance takes the id over. An instance is refused
// for good once its runner was declared lost, it was replaced, or it reported its end.
//
// A runner is overdue if none of its heartbeats arrived for MissedHeartbeats periods. Only time in which heartbeats could
// arrive counts: the owner of the registry calls Excuse after the process was suspended, and when it begins to lead. The
// owner calls Lose to declare overdue runners lost, and returns their jobs with a command (package ingest).
//
// Not for: jobs and claims (package store), which are in the journal.
package registry
