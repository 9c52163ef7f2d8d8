package blob

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// maxCandidates bounds the memory of a collection to about 50 MB. If there are more old blobs, the collection reads
	// everything several times.
	maxCandidates = 500_000
	// maxLooked is the number of SHA-1 digests that a collection remembers, so that it looks each up once. Git commits
	// have SHA-1 digests, so payloads may have many that belong to no blob.
	maxLooked = 100_000
	// maxEntries is the number of entries of SHA-1 tables that a collection keeps in memory. They take 40 MB. For the
	// remaining stores the collection reads the entry of each digest that it finds.
	maxEntries = 2_000_000
	// restEvery is the number of bytes that a collection reads before it rests. It rests as long as it has worked, so
	// that it takes at most half of a processor.
	restEvery = 1 << 20
)

// Collector removes blobs that no text refers to. It marks the old blobs that Scan finds, and sweeps the rest.
type Collector struct {
	// Stores returns the stores of all clients. They must be stores of this package.
	Stores func() ([]Store, error)
	// Scan calls visit with all texts that may name a blob. If it fails, the collection removes nothing.
	Scan func(ctx context.Context, visit func(text []byte) error) error

	most       int                // candidates; 0 means maxCandidates
	candidates []map[Address]bool // of each store: old blobs; true if a text names it
	looked     map[SHA1]bool
	tables     []ownTable // of each store; nil: no text had a SHA-1 yet
	stores     []Store
	unrested   int
	since      time.Time
}

// Collect removes the blobs that are older than Options.Grace and that no text names. One goroutine at a time may call
// it.
//
// A producer has put a blob, or called Missing with it, before it creates a job that names the blob. So a job that is
// created during Collect names only young blobs, and Collect checks the age again before it removes a blob.
func (c *Collector) Collect(ctx context.Context) (Swept, error) {
	defer func() { c.candidates, c.looked, c.stores, c.tables = nil, nil, nil, nil }()
	var all Swept
	for parts, part := 1, 0; part < parts; part++ {
		swept, err := c.collect(ctx, part, &parts)
		all.add(swept)
		if err != nil {
			return all, fmt.Errorf("collect blobs: %w", err)
		}
	}
	return all, nil
}

// collect collects one part of the blobs. With the first part it finds out how many parts are needed.
func (c *Collector) collect(ctx context.Context, part int, parts *int) (swept Swept, err error) {
	if c.stores, err = c.Stores(); err != nil {
		return swept, err
	}
	c.looked, c.tables = map[SHA1]bool{}, nil
	old, swept, err := c.gather(ctx, part, *parts)
	if most := cmp.Or(c.most, maxCandidates); err == nil && part == 0 && old > most {
		*parts = old/most + 1
		_, swept, err = c.gather(ctx, part, *parts)
	}
	if none := !slices.ContainsFunc(c.candidates, func(of map[Address]bool) bool { return len(of) > 0 }); err != nil || none {
		return swept, err
	}
	c.since = time.Now()
	err = c.Scan(ctx, func(text []byte) error {
		Find(text, func(ref Ref) { err = errors.Join(err, c.mark(ctx, ref)) })
		if err == nil {
			err = c.rest(ctx, len(text))
		}
		return err
	})
	if err != nil {
		return swept, err
	}
	removed, err := c.sweep(ctx, func(store int, a Address) bool {
		named, candidate := c.candidates[store][a]
		return named || !candidate
	})
	removed.SHA1s += swept.SHA1s
	removed.Uploads += swept.Uploads
	return removed, err
}

// gather makes the old blobs of a part candidates. It returns the number of old blobs in all parts, and removes no
// blob.
func (c *Collector) gather(ctx context.Context, part, parts int) (old int, swept Swept, err error) {
	c.candidates = make([]map[Address]bool, len(c.stores))
	for i := range c.candidates {
		c.candidates[i] = map[Address]bool{}
	}
	swept, err = c.sweep(ctx, func(store int, a Address) bool {
		old++
		mine := int(binary.BigEndian.Uint32(a[:]))%parts == part
		if mine && (parts > 1 || old <= cmp.Or(c.most, maxCandidates)) { // if there are more, the caller makes more parts
			c.candidates[store][a] = false
		}
		return true
	})
	return old, swept, err
}

// sweep sweeps all stores.
func (c *Collector) sweep(ctx context.Context, live func(store int, a Address) bool) (all Swept, err error) {
	for i, s := range c.stores {
		swept, err := s.Sweep(ctx, func(a Address) bool { return live(i, a) })
		all.add(swept)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// mark records that a text names a blob.
func (c *Collector) mark(ctx context.Context, ref Ref) error {
	if ref.SHA256 != nil {
		c.name(*ref.SHA256)
		return nil
	}
	if ref.SHA1 == nil || c.looked[*ref.SHA1] {
		return nil
	}
	if len(c.looked) >= maxLooked {
		clear(c.looked)
	}
	c.looked[*ref.SHA1] = true
	if c.tables == nil {
		if err := c.readTables(ctx); err != nil {
			return err
		}
	}
	for _, table := range c.tables {
		a, err := table.find(ctx, *ref.SHA1)
		switch {
		case err == nil:
			c.name(a)
		case !errors.Is(err, ErrNotFound): // also for a damaged entry, since nobody knows which blob it named
			return err
		}
	}
	return nil
}

// ownTable is the SHA-1 table of one store, without the shared store's table.
type ownTable struct {
	of     tableStore
	listed bool   // names has all entries
	names  []SHA1 // in order
}

// tableStore is a Store of this package. A collection looks into each table separately.
type tableStore interface {
	// ownSHA1 returns the entry of the store's own table, or ErrNotFound.
	ownSHA1(ctx context.Context, x SHA1) (Address, error)
	// ownSHA1s calls visit with the names of all entries, in order, if reading an entry takes a request to another
	// place.
	ownSHA1s(ctx context.Context, visit func(SHA1) error) (listed bool, err error)
}

// readTables lists the tables of remote stores. Most digests in texts belong to no blob, and looking up each would cost
// a request. Entries that are written later belong to young blobs.
func (c *Collector) readTables(ctx context.Context) error {
	c.tables = make([]ownTable, len(c.stores))
	left := maxEntries
	for i, s := range c.stores {
		t := &c.tables[i]
		t.of = s.(tableStore)
		var err error
		t.listed, err = t.of.ownSHA1s(ctx, func(x SHA1) error {
			if len(t.names) == left {
				return errListed
			}
			t.names = append(t.names, x)
			return nil
		})
		if errors.Is(err, errListed) {
			t.listed, t.names = false, nil
			continue
		}
		if err != nil {
			return err
		}
		left -= len(t.names)
	}
	return nil
}

// find returns an entry, or ErrNotFound.
func (t *ownTable) find(ctx context.Context, x SHA1) (Address, error) {
	if t.listed {
		if _, there := slices.BinarySearchFunc(t.names, x, func(a, b SHA1) int { return bytes.Compare(a[:], b[:]) }); !there {
			return Address{}, ErrNotFound
		}
	}
	return t.of.ownSHA1(ctx, x)
}

// name records that a text names the blob of an address, in all stores.
func (c *Collector) name(a Address) {
	for _, of := range c.candidates {
		if _, candidate := of[a]; candidate {
			of[a] = true
		}
	}
}

// rest pauses after each restEvery bytes.
func (c *Collector) rest(ctx context.Context, read int) error {
	if c.unrested += read; c.unrested < restEvery {
		return nil
	}
	c.unrested = 0
	select {
	case <-time.After(time.Since(c.since)):
		c.since = time.Now()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Swept) add(other Swept) {
	s.Blobs += other.Blobs
	s.Bytes += other.Bytes
	s.SHA1s += other.SHA1s
	s.Uploads += other.Uploads
}
