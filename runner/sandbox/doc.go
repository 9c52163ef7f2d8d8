// Package sandbox starts processes that cannot outlive their run and that reach only the files that they need.
//
// On Linux, Start runs the runner's own binary again as a helper (package helper), which restricts itself and then
// starts the program. Kill, the end of the program and the end of the runner each end the whole tree: the program and
// all its descendants, whatever they have done to leave it. There are three ways to end a tree. New tries them in this
// order, by starting a process:
//
//	namespace  a PID namespace, in a user namespace if the runner is not root. The helper is its process 1, and when
//	           the helper ends, the kernel ends all other processes in it. No process can leave it.
//	cgroup     a cgroup v2, emptied by cgroup.kill. Only root processes can leave it.
//	subreaper  the helper inherits all processes whose parents have ended, and finds them in /proc. A process of the
//	           same user can kill the helper, and then outlives it.
//
// In all three, processes are restricted by landlock for files, a seccomp filter that refuses sockets, resource limits,
// no-new-privs, a separate session and, for root, a small set of capabilities. If the machine lacks a feature, New
// continues without it, and Missing lists it.
//
// On other systems, and with mode Off, a tree is only a process group.
//
// The files, each of which uses only those before it:
//
//	sandbox.go             Mode, Sandbox, Command, Limits, Access
//	grants.go              Grants: variables and access that a runner's configuration grants; the PATH of processes
//	exit.go                Exit: the status and resource usage of a process that has ended
//	process.go             Process: Wait, Kill, Terminate
//	resident.go            the memory of a process and its descendants
//	plain.go               starts a process in a new group, without the helper
//	plain_linux.go         process groups on Linux, which also end with the runner
//	plain_unix.go          process groups on other Unix systems
//	plain_windows.go       Windows, where only the program itself is ended
//	starter_linux.go       the thread that starts all processes
//	lookup_linux.go        finds a program's file
//	landlock_linux.go      rulesets: the files that a program may reach
//	seccomp_linux.go       a filter that refuses the network and Unix sockets
//	cgroup_linux.go        cgroups: a process's tree, and its memory
//	start_linux.go         starts the helper
//	probe_linux.go         New: probes the machine
//	probe_other.go         New on other systems
//
// Not for: the program itself, and the meaning of its output (packages program, script).
package sandbox
