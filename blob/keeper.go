package blob

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// ErrCollecting: another collection is running.
var ErrCollecting = errors.New("blob: a collection is under way")

// Stores are the stores of all clients.
type Stores interface {
	// Store returns the blobs of a client, or with "" the blobs that all clients share.
	Store(client string) (Store, error)
	// Names returns the clients that have blobs or uploads, in order, and some whose last ones were removed.
	Names() ([]string, error)
	// All returns all stores, beginning with the shared one.
	All() ([]Store, error)
	// Used returns the bytes of all blobs and of unfinished uploads.
	Used() int64
}

// Keeper has the stores of a server, and collects blobs that nothing refers to.
type Keeper struct {
	Stores
	Scan func(ctx context.Context, visit func(text []byte) error) error // as in Collector
	Log  *slog.Logger
	// Requests returns counts of the requests to the bucket for each of RequestMethods. nil: there is no bucket.
	Requests func() map[string]RequestStats

	collecting sync.Mutex
	mu         sync.Mutex // guards stats
	stats      KeeperStats
}

// KeeperStats count collections since the start.
type KeeperStats struct {
	Collections, Failures int64
	Collected             Swept
}

// RequestMethods are the methods of requests to a bucket.
var RequestMethods = []string{"DELETE", "GET", "HEAD", "POST", "PUT"}

// RequestStats counts the requests of one method.
type RequestStats struct {
	Requests int64
	Failures int64   // no answer, or an answer with a status of 500 and more, 429 or 403
	Seconds  float64 // until the answer began
}

// Stats returns counts of the collections since the start.
func (k *Keeper) Stats() KeeperStats {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stats
}

// Collect removes old blobs that nothing refers to. It returns ErrCollecting while another call runs.
func (k *Keeper) Collect(ctx context.Context) (Swept, error) {
	if !k.collecting.TryLock() {
		return Swept{}, ErrCollecting
	}
	defer k.collecting.Unlock()
	began := time.Now()
	swept, err := (&Collector{Stores: k.All, Scan: k.Scan}).Collect(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stats.Collected.add(swept)
	if err != nil {
		k.stats.Failures++
		return swept, err
	}
	k.stats.Collections++
	k.Log.Info("blobs that nothing names were removed", "blobs", swept.Blobs, "bytes", swept.Bytes, "took_ms", time.Since(began).Milliseconds())
	return swept, nil
}

// firstCollection is the latest time after its start at which a server begins to collect.
const firstCollection = 10 * time.Minute

// Run starts a collection at regular intervals until ctx ends.
func (k *Keeper) Run(ctx context.Context, every time.Duration) {
	timer := time.NewTimer(min(every, firstCollection))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			timer.Reset(every)
		}
		if _, err := k.Collect(ctx); err != nil && !errors.Is(err, ErrCollecting) && ctx.Err() == nil {
			k.Log.Error("blobs were not collected; the next try is after the same time", "error", err, "after", every.String())
		}
	}
}
