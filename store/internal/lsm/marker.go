package lsm

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// markerFS is a file system that syncs a directory before each change of a marker file in it. Pebble names its manifest
// by an empty file, the marker. It creates the manifest and then the new marker, removes the old marker, and syncs the
// directory once for all three. Some file systems do not keep the order of changes to a directory. There, a power cut
// before that sync may leave a marker without its manifest, or no marker, and the next open would fail.
type markerFS struct{ vfs.FS }

const markerPrefix = "marker."

func (o markerFS) syncBefore(name string) (err error) {
	if !strings.HasPrefix(o.PathBase(name), markerPrefix) {
		return nil
	}
	d, err := o.OpenDir(o.PathDir(name))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Create creates a file.
func (o markerFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := o.syncBefore(name); err != nil {
		return nil, err
	}
	return o.FS.Create(name, category)
}

// Remove removes a file.
func (o markerFS) Remove(name string) error {
	if err := o.syncBefore(name); err != nil {
		return err
	}
	return o.FS.Remove(name)
}

// checkMarker refuses a directory that has tables but no marker of a manifest. Pebble would take it for a new database,
// and remove the tables. A manifest without a marker is fine: an interrupted first open leaves one.
func checkMarker(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return nil // there is no directory yet, or Pebble reports why it cannot be read
	}
	tables, marker := "", false
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			tables = name
		}
		marker = marker || strings.HasPrefix(name, markerPrefix+"manifest.")
	}
	if tables != "" && !marker {
		return fmt.Errorf("it holds %s, and no file %smanifest.* that says which manifest is in force", tables, markerPrefix)
	}
	return nil
}

// tornManifest describes where the manifest in force becomes unreadable. It returns "" if all of it can be read, or if
// there is none.
func tornManifest(files vfs.FS, dir string) string {
	desc, err := pebble.Peek(dir, files)
	if err != nil || !desc.Exists {
		return ""
	}
	f, err := files.Open(desc.ManifestFilename)
	if err != nil {
		return ""
	}
	defer f.Close()
	for r := record.NewReader(f, 0); ; {
		at := r.Offset()
		one, err := r.Next()
		if err == nil {
			_, err = io.Copy(io.Discard, one)
		} else if err == io.EOF {
			return ""
		}
		if err != nil {
			return fmt.Sprintf("its manifest, file %s, cannot be read from offset %d on (%v)", desc.ManifestFilename, at, err)
		}
	}
}
