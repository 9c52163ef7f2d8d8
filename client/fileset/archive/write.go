package archive

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/daybookq/daybook/client/fileset"
)

// written is the time of all entries that Write writes, so that equal trees have equal archives. It is also the earliest
// time of zip archives; tar warns about the time 0.
var written = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// Write writes a tar archive with the files and empty directories of a manifest. copyFile writes the content of a file to
// w; it must write exactly the file's size. If Write fails, the archive is incomplete, and the caller must not let the
// output look complete to its reader.
func Write(ctx context.Context, w io.Writer, m *fileset.Manifest, copyFile func(w io.Writer, f *fileset.File) error) error {
	t := tar.NewWriter(w)
	for _, path := range m.EmptyDirectories {
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: path + "/", Mode: 0o755, ModTime: written}); err != nil {
			return fmt.Errorf("write directory %q: %w", path, err)
		}
	}
	for i := range m.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		f := &m.Files[i]
		mode := int64(0o644)
		if f.Executable {
			mode = 0o755
		}
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.Path, Mode: mode, Size: f.Size, ModTime: written}); err != nil {
			return fmt.Errorf("write file %q: %w", f.Path, err)
		}
		if err := copyFile(t, f); err != nil {
			return fmt.Errorf("write file %q: %w", f.Path, err)
		}
	}
	return t.Close() // fails if the last file was too short
}
