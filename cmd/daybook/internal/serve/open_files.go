package serve

import (
	"fmt"

	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/opsqueue"
)

// descriptors divides the file descriptors of the process. Otherwise connections could take the descriptors that the journal
// needs for its next segment.
type descriptors struct {
	limit       uint64
	store       int // about as many as Pebble keeps open
	connections int // how many connections may be open
	blobs       int // how many files may be open for blobs
	opsqueue    int // how many connections clients of Opsqueue may have open
}

// shareWithOpsqueue gives half of the connections to clients of Opsqueue.
func (f *descriptors) shareWithOpsqueue() {
	f.opsqueue = min(f.connections/2, opsqueue.DefaultMaxConnections)
	f.connections -= f.opsqueue
}

const (
	// otherFiles are reserved for the journal, Pebble's compactions, locks, directories, listeners, profiles and the
	// log.
	otherFiles = 64
	// minStoreFiles is the least that Pebble needs. With maxStoreFiles, all files of a store of 2 TB are open.
	minStoreFiles = 80
	maxStoreFiles = 1000
	// minBlobFiles is the least that blobs need. With maxBlobFiles, as many uploads and downloads run in parallel as
	// fit in memory. Batches wait for each other if there are many.
	minBlobFiles = blob.MinFiles
	maxBlobFiles = 512
	// A server with fewer than minConnections is of little use. Each connection takes 18 KB of memory.
	minConnections = 32
	maxConnections = 16384
)

// openFiles divides the limit of this process. The Go runtime has raised it to the hard limit.
func openFiles() (descriptors, error) {
	limit, err := fileLimit()
	if err != nil {
		return descriptors{}, fmt.Errorf("read the limit of open files: %w", err)
	}
	return divideFiles(limit)
}

func divideFiles(limit uint64) (descriptors, error) {
	const least = otherFiles + minStoreFiles + minBlobFiles + minConnections
	if limit < least {
		return descriptors{}, fmt.Errorf("this process may open %d files and needs at least %d; raise the limit, for example with `ulimit -n 1024`, or with LimitNOFILE= in a systemd unit", limit, least)
	}
	rest := int(min(limit-otherFiles, maxStoreFiles+maxBlobFiles+maxConnections))
	f := descriptors{limit: limit, blobs: max(minBlobFiles, min(rest/8, maxBlobFiles))}
	rest -= f.blobs
	f.store = max(minStoreFiles, min(rest/2, maxStoreFiles))
	f.connections = min(rest-f.store, maxConnections)
	return f, nil
}
