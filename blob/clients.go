package blob

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// MaxClients is the largest number of clients that have blobs. Each takes six entries of the file system, and about
	// 100 bytes of memory. A sweep removes an empty one.
	MaxClients = 10_000
	// maxClientName is the longest name that a client can have elsewhere.
	maxClientName = 128
	// settleFor is the time that a store tries to find out the effect of a failed call of its backend.
	settleFor = 10 * time.Second
	// maxUnsure is the number of blobs with an unknown size that a store remembers. Further ones count in full until the
	// next start.
	maxUnsure = 10_000
)

// client counts the blobs and uploads of a client. The mutex of the store guards its fields.
type client struct {
	used    int64 // bytes of its blobs and of its unfinished uploads
	uploads int   // resumable ones
	users   int   // calls and batches that may store something
	leaving bool  // it is being removed. Who removes it owns Key{Client: NAME}

	lastTable tableSweep // guarded by who owns Key{Client: NAME, Kind: SHA1s}
}

// CheckClient returns ErrClient unless jobs can have a client of this name. Such a name is a single segment of a path.
func CheckClient(name string) error {
	ok := name != "" && len(name) <= maxClientName && name != "." && name != ".."
	for _, b := range []byte(name) {
		ok = ok && (b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte("._:-", b) >= 0)
	}
	if ok {
		return nil
	}
	return fmt.Errorf("%w: it must have 1 to %d of letters, digits and . _ : - (and neither . nor .. alone)", ErrClient, maxClientName)
}

// clientOf returns a client, and adds it if it is new. The caller holds the mutex, or is the only user of the store.
func (s *Store) clientOf(name string) *client {
	c := s.clients[name]
	if c == nil {
		c = &client{}
		s.clients[name] = c
	}
	return c
}

// enter returns a client that is about to store something. No sweep removes the client until leave is called.
func (s *Store) enter(ctx context.Context, name string) (c *client, leave func(), err error) {
	if name != "" {
		if err := CheckClient(name); err != nil {
			return nil, nil, err
		}
	}
	for {
		s.mu.Lock()
		c := s.clients[name]
		if c == nil && len(s.clients) > s.maxClients {
			s.mu.Unlock()
			return nil, nil, fmt.Errorf("%w: %d have blobs; next step: remove the blobs of some, or put blobs without a client", ErrClients, s.maxClients)
		}
		if c == nil || !c.leaving {
			c = s.clientOf(name)
			c.users++
			s.mu.Unlock()
			return c, func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				c.users--
			}, nil
		}
		s.mu.Unlock()
		release, err := s.own(ctx, Key{Client: name})
		if err != nil {
			return nil, nil, err
		}
		release()
	}
}

// has reports whether a client may have blobs or uploads.
func (s *Store) has(name string) (bool, error) {
	if name != "" {
		if err := CheckClient(name); err != nil {
			return false, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clients[name] != nil, nil
}

// either calls ask with the client, and with "" if the client stores nothing or the first call returns ErrNotFound.
func (s *Store) either(name string, ask func(client string) error) error {
	has, err := s.has(name)
	if err != nil {
		return err
	}
	if has && name != "" {
		if err := ask(name); !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	return ask("")
}

// Clients returns the clients that have blobs or uploads, in order, and some whose last ones were removed.
func (s *Store) Clients() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.clients))[1:] // without ""
}

// forget removes a client that stores nothing and is not in use.
func (s *Store) forget(ctx context.Context, name string) error {
	release, _ := s.tryOwn(Key{Client: name})
	if release == nil {
		return nil // another sweep does it
	}
	defer release()
	s.mu.Lock()
	c := s.clients[name]
	if c == nil || c.used != 0 || c.users > 0 || c.uploads > 0 {
		s.mu.Unlock()
		return nil
	}
	c.leaving = true
	s.mu.Unlock()
	gone, err := s.backend.Forget(ctx, name) // blobs without bytes do not count, and entries without a blob are for the next sweep
	s.mu.Lock()
	defer s.mu.Unlock()
	c.leaving = false
	if gone {
		delete(s.clients, name)
	}
	return err
}

// Used returns the bytes of all blobs and of unfinished uploads.
func (s *Store) Used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// UsedBy returns the bytes of the blobs and of the unfinished uploads of a client, or with "" of the shared ones.
func (s *Store) UsedBy(client string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.clients[client]; c != nil {
		return c.used
	}
	return 0
}

// count counts bytes without regard to quotas. The caller holds the mutex, or is the only user of the store.
func (s *Store) count(c *client, n int64) {
	c.used += n
	s.used += n
}

// fits returns ErrQuota if there is no room for more bytes. The caller holds the mutex. The shared blobs have only the
// quota of all.
func (s *Store) fits(c *client, more int64) error {
	if quota := s.o.ClientBytes; quota > 0 && more > 0 && c.used+more > quota && c != s.clients[""] {
		return fmt.Errorf("%w: %d of %d bytes are used", ErrQuota, c.used, quota)
	}
	if quota := s.o.QuotaBytes; quota > 0 && more > 0 && s.used+more > quota {
		return fmt.Errorf("%w: all clients together use %d of %d bytes", ErrQuota, s.used, quota)
	}
	return nil
}

// credit returns the bytes of the blob that an upload will replace, as far as this is known: they count already.
func (s *Store) credit(ctx context.Context, client string, want Ref) int64 {
	var a Address
	switch {
	case want.SHA256 != nil:
		a = *want.SHA256
	case want.SHA1 != nil:
		var err error
		if a, err = s.backend.SHA1(ctx, client, *want.SHA1); err != nil { // the upload has files already, and must not wait for more
			return 0
		}
	default:
		return 0
	}
	if o, err := s.backend.Stat(ctx, blobKey(client, a)); err == nil && !o.Hidden {
		return o.Size
	}
	return 0
}

// counted returns the number of bytes that currently count for a blob. size is the blob's real size, or 0 if it is not
// stored. The caller owns the blob.
func (s *Store) counted(k Key, size int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, ok := s.unsure[k]; ok {
		return n
	}
	return size
}

// countAs changes the bytes that count for a blob from counted to size. The caller owns the blob.
func (s *Store) countAs(k Key, counted, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.unsure, k)
	if n := size - counted; n != 0 { // otherwise the client may have been removed already
		s.count(s.clientOf(k.Client), n)
	}
}

// settle finds out the effect of a failed Put or Remove of a blob, and counts the blob's bytes. If settle fails, too,
// it counts most, the largest possible size. The caller owns the blob.
func (s *Store) settle(k Key, counted, most int64) {
	ctx, cancel := context.WithTimeout(context.Background(), settleFor)
	defer cancel()
	now, err := s.backend.Stat(ctx, k)
	if ignoreNotFound(err) == nil {
		s.countAs(k, counted, now.Size)
		return
	}
	s.countAs(k, counted, most)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unsure) < maxUnsure {
		s.unsure[k] = most
	}
}
