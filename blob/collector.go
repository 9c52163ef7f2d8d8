package blob

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
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
	// remaining clients the collection reads the entry of each digest that it finds.
	maxEntries = 2_000_000
	// restEvery is the number of bytes that a collection reads before it rests. It rests as long as it has worked, so
	// that it takes at most half of a processor.
	restEvery = 1 << 20
)

// firstCollection is the latest time after its start at which a server begins to collect.
const firstCollection = 10 * time.Minute

// ErrCollecting: another collection is running.
var ErrCollecting = errors.New("blob: a collection is under way")

// Collector removes blobs that no text refers to. It marks the old blobs that Scan finds, and sweeps the rest.
type Collector struct {
	// Store returns the store, or an error while it is not open.
	Store func() (*Store, error)
	// Scan calls visit with all texts that may name a blob of the store. If it fails, the collection removes nothing.
	Scan func(ctx context.Context, s *Store, visit func(text []byte) error) error
	Log  *slog.Logger

	most       int // candidates; 0 means maxCandidates
	collecting sync.Mutex
	mu         sync.Mutex // guards stats
	stats      CollectorStats
}

// CollectorStats count collections since the start.
type CollectorStats struct {
	Collections, Failures int64
	Collected             Swept
}

// Stats returns counts of the collections since the start.
func (c *Collector) Stats() CollectorStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// Run starts a collection at regular intervals until ctx ends.
func (c *Collector) Run(ctx context.Context, every time.Duration) {
	timer := time.NewTimer(min(every, firstCollection))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			timer.Reset(every)
		}
		if _, err := c.Collect(ctx); err != nil && !errors.Is(err, ErrCollecting) && ctx.Err() == nil {
			c.Log.Error("blobs were not collected; the next try is after the same time", "error", err, "after", every.String())
		}
	}
}

// Collect removes the blobs that are older than Options.Grace and that no text names. It returns ErrCollecting while
// another call runs, and the error of Store.
//
// A producer has put a blob, or called Missing with it, before it creates a job that names the blob. So a job that is
// created during Collect names only young blobs, and Collect checks the age again before it removes a blob.
func (c *Collector) Collect(ctx context.Context) (Swept, error) {
	if !c.collecting.TryLock() {
		return Swept{}, ErrCollecting
	}
	defer c.collecting.Unlock()
	began := time.Now()
	swept, err := c.collect(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Collected.add(swept)
	if err != nil {
		c.stats.Failures++
		return swept, fmt.Errorf("collect blobs: %w", err)
	}
	c.stats.Collections++
	c.Log.Info("blobs that nothing names were removed", "blobs", swept.Blobs, "bytes", swept.Bytes, "took_ms", time.Since(began).Milliseconds())
	return swept, nil
}

// collect collects in as many parts as fit in memory.
func (c *Collector) collect(ctx context.Context) (all Swept, err error) {
	s, err := c.Store()
	if err != nil {
		return all, err
	}
	for parts, part := 1, 0; part < parts; part++ {
		swept, err := (&collection{s: s, scan: c.Scan, most: cmp.Or(c.most, maxCandidates)}).run(ctx, part, &parts)
		all.add(swept)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// collection collects one part of the blobs.
type collection struct {
	s          *Store
	scan       func(ctx context.Context, s *Store, visit func(text []byte) error) error
	most       int
	clients    []string           // "", and those that have blobs
	candidates []map[Address]bool // of each client: old blobs; true if a text names it
	looked     map[SHA1]bool
	tables     []table // of each client; nil: no text had a SHA-1 yet
	unrested   int
	since      time.Time
}

// run collects the part. With the first part it finds out how many parts are needed.
func (c *collection) run(ctx context.Context, part int, parts *int) (swept Swept, err error) {
	c.clients = append([]string{""}, c.s.Clients()...)
	c.looked = map[SHA1]bool{}
	old, swept, err := c.gather(ctx, part, *parts)
	if err == nil && part == 0 && old > c.most {
		*parts = old/c.most + 1
		_, swept, err = c.gather(ctx, part, *parts)
	}
	if none := !slices.ContainsFunc(c.candidates, func(of map[Address]bool) bool { return len(of) > 0 }); err != nil || none {
		return swept, err
	}
	c.since = time.Now()
	err = c.scan(ctx, c.s, func(text []byte) error {
		Find(text, func(ref Ref) { err = errors.Join(err, c.mark(ctx, ref)) })
		if err == nil {
			err = c.rest(ctx, len(text))
		}
		return err
	})
	if err != nil {
		return swept, err
	}
	removed, err := c.sweep(ctx, func(client int, a Address) bool {
		named, candidate := c.candidates[client][a]
		return named || !candidate
	})
	removed.SHA1s += swept.SHA1s
	removed.Uploads += swept.Uploads
	return removed, err
}

// gather makes the old blobs of a part candidates. It returns the number of old blobs in all parts, and removes no
// blob.
func (c *collection) gather(ctx context.Context, part, parts int) (old int, swept Swept, err error) {
	c.candidates = make([]map[Address]bool, len(c.clients))
	for i := range c.candidates {
		c.candidates[i] = map[Address]bool{}
	}
	swept, err = c.sweep(ctx, func(client int, a Address) bool {
		old++
		mine := int(binary.BigEndian.Uint32(a[:]))%parts == part
		if mine && (parts > 1 || old <= c.most) { // if there are more, the caller makes more parts
			c.candidates[client][a] = false
		}
		return true
	})
	return old, swept, err
}

// sweep sweeps the blobs of all clients.
func (c *collection) sweep(ctx context.Context, live func(client int, a Address) bool) (all Swept, err error) {
	for i, client := range c.clients {
		swept, err := c.s.Sweep(ctx, client, func(a Address) bool { return live(i, a) })
		all.add(swept)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// mark records that a text names a blob.
func (c *collection) mark(ctx context.Context, ref Ref) error {
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

// table is the SHA-1 table of one client, without the table of the shared blobs.
type table struct {
	s      *Store
	client string
	listed bool   // names has all entries
	names  []SHA1 // in order
}

// readTables lists the tables in a bucket. Most digests in texts belong to no blob, and looking up each would cost a
// request. Entries that are written later belong to young blobs.
func (c *collection) readTables(ctx context.Context) error {
	c.tables = make([]table, len(c.clients))
	left := maxEntries
	for i, client := range c.clients {
		t := &c.tables[i]
		t.s, t.client = c.s, client
		if !c.s.remote {
			continue
		}
		err := c.s.backend.List(ctx, client, SHA1s, "", 0, func(o Object) error {
			if len(t.names) == left {
				return errListed
			}
			t.names = append(t.names, o.SHA1)
			return nil
		})
		if errors.Is(err, errListed) {
			t.names = nil
			continue
		}
		if err != nil {
			return err
		}
		t.listed = true
		left -= len(t.names)
	}
	return nil
}

// find returns an entry, or ErrNotFound.
func (t *table) find(ctx context.Context, x SHA1) (Address, error) {
	if t.listed {
		if _, there := slices.BinarySearchFunc(t.names, x, func(a, b SHA1) int { return bytes.Compare(a[:], b[:]) }); !there {
			return Address{}, ErrNotFound
		}
	}
	return t.s.backend.SHA1(ctx, t.client, x)
}

// name records that a text names the blob of an address, for all clients.
func (c *collection) name(a Address) {
	for _, of := range c.candidates {
		if _, candidate := of[a]; candidate {
			of[a] = true
		}
	}
}

// rest pauses after each restEvery bytes.
func (c *collection) rest(ctx context.Context, read int) error {
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
