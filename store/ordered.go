package store

import (
	"errors"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ordered is a file system on which a mark never outlives what it points to. Pebble names its manifest by an empty file, the mark: it makes
// the manifest, then the new mark, removes the old mark, and syncs the directory once for all three. A power cut before that may keep any
// of them on a file system that does not keep the order of changes to a directory: a mark without its manifest, or no mark at all, and
// the next start would be refused. Here the directory is synced before each change of a mark.
type ordered struct{ vfs.FS }

const markPrefix = "marker."

func (o ordered) settle(name string) (err error) {
	if !strings.HasPrefix(o.PathBase(name), markPrefix) {
		return nil
	}
	d, err := o.OpenDir(o.PathDir(name))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Create makes a file.
func (o ordered) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := o.settle(name); err != nil {
		return nil, err
	}
	return o.FS.Create(name, category)
}

// Remove removes a file.
func (o ordered) Remove(name string) error {
	if err := o.settle(name); err != nil {
		return err
	}
	return o.FS.Remove(name)
}
