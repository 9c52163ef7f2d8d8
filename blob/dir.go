package blob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	layoutVersion = "1.0.0"
	layoutFile    = `{"imageLayoutVersion":"` + layoutVersion + `"}` + "\n"
	indexFile     = `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}` + "\n"
)

// directory is the Backend of a directory. Each object is a file. The folder of each client is an OCI image layout.
type directory struct {
	disk
	verified *verified

	making sync.Mutex      // owns the making and removing of clients' folders; guards made
	made   map[string]bool // clients whose folders were made by this process, or are complete

	mu sync.Mutex // guards unsynced
	// unsynced are blobs whose file exists, but is not durable yet. For all reads they are absent. If the last fsync of
	// a Put fails and the file cannot be removed, the blob stays here.
	unsynced map[Key]bool
}

var _ Backend = (*directory)(nil)

func (d *directory) path(k Key) string { return filepath.Join(d.dir, filepath.FromSlash(k.Path())) }
func (d *directory) folder(client string, kind Kind) string {
	return filepath.Join(d.dir, filepath.FromSlash(Folder(client, kind)))
}

// home is the folder of a client, which has the folders of its objects.
func (d *directory) home(client string) string {
	if client == "" {
		return d.dir
	}
	return filepath.Join(d.dir, filepath.FromSlash(clientsFolder), client)
}

// makeFolders makes the folders and files of a client, unless they exist.
func (d *directory) makeFolders(client string) error {
	d.making.Lock()
	defer d.making.Unlock()
	if d.made[client] {
		return nil
	}
	home, blobs := d.home(client), d.folder(client, Blobs)
	folders := []string{filepath.Dir(blobs), blobs, d.folder(client, SHA1s)}
	if client != "" {
		folders = append([]string{filepath.Dir(home), home}, folders...)
	}
	for _, folder := range folders {
		if err := d.makeDir(folder); err != nil {
			return err
		}
	}
	if err := d.makeLayout(home); err != nil {
		return err
	}
	if err := d.syncPath(home); err != nil {
		return err
	}
	d.made[client] = true
	return nil
}

// makeLayout makes the files of the OCI image layout.
func (d *directory) makeLayout(home string) error {
	var layout struct {
		Version string `json:"imageLayoutVersion"`
	}
	var index struct {
		Version int `json:"schemaVersion"`
	}
	for name, file := range map[string]struct {
		content string
		into    any
		known   func() bool
	}{
		"oci-layout": {layoutFile, &layout, func() bool { return layout.Version == layoutVersion }},
		"index.json": {indexFile, &index, func() bool { return index.Version == 2 }},
	} {
		path := filepath.Join(home, name)
		text, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = d.writeFile(path, file.content)
		case err == nil && (json.Unmarshal(text, file.into) != nil || !file.known()):
			err = fmt.Errorf("%s is not that of an OCI image layout of version %s; next step: if nothing else uses the directory, remove this file", path, layoutVersion)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Usage adds up the sizes of all blobs.
func (d *directory) Usage(ctx context.Context) (map[string]int64, error) {
	usage := map[string]int64{"": 0}
	err := names(filepath.Join(d.dir, filepath.FromSlash(clientsFolder)), func(name string) error {
		info, err := os.Lstat(d.home(name))
		if err == nil && info.IsDir() && CheckClient(name) == nil { // otherwise it is another program's
			usage[name] = 0
		}
		return err
	})
	if ignoreMissing(err) != nil {
		return nil, err
	}
	for client := range usage {
		err := d.List(ctx, client, Blobs, "", 0, func(o Object) error {
			usage[client] += o.Size
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return usage, nil
}

func (d *directory) isUnsynced(k Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.unsynced[k]
}

// Stat describes the file of a blob. It reads the file before the mark in unsynced, because Put sets the mark before it
// makes the file visible.
func (d *directory) Stat(_ context.Context, k Key) (o Object, err error) {
	if k.Kind == Renewals { // the age of the file counts from the last Renew
		return o, fmt.Errorf("%w: %s", ErrNotFound, k.Name)
	}
	path := d.path(k)
	info, err := os.Lstat(path)
	if err == nil {
		return d.object(k, path, info), nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		of, _ := k.Info()
		return o, notFound(of.Address)
	}
	return o, fmt.Errorf("look at blob: %w", err)
}

func (d *directory) object(k Key, path string, info fs.FileInfo) Object {
	o := Object{Now: d.h.Now(), Place: path}
	o.Info, _ = k.Info()
	if !info.Mode().IsRegular() {
		o.Hidden = true
		return o
	}
	o.Size, o.Changed, o.Hidden = info.Size(), info.ModTime(), d.isUnsynced(k)
	return o
}

// Open opens the file of a blob.
func (d *directory) Open(_ context.Context, k Key) (_ Content, err error) {
	path := d.path(k)
	of, _ := k.Info()
	info, err := os.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		return nil, &DamagedError{path, "it is not a regular file"}
	}
	var f *os.File
	if err == nil {
		f, err = openFile(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, notFound(of.Address)
	}
	if err != nil {
		return nil, fmt.Errorf("open blob: %w", err)
	}
	if info, err = f.Stat(); err != nil {
		return nil, errors.Join(fmt.Errorf("open blob: %w", err), f.Close())
	}
	o := d.object(k, path, info)
	if o.Hidden { // known only after the file was opened: see Stat
		return nil, errors.Join(notFound(of.Address), f.Close())
	}
	return &fileContent{f: f, o: o}, nil
}

// fileContent is the Content of a file.
type fileContent struct {
	f     *os.File
	o     Object
	named atomic.Pointer[fileID] // the version when the file was last seen to have a name
}

// Object describes the blob.
func (c *fileContent) Object() Object { return c.o }

// Version returns the id of the file.
func (c *fileContent) Version() (any, error) {
	id, named, err := idOf(c.o.Address, c.f)
	if err != nil {
		return nil, fmt.Errorf("look at blob: %w", err)
	}
	if named {
		c.named.Store(&id)
	} else if last := c.named.Load(); last != nil {
		// The loss of the last name changes ctime, and nobody opens a file without a name to change it.
		id.ctime = last.ctime
	}
	return id, nil
}

// Range returns n bytes from an offset.
func (c *fileContent) Range(_ context.Context, off, n int64) (io.ReadCloser, error) {
	return &fileRange{c, off, off + n}, nil
}

// Again opens the file once more.
func (c *fileContent) Again() (Content, error) {
	f, err := duplicate(c.f)
	if err != nil {
		return nil, fmt.Errorf("open blob: %w", err)
	}
	return &fileContent{f: f, o: c.o}, nil
}

// Close closes the file.
func (c *fileContent) Close() error { return c.f.Close() }

// fileRange is a part of a file.
type fileRange struct {
	c        *fileContent
	off, end int64
}

// Read returns a *DamagedError if the file ends too early, or the disk reports EIO: it cannot read a sector.
func (r *fileRange) Read(p []byte) (int, error) {
	if r.off == r.end {
		return 0, io.EOF
	}
	n, err := r.c.f.ReadAt(p[:min(int64(len(p)), r.end-r.off)], r.off)
	r.off += int64(n)
	switch {
	case n > 0 || len(p) == 0:
		return n, nil
	case err == io.EOF || errors.Is(err, syscall.EIO):
		if of, ok := errors.AsType[*fs.PathError](err); ok {
			err = of.Err // the reason does not name the file: see Detail
		}
		return 0, &DamagedError{r.c.o.Place, fmt.Sprintf("its %d bytes cannot be read: %v", r.c.o.Size, err)}
	}
	return 0, fmt.Errorf("read blob: %w", err)
}

// Close does nothing.
func (r *fileRange) Close() error { return nil }

// Renew sets the age of a file to 0.
func (d *directory) Renew(_ context.Context, k Key) (*os.File, error) {
	path, now := d.path(k), d.h.Now()
	of, _ := k.Info()
	f, err := openFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, notFound(of.Address)
	}
	if err != nil {
		return nil, fmt.Errorf("renew blob: %w", err)
	}
	before, _, err := idOf(of.Address, f)
	if err == nil {
		err = os.Chtimes(path, now, now)
	}
	var after fileID
	if err == nil {
		after, _, err = idOf(of.Address, f)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("renew blob: %w", err), f.Close())
	}
	d.verified.renewed(before, after)
	return f, nil
}

// Remove removes the file of an object.
func (d *directory) Remove(_ context.Context, k Key) error {
	if k.Kind == Renewals {
		return nil
	}
	if err := ignoreMissing(d.h.Remove(d.path(k))); err != nil {
		return err
	}
	d.show(k)
	return nil
}

// show removes the marks of unsynced blobs.
func (d *directory) show(all ...Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range all {
		delete(d.unsynced, k)
	}
}

// Sync makes removals durable.
func (d *directory) Sync(_ context.Context, client string) error {
	return ignoreMissing(d.syncPath(d.folder(client, Blobs)))
}

// List visits files. It reads the age of a blob, but not of an entry of the table, which costs little to look up.
func (d *directory) List(ctx context.Context, client string, kind Kind, after string, most int, visit func(Object) error) error {
	folder := d.folder(client, kind)
	one := func(name string) error {
		k := Key{client, kind, name}
		if kind == SHA1s {
			info, _ := k.Info()
			return visit(Object{Info: info, Place: filepath.Join(folder, name)})
		}
		o, err := d.Stat(ctx, k)
		if err != nil {
			return ignoreNotFound(err)
		}
		return visit(o)
	}
	var found []string
	first := func() { // keeps only the names that can be visited. Some more make up for files that are removed meanwhile
		slices.Sort(found)
		found = found[:min(len(found), most+namesBytes)]
	}
	err := names(folder, func(name string) error {
		_, ok := Key{client, kind, name}.Info()
		if err := ctx.Err(); err != nil || !ok || strings.Compare(name, after) <= 0 {
			return err
		}
		if most == 0 {
			return one(name)
		}
		if found = append(found, name); len(found) > most+2*namesBytes {
			first()
		}
		return nil
	})
	if err != nil {
		return ignoreMissing(err) // the client has no folders yet
	}
	first()
	for _, name := range found {
		if err := one(name); err != nil {
			return err
		}
	}
	return nil
}

// SHA1 reads an entry of the table.
func (d *directory) SHA1(_ context.Context, client string, x SHA1) (a Address, err error) {
	path := d.path(sha1Key(client, x))
	info, err := os.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		return a, &DamagedError{path, "it is not a regular file"}
	}
	var f *os.File
	if err == nil {
		f, err = openFile(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return a, fmt.Errorf("%w: SHA-1 %s", ErrNotFound, x)
	}
	if err != nil {
		return a, fmt.Errorf("look up SHA-1: %w", err)
	}
	defer f.Close() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, MaxEntryBytes))
	if err != nil {
		return a, fmt.Errorf("look up SHA-1: %w", err)
	}
	return ParseEntry(text, path)
}

// Forget removes the folders of a client if they are empty.
func (d *directory) Forget(_ context.Context, client string) (bool, error) {
	d.making.Lock()
	defer d.making.Unlock()
	delete(d.made, client)
	home, blobs := d.home(client), d.folder(client, Blobs)
	for _, path := range []string{blobs, d.folder(client, SHA1s), filepath.Dir(blobs), filepath.Join(home, "oci-layout"), filepath.Join(home, "index.json"), home} {
		err := ignoreMissing(d.h.Remove(path))
		if errors.Is(err, fs.ErrExist) { // ENOTEMPTY
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, d.syncPath(filepath.Dir(home))
}

// Owned returns the time of this machine. Nobody else uses the directory: the store has locked it.
func (d *directory) Owned(context.Context) (time.Time, error) { return d.h.Now(), nil }

// Close does nothing.
func (d *directory) Close() error { return nil }

// Put gives files their names, all of them or none, and makes the names durable. The files are already durable.
//
// The SHA-1 entries become durable first, so that each blob that is visible after a crash has one. Until the last fsync
// reads see none of the new blobs.
func (d *directory) Put(ctx context.Context, client string, files []*File) error {
	if err := d.makeFolders(client); err != nil {
		return noSpace("make the folders of a client", err)
	}
	err := d.inDir(d.folder(client, SHA1s), func() error {
		for _, f := range files {
			if err := errors.Join(ctx.Err(), d.putSHA1(ctx, client, f)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return noSpace("store SHA-1 of blob", err)
	}
	var named []*naming
	err = d.inDir(d.folder(client, Blobs), func() error {
		for _, f := range files {
			if err := ctx.Err(); err != nil {
				return err
			}
			if f.Path == "" {
				continue
			}
			n := &naming{File: f, key: blobKey(client, f.Address)}
			named = append(named, n)
			if err := d.rename(n); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, d.settle(named, err == nil))
}

// putSHA1 gives the entry of the table its name, unless the table already has one.
func (d *directory) putSHA1(ctx context.Context, client string, f *File) error {
	kept, err := d.keepsSHA1(ctx, client, f.SHA1, f.Address)
	if kept || err != nil {
		return err
	}
	if f.EntryPath == "" { // none was prepared
		entry, err := d.writeTemp(Entry(f.Address))
		if err != nil {
			return err
		}
		f.EntryPath = entry.Name()
		if err := errors.Join(d.h.Sync(entry), entry.Close()); err != nil {
			return err
		}
	}
	if err := d.h.Rename(f.EntryPath, d.path(sha1Key(client, f.SHA1))); err != nil {
		return err
	}
	f.EntryPath = ""
	return nil
}

// keepsSHA1 reports whether the table needs no new entry, because it has this entry, or an entry for another blob that
// exists. If two contents have the same SHA-1, the first keeps it.
func (d *directory) keepsSHA1(ctx context.Context, client string, x SHA1, a Address) (bool, error) {
	old, err := d.SHA1(ctx, client, x)
	if err != nil {
		return false, ignoreDamage(err)
	}
	if old == a {
		return true, nil
	}
	o, err := d.Stat(ctx, blobKey(client, old))
	return err == nil && !o.Hidden, ignoreNotFound(err)
}

// naming is a file that is getting its name.
type naming struct {
	*File
	key     Key
	begun   bool // reads treat the blob as absent until the naming is settled
	renamed bool
}

// rename gives the file its name. If the blob was not stored before, reads do not see it yet.
func (d *directory) rename(n *naming) error {
	if !n.Existed {
		d.mu.Lock()
		d.unsynced[n.key], n.begun = true, true
		d.mu.Unlock()
	}
	if err := d.h.Rename(n.Path, d.path(n.key)); err != nil {
		return noSpace("name blob", err)
	}
	n.Path, n.renamed = "", true
	return nil
}

// settle shows all new blobs to reads at once, or removes them. If a blob can neither be shown nor removed, it stays in
// unsynced, and the next Put tries again.
func (d *directory) settle(all []*naming, succeeded bool) (err error) {
	var shown []Key
	for _, n := range all {
		gone := false
		switch {
		case !n.begun:
		case succeeded:
			shown = append(shown, n.key)
		case n.renamed:
			// Nobody may rely on the name.
			removeErr := ignoreMissing(d.h.Remove(d.path(n.key)))
			gone, err = removeErr == nil, first(err, removeErr) // one error is enough
		default: // a rename that failed may still have happened
			_, lookErr := os.Lstat(d.path(n.key))
			gone = errors.Is(lookErr, fs.ErrNotExist)
		}
		if gone {
			shown = append(shown, n.key)
		}
	}
	d.show(shown...)
	return err
}
