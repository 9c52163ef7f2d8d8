// Package script runs handlers of kind script: source text in node, Python, PHP or a shell that defines handle(payload,
// job). docs/reference/handlers.md describes what scripts can do. docs/reference/script-protocol.md describes the
// protocol between the runner and a host.
//
// A context is an interpreter process that has loaded handlers and runs one batch of jobs after another. A context
// belongs to one client, and to one handler or to all handlers with the same eid and the same grants. A Pool starts
// contexts on demand, keeps them for a while, and ends them. No timer collects jobs: a batch takes the jobs that are
// waiting when a context becomes free.
//
// Guarantees if a script fails:
//
//   - A host writes a job's answer before it begins the next job, and a task ends when its answer arrives. So whatever
//     ends the process, at any moment, earlier jobs keep their answers.
//   - The job that was running is an error with the reason if it is the cause: it ended the process, or nothing else had
//     run there. Otherwise an earlier job may be the cause, so the job runs again, alone in a new context and in the
//     same attempt. The jobs after it are given back and lose no attempt.
//   - If a handler cannot be loaded, no job loses an attempt. The runner claims none of its jobs for a while.
//   - The context is not used again.
//
// Not for: which handler may run next (package slots), restricting processes (package sandbox).
package script
