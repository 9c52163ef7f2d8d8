// Package disk has operations on directories that several kinds of handlers share: it reports the free space of a disk,
// and removes trees that jobs' code has written.
//
// # Files
//
//	free_unix.go   Free and Total
//	free_other.go  the same on other systems, where they are not supported
//	tree.go        RemoveTree
//
// Not for: locks of directories (package filelock), the server's data directories (packages journal, blob).
package disk
