package directory

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/daybookq/daybook/client/fileset"
	"github.com/daybookq/daybook/client/fileset/archive"
)

// WriteArchive writes the files of a tree as a tar archive. If most files are missing, one archive takes the server less
// time than a request per file. The error wraps ErrChanged if a file has changed since the Scan. The archive then lacks
// its end, and w must not be closed as if it were complete.
func WriteArchive(ctx context.Context, w io.Writer, root *os.Root, t *Tree) error {
	err := archive.Write(ctx, w, t.Manifest, func(w io.Writer, f *fileset.File) (err error) {
		in, err := openUnchanged(root, f)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, in.Close()) }()
		_, err = io.Copy(w, in)
		return err
	})
	if err != nil {
		return err
	}
	return t.Unchanged(ctx, root)
}
