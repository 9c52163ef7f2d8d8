package chunks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/internal/testkit"
)

// TestReferences: exactly the documented form is a reference, so that no other payload is taken for one.
func TestReferences(t *testing.T) {
	const address = `"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"`
	ref := `{"chunk_addr":` + address + `,"chunk_bytes":70000,"chunk_kind":"text"}`
	for text, want := range map[string]bool{
		ref: true,
		` {"chunk_kind":"json",` + "\n" + `"chunk_bytes":0,"chunk_addr":` + address + `}`: true,
		strings.Replace(ref, "text", "bytes", 1):                                          true,
		strings.Replace(ref, "text", "wasi", 1):                                           false,
		strings.Replace(ref, "text", "", 1):                                               false,
		strings.Replace(ref, `"text"`, "null", 1):                                         false,
		strings.Replace(ref, "70000", "-1", 1):                                            false,
		strings.Replace(ref, "70000", "1.5", 1):                                           false,
		strings.Replace(ref, "70000", `"1"`, 1):                                           false,
		strings.Replace(ref, "70000", "null", 1):                                          false,
		strings.Replace(ref, "sha256:", "", 1):                                            false, // not the canonical form
		strings.Replace(ref, "e3b0", "E3B0", 1):                                           false,
		strings.Replace(ref, "855", "85", 1):                                              false,
		strings.Replace(ref, address, `"file:///etc/passwd"`, 1):                          false,
		strings.Replace(ref, address, "null", 1):                                          false,
		strings.Replace(ref, "}", `,"more":1}`, 1):                                        false,
		strings.Replace(ref, "}", `,"chunk_kind":"text"}`, 1):                             false,
		strings.Replace(ref, "chunk_addr", "Chunk_addr", 1):                               false,
		`{"chunk_addr":` + address + `}`:                                                  false,
		`[` + ref + `]`:                                                                   false,
		ref + ref:                                                                         false,
		ref + strings.Repeat(" ", 512):                                                    false,
		"":                                                                                false,
	} {
		_, is := client.ParseReference(client.JSON, []byte(text))
		testkit.Equal(t, is, want, text)
	}
	for _, kind := range []client.Kind{client.None, client.Text, client.Bytes, client.WASI} {
		_, is := client.ParseReference(kind, []byte(ref))
		testkit.Holds(t, !is, "a reference of kind", kind)
	}
}

// FuzzReference: a reference that was parsed is encoded in the same form again.
func FuzzReference(f *testing.F) {
	f.Add(`{"chunk_addr":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","chunk_bytes":1,"chunk_kind":"text"}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, is := client.ParseReference(client.JSON, []byte(text))
		if !is {
			return
		}
		again := testkit.Must(json.Marshal(r))(t)
		same, is := client.ParseReference(client.JSON, again)
		testkit.Holds(t, is && *same.Address == *r.Address && *same.Bytes == *r.Bytes && *same.Kind == *r.Kind, text, "became", again)
	})
}

// TestCacheForgets: a full cache discards the least recently used value. Errors are not kept.
func TestCacheForgets(t *testing.T) {
	var read []int
	failing := true
	c := newCache(10, func(n int) int { return n }, func(_ context.Context, n int) (int, error) {
		if read = append(read, n); n == 9 && failing {
			return 0, errors.New("no")
		}
		return n, nil
	})
	get := func(n int, want string) {
		t.Helper()
		read = nil
		v, err := c.get(t.Context(), n)
		testkit.Holds(t, (err != nil || v == n) && fmt.Sprint(err, read) == want, n, v, err, "reads", read, "want", want)
		testkit.Holds(t, (c.sum <= 10 || c.used.Len() <= 1) &&
			c.used.Len() == len(c.held), c.used.Len(), "values of the size", c.sum, len(c.held), "held")
	}
	get(3, "<nil> [3]")
	get(4, "<nil> [4]")
	get(3, "<nil> []")
	get(5, "<nil> [5]") // takes the place of 4
	get(3, "<nil> []")
	get(4, "<nil> [4]") // takes the place of 5
	get(9, "no [9]")
	get(9, "no [9]")
	failing = false
	get(9, "<nil> [9]")
	get(9, "<nil> []")
	get(20, "<nil> [20]") // larger than the cache
	get(20, "<nil> []")
	get(1, "<nil> [1]")
}

// TestCacheShares: callers that need the same value share one read. If the caller that reads ends, another reads.
func TestCacheShares(t *testing.T) {
	began, release := make(chan struct{}, 10), make(chan struct{})
	c := newCache(10, func(int) int { return 1 }, func(ctx context.Context, n int) (int, error) {
		began <- struct{}{}
		select {
		case <-release:
			return n, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
	first, end := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() { _, err := c.get(first, 7); failed <- err }()
	<-began
	var others sync.WaitGroup
	for range 5 {
		others.Go(func() { v, err := c.get(t.Context(), 7); testkit.Holds(t, v == 7 && err == nil, v, err) })
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	testkit.Fails(c.get(ended, 7))(t, context.Canceled)
	end()
	testkit.Failed(t, <-failed, context.Canceled)
	<-began // the next caller reads
	close(release)
	others.Wait()
	testkit.Equal(t, len(began), 0, "reads too many")
}

// TestCachePanics: if a read panics, others read again.
func TestCachePanics(t *testing.T) {
	panics := true
	c := newCache(10, func(int) int { return 1 }, func(context.Context, int) (int, error) {
		if panics {
			panic("read")
		}
		return 1, nil
	})
	func() {
		defer func() { recover() }()
		c.get(t.Context(), 1)
	}()
	panics = false
	v, err := c.get(t.Context(), 1)
	testkit.Holds(t, v == 1 && err == nil, v, err)
}
