// Package disk has operations on directories that several kinds of handlers share: it reports the free space of a disk,
// and removes trees that jobs' code has written.
//
// Not for: locks of directories (package filelock), the server's data directories (packages journal, blob).
package disk
