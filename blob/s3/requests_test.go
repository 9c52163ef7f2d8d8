package s3

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/internal/testkit"
)

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
