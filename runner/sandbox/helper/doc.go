// Package helper is the process between a runner and a program in a sandbox. On Linux, package sandbox starts its own
// binary again as the helper. The helper restricts itself, starts the program and stays until the program has ended.
//
// The helper runs while this package is initialized, and never reaches main. The package imports only syscall, so that
// Go initializes it before nearly all other packages. Starting the helper therefore costs the start of the Go runtime,
// not of a large program. A process is the helper if its environment contains Variable. The program gets another
// environment, without that variable.
//
// Not for: deciding what a program may do (package sandbox).
package helper
