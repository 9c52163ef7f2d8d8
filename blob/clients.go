package blob

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

const (
	// MaxClients is the largest number of clients that have blobs. Each takes six entries of the file system, and about
	// 2 KB of memory once it is used. A sweep removes an empty one.
	MaxClients = 10_000
	// maxClientName is the longest name that a client can have elsewhere.
	maxClientName = 128

	clientsDir = "clients"
)

// Clients are the stores of all clients in a directory: the shared store in the directory itself, and a client's store
// in clients/NAME. Equal blobs of two clients are stored twice, so that no client learns which blobs other clients
// have. Methods may be called by many goroutines.
type Clients struct {
	shared *Dir
	dir    string
	o      Options // of the store of each client
	bucket Bucket  // nil: the blobs are in the directory; otherwise it has only uploads
	all    tally
	max    int // MaxClients; tests set less

	mu      sync.Mutex // guards clients
	clients map[string]*client
}

var _ Stores = (*Clients)(nil)

// client is a client that has a directory, or is just getting one.
type client struct {
	name string

	mu     sync.RWMutex // guards the fields below. Each call of a method of dir holds it for reading
	dir    *Dir         // nil: it is not open
	closed int64        // bytes that count while it is not open
	there  int64        // the part of these bytes that is in the bucket
	onDisk bool         // it has a directory, or blobs in the bucket
	gone   bool         // it was removed from Clients
}

// OpenClients opens the stores in a directory, as OpenDir does. At first it reads only the number of bytes of each
// client. It opens a client's store when the store is first used.
func OpenClients(dir string, o Options) (*Clients, error) {
	return openClients(dir, o, nil, nil)
}

// OpenBucket opens the stores in a bucket. The directory receives their uploads. Close closes the bucket, and so does a
// failed OpenBucket.
func OpenBucket(ctx context.Context, dir string, bucket Bucket, o Options) (*Clients, error) {
	usage, err := bucket.Usage(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("count blobs: %w", err), bucket.Close())
	}
	c, err := openClients(dir, o, bucket, usage)
	if err != nil {
		return nil, errors.Join(err, bucket.Close())
	}
	return c, nil
}

func openClients(dir string, o Options, bucket Bucket, usage map[string]int64) (_ *Clients, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	c := &Clients{o: o, bucket: bucket, max: MaxClients, clients: map[string]*client{}, all: tally{quota: o.QuotaBytes}}
	c.o.QuotaBytes = o.ClientBytes
	o.QuotaBytes = 0 // only the quota of all together
	if bucket != nil {
		o.remote, o.remoteBytes = bucket.Remote(""), usage[""]
	}
	if c.shared, err = openDir(dir, o, true); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open blobs of clients: %w", err), c.shared.Close())
		}
	}()
	c.shared.all = &c.all
	c.all.used = c.shared.used
	c.o.ReserveBytes = c.shared.o.ReserveBytes
	c.dir = filepath.Join(c.shared.dir, clientsDir)
	if err := c.shared.makeDir(c.dir); err != nil {
		return nil, err
	}
	err = names(c.dir, func(name string) error {
		if checkClient(name) != nil {
			return nil // another program's file
		}
		bytes, err := usedIn(filepath.Join(c.dir, name))
		c.all.used += bytes
		c.clients[name] = &client{name: name, closed: bytes, onDisk: true}
		return err
	})
	if err != nil {
		return nil, err
	}
	for name, bytes := range usage {
		if checkClient(name) != nil {
			continue // another program's objects, or the shared ones
		}
		of := c.clients[name]
		if of == nil {
			of = &client{name: name, onDisk: true}
			c.clients[name] = of
		}
		of.there = bytes
		of.closed += bytes
		c.all.used += bytes
	}
	return c, nil
}

// usedIn returns the bytes of the blobs and resumable uploads of a store that is not open.
func usedIn(dir string) (bytes int64, err error) {
	s := &Dir{dir: dir}
	for path, prefix := range map[string]string{s.blobs(): "", s.uploads(): resumablePrefix} {
		err := names(path, func(name string) error {
			if !strings.HasPrefix(name, prefix) || strings.HasSuffix(name, stateSuffix) {
				return nil
			}
			info, err := os.Lstat(filepath.Join(path, name))
			if err == nil && info.Mode().IsRegular() {
				bytes += info.Size()
			}
			return ignoreMissing(err)
		})
		if ignoreMissing(err) != nil { // a process may have been killed before it had made all directories
			return 0, err
		}
	}
	return bytes, nil
}

// checkClient returns ErrClient unless jobs can have a client of this name. Such a name is a single segment of a path.
func checkClient(name string) error {
	ok := name != "" && len(name) <= maxClientName && name != "." && name != ".."
	for _, b := range []byte(name) {
		ok = ok && (b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte("._:-", b) >= 0)
	}
	if ok {
		return nil
	}
	return fmt.Errorf("%w: it must have 1 to %d of letters, digits and . _ : - (and neither . nor .. alone)", ErrClient, maxClientName)
}

// Store returns the blobs of a client, or with "" the blobs that all clients share. It returns ErrClient if the name is
// not valid. A client without blobs needs no directory; its first Put makes it, and returns ErrClients if there are
// already MaxClients.
func (c *Clients) Store(client string) (Store, error) {
	if client == "" {
		return c.shared.asStore(), nil
	}
	if err := checkClient(client); err != nil {
		return nil, err
	}
	return &clientStore{c, client}, nil
}

// Names returns the clients that have blobs or uploads, in order, and some whose last ones were removed. It returns no
// error.
func (c *Clients) Names() ([]string, error) { return c.names(), nil }

func (c *Clients) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.clients))
}

// All returns all stores: the shared store, and the stores of all Names.
func (c *Clients) All() ([]Store, error) {
	all := []Store{c.shared.asStore()}
	for _, name := range c.names() {
		all = append(all, &clientStore{c, name})
	}
	return all, nil
}

// Used returns the bytes of all blobs and uploads together.
func (c *Clients) Used() int64 { return c.all.bytes() }

// Close closes all stores. No other method may be running, or be called later.
func (c *Clients) Close() error {
	if c.bucket != nil {
		return errors.Join(c.bucket.Close(), c.shared.Close())
	}
	return c.shared.Close() // the clients' stores have no open files
}

// use returns the store of a client, which the caller must release. If the client has none, use makes one if make is
// true, and otherwise returns nil.
func (c *Clients) use(name string, make bool) (_ Store, release func(), err error) {
	for {
		c.mu.Lock()
		of := c.clients[name]
		if of == nil && make && len(c.clients) < c.max {
			of = &client{name: name}
			c.clients[name] = of
		}
		c.mu.Unlock()
		switch {
		case of == nil && make:
			return nil, nil, fmt.Errorf("%w: %d have blobs; next step: remove the blobs of some, or put blobs without a client", ErrClients, c.max)
		case of == nil:
			return nil, func() {}, nil
		}
		of.mu.RLock()
		if of.dir != nil {
			return of.dir.asStore(), of.mu.RUnlock, nil
		}
		of.mu.RUnlock()
		if err := c.open(of); err != nil {
			return nil, nil, err
		}
	}
}

// open opens the store of a client, unless it is open or gone.
func (c *Clients) open(of *client) error {
	of.mu.Lock()
	defer of.mu.Unlock()
	if of.dir != nil || of.gone {
		return nil
	}
	o := c.o
	if c.bucket != nil {
		o.remote, o.remoteBytes = c.bucket.Remote(of.name), of.there
	}
	dir, err := openDir(filepath.Join(c.dir, of.name), o, false)
	if err != nil {
		if !of.onDisk {
			c.forget(of)
		}
		return fmt.Errorf("client %s: %w", of.name, err)
	}
	c.all.count(dir.used - of.closed)
	dir.all, dir.verified, dir.files = &c.all, c.shared.verified, c.shared.files
	of.dir, of.closed, of.there, of.onDisk = dir, 0, 0, true
	return nil
}

// forget removes a client. The caller has locked it.
func (c *Clients) forget(of *client) {
	of.gone = true
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.clients, of.name)
}

// removeEmpty removes the directory of a client if the directory is empty and not in use, and the bucket, if there is
// one, has no objects of the client.
func (c *Clients) removeEmpty(ctx context.Context, name string) error {
	c.mu.Lock()
	of := c.clients[name]
	c.mu.Unlock()
	if of == nil || !of.mu.TryLock() {
		return nil
	}
	defer of.mu.Unlock()
	if of.dir == nil {
		return nil
	}
	s := of.dir
	s.mu.Lock() // batches and uploads do not hold of.mu
	used := s.used != 0 || s.batches > 0 || len(s.resumables) > 0 || len(s.unsynced) > 0
	s.mu.Unlock()
	if used {
		return nil
	}
	if s.remote != nil { // blobs without bytes do not count, and entries without a blob are for the next sweep
		if empty, err := s.remote.remote.IsEmpty(ctx); err != nil || !empty {
			return err
		}
	}
	for i, path := range []string{s.blobs(), s.sha1s(), s.uploads(), filepath.Dir(s.blobs()), filepath.Join(s.dir, "oci-layout"), filepath.Join(s.dir, "index.json"), s.dir} {
		err := ignoreMissing(s.h.Remove(path))
		if err != nil && i == 0 {
			return ignoreNotEmpty(err)
		}
		of.dir = nil // the next use makes the missing parts again
		if err != nil {
			return ignoreNotEmpty(err)
		}
	}
	c.forget(of)
	return c.shared.syncPath(c.dir)
}

func ignoreNotEmpty(err error) error {
	if errors.Is(err, fs.ErrExist) { // ENOTEMPTY
		return nil
	}
	return err
}
