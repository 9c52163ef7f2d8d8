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
// Not for: the program itself, and the meaning of its output (packages program, script).
package sandbox
