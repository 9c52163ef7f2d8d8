package crash

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/daybookq/daybook/client"
)

// This file has the steps of an errand that concern its fileset.

// putFileset stores a version of the user's fileset. A repeat after a lost answer finds the same version.
func (e *errands) putFileset() step {
	e.trees++
	content := fmt.Sprintf("%s %d", e.name, e.trees)
	return step{"store a fileset", func(ctx context.Context) error {
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		for _, path := range []string{"a", "d/b"} {
			if err := w.WriteHeader(&tar.Header{Name: path, Size: int64(len(content)), Mode: 0o644}); err != nil {
				return err
			}
			if _, err := io.WriteString(w, content); err != nil {
				return err
			}
		}
		if err := w.Close(); err != nil {
			return err
		}
		f, err := e.c.PutFileset(ctx, ownClient, e.name, bytes.NewReader(archive.Bytes()))
		if err != nil {
			return err
		}
		if f.Version != e.fileset.Version+1 || !f.Newest || f.Files != 2 {
			return impossiblef("after version %d, a fileset is stored as %+v", e.fileset.Version, f)
		}
		e.fileset, e.tree = f, content
		return nil
	}}
}

// readFileset reads the fileset and its files, which must be the ones that were stored last.
func (e *errands) readFileset() step {
	return step{"read the fileset", func(ctx context.Context) error {
		r, err := e.c.FilesetTar(ctx, ownClient, e.name, client.FilesetQuery{})
		switch {
		case errors.Is(err, client.ErrNotFound) && e.fileset.Version == 0:
			return nil
		case errors.Is(err, client.ErrNotFound):
			return impossiblef("fileset %s, version %d, no longer exists", e.fileset.ID, e.fileset.Version)
		case err != nil:
			return err
		}
		defer r.Close()
		files := 0
		for t := tar.NewReader(r); ; files++ {
			_, err := t.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return err
			}
			got, err := io.ReadAll(t)
			if err != nil {
				return err
			}
			if string(got) != e.tree {
				return impossiblef("fileset %+v reads as %q, and %q was stored", e.fileset, got, e.tree)
			}
		}
		if files != 2 || e.fileset.Version == 0 {
			return impossiblef("fileset %+v reads as %d files", e.fileset, files)
		}
		return nil
	}}
}

// deleteFileset deletes the fileset.
func (e *errands) deleteFileset() step {
	return e.removes("delete the fileset", func(ctx context.Context) error { return e.once.DeleteFileset(ctx, ownClient, e.name) },
		func() bool { return false }, func() { e.fileset = client.Fileset{} })
}
