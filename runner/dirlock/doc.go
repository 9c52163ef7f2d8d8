// Package dirlock locks directories. A process locks the directory in which it has its files. When it ends, also by SIGKILL,
// the system unlocks the directory, so that another process knows that the files are abandoned.
//
// # Files
//
//	errors.go      ErrLocked
//	lock_unix.go   Lock
//	lock_other.go  on other systems, there are no locks
//
// Not for: the data directories of the server (packages journal, blob), which have lock files.
package dirlock
