// Package disk has what several kinds of handlers do with directories of this machine: they look how much is free, and
// remove trees that the code of jobs has written.
//
// # Files
//
//	free_unix.go   Free
//	free_other.go  on other systems, it is unknown
//	tree.go        RemoveTree
//
// Not for: locks of directories (package filelock), the data directories of the server (packages journal, blob).
package disk
