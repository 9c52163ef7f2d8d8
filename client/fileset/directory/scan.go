package directory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/daybookq/daybook/client/fileset"
)

// Tree is the result of Scan.
type Tree struct {
	*fileset.Manifest
	seen map[string]state // by path
}

// state shows whether a file was written to.
type state struct {
	size    int64
	written time.Time
}

// Scan returns the files and directories that the patterns select in a directory. It reads all selected files. The error
// wraps ErrNotRegular if the patterns select anything else, which a pattern must then exclude. It wraps ErrChanged if a
// file changes while it is read.
func Scan(ctx context.Context, root *os.Root, patterns fileset.Patterns, o Options) (*Tree, error) {
	s := &scan{ctx: ctx, root: root, patterns: patterns}
	if err := s.directory("."); err != nil {
		return nil, err
	}
	seen := make(map[string]state, len(s.paths))
	var mu sync.Mutex // guards the files of the manifest, and seen
	err := each(ctx, o.parallel(), len(s.paths), func(ctx context.Context, i int) error {
		f, as, err := describe(ctx, root, s.paths[i])
		if err != nil {
			return fmt.Errorf("read %q: %w", s.paths[i], err)
		}
		mu.Lock()
		s.m.Files = append(s.m.Files, f)
		seen[f.Path] = as
		mu.Unlock()
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.m.Sort()
	return &Tree{&s.m, seen}, s.m.Check()
}

// describe reads a file.
func describe(ctx context.Context, root *os.Root, path string) (f fileset.File, as state, err error) {
	in, before, err := openRegular(root, path)
	if err != nil {
		return f, as, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	address, n, err := digest(ctx, in)
	if err != nil {
		return f, as, err
	}
	after, err := in.Stat()
	if err != nil {
		return f, as, err
	}
	as = state{before.Size(), before.ModTime()}
	f = fileset.File{Path: path, Blob: address, Size: n, Executable: executable(before)}
	return f, as, as.compare(after, n)
}

// compare returns ErrChanged if a file was written to since it was in this state, or if it had a different number of
// bytes.
func (as state) compare(now fs.FileInfo, bytes int64) error {
	switch {
	case now.Size() != as.size || bytes != as.size:
		return fmt.Errorf("%w: it has %d bytes, and had %d", ErrChanged, now.Size(), as.size)
	case !now.ModTime().Equal(as.written):
		return fmt.Errorf("%w: it was written to", ErrChanged)
	}
	return nil
}

// Unchanged checks all files of a tree again. It returns an error that wraps ErrChanged if a file was removed, or written
// to, since Scan has read it. It ignores new files.
func (t *Tree) Unchanged(ctx context.Context, root *os.Root) error {
	for i := range t.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		path := t.Files[i].Path
		info, err := root.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = fmt.Errorf("%w: it was removed", ErrChanged)
		case err == nil && !info.Mode().IsRegular():
			err = fmt.Errorf("%w: something else has its path", ErrChanged)
		case err == nil:
			err = t.seen[path].compare(info, info.Size())
		}
		if err != nil {
			return fmt.Errorf("push %q: %w", path, err)
		}
	}
	return nil
}

type scan struct {
	ctx      context.Context
	root     *os.Root
	patterns fileset.Patterns
	paths    []string // of the files
	m        fileset.Manifest
}

// directory lists a directory.
func (s *scan) directory(dir string) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	if len(dir) > fileset.MaxPathBytes { // no path in it can be valid
		return fileset.CheckPath(dir)
	}
	entries, err := list(s.root, dir)
	if err != nil {
		return fmt.Errorf("list directory: %w", err)
	}
	for _, entry := range entries {
		path := entry.Name()
		if dir != "." {
			path = dir + "/" + path
		} else if isTemporary(path) {
			continue
		}
		if err := s.entry(path, entry); err != nil {
			return err
		}
	}
	if dir == "." || len(entries) > 0 || !s.patterns.Match(dir) {
		return nil
	}
	if err := fileset.CheckPath(dir); err != nil {
		return err
	}
	s.m.EmptyDirectories = append(s.m.EmptyDirectories, dir)
	return s.room()
}

func list(root *os.Root, dir string) (_ []fs.DirEntry, err error) {
	f, err := root.OpenFile(dir, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return f.ReadDir(-1)
}

func (s *scan) room() error {
	if len(s.paths)+len(s.m.EmptyDirectories) > fileset.MaxFiles {
		return fmt.Errorf("%w: the directory has more than %d files; select some by patterns", fileset.ErrTooLarge, fileset.MaxFiles)
	}
	return nil
}

func (s *scan) entry(path string, entry fs.DirEntry) error {
	if entry.IsDir() {
		return s.directory(path)
	}
	if !s.patterns.Match(path) {
		return nil
	}
	if err := fileset.CheckPath(path); err != nil {
		return err
	}
	if !entry.Type().IsRegular() {
		return wrongKind(path, entry.Type(), "a fileset has only regular files and directories; exclude it by a pattern, such as !"+path)
	}
	s.paths = append(s.paths, path)
	return s.room()
}
