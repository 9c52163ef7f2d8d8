package archive

import (
	"archive/tar"
	"fmt"
	"strings"

	"github.com/daybookq/daybook/client/fileset"
)

// entryKind is the meaning of an archive entry for a fileset.
type entryKind int

const (
	ignored entryKind = iota
	regularFile
	directory
)

// refusedTypes has the reasons why entry types are refused.
var refusedTypes = map[byte]string{
	tar.TypeLink:      "is a hard link; write the archive with --hard-dereference",
	tar.TypeSymlink:   "is a symbolic link; write the archive with --dereference, or exclude it",
	tar.TypeChar:      "is a device",
	tar.TypeBlock:     "is a device",
	tar.TypeFifo:      "is a named pipe",
	tar.TypeGNUSparse: "is a sparse file; write the archive without --sparse",
}

// entry returns the meaning of an archive entry, and its path in the fileset.
func entry(h *tar.Header) (path string, kind entryKind, err error) {
	switch h.Typeflag {
	case tar.TypeXGlobalHeader:
		return "", ignored, nil
	case tar.TypeReg, tar.TypeDir:
	default:
		why := refusedTypes[h.Typeflag]
		if why == "" {
			why = fmt.Sprintf("has the type %q, which filesets do not have", h.Typeflag)
		}
		return "", ignored, fmt.Errorf("%w: %.200q %s", ErrArchive, h.Name, why)
	}
	for name := range h.PAXRecords {
		if strings.HasPrefix(name, "GNU.sparse.") {
			return "", ignored, fmt.Errorf("%w: %.200q %s", ErrArchive, h.Name, refusedTypes[tar.TypeGNUSparse])
		}
	}
	path = h.Name
	for strings.HasPrefix(path, "./") {
		path = path[len("./"):]
	}
	kind = regularFile
	if h.Typeflag == tar.TypeDir {
		kind = directory
		path = strings.TrimSuffix(path, "/")
		if path == "" || path == "." { // the top directory
			if h.Name == "" || h.Name[0] == '/' {
				return "", ignored, fmt.Errorf("%w: %w: %q is absolute or empty", ErrArchive, fileset.ErrPath, h.Name)
			}
			return "", ignored, nil
		}
	}
	if err := fileset.CheckPath(path); err != nil {
		return "", ignored, fmt.Errorf("%w: %w", ErrArchive, err)
	}
	return path, kind, nil
}
