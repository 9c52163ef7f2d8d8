package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// files is how the file descriptors that the process may have are divided. Without that, connections take those that
// the journal needs for its next segment.
type files struct {
	limit       uint64
	store       int // about what Pebble keeps open
	connections int // that may be open at once
}

const (
	// otherFiles are for the journal, Pebble's compactions, locks, directories, listeners, profiles and the log.
	otherFiles = 64
	// minStoreFiles is the least that Pebble takes; with maxStoreFiles a store of 2 TB has all its files open.
	minStoreFiles = 80
	maxStoreFiles = 1000
	// With fewer connections there is not much to serve; more take memory that nobody has: 18 KB each.
	minConnections = 32
	maxConnections = 16384
)

// openFiles divides the limit of this process, which Go's runtime has raised to the hard one.
func openFiles() (files, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return files{}, fmt.Errorf("read the limit of open files: %w", err)
	}
	return divideFiles(limit.Cur)
}

func divideFiles(limit uint64) (files, error) {
	const least = otherFiles + minStoreFiles + minConnections
	if limit < least {
		return files{}, fmt.Errorf("this process may open %d files, and needs %d at least: raise the limit, for example with `ulimit -n 1024`, or LimitNOFILE= in a systemd unit", limit, least)
	}
	rest := int(min(limit-otherFiles, maxStoreFiles+maxConnections))
	f := files{limit: limit, store: max(minStoreFiles, min(rest/2, maxStoreFiles))}
	f.connections = min(rest-f.store, maxConnections)
	return f, nil
}
