package archive

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/daybookq/daybook/client/fileset"
)

const (
	// smallFileBytes is the size up to which a file is read into memory, so that the next can be read while it is stored.
	smallFileBytes = 128 << 10
	// workers is the number of small files that are stored while the next is read. In a directory of one file system,
	// more workers wait for each other: four took twice the processor time of one, and were not faster.
	workers = 1
	// readBytes is the size of one read from the stream, because archive/tar reads headers in blocks of 512 bytes.
	readBytes = 64 << 10
	// entryBytes is the least length of a file or directory in the text of a manifest, without its path.
	entryBytes = 100
)

// Batch stores contents. Add returns the address of the stored content. It is called concurrently. The contents need not
// be visible before the owner of the Batch publishes them.
type Batch interface {
	Add(ctx context.Context, r io.Reader) (fileset.Address, error)
}

// Read stores the files of a tar archive, and returns their manifest, which Encode accepts. For a refused archive, the
// error wraps ErrArchive, fileset.ErrPath or fileset.ErrTooLarge. Errors of r, of ctx and of the Batch are passed on.
// After an error, the caller must discard the Batch.
func Read(ctx context.Context, r io.Reader, b Batch) (*fileset.Manifest, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	from := &stream{r: bufio.NewReaderSize(r, readBytes)}
	a := &reader{
		ctx: ctx, from: from, tar: tar.NewReader(from), batch: b, cancel: cancel,
		dirs: map[string]struct{}{}, small: make(chan smallFile),
	}
	for range workers {
		a.working.Go(a.storeSmall)
	}
	err := a.entries()
	close(a.small)
	a.working.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause // the first error of a worker, or the cause of the caller's context
	}
	if err != nil {
		return nil, err
	}
	a.findEmpty()
	if _, err := a.m.Encode(); err != nil {
		return nil, err
	}
	return &a.m, nil
}

// reader is an archive that is being read.
type reader struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	from   *stream
	tar    *tar.Reader
	batch  Batch
	dirs   map[string]struct{} // directories that have an entry
	files  int
	text   int // least length of the manifest's text

	small   chan smallFile
	working sync.WaitGroup
	mu      sync.Mutex // guards m
	m       fileset.Manifest
}

// smallFile is a file whose content is in memory.
type smallFile struct {
	file    fileset.File
	content *[]byte
}

var contents = sync.Pool{New: func() any {
	b := make([]byte, 0, smallFileBytes)
	return &b
}}

// entries reads all entries, and the end of the archive.
func (a *reader) entries() error {
	for {
		h, err := a.tar.Next()
		if err == io.EOF {
			return a.from.end()
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) { // entry has a stricter rule
			return a.broken("a header", err)
		}
		path, kind, err := entry(h)
		if err != nil {
			return err
		}
		switch kind {
		case directory:
			err = a.addDirectory(path)
		case regularFile:
			err = a.addFile(path, h)
		}
		if err != nil {
			return err
		}
	}
}

// broken returns the error for a part of the archive that cannot be read.
func (a *reader) broken(part string, err error) error {
	if a.from.err != nil {
		return a.from.err
	}
	if err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: it ends within %s", ErrArchive, part)
	}
	return fmt.Errorf("%w: %s cannot be read: %w", ErrArchive, part, err)
}

// room counts an entry of the manifest, and fails if there are too many.
func (a *reader) room(path string) error {
	if a.text += entryBytes + len(path); a.text > fileset.MaxManifestBytes {
		return fmt.Errorf("%w: the manifest would have more than %d bytes", fileset.ErrTooLarge, fileset.MaxManifestBytes)
	}
	return nil
}

func (a *reader) addDirectory(path string) error {
	if _, ok := a.dirs[path]; ok {
		return nil // tar repeats a directory that is named twice
	}
	if len(a.dirs) == fileset.MaxDirectories {
		return fmt.Errorf("%w: it has more than %d directories", fileset.ErrTooLarge, fileset.MaxDirectories)
	}
	a.dirs[path] = struct{}{}
	return a.room(path)
}

// addFile stores the content of a file. It adds the file to the manifest, or a worker does so soon.
func (a *reader) addFile(path string, h *tar.Header) error {
	if h.Size > fileset.MaxFileBytes {
		return fmt.Errorf("%w: %.200q has %d bytes; the maximum is %d", fileset.ErrTooLarge, path, h.Size, int64(fileset.MaxFileBytes))
	}
	if err := a.room(path); err != nil {
		return err
	}
	if a.files++; a.files > fileset.MaxFiles {
		return fmt.Errorf("%w: it has more than %d files", fileset.ErrTooLarge, fileset.MaxFiles)
	}
	file := fileset.File{Path: path, Size: h.Size, Executable: h.Mode&0o111 != 0}
	a.from.begin()
	defer a.from.finish()
	if h.Size <= smallFileBytes {
		content := contents.Get().(*[]byte)
		*content = (*content)[:h.Size]
		if _, err := io.ReadFull(a.tar, *content); err != nil {
			contents.Put(content)
			return a.broken(fmt.Sprintf("the file %.200q", path), err)
		}
		select {
		case a.small <- smallFile{file, content}:
			return nil
		case <-a.ctx.Done():
			contents.Put(content)
			return a.ctx.Err()
		}
	}
	in := &content{r: a.tar}
	var err error
	file.Blob, err = a.batch.Add(a.ctx, in)
	if in.err != nil {
		return a.broken(fmt.Sprintf("the file %.200q", path), in.err)
	}
	if err != nil {
		return err
	}
	if in.n != h.Size {
		return fmt.Errorf("store %.200q: %d of %d bytes were stored", path, in.n, h.Size)
	}
	a.keep(file)
	return nil
}

// storeSmall stores small files.
func (a *reader) storeSmall() {
	for s := range a.small {
		if a.ctx.Err() == nil {
			var err error
			if s.file.Blob, err = a.batch.Add(a.ctx, bytes.NewReader(*s.content)); err != nil {
				a.cancel(err)
			}
			a.keep(s.file)
		}
		contents.Put(s.content)
	}
}

func (a *reader) keep(file fileset.File) {
	a.mu.Lock()
	a.m.Files = append(a.m.Files, file)
	a.mu.Unlock()
}

// findEmpty adds the directories that have no entries to the manifest.
func (a *reader) findEmpty() {
	full := map[string]struct{}{}
	fill := func(path string) {
		for dir := fileset.Parent(path); dir != ""; dir = fileset.Parent(dir) {
			if _, ok := full[dir]; ok {
				return
			}
			full[dir] = struct{}{}
		}
	}
	for i := range a.m.Files {
		fill(a.m.Files[i].Path)
	}
	for path := range a.dirs {
		fill(path)
	}
	for path := range a.dirs {
		if _, ok := full[path]; !ok {
			a.m.EmptyDirectories = append(a.m.EmptyDirectories, path)
		}
	}
}

// content is the content of a file. It keeps the error of reading the content, and counts its bytes.
type content struct {
	r   io.Reader
	n   int64
	err error
}

func (c *content) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}
