package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/client/fileset"
	"github.com/daybookq/daybook/internal/testkit"
)

// aheadStore counts the blobs that are being opened, and calls before for each.
type aheadStore struct {
	of     *blob.Store
	before func(a blob.Address) error

	mu        sync.Mutex // guards the fields below
	now, most int
}

func (s *aheadStore) get(ctx context.Context, a blob.Address) (*blob.Blob, error) {
	s.mu.Lock()
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.now--
		s.mu.Unlock()
	}()
	if err := s.before(a); err != nil {
		return nil, err
	}
	return s.of.Get(ctx, "", a)
}

// newAheadStore stores contents, and returns their manifest.
func newAheadStore(t *testing.T, contents []string) (*aheadStore, *fileset.Manifest) {
	t.Helper()
	dir := testkit.Must(blob.OpenDir(t.Context(), t.TempDir(), blob.Options{}))(t)
	t.Cleanup(func() { testkit.Check(t, dir.Close()) })
	m := &fileset.Manifest{}
	for i, content := range contents {
		info := testkit.Must(dir.Put(t.Context(), "", strings.NewReader(content), blob.Ref{}))(t)
		m.Files = append(m.Files, fileset.File{Path: fmt.Sprint(i), Blob: fileset.Address(info.Address), Size: info.Size})
	}
	return &aheadStore{of: dir, before: func(blob.Address) error { return nil }}, m
}

func TestFilesAhead(t *testing.T) {
	var contents []string
	for i := range 3*aheadFiles + 5 {
		contents = append(contents, strings.Repeat(fmt.Sprint(i%7, " "), i))
	}
	contents[10] = strings.Repeat("x", aheadFileBytes)
	contents[20] = strings.Repeat("y", aheadFileBytes+1)

	t.Run("many at once, in their order", func(t *testing.T) {
		s, m := newAheadStore(t, contents)
		var begun sync.WaitGroup // the first ones wait for each other
		begun.Add(aheadFiles)
		var mu sync.Mutex
		opened := 0
		s.before = func(blob.Address) error {
			mu.Lock()
			opened++
			first := opened <= aheadFiles
			mu.Unlock()
			if first {
				begun.Done()
				begun.Wait()
			}
			return nil
		}
		a := newFilesAhead(t.Context(), s.get, m)
		defer a.end()
		for i, content := range contents {
			var b bytes.Buffer
			err := a.copy(&b)
			testkit.MustHold(t, err == nil && b.String() == content, "file", i, b.Len(), "of", len(content), "bytes", err)
		}
		testkit.Equal(t, opened, len(contents), "blobs were opened")
		testkit.Holds(t, s.most >= aheadFiles && s.most <= aheadFiles+1, s.most, "were opened at once") // and a long one
	})
	t.Run("a failure is repeated in its turn", func(t *testing.T) {
		s, m := newAheadStore(t, contents[:30])
		broken, fails := errors.New("broken"), 1
		var mu sync.Mutex
		s.before = func(a blob.Address) error {
			mu.Lock()
			defer mu.Unlock()
			if fails > 0 && fileset.Address(a) == m.Files[25].Blob {
				fails--
				return broken
			}
			return nil
		}
		all := func() (i int, err error) {
			a := newFilesAhead(t.Context(), s.get, m)
			defer a.end()
			for i := range m.Files {
				var b bytes.Buffer
				if err := a.copy(&b); err != nil {
					return i, err
				}
				testkit.Holds(t, b.String() == contents[i], "file", i, "has", b.Len(), "bytes")
			}
			return len(m.Files), nil
		}
		i, err := all()
		testkit.Check(t, err, "one failure: file", i)
		fails = 2
		i, err = all()
		testkit.Holds(t, i == 25 && errors.Is(err, broken), "two failures: file", i, err)
	})
	t.Run("the end stops what is read", func(t *testing.T) {
		s, m := newAheadStore(t, contents)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		reading := make(chan struct{}, len(contents))
		first := fileset.Address(sha256.Sum256([]byte(contents[0])))
		s.before = func(a blob.Address) error {
			if fileset.Address(a) == first {
				return nil
			}
			reading <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
		a := newFilesAhead(ctx, s.get, m)
		testkit.NoError(t, a.copy(&bytes.Buffer{}))
		<-reading
		cancel()
		a.end()
		testkit.Equal(t, s.now, 0, "are still being opened")
		testkit.Failed(t, a.copy(&bytes.Buffer{}), context.Canceled)
	})
	t.Run("a blob of another size", func(t *testing.T) {
		s, m := newAheadStore(t, contents[:3])
		m.Files[2].Size++
		a := newFilesAhead(t.Context(), s.get, m)
		defer a.end()
		for i := range m.Files {
			err := a.copy(&bytes.Buffer{})
			testkit.Equal(t, err != nil, i == 2, "file", i, err)
		}
	})
}

// resolver counts look-ups. Look-ups of SHA-1 digests that begin with 1 find nothing, and look-ups of digests that
// begin with 2 fail.
type resolver struct {
	asked, now, most atomic.Int64
	full             chan struct{} // closed when the largest allowed number runs
	fill             sync.Once
}

var errResolver = errors.New("no answer")

func (r *resolver) resolve(ctx context.Context, ref blob.Ref) (blob.Address, error) {
	r.asked.Add(1)
	n := r.now.Add(1)
	defer r.now.Add(-1)
	for old := r.most.Load(); n > old && !r.most.CompareAndSwap(old, n); old = r.most.Load() {
	}
	if n == resolveAtOnce {
		r.fill.Do(func() { close(r.full) })
	}
	<-r.full
	switch ref.SHA1[0] {
	case 1:
		return blob.Address{}, fmt.Errorf("%w: nothing", blob.ErrNotFound)
	case 2:
		return blob.Address{}, errResolver
	}
	return blob.Address{0: ref.SHA1[0], 1: ref.SHA1[1]}, ctx.Err()
}

// TestResolveAll: a request looks up each SHA-1 once and a bounded number at a time. A failed look-up is not reported
// as a missing blob.
func TestResolveAll(t *testing.T) {
	var refs []blob.Ref
	for i := range 1000 {
		if i%10 == 0 {
			refs = append(refs, blob.Ref{SHA256: &blob.Address{0: 9}})
		} else {
			refs = append(refs, blob.Ref{SHA1: &blob.SHA1{0: byte(i % 2), 1: byte(i)}})
		}
	}
	of := resolver{full: make(chan struct{})}
	all := testkit.Must(resolveAll(t.Context(), refs, of.resolve))(t)
	for i, ref := range refs {
		switch {
		case ref.SHA256 != nil && (all[i] == nil || *all[i] != *ref.SHA256),
			ref.SHA256 == nil && ref.SHA1[0] == 1 && all[i] != nil,
			ref.SHA256 == nil && ref.SHA1[0] == 0 && (all[i] == nil || all[i][1] != byte(i)):
			t.Fatalf("%s: %v", ref, all[i])
		}
	}
	asked, most := of.asked.Load(), of.most.Load()
	testkit.Holds(t, asked == 900 && most == resolveAtOnce, asked, "look-ups", most, "at once")
	refs[500] = blob.Ref{SHA1: &blob.SHA1{0: 2}}
	testkit.Fails(resolveAll(t.Context(), refs, of.resolve))(t, errResolver)
}

// FuzzWantedBlob: any metadata gives a digest or an error.
func FuzzWantedBlob(f *testing.F) {
	f.Add("filename YQ==,address " + base64.StdEncoding.EncodeToString([]byte("sha256:"+strings.Repeat("a1", 32))))
	f.Add(",, address ,address !")
	f.Fuzz(func(t *testing.T, meta string) {
		want, err := wantedBlob(meta)
		testkit.Holds(t, want.SHA256 == nil && want.SHA1 == nil || err == nil && strings.Contains(meta, "address"), meta, "wants", want, err)
	})
}
