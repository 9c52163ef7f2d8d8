package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/daybookq/daybook/client/fileset"
	"github.com/daybookq/daybook/client/fileset/directory"
	"github.com/daybookq/daybook/client/problem"
)

const (
	// From manyFiles missing files on, Push sends one archive, if at least half of all bytes are missing. The
	// server stores the files of an archive together, which takes a fraction of the time of separate requests.
	manyFiles = 64
	// archiveTries is how often an archive is sent if connections break.
	archiveTries = 3
)

// Moved counts the files and bytes that a push or a pull has transferred, and those that were there already.
type Moved = directory.Moved

// Push stores the files of a directory that the patterns select as a version of a fileset. It sends only the files
// that the server does not have. Symbolic links, devices and other special files are errors unless the patterns
// exclude them. If a file changes during the push, Push returns directory.ErrChanged and stores no version. If the
// condition only does not hold, it returns problem.ErrVersionDiffers and stores no version.
func (s *Filesets) Push(ctx context.Context, name, dir string, patterns []string, only ...IfVersion) (f Fileset, moved Moved, err error) {
	selected, err := fileset.ParsePatterns(patterns)
	if err != nil {
		return f, moved, fmt.Errorf("%w: %w", problem.ErrBadRequest, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return f, moved, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	tree, err := directory.Scan(ctx, root, selected, directory.Options{})
	if err != nil {
		return f, moved, err
	}
	to := &blobTransfer{s.blobs()}
	missing, err := directory.MissingFiles(ctx, to, tree.Manifest)
	if err != nil {
		return f, moved, err
	}
	bytes := int64(0)
	for _, file := range missing {
		bytes += file.Size
	}
	if len(missing) >= manyFiles && 2*bytes >= tree.Bytes() {
		f, err = s.pushArchive(ctx, name, root, tree, only)
		return f, Moved{Files: len(tree.Files), Bytes: tree.Bytes()}, err
	}
	if moved, err = directory.Push(ctx, to, root, tree.Manifest, directory.Options{}); err != nil {
		return f, moved, err
	}
	if err := tree.Unchanged(ctx, root); err != nil {
		return f, moved, err
	}
	f, err = s.PutManifest(ctx, name, tree.Manifest, only...)
	return f, moved, err
}

// pushArchive sends all files of a tree as an archive.
func (s *Filesets) pushArchive(ctx context.Context, name string, root *os.Root, tree *directory.Tree, only []IfVersion) (f Fileset, err error) {
	text, err := tree.Encode()
	if err != nil {
		return f, err
	}
	for try := 1; ; try++ {
		r, w := io.Pipe()
		written := make(chan error, 1)
		go func() {
			err := directory.WriteArchive(ctx, w, root, tree)
			w.CloseWithError(err) // with an error the body of the request stays without an end, so the server stores nothing
			written <- err
		}()
		f, err = s.Put(ctx, name, r, only...)
		r.CloseWithError(errors.New("the archive was not read to its end"))
		switch writeErr := <-written; {
		case errors.Is(writeErr, directory.ErrChanged):
			return f, writeErr
		case err == nil && f.Manifest != fileset.AddressOf(text).String():
			return f, fmt.Errorf("%w: the server has stored the manifest %s, and %s was sent", problem.ErrUnexpectedAnswer, f.Manifest, fileset.AddressOf(text))
		case err == nil, ctx.Err() != nil, try == archiveTries, !errors.Is(err, problem.ErrUnavailable) && !errors.Is(err, problem.ErrUnknown):
			return f, err
		}
	}
}

// Pull writes the selected files of a fileset into a directory, which it creates if there is none. It fetches
// only the files that are not there with the right content. It leaves other files alone. It replaces no links, and
// writes nothing outside of the directory: see package directory. It returns the number of the version.
func (s *Filesets) Pull(ctx context.Context, name, dir string, q FilesetQuery) (version int, moved Moved, err error) {
	m, version, err := s.Manifest(ctx, name, q)
	if err != nil {
		return 0, moved, err
	}
	moved, err = s.PullManifest(ctx, m, dir)
	return version, moved, err
}

// PullManifest is Pull for a manifest that the caller has, for example after a look at its size.
func (s *Filesets) PullManifest(ctx context.Context, m *fileset.Manifest, dir string) (moved Moved, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return moved, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return moved, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	return directory.Pull(ctx, &blobTransfer{s.blobs()}, root, m, directory.Options{})
}

// blobTransfer moves the blobs of filesets.
type blobTransfer struct{ blobs *Blobs }

func (t *blobTransfer) CopyBlob(ctx context.Context, a fileset.Address, w io.Writer) (err error) {
	b, err := t.blobs.Open(ctx, a.String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	_, err = io.Copy(w, b)
	return err
}

func (t *blobTransfer) Missing(ctx context.Context, all []fileset.Address) ([]fileset.Address, error) {
	texts := make([]string, len(all))
	for i, a := range all {
		texts[i] = a.String()
	}
	missing, err := t.blobs.Missing(ctx, texts)
	if err != nil {
		return nil, err
	}
	list := make([]fileset.Address, len(missing))
	for i, text := range missing {
		if list[i], err = fileset.ParseAddress(text); err != nil {
			return nil, fmt.Errorf("%w: %w", problem.ErrUnexpectedAnswer, err)
		}
	}
	return list, nil
}

func (t *blobTransfer) StoreBlob(ctx context.Context, a fileset.Address, _ int64, r io.ReadSeeker) error {
	b, err := t.blobs.Put(ctx, r)
	if err == nil && b.Address != a.String() {
		err = fmt.Errorf("%w: it has the digest %s, and had %s", directory.ErrChanged, b.Address, a)
	}
	return err
}
