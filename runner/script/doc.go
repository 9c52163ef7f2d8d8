// Package script runs handlers of kind script: source text in node, Python, PHP or a shell, which defines handle(payload,
// job). docs/reference/handlers.md describes what scripts can do, and docs/reference/script-protocol.md how a runner and a host talk.
//
// A context is a process of a language that has loaded handlers and runs one batch of jobs after the other. A context
// belongs to one client, and to one handler or to the handlers with the same eid and the same grants. A Pool starts
// contexts as they are needed, keeps them for a while, and ends them. There is no timer that collects jobs: a batch is what waited when a
// context was free.
//
// What holds when a script goes wrong:
//
//   - A host writes the answer of a job before it begins the next one, and a task ends when its answer arrives. So
//     whatever ends the process, at any moment, the jobs before keep their answers.
//   - The job that ran is an error with the reason, if it is the reason: it has ended the process, or nothing else had run in it.
//     Otherwise an earlier job may have left the reason behind, so the job runs again, alone in a new context and in the same
//     attempt. The jobs after it are given back and cost no attempt.
//   - A handler that cannot be loaded costs no job an attempt. The runner claims none for a while.
//   - The context is not used again.
//
// Not for: which handler may run next (package slots), what a process may reach (package sandbox).
//
// # Files
//
//	hosts/               the programs that run handlers, in their languages
//	language.go          the languages, and where their interpreters are
//	log.go               lines for the log; the end of stderr
//	prints.go            what a job prints: jobs to create, and lines for the log
//	answer.go            from an answer to the end of a run
//	failures.go          handlers that cannot be started are left alone for a while
//	memory.go            the memory of a process and what it started
//	system_unix.go       the socket that connects a runner and a host
//	system_other.go      on other systems, there is none
//	directory.go         the directory of a pool, and where it may be
//	child.go             a process and the connection with its host
//	host.go              a context: a child and the handlers that it has loaded
//	pool.go              Pool and Settings; the contexts
//	batch.go             a batch in a context
//	executor.go          the jobs of one handler
package script
