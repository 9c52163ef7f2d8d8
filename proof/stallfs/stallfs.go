// Package stallfs is a disk in memory on which a store stalls, to test the server while Pebble blocks all commits.
package stallfs

import (
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// MemtableBytes is a size of memtables at which a store stalls after a few hundred commits.
const MemtableBytes = 64 << 10

// New returns a disk on which the creation of a table blocks until the gate is closed. Pebble blocks all commits when its
// memtables are full and it cannot write them.
func New(gate <-chan struct{}) vfs.FS {
	return errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && filepath.Ext(op.Path) == ".sst" {
			<-gate
		}
		return nil
	}))
}
