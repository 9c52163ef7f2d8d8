// Package helper is the process between a runner and a program in a sandbox: on Linux, package sandbox starts its own
// binary again as the helper, which restricts itself, starts the program and stays until the program has ended.
//
// The helper runs in the initialization of this package, and never reaches main. The package imports nothing but
// syscall, so that Go initializes it before nearly all others: the start of the helper then costs the start of the Go
// runtime, not that of a large program. It is the helper if its environment has a certain variable. The program gets
// another environment, without that variable.
//
// The files, each of which uses only those before it:
//
//	settings.go  Settings, what the helper shall do, and their form as bytes
//	message.go   what the helper reports: that the program runs, that it could not be started, how it ended
//	channel.go   how both ends exchange bytes; the bytes that are requests
//	restrict.go  /proc of its own, limits, capabilities, landlock, seccomp
//	sweep.go     ends what the program has left behind, where no PID namespace does so
//	helper.go    the life of the helper
//
// Not for: what a program may do (package sandbox).
package helper
