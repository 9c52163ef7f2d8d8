// Package filelock locks files and directories, so that one process at a time uses them. The locks are those of the kernel:
// they end with the process, also when it is killed, and leave no file. They are advisory: a program that does not call Lock
// can still read and write the file.
//
// Not for: waiting for a lock; goroutines that share one open file.
package filelock
