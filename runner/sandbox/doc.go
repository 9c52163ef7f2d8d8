// Package sandbox starts processes so that nothing of them outlives their run, and so that they reach only the files
// that they need.
//
// On Linux, Start starts the runner's own binary again as a helper (package helper), which restricts itself and starts
// the program. Kill, the end of the program and the end of the runner each end the whole tree: all processes that the
// program has started, whatever they have done to leave it. The ways to end the tree, in the order in which New tries
// them by starting a process:
//
//	namespace  a PID namespace, in a user namespace if the runner is not root. The helper is process 1 of it, and the
//	           kernel ends the others with it. Cannot be left.
//	cgroup     a cgroup v2, emptied by cgroup.kill. Its processes cannot leave it unless they are root.
//	subreaper  the helper inherits all processes whose parents have ended, and finds them in /proc. A process with the
//	           same user can end the helper, and thereby outlive it.
//
// On all of them: landlock for files, a seccomp filter that refuses sockets, resource limits, no-new-privs, a
// session of its own, and for root a small set of capabilities. Where New finds something missing, Missing says so in plain sentences, and the rest is done.
//
// On other systems, and with mode Off, a process group is all there is.
//
// The files, each of which uses only those before it:
//
//	sandbox.go             Mode, Sandbox, Command, Limits, Access
//	grants.go              Grants: variables and access that a runner's configuration gives; the PATH of processes
//	exit.go                Exit: how a process ended, and what it used
//	process.go             Process: Wait, Kill, Terminate
//	resident.go            the memory of a process and what it started
//	plain.go               starts a process in a group of its own, and nothing else
//	plain_linux.go         on Linux, it also ends with the runner
//	plain_unix.go          process groups of other Unix systems
//	plain_windows.go       on Windows, only the program itself is ended
//	starter_linux.go       the thread that starts all processes
//	lookup_linux.go        finds a program's file
//	landlock_linux.go      rulesets: which files a program reaches
//	seccomp_linux.go       a filter that refuses the network and Unix sockets
//	cgroup_linux.go       cgroups: the tree of a process, and its memory
//	start_linux.go         starts the helper
//	probe_linux.go         New: finds out what the machine can do
//	probe_other.go         New on other systems
//
// Not for: what runs, and what its output means (packages program, script).
package sandbox
