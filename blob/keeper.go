package blob

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// ErrCollecting: blobs are being collected already.
var ErrCollecting = errors.New("blob: a collection is under way")

// Stores are the stores of all clients.
type Stores interface {
	// Store returns the blobs of a client, or with "" those that all clients share.
	Store(client string) (Store, error)
	// Names returns the clients that have blobs or uploads, in order, and some whose last ones were removed.
	Names() ([]string, error)
	// All returns all stores, that of "" first.
	All() ([]Store, error)
	// Used returns the bytes of all blobs and of the uploads under way.
	Used() int64
}

// Keeper has the stores of a server, and collects what nothing names.
type Keeper struct {
	Stores
	Scan func(ctx context.Context, visit func(text []byte) error) error // as in Collector
	Log  *slog.Logger
	// Requests returns how many requests of each of RequestMethods were sent to the bucket. nil: there is no bucket.
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
	Failures int64   // no answer, or one with a status of 500 and more, 429 or 403
	Seconds  float64 // until the answer began
}

// Stats returns what was collected since the start.
func (k *Keeper) Stats() KeeperStats {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stats
}

// Collect removes the old blobs that nothing names. It returns ErrCollecting while another call runs.
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

// firstCollection is how long after its start a server collects at the latest.
const firstCollection = 10 * time.Minute

// Run collects again and again until ctx ends.
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
