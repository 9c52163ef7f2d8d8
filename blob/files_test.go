package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

// openBelow counts the files below a directory that this process has open.
func openBelow(t *testing.T, dir string) (n int) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("no /proc to count descriptors in: %v", err)
	}
	for _, fd := range all {
		if to, err := os.Readlink(filepath.Join("/proc/self/fd", fd.Name())); err == nil && strings.HasPrefix(to, dir+"/") {
			n++
		}
	}
	return n
}

// TestOpenFiles: when the largest allowed number of files is open, calls that open more are refused until some files
// are closed.
func TestOpenFiles(t *testing.T) {
	c := &clock{time.Unix(1_700_000_000, 0)}
	s := newStore(t, Options{MaxFiles: MinFiles, Hooks: Hooks{Now: c.now}})
	s.files.patience = time.Millisecond
	info := mustPut(t, s, wilson)
	u := mustNewUpload(t, s, 1, Ref{})
	full := mustNewUpload(t, s, 1, Ref{})
	mustAppend(t, full, "x")
	c.at = c.at.Add(12 * time.Hour) // the blob is renewed, and the uploads have not expired
	var held []*Blob
	var err error
	for err == nil {
		var b *Blob
		if b, err = s.Get(t.Context(), "", info.Address); err == nil {
			held = append(held, b)
		}
	}
	testkit.Failed(t, err, ErrFiles)
	testkit.Equal(t, len(held), MinFiles-maxBackground, "blobs are open")
	all := map[string]func() error{
		"Put": func() error { _, err := put(s, wilson); return err },
		"NewBatch": func() error {
			b, err := s.NewBatch(t.Context(), "")
			if err == nil {
				err = b.Discard()
			}
			return err
		},
		"NewUpload": func() error { _, err := s.NewUpload(t.Context(), "", 1, Ref{}); return err },
		"Append":    func() error { return u.Append(t.Context(), 0, strings.NewReader("x")) },
		"Finish":    func() error { _, err := full.Finish(t.Context()); return err },
		"Missing":   func() error { _, err := s.Missing(t.Context(), "", []Address{info.Address}); return err },
		"Resolve":   func() error { _, err := s.Resolve(t.Context(), "", Ref{SHA1: &info.SHA1}); return err },
	}
	for name, do := range all {
		err := do()
		testkit.Holds(t, errors.Is(err, ErrFiles), name, err)
	}
	testkit.Fails(s.Get(canceled(), "", info.Address))(t, context.Canceled)
	for _, b := range held {
		testkit.Check(t, b.Close())
		b.Close() // an error, and the file does not count twice
	}
	for name, do := range all {
		testkit.Check(t, do(), name)
	}
	testkit.Holds(t, s.files.free.TryAcquire(s.files.most), "some files still count")
	testkit.Fails(OpenDir(t.Context(), t.TempDir(), Options{MaxFiles: MinFiles - 1}))(t)
}

// TestOpenFilesOfAll: many concurrent calls of all kinds never have more open files than they count. Waiting calls get
// their turn.
func TestOpenFilesOfAll(t *testing.T) {
	c := testkit.Must(OpenDir(t.Context(), filepath.Join(t.TempDir(), "blobs"), Options{MaxFiles: 100}))(t)
	c.trustsSyncFS = false // this needs the most open files
	c.files.patience = time.Minute
	var all sync.WaitGroup
	most, stop := 0, make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				most = max(most, openBelow(t, c.dir))
			}
		}
	})
	for i := range 8 {
		all.Go(func() {
			client := []string{"", "acme"}[i%2]
			for k := range 2 {
				b, err := c.NewBatch(t.Context(), client)
				if err == nil {
					for j := range 20 {
						_, addErr := b.Add(t.Context(), strings.NewReader(fmt.Sprint(i, k, j)), Ref{})
						err = errors.Join(err, addErr)
					}
					err = errors.Join(err, b.Commit(t.Context()))
				}
				info, putErr := c.Put(t.Context(), client, strings.NewReader(fmt.Sprint(i)), Ref{})
				err = errors.Join(err, putErr)
				if err == nil {
					var r *Blob
					if r, err = c.Get(t.Context(), client, info.Address); err == nil {
						_, err = r.WriteTo(io.Discard)
						err = errors.Join(err, r.Close())
					}
				}
				testkit.Check(t, err)
			}
		})
	}
	all.Wait()
	close(stop)
	watch.Wait()
	testkit.Holds(t, most <= 100 && most >= 2, most, "files were open")
	testkit.Check(t, c.Close())
	left := openBelow(t, c.dir)
	testkit.Holds(t, left == 0, left, "files are still open")
}
