// Package wasi runs handlers of kind wasi: WebAssembly modules for WASI preview 1. docs/reference/wasi.md describes the
// interface of guests.
//
// A guest reads its input from stdin: the blob at the job's input_addr, or otherwise the payload, exactly as stored. Its
// stdout is the output. It gets no arguments, environment, files or network. Clocks and random numbers are the machine's.
// The runner calls the module's default export, or _start if there is none. A module without either succeeds with an
// empty output.
//
// An output of at most options.inline_bytes is inline: text if it is valid UTF-8, otherwise bytes. A longer output is
// stored as a blob, and output_addr is its address. If the job has a binary_addr, the output is always stored as a blob,
// and is also inline if it is short.
//
//	exit status 0                                  ok
//	another status, a trap, the time-out           error: the end of stderr; the status is reported as process_exit
//	no module, a missing import or permission      failed
//	the server is unreachable                      the job goes back to its queue, after a pause
//	this machine lacks memory, disk or processes   the job goes back to its queue, after a pause
//
// A Pool starts processes of the runner's own binary (package guest), which run guests one after the other. To stop a
// run, whatever the guest does, the Pool kills its process and starts a new one. After a run, a process keeps nothing of
// the guest except the machine code of its module.
//
// Rules of the cache directory:
//
//   - Only the runner writes modules. Only processes that run no guest write machine code.
//   - A module's file is named by its SHA-256. Each process verifies it when it loads the module.
//   - A report has the SHA-256 of the machine code. The runner verifies it before its first use of the machine code.
//   - Damaged or missing files are fetched or compiled again, so damage costs only time.
//   - A client can run a module only if it may read the blob, even if the cache has the module already.
//
// Not for: the interpretation of modules (package guest), the access rights of processes (package sandbox).
package wasi
