package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/daybookq/daybook/client/fileset"
	"github.com/daybookq/daybook/client/fileset/directory"
)

const (
	// From manyFiles missing files on, PushFileset sends one archive, if at least half of all bytes are missing. The
	// server stores the files of an archive together, which takes a fraction of the time of separate requests.
	manyFiles = 64
	// archiveTries is how often an archive is sent if connections break.
	archiveTries = 3
)

// Moved counts the files and bytes that a push or a pull has transferred, and those that were there already.
type Moved = directory.Moved

// PushFileset stores the files of a directory that the patterns select as a version of a fileset. It sends only the
// files that the server does not have. Symbolic links, devices and other special files are errors unless the patterns
// exclude them. If a file changes during the push, PushFileset returns directory.ErrChanged and stores no version.
func (c *Client) PushFileset(ctx context.Context, client, name, dir string, patterns []string) (f Fileset, moved Moved, err error) {
	selected, err := fileset.ParsePatterns(patterns)
	if err != nil {
		return f, moved, fmt.Errorf("%w: %w", ErrBadRequest, err)
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
	to := &blobTransfer{c, client}
	missing, err := directory.MissingFiles(ctx, to, tree.Manifest)
	if err != nil {
		return f, moved, err
	}
	bytes := int64(0)
	for _, file := range missing {
		bytes += file.Size
	}
	if len(missing) >= manyFiles && 2*bytes >= tree.Bytes() {
		f, err = c.pushArchive(ctx, client, name, root, tree)
		return f, Moved{Files: len(tree.Files), Bytes: tree.Bytes()}, err
	}
	if moved, err = directory.Push(ctx, to, root, tree.Manifest, directory.Options{}); err != nil {
		return f, moved, err
	}
	if err := tree.Unchanged(ctx, root); err != nil {
		return f, moved, err
	}
	f, err = c.PutManifest(ctx, client, name, tree.Manifest)
	return f, moved, err
}

// pushArchive sends all files of a tree as an archive.
func (c *Client) pushArchive(ctx context.Context, client, name string, root *os.Root, tree *directory.Tree) (f Fileset, err error) {
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
		f, err = c.PutFileset(ctx, client, name, r)
		r.CloseWithError(errors.New("the archive was not read to its end"))
		switch writeErr := <-written; {
		case errors.Is(writeErr, directory.ErrChanged):
			return f, writeErr
		case err == nil && f.Manifest != fileset.AddressOf(text).String():
			return f, fmt.Errorf("%w: the server has stored the manifest %s, and %s was sent", ErrUnexpectedAnswer, f.Manifest, fileset.AddressOf(text))
		case err == nil, ctx.Err() != nil, try == archiveTries, !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrUnknown):
			return f, err
		}
	}
}

// PullFileset writes the selected files of a fileset into a directory, which it creates if there is none. It fetches
// only the files that are not there with the right content. It leaves other files alone. It replaces no links, and
// writes nothing outside of the directory: see package directory. It returns the number of the version.
func (c *Client) PullFileset(ctx context.Context, client, name, dir string, q FilesetQuery) (version int, moved Moved, err error) {
	m, version, err := c.Fileset(ctx, client, name, q)
	if err != nil {
		return 0, moved, err
	}
	moved, err = c.PullManifest(ctx, client, m, dir)
	return version, moved, err
}

// PullManifest is PullFileset for a manifest that the caller has, for example after a look at its size.
func (c *Client) PullManifest(ctx context.Context, client string, m *fileset.Manifest, dir string) (moved Moved, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return moved, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return moved, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	return directory.Pull(ctx, &blobTransfer{c, client}, root, m, directory.Options{})
}

// blobTransfer moves the blobs of filesets.
type blobTransfer struct {
	c      *Client
	client string
}

func (t *blobTransfer) CopyBlob(ctx context.Context, a fileset.Address, w io.Writer) (err error) {
	b, err := t.c.GetBlob(ctx, t.client, a.String())
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
	missing, err := t.c.MissingBlobs(ctx, t.client, texts)
	if err != nil {
		return nil, err
	}
	list := make([]fileset.Address, len(missing))
	for i, text := range missing {
		if list[i], err = fileset.ParseAddress(text); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnexpectedAnswer, err)
		}
	}
	return list, nil
}

func (t *blobTransfer) StoreBlob(ctx context.Context, a fileset.Address, _ int64, r io.ReadSeeker) error {
	b, err := t.c.PutBlob(ctx, t.client, r)
	if err == nil && b.Address != a.String() {
		err = fmt.Errorf("%w: it has the digest %s, and had %s", directory.ErrChanged, b.Address, a)
	}
	return err
}
