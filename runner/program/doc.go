// Package program runs handlers of kind exec: programs of the runner's machine. What a handler runs is in the runner's
// configuration. Stored handlers and jobs choose neither programs nor arguments.
//
// The program gets the payload on stdin, exactly as it is stored. What it writes to stdout is the job's output, text if
// it is valid UTF-8 and bytes otherwise, up to options.output_bytes (16 MiB by default): with more, the program is
// ended, and the job has failed. The end of what it writes to stderr is the job's error if the run does not end with ok.
//
//	exit status 0     ok
//	75 (EX_TEMPFAIL)  retry
//	any other         error; a signal is 128 and its number
//
// exit_codes maps statuses to other outcomes. The status is reported as process_exit with every outcome.
//
// Lines J: type|payload and #J: type|payload on stdout are taken out of the output, and create jobs if the run ends with
// ok or failed. After the other outcomes the job runs again, and would create them again. More than 100 such lines, or
// one with a bad type, make the outcome an error. Only types that chain_types lists are created.
//
// A run that takes longer than options.timeout_ms is an error. Then, and when nobody waits for the result any more, the
// program and its process group get SIGTERM, and 2 seconds later SIGKILL ends all that is left.
//
// A program may reach what sandbox.Access says by default: system files to read, directories of temporary files, and its
// working directory to read, but no network. read_only, read_write and network add to that. options.memory_bytes limits
// the memory of all its processes where the machine has a cgroup for it, and nowhere else; sandbox.Missing says so.
//
// The environment is not that of the runner. It has PATH, HOME, LANG and TMPDIR of the runner, the env of the
// configuration, and DAYBOOK_JOB_ID, DAYBOOK_CLIENT, DAYBOOK_TYPE, DAYBOOK_ATTEMPT (1 for the first run) and TRACEPARENT,
// if the job has one.
//
// With log_bytes, what a program writes to stderr is the log of its job, while it runs and afterwards (package runlog). It
// needs a process for each job.
//
// With frames = "lines", one process runs a batch. It gets one payload a line, and answers with the lines of package
// answers, one for each job. An answer counts as soon as its line is complete; only the last job's waits for the end of
// the process, since J lines may follow it. options.timeout_ms is the time until the next answer. If the process ends
// before all jobs have an answer, or prints something else than answers, the first job without one runs again, alone in a
// new process, and the others are returned to their queue. The environment has DAYBOOK_CLIENT and DAYBOOK_TYPE if all jobs have the same, and
// DAYBOOK_BATCH, the number of jobs.
//
// The files, each of which uses only those before it:
//
//	settings.go     Settings and their errors, New
//	environment.go  the environment of a program
//	output.go       stdout without the lines that create jobs; the end of stderr
//	run.go          runs a process, and ends it after the time-out or when nobody waits for it
//	outcome.go      from the end of a process to the outcome
//	single.go       one process for each job
//	batch.go        one process for each batch
//	executor.go     Executor
//	interpreter.go  interpreters that the sandbox cannot read
//
// Not for: keeping processes from doing harm (package sandbox).
package program
