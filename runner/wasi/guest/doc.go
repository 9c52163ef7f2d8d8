// Package guest is the process in which WASI guests run. The process is the runner's own binary: if the environment has
// Variable, the initialization of this package does the work of the process and exits. So a runner needs no second
// program. The package imports little, because every runner initializes it.
//
// The first argument selects one of two modes:
//
//	compile  compiles one module, writes the machine code to a private directory, prints a Report, and exits
//	run      runs guests one after the other, as the frames on stdin demand. It may read the cache, and write nothing
//
// A process in mode run keeps the modules that it has used. Each run gets a new instance of its module, with new memory.
// The process does not enforce the time-out of a run: its parent kills it.
//
// # Frames
//
// A frame is its kind (1 byte), the number of the run (4), the length of its content (4), and its content. Numbers are
// little-endian.
//
//	to the process
//	Run        a Spec and the whole input
//	RunStream  a Spec and the beginning of the input
//	Input      the next part of the input; an empty part ends the input
//	Answer     the answer to a Request
//
//	from the process
//	Output     a part of the output
//	Errors     a part of the guest's stderr
//	Credit     how many bytes of the input were passed on (4 bytes)
//	Request    a request of the guest, as JSON
//	Done       a Result: the run has ended
//
// The runner sends at most Window bytes of input before it gets Credit for them. A process ignores Input and Answer
// frames of earlier runs: the runner sent them before it saw the end of the run.
//
// Not for: permissions, blobs and time-outs of guests (package wasi).
package guest
