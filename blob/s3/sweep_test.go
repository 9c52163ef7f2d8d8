package s3

import (
	"context"
	"crypto/sha1"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestClock: a sweep does not believe the clock in an answer that the service has not made, and removes nothing if the
// service's clock is far from ours.
func TestClock(t *testing.T) {
	var ahead atomic.Int64 // of our clock
	o := blob.Options{Hooks: blob.Hooks{Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }}}
	all, _, proxy := behindProxy(t, o)
	s := all.of("")
	mustPut(t, s, "acknowledged")
	later := func(by time.Duration) string { return time.Now().Add(by).UTC().Format(http.TimeFormat) }
	sweep := func(want int) error {
		t.Helper()
		swept, err := s.Sweep(t.Context(), s.client, func(blob.Address) bool { return false })
		testkit.Equal(t, swept.Blobs, want, "a sweep has removed blobs")
		return err
	}
	for _, status := range []int{http.StatusForbidden, http.StatusNotFound, http.StatusServiceUnavailable} {
		proxy.Before(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodHead {
				return false
			}
			w.Header().Set("Date", later(48*time.Hour))
			w.WriteHeader(status)
			return true
		})
		testkit.Fails(s.Stat(t.Context(), s.client, addressOf("none")))(t)
		off := time.Until(all.opened.transport.now())
		testkit.Holds(t, off.Abs() <= time.Minute, "after an answer with status", status, "the clock is", off, "ahead")
	}
	// For a sweep, the clocks of other answers with status 200 do not count either.
	proxy.Before(nil)
	all.opened.transport.ahead.Store(int64(48 * time.Hour))
	testkit.Check(t, sweep(0))
	ahead.Store(int64(48 * time.Hour))
	testkit.Failed(t, sweep(0), blob.ErrUnavailable, "clock")
	all.age(24*time.Hour - 5*time.Minute)
	ahead.Store(int64(10 * time.Minute)) // old by our clock only
	testkit.Check(t, sweep(0))
	mustRead(t, s, "acknowledged")
	ahead.Store(0)
	all.age(10 * time.Minute)
	testkit.Check(t, sweep(1))
}

// TestEntriesWithoutBlob: a sweep removes old entries of the table and old renewals whose blobs are gone, even for a
// client that has nothing else.
func TestEntriesWithoutBlob(t *testing.T) {
	all, server, _ := behindProxy(t, blob.Options{})
	kept := mustPut(t, all.of(""), "kept")
	gone := blob.Info{Address: addressOf("gone"), SHA1: sha1.Sum([]byte("gone"))}
	for _, client := range []string{"", "alice"} {
		err := all.opened.keepSHA1(t.Context(), client, gone.SHA1, gone.Address)
		if err == nil {
			_, err = all.opened.Renew(t.Context(), blob.Key{Client: client, Kind: blob.Blobs, Name: hexOf(gone.Address)})
		}
		testkit.NoError(t, err)
	}
	testkit.Must(all.opened.Renew(t.Context(), blob.Key{Kind: blob.Blobs, Name: hexOf(kept.Address)}))(t)
	files := func() (n int) {
		for _, at := range []string{"p/", "p/clients/alice/"} {
			for _, name := range []string{string(blob.SHA1s) + gone.SHA1.String(), string(blob.Renewals) + hexOf(gone.Address)} {
				if _, err := os.Stat(file(server, at+name)); err == nil {
					n++
				}
			}
		}
		return n
	}
	sweep := func(want int) {
		t.Helper()
		all.reopen() // a store looks at its table once a day
		got := 0
		for _, client := range []string{"", "alice"} {
			swept := testkit.Must(all.Sweep(t.Context(), client, func(a blob.Address) bool { return a == kept.Address }))(t)
			testkit.Equal(t, swept.Blobs, 0, "sweep:", swept)
			got += swept.SHA1s
		}
		testkit.Equal(t, got, want, "a sweep has removed entries")
	}
	sweep(0)
	testkit.Equal(t, files(), 4, "young entries are left")
	all.age(25 * time.Hour)
	testkit.Equal(t, len(testkit.Must(all.List(t.Context(), "", nil, 10))(t)), 1, "listed")
	sweep(2)
	testkit.Equal(t, files(), 0, "old entries are left")
	names := all.Clients()
	testkit.Holds(t, len(names) == 0, "clients", names)
	mustRead(t, all.of(""), "kept")
	testkit.Equal(t, testkit.Must(all.Resolve(t.Context(), "", blob.Ref{SHA1: &kept.SHA1}))(t), kept.Address, "SHA-1 of a blob that is kept")
}

// TestCollectAsksOnce: a collection lists the SHA-1 table of each store once, and reads only the entries that texts
// name.
func TestCollectAsksOnce(t *testing.T) {
	all, _, proxy := behindProxy(t, blob.Options{})
	mustPut(t, all.of("alice"), "of alice")
	named := mustPut(t, all.of("bob"), "named")
	mustPut(t, all.of(""), "shared")
	all.age(25 * time.Hour)
	var lists, reads atomic.Int64
	proxy.Before(func(_ http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.HasSuffix(r.URL.Query().Get("prefix"), "/"+string(blob.SHA1s)):
			lists.Add(1)
		case r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/"+string(blob.SHA1s)):
			reads.Add(1)
		}
		return false
	})
	open := func() (*blob.Store, error) { return all.Store, nil }
	c := &blob.Collector{Store: open, Log: slog.New(slog.DiscardHandler), Scan: func(_ context.Context, _ *blob.Store, visit func([]byte) error) error {
		lists.Store(0) // of the sweeps
		reads.Store(0)
		for i := range 50 {
			if err := visit([]byte("commit " + blob.SHA1(sha1.Sum([]byte{byte(i)})).String())); err != nil {
				return err
			}
		}
		err := visit([]byte(named.SHA1.String()))
		testkit.Holds(t, lists.Load() == 3 &&
			reads.Load() == 1, lists.Load(), "lists and", reads.Load(), "reads for 51 digests of 3 stores, not 3 and 1")
		return err
	}}
	swept := testkit.Must(c.Collect(t.Context()))(t)
	testkit.Equal(t, swept.Blobs, 2, "collected", swept)
	mustRead(t, all.of("bob"), "named")
}

// TestRequestsOfManyBlobs: each blob of a batch, of Missing and of Sizes takes few requests. The log shows the time of
// each if a request takes 20 ms.
func TestRequestsOfManyBlobs(t *testing.T) {
	all, _, proxy := behindProxy(t, blob.Options{})
	s := all.of("")
	var mu sync.Mutex
	counts := map[string]int{}
	proxy.Before(func(_ http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		counts[r.Method]++
		mu.Unlock()
		time.Sleep(20 * time.Millisecond) // real time: a service that is far away
		return false
	})
	const n = 100
	var addresses []blob.Address
	measure := func(what string, want map[string]int, do func()) {
		t.Helper()
		began := time.Now()
		do()
		mu.Lock()
		defer mu.Unlock()
		t.Logf("%s: %s each", what, time.Since(began)/n)
		for method := range want {
			want[method] *= n
		}
		testkit.Holds(t, maps.Equal(counts, want), what, counts, "requests, not", want)
		clear(counts)
	}
	commit := func() {
		t.Helper()
		addresses = nil
		b := testkit.Must(s.NewBatch(t.Context(), s.client))(t)
		defer func() { testkit.Check(t, b.Discard()) }()
		for i := range n {
			info := testkit.Must(b.Add(t.Context(), strings.NewReader(fmt.Sprint("blob ", i)), blob.Ref{}))(t)
			addresses = append(addresses, info.Address)
		}
		testkit.NoError(t, b.Commit(t.Context()))
	}
	look := func() {
		t.Helper()
		sizes := testkit.Must(s.Sizes(t.Context(), s.client, addresses))(t)
		testkit.MustHold(t, len(sizes) == n && sizes[0] == 6 && sizes[n-1] == 7 && !slices.Contains(sizes, blob.NotStored), "sizes", sizes)
	}
	measure("a batch of new blobs", map[string]int{"HEAD": 1, "PUT": 2}, commit)
	measure("the same batch", map[string]int{"HEAD": 1, "PUT": 1}, commit)
	measure("sizes of young blobs", map[string]int{"HEAD": 1}, look)
	all.age(2 * time.Hour)
	measure("sizes of old blobs", map[string]int{"HEAD": 2, "PUT": 1}, look)
	measure("sizes of renewed blobs", map[string]int{"HEAD": 2}, look)
	measure("missing blobs", map[string]int{"HEAD": 1}, func() {
		var none []blob.Address
		for i := range n {
			none = append(none, addressOf(fmt.Sprint("none ", i)))
		}
		missing := testkit.Must(s.Missing(t.Context(), s.client, none))(t)
		testkit.Holds(t, slices.Equal(missing, none), len(missing), "of", n, "are missing")
	})
	mine := all.of("ann")
	mustPut(t, mine, "mine")
	sizes, err := mine.Sizes(t.Context(), mine.client, []blob.Address{addressOf("none"), addresses[0], addressOf("mine"), addressOf("nothing"), addresses[n-1]})
	testkit.NoError(t, err)
	testkit.EqualSlices(t, sizes, []int64{blob.NotStored, 6, 4, blob.NotStored, 7}, "the sizes of a client")
}

// TestRenewalWhileOwned: Missing does not wait for a copy of a young blob, but waits for a copy of an old one.
func TestRenewalWhileOwned(t *testing.T) {
	all, _, proxy := behindProxy(t, blob.Options{})
	s := all.of("")
	a := mustPut(t, s, "WILSON!").Address
	copying, goOn := make(chan struct{}), make(chan struct{})
	proxy.Before(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/blobs/") {
			close(copying)
			<-goOn
		}
		return false
	})
	put := make(chan error, 1)
	go func() {
		_, err := s.Put(context.Background(), s.client, strings.NewReader("WILSON!"), blob.Ref{})
		put <- err
	}()
	<-copying
	missing := testkit.Must(s.Missing(t.Context(), s.client, []blob.Address{a}))(t)
	testkit.Holds(t, len(missing) == 0, "a young blob", missing)
	all.age(2 * time.Hour)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	testkit.Fails(s.Missing(ctx, s.client, []blob.Address{a}))(t, context.DeadlineExceeded)
	close(goOn)
	testkit.Check(t, <-put)
	missing = testkit.Must(s.Missing(t.Context(), s.client, []blob.Address{a}))(t)
	testkit.Holds(t, len(missing) == 0, "after the copy", missing)
}

// TestFirstSHA1Stays: an entry of the table that leads to a stored blob is not replaced, even if the service refuses
// conditional requests.
func TestFirstSHA1Stays(t *testing.T) {
	all, _, proxy := behindProxy(t, blob.Options{})
	s := all.of("")
	first := mustPut(t, s, "the first")
	x := first.SHA1
	testkit.NoError(t, all.opened.keepSHA1(t.Context(), "", x, addressOf("another")), "a second entry")
	testkit.Equal(t, testkit.Must(s.Resolve(t.Context(), s.client, blob.Ref{SHA1: &x}))(t), first.Address, "it leads to")
	refused := 0
	proxy.Before(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("If-None-Match") == "" {
			return false
		}
		refused++
		w.WriteHeader(http.StatusNotImplemented)
		return true
	})
	second := mustPut(t, s, "without conditional requests")
	a := testkit.Must(s.Resolve(t.Context(), s.client, blob.Ref{SHA1: &second.SHA1}))(t)
	testkit.Holds(t, a == second.Address && refused == 1, "it leads to", a, refused, "requests were refused")
}
