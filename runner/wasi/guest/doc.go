// Package guest is the process in which WASI guests run. It is started with the runner's own binary: if the environment
// has Variable, the initialization of this package does the work of the process and ends it. So it imports little, and a
// runner needs no second program.
//
// There are two kinds of processes, by the first argument:
//
//	compile  compiles one module, writes the machine code to a directory of its own, prints a Report, and ends
//	run      runs guests, one after the other, as frames on stdin say. It may read the cache, and write nothing
//
// A process of the second kind keeps the modules that it has used. The instance of a module, with its memory, belongs to
// one run. The process does not limit the time of a run: whoever has started it ends it.
//
// # Frames
//
// A frame is its kind (1 byte), the number of the run (4), the length of its content (4), and its content. Numbers are
// little-endian.
//
//	to the process
//	Run        a Spec and the whole input
//	RunStream  a Spec and the beginning of the input
//	Input      the next part of the input; an empty one is its end
//	Answer     the answer to a Request
//
//	from the process
//	Output     a part of the output
//	Errors     a part of what the guest wrote to stderr
//	Credit     how many bytes of the input were passed on (4 bytes)
//	Request    a request of the guest, as JSON
//	Done       a Result: the run has ended
//
// The sender of input has at most Window bytes under way for which it has no Credit. A process ignores frames of other
// runs than the one under way: they were sent before the sender saw the end of a run.
//
// # Files
//
//	frames.go        frames, and what they contain
//	memory.go        the memory of guests, within a limit
//	memory_unix.go   pages of the system, which cost nothing until they are used
//	memory_linux.go, memory_bsd.go: how pages are given back
//	memory_other.go  on other systems, memory of Go
//	procfs.go        the part of /proc that a guest may read
//	streams.go       stdin, stdout and stderr of a guest
//	serval.go        the host module serval
//	format.go        what a file is that is no module
//	modules.go       the modules that the process has used
//	run.go           one run
//	process.go       the process that runs guests
//	compile.go       the process that compiles a module
//	start.go         the initialization of the package
//
// Not for: which guest may do what, blobs, time-outs (package wasi).
package guest
