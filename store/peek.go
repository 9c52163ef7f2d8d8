package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Peeked is what a store on disk says of itself.
type Peeked struct {
	Journal string // UUID of the journal it was made from; "" when there is no store yet
	Applied uint64 // its cursor
	Torn    string // where its manifest ends in what cannot be read; "" when it does not. What the store says may be old then
}

// Peek reads how far the store in dir has come, and changes nothing.
//
// Pebble opens a store whose manifest breaks off as what it was up to there, as a power cut may leave it; and as soon as it is open for
// writing it removes all tables that this older state does not name. With a journal that reaches back to it, nothing is lost: they are made
// again. With one that does not, they were the only copy. So whoever opens a store compares its cursor with the journal first, and this
// is how.
func Peek(dir string, o Options) (p Peeked, err error) {
	defer catch(&err)
	files := cmp.Or(o.FS, vfs.Default)
	if _, err := files.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err := checkMark(files, dir); err != nil {
		return p, openError(files, dir, err)
	}
	p.Torn = tornManifest(files, dir)
	db, err := pebble.Open(dir, &pebble.Options{
		FS: files, ReadOnly: true, ErrorIfNotExists: true, DisableWAL: true, FormatMajorVersion: pebble.FormatNewest,
		CacheSize: 1 << 20, Logger: logger{o.Logf, o.Fatalf},
		EventListener: &pebble.EventListener{DataCorruption: func(pebble.DataCorruptionInfo) {}}, // by default it ends the process
	})
	if errors.Is(err, pebble.ErrDBDoesNotExist) {
		return p, nil
	} else if err != nil {
		return p, openError(files, dir, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	value, closer, err := db.Get([]byte(metaKey))
	if errors.Is(err, pebble.ErrNotFound) {
		return p, nil
	}
	fail("read", err)
	m := decodeMeta(append([]byte{}, value...))
	if err := closer.Close(); err != nil {
		return p, err
	}
	p.Journal, p.Applied = m.journal, m.cursor
	return p, m.known()
}

// tornManifest says where the manifest in force ends in what cannot be read; "" when it does not, or is not found.
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
