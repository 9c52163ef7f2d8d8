// Package program runs handlers of kind exec: programs on the runner's machine. The runner's configuration names the
// program and its arguments. Stored handlers and jobs cannot choose either.
//
// The program reads the payload from stdin, exactly as it is stored. Its stdout is the job's output: text if it is
// valid UTF-8, and bytes otherwise. If the output exceeds options.output_bytes (16 MiB by default), the runner ends the
// program and the job fails. If the run does not end with ok, the end of stderr is the job's error.
//
//	exit status 0     ok
//	75 (EX_TEMPFAIL)  retry
//	any other         error; a signal is 128 and its number
//
// exit_codes maps statuses to other outcomes. Every outcome includes the status as process_exit.
//
// Lines J: type|payload and #J: type|payload on stdout are removed from the output. They create jobs if the run ends
// with ok or failed. After any other outcome the job runs again and would create them again. More than 100 of these
// lines, or one with an invalid type, make the outcome an error. Only lines with a type that chain_types lists count.
//
// A run that exceeds options.timeout_ms is an error. The runner then sends SIGTERM to the program and its process
// group. It does the same when nobody waits for the result any more. After 2 seconds it kills all processes that are
// left.
//
// By default, a program may reach only what sandbox.Access allows: it may read system files and its working directory,
// use directories of temporary files, and not use the network. read_only, read_write and network extend that.
// options.memory_bytes limits the memory of all its processes together. The limit needs a cgroup; if the machine offers
// none, there is no limit, and sandbox.Missing says so.
//
// The program does not inherit the runner's environment. It gets the runner's PATH, HOME, LANG and TMPDIR, the
// configured env, and DAYBOOK_JOB_ID, DAYBOOK_CLIENT, DAYBOOK_TYPE, DAYBOOK_ATTEMPT (1 for the first run) and, if the
// job has one, TRACEPARENT.
//
// With log_bytes, stderr becomes the log of the job, during the run and afterwards (package runlog). This requires one
// process per job.
//
// With frames = "lines", one process runs a batch. It reads one payload per line, and answers each with one line
// (package answers). An answer counts as soon as its line is complete. Only the last job's answer waits for the process
// to end, because J lines may follow it. options.timeout_ms bounds the time until the next answer. If the process ends
// before all jobs have an answer, or prints anything but answers, the first job without an answer runs again, alone in
// a new process. The jobs after it go back to their queue. The environment has DAYBOOK_BATCH, the number of jobs, and
// DAYBOOK_CLIENT and DAYBOOK_TYPE if they are equal for all jobs.
//
// Not for: restricting processes (package sandbox).
package program
