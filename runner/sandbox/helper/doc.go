// Package helper is the process between a runner and a program in a sandbox. On Linux, package sandbox starts its own
// binary again as the helper. The helper restricts itself, starts the program and stays until the program has ended.
//
// The helper runs while this package is initialized, and never reaches main. The package imports only syscall, so that
// Go initializes it before nearly all other packages. Starting the helper therefore costs the start of the Go runtime,
// not of a large program. A process is the helper if its environment contains Variable. The program gets another
// environment, without that variable.
//
// The files, each of which uses only those before it:
//
//	settings.go  Settings of the helper, and their encoding
//	message.go   messages of the helper: the program runs, could not be started, or has ended
//	channel.go   exchanges bytes; the bytes that are requests
//	restrict.go  a separate /proc, limits, capabilities, landlock, seccomp
//	sweep.go     ends the program's descendants if no PID namespace does
//	helper.go    the life of the helper
//
// Not for: deciding what a program may do (package sandbox).
package helper
