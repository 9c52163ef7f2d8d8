package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

// collected is a Collector of a store, in which the texts of a map name blobs.
type collected struct {
	*Collector
	s     *Store
	clock *clock
	texts map[int]string
}

func newCollected(t *testing.T) *collected {
	c := &collected{clock: &clock{time.Unix(1_700_000_000, 0)}, texts: map[int]string{}}
	c.s = newStore(t, Options{Hooks: Hooks{Now: c.clock.now}})
	c.Collector = &Collector{
		Store: func() (*Store, error) { return c.s, nil }, Log: slog.New(slog.DiscardHandler),
		Scan: func(_ context.Context, _ *Store, visit func([]byte) error) error {
			for _, text := range c.texts {
				if err := visit([]byte(text)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	return c
}

func (c *collected) mustCollect(t *testing.T) Swept {
	t.Helper()
	return testkit.Must(c.Collect(t.Context()))(t)
}

func TestCollect(t *testing.T) {
	c := newCollected(t)
	for _, content := range []string{"by address", "by sha1", "dead"} {
		mustPut(t, c.s, content)
	}
	c.texts[0] = "binary " + addressOf("by address").String()
	c.texts[1] = "input " + mustPut(t, c.s, "by sha1").SHA1.String() + " of commit 0123456789012345678901234567890123456789"
	swept := c.mustCollect(t)
	testkit.Equal(t, swept.Blobs, 0, "collected young blobs:", swept)
	c.clock.at = c.clock.at.Add(defaultGrace + 1)
	mustPut(t, c.s, "young")
	swept = c.mustCollect(t)
	testkit.Holds(t, swept.Blobs == 1 && swept.Bytes == int64(len("dead")) && swept.SHA1s == 1, "collected", swept, "want 1 blob")
	for _, content := range []string{"by address", "by sha1", "young"} {
		mustRead(t, c.s, content)
	}

	failed := errors.New("row 7 is damaged")
	c.texts = nil
	c.Scan = func(context.Context, *Store, func([]byte) error) error { return failed }
	testkit.Fails(c.Collect(t.Context()))(t, failed)
	mustRead(t, c.s, "by address") // a text that may name it could not be read
	testkit.Fails(c.Collect(canceled()))(t, context.Canceled)
}

// TestCollectModel compares collections, of several parts, with a model of old blobs and named blobs. Texts and blobs
// change while a collection reads.
func TestCollectModel(t *testing.T) {
	testkit.OneByOne(t)
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	c := newCollected(t)
	c.most = 3
	const kinds = 20
	content := func(i int) string { return fmt.Sprintf("content %d", i) }
	put := map[int]time.Time{}
	busy, collected := false, 0 // names changed in the last collection; blobs
	name := func(i int) {       // as a producer does: the blob first
		missing := testkit.Must(c.s.Missing(t.Context(), "", []Address{addressOf(content(i))}))(t)
		if len(missing) > 0 || r.IntN(2) == 0 {
			mustPut(t, c.s, content(i))
		}
		put[i] = c.clock.at // or renewed less than an hour ago
		c.texts[r.IntN(6)] = addressOf(content(i)).String()
	}
	scan := c.Scan
	c.Scan = func(ctx context.Context, s *Store, visit func([]byte) error) error {
		if err := scan(ctx, s, visit); err != nil {
			return err
		}
		if r.IntN(2) == 0 {
			busy = true
			name(r.IntN(kinds)) // after everything was read
		}
		return nil
	}
	for range 300 {
		switch r.IntN(4) {
		case 0, 1:
			name(r.IntN(kinds))
		case 2:
			c.clock.at = c.clock.at.Add(time.Duration(r.Int64N(int64(defaultGrace))))
		case 3:
			busy = false
			c.mustCollect(t)
			for i := range kinds {
				there := testkit.Must(has(t, c.s, addressOf(content(i))))(t)
				at, wasPut := put[i]
				named := slices.Contains(slices.Collect(maps.Values(c.texts)), addressOf(content(i)).String())
				switch age := c.clock.at.Sub(at); {
				case there && !wasPut:
					t.Fatalf("seed %d: blob %d was not put", seed, i)
				case there && !named && age > defaultGrace && !busy:
					t.Fatalf("seed %d: blob %d is named by nothing, %s old and still there", seed, i, age)
				case wasPut && !there && (named || age < defaultGrace-defaultGrace/renewShare):
					t.Fatalf("seed %d: blob %d is gone; named %v, %s old", seed, i, named, age)
				case wasPut && !there:
					delete(put, i)
					collected++
				}
			}
		}
	}
	testkit.Holds(t, collected != 0, "seed", seed, "nothing was collected")
}

// TestCollectByClient: an old blob of one client is removed, and the equal young blob of another client is not.
func TestCollectByClient(t *testing.T) {
	c := newCollected(t)
	mustPut(t, c.s, "twice")
	c.clock.at = c.clock.at.Add(defaultGrace)
	mustPutIn(t, c.s, "other", "twice")
	c.clock.at = c.clock.at.Add(time.Hour)
	scan := c.Scan
	c.Scan = func(ctx context.Context, s *Store, visit func([]byte) error) error {
		err := scan(ctx, s, visit)
		c.clock.at = c.clock.at.Add(defaultGrace) // the scan takes long, and during it a job names the blob of the other client
		return err
	}
	swept := c.mustCollect(t)
	testkit.Equal(t, swept.Blobs, 1, "collected", swept)
	has, err := has(t, c.s, addressOf("twice"))
	testkit.Holds(t, !has && err == nil, "it is not collected", err)
	testkit.Holds(t, sees(t, c.s, "other", "twice"), "the young one is collected")
}

// TestCollectDamagedSHA1: while a SHA-1 may name an unknown blob, the collection removes nothing.
func TestCollectDamagedSHA1(t *testing.T) {
	c := newCollected(t)
	x := mustPut(t, c.s, "named").SHA1
	c.texts[0] = x.String()
	c.clock.at = c.clock.at.Add(defaultGrace + 1)
	testkit.NoError(t, os.WriteFile(c.s.sha1Path(x), []byte("sha256:0\n"), 0o600))
	_, err := c.Collect(t.Context())
	mustBeDamaged(t, err, c.s.sha1Path(x))
	mustRead(t, c.s, "named")
}

// TestRun: collections run at intervals, one at a time, and a failure is counted.
func TestRun(t *testing.T) {
	c := &clock{time.Unix(1_700_000_000, 0)}
	s := newStore(t, Options{Hooks: Hooks{Now: c.now}})
	mustPut(t, s, "dead")
	c.at = c.at.Add(defaultGrace + 1)
	scanning, goOn := make(chan struct{}), make(chan error)
	var log bytes.Buffer
	k := &Collector{Store: func() (*Store, error) { return s, nil }, Log: slog.New(slog.NewTextHandler(&log, nil)), Scan: func(context.Context, *Store, func([]byte) error) error {
		scanning <- struct{}{}
		return <-goOn
	}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		k.Run(ctx, time.Millisecond)
	}()
	<-scanning
	testkit.Fails(k.Collect(t.Context()))(t, ErrCollecting)
	goOn <- errors.New("row 7 is damaged")
	<-scanning
	goOn <- nil
	testkit.Eventually(t, "there is a collection", func() bool { return k.Stats().Collections > 0 })
	cancel()
	<-ended
	testkit.Equal(t, k.Stats(),
		(CollectorStats{Collections: k.Stats().Collections, Failures: 1, Collected: Swept{Blobs: 1, Bytes: 4, SHA1s: 1}}), "stats")
	testkit.Contains(t, log.String(), "row 7", "blobs=1")
}
