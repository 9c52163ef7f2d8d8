// Package filelock locks files and directories, so that one process at a time uses them. The locks are those of the kernel:
// they end with the process, also when it is killed, and leave no file. Only those who ask for a lock heed it: others can
// still read and write.
//
// # Files
//
//	filelock.go      Open, ErrLocked
//	lock_unix.go     Lock and Unlock by flock
//	lock_windows.go  by LockFileEx, for files only
//	lock_other.go    on other systems, there are no locks
package filelock
