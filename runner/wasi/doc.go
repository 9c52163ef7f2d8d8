// Package wasi runs handlers of kind wasi: modules of WebAssembly for WASI preview 1. docs/reference/wasi.md describes what guests
// can do.
//
// A guest gets its input on stdin: the blob at the job's input_addr, or otherwise the payload, exactly as it is stored.
// What it writes to stdout is the output. It has no arguments, no environment, no files and no network. The clocks and the
// random numbers are those of the machine. The default export is run, or otherwise _start; a module without both is a
// success with an empty output.
//
// The output is inline, as text if it is valid UTF-8 and as bytes otherwise, if it has at most options.inline_bytes. A
// longer one is stored as a blob, and output_addr is its address. If the job has a binary_addr, the output is always stored
// as a blob, and is inline as well if it is short.
//
//	exit status 0                                  ok
//	another status, a trap, the time-out           error: the end of stderr; the status is reported as process_exit
//	no module, a missing import or permission      failed
//	the server does not answer                     the job goes back to its queue, after a pause
//	this machine lacks memory, disk or processes   the job goes back to its queue, after a pause
//
// A Pool has processes of the runner's own binary (package guest), in which guests run one after the other. When a run must
// end, its process is killed, whatever the guest does, and another one takes its place. Nothing of a guest is left in a
// process after its run but the machine code of its module.
//
// What holds about the cache directory:
//
//   - Only the runner writes modules, and only processes that run no guest write machine code.
//   - The file of a module is named by its SHA-256. It is verified when a process loads it.
//   - The SHA-256 of machine code is in its report, and is verified before its first use by a runner.
//   - What is damaged or missing is fetched or compiled again. So no damage is more than lost time.
//   - Each client must have access to a blob of its own or a shared one, even if the cache has its content.
//
// # Files
//
//	errors.go       what an error means for the job
//	counters.go     Stats
//	clock.go        the time of a run
//	permissions.go  what a guest may do
//	extensions.go   modules that guests can import
//	cache.go        the directory of modules and machine code
//	blobs.go        Blobs; from an address to a module in the cache
//	compile.go      from a module to its machine code and its report
//	spool.go        the file of a long output
//	output.go       stdout: inline or a blob
//	input.go        stdin: the payload or a blob
//	answers.go      the answers to HTTP requests: their memory
//	requests.go     HTTP requests of guests
//	child.go        a process, and a run in it
//	pool.go         Pool and Settings
//	prepare.go      what is checked before a run
//	executor.go     the jobs of one handler
//	outcome.go      from the end of a run to the outcome
//
// Not for: the interpretation of modules (package guest), what a process may reach (package sandbox).
package wasi
