package blob

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestVerifiedOnce: concurrent reads of many ranges of a blob verify it once. If one reader gives up, the rest are not
// stopped.
func TestVerifiedOnce(t *testing.T) {
	v := newVerified()
	defer v.close()
	id := fileID{inode: 1}
	begun, goOn := make(chan struct{}), make(chan struct{})
	runs := 0 // guarded by running, as only one verifies
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	wg.Go(func() {
		testkit.Failed(t, v.once(ctx, id, func() error { close(begun); runs++; <-goOn; return ctx.Err() }), context.Canceled)
	})
	<-begun
	for range 8 {
		wg.Go(func() { testkit.Check(t, v.once(context.Background(), id, func() error { runs++; return nil })) })
	}
	testkit.Failed(t, v.once(canceled(), id, func() error { t.Error("it ran"); return nil }), context.Canceled)
	cancel()
	close(goOn)
	wg.Wait()
	testkit.Equal(t, runs, 2, "verifications")
	for i := range uint64(2 * maxVerified) {
		testkit.NoError(t, v.once(context.Background(), fileID{inode: i}, func() error { return nil }))
	}
	testkit.Equal(t, len(v.at), maxVerified, "the list, files, and", len(v.running), "are being verified")
	testkit.Equal(t, len(v.running), 0, "the list has", len(v.at), "files that are being verified")
	v.at[id] = time.Now().Add(-verifiedFor)
	err := v.once(context.Background(), id, func() error { runs++; return nil })
	testkit.Holds(t, err == nil && runs == 3, "an old verification was trusted", runs, err)
}

// once verifies a short file.
func (v *verified) once(ctx context.Context, id fileID, verify func() error) error {
	return v.share(ctx, id, 1, 0, verify, nil)
}

// slowFile is a long file whose verification a test ends.
type slowFile struct {
	v    *verified
	id   fileID
	runs int
	end  chan error
}

func (f *slowFile) verify(ctx context.Context, patience time.Duration) error {
	return f.v.share(ctx, f.id, backgroundFrom, patience, nil, func() (func(context.Context) error, error) {
		f.runs++
		return func(ctx context.Context) error {
			select {
			case err := <-f.end:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}, nil
	})
}

// count returns the number of running verifications, and the number of them in the background.
func (v *verified) count() (running, background int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.running), v.background
}

func newSlowFile(v *verified, inode uint64) *slowFile {
	return &slowFile{v: v, id: fileID{inode: inode, size: backgroundFrom}, end: make(chan error)}
}

// TestVerifiedInBackground: a long verification continues while readers start and give up.
func TestVerifiedInBackground(t *testing.T) {
	for name, test := range map[string]func(*testing.T, *verified){
		"each reader gives up before the end": func(t *testing.T, v *verified) {
			f := newSlowFile(v, 1)
			for range 20 { // much longer than unaskedFor
				testkit.Failed(t, f.verify(t.Context(), verifyPatience), ErrVerifying)
				time.Sleep(2 * time.Second)
			}
			f.end <- nil
			for range 2 {
				err := f.verify(t.Context(), verifyPatience)
				testkit.Holds(t, err == nil && f.runs == 1, err, "after", f.runs, "runs")
			}
		},
		"nobody asks any more": func(t *testing.T, v *verified) {
			f := newSlowFile(v, 1)
			testkit.Failed(t, f.verify(t.Context(), time.Second), ErrVerifying)
			time.Sleep(unaskedFor - time.Second)
			synctest.Wait()
			_, n := v.count()
			testkit.Equal(t, n, 1, "it has ended too early")
			time.Sleep(2 * time.Second)
			synctest.Wait()
			n, in := v.count()
			testkit.Holds(t, n == 0 && in == 0, n, "run")
			testkit.Failed(t, f.verify(t.Context(), time.Second), ErrVerifying)
			testkit.Equal(t, f.runs, 2, "runs")
		},
		"a reader without patience, and one whose context ends": func(t *testing.T, v *verified) {
			f := newSlowFile(v, 1)
			done := make(chan error)
			go func() { done <- f.verify(t.Context(), 0) }()
			synctest.Wait()
			testkit.Failed(t, f.verify(canceled(), verifyPatience), context.Canceled)
			time.Sleep(10 * unaskedFor)
			f.end <- nil
			err := <-done
			testkit.Holds(t, err == nil && f.runs == 1, err, "after", f.runs, "runs")
		},
		"all readers get the damage": func(t *testing.T, v *verified) {
			f := newSlowFile(v, 1)
			done := make(chan error)
			for range 4 {
				go func() { done <- f.verify(t.Context(), 0) }()
			}
			synctest.Wait()
			f.end <- &DamagedError{File: "x"}
			for range 4 {
				mustBeDamaged(t, <-done, "x")
			}
			testkit.Failed(t, f.verify(t.Context(), time.Second), ErrVerifying) // it is verified again
		},
		"more files than run at once": func(t *testing.T, v *verified) {
			var files []*slowFile
			done := make(chan error)
			for i := range uint64(maxBackground + 1) {
				f := newSlowFile(v, i)
				files = append(files, f)
				go func() { done <- f.verify(t.Context(), 0) }()
				synctest.Wait()
			}
			last := files[maxBackground]
			_, n := v.count()
			testkit.Holds(t, n == maxBackground && last.runs == 0, n, "run")
			testkit.Failed(t, last.verify(t.Context(), time.Second), ErrVerifying)
			short := false
			err := v.once(t.Context(), fileID{inode: 99}, func() error { short = true; return nil })
			testkit.Holds(t, err == nil && short, "a short file was not verified", err)
			for _, f := range files {
				f.end <- nil
				testkit.Check(t, <-done)
			}
		},
		"the file is renewed meanwhile": func(t *testing.T, v *verified) {
			f := newSlowFile(v, 1)
			testkit.Failed(t, f.verify(t.Context(), time.Second), ErrVerifying)
			before := f.id
			f.id.ctime++
			v.renewed(before, f.id)
			testkit.Failed(t, f.verify(t.Context(), time.Second), ErrVerifying)
			f.end <- nil
			err := f.verify(t.Context(), time.Second)
			testkit.Holds(t, err == nil && f.runs == 1, err, "after", f.runs, "runs")
			before = f.id
			f.id.ctime++
			v.renewed(before, f.id)
			err = f.verify(t.Context(), time.Second)
			testkit.Holds(t, err == nil && f.runs == 1, err, "after", f.runs, "runs")
		},
		"the store is closed": func(t *testing.T, v *verified) {
			f := newSlowFile(v, 1)
			done := make(chan error)
			go func() { done <- f.verify(t.Context(), 0) }()
			synctest.Wait()
			v.close()
			testkit.Failed(t, <-done, errClosed)
			testkit.Failed(t, newSlowFile(v, 2).verify(t.Context(), 0), errClosed)
		},
		"it cannot begin": func(t *testing.T, v *verified) {
			err := v.share(t.Context(), fileID{}, backgroundFrom, 0, nil, func() (func(context.Context) error, error) { return nil, errInjected })
			testkit.Failed(t, err, errInjected)
			n, in := v.count()
			testkit.Holds(t, n == 0 && in == 0, n, "run")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := newVerified()
				defer v.close()
				test(t, v)
			})
		})
	}
}

// TestReaderGone: the verification of a long blob continues when its reader has gone, and reports damage to the next
// reader.
func TestReaderGone(t *testing.T) {
	s := newStore(t, Options{})
	s.verified.backgroundFrom = 1
	content := random(3, 3*bufferBytes)
	info := mustPut(t, s, content)
	open := func(ctx context.Context) *Blob { t.Helper(); return testkit.Must(s.Get(ctx, "", info.Address))(t) }
	gone := open(canceled())
	_, err := gone.ReadAt(make([]byte, 1), 5)
	if err = errors.Join(err, gone.Close()); err != nil { // it may have been fast enough
		testkit.Failed(t, err, context.Canceled)
	}
	s.verified.all.Wait()
	testkit.Equal(t, len(s.verified.at), 1, "the verification has ended with its reader")
	mustRead(t, s, content)
	testkit.NoError(t, os.WriteFile(s.path(info.Address), []byte(content[1:]), 0o600))
	b := open(t.Context())
	defer b.Close()
	mustBeDamaged(t, b.Verify(), s.path(info.Address))
}

// TestOpenBlobStaysVerified: an open blob is verified once, even if the list has forgotten it, or its age or its name
// changes.
func TestOpenBlobStaysVerified(t *testing.T) {
	c := &clock{time.Now()}
	s := newStore(t, Options{Hooks: Hooks{Now: c.now}})
	mustPut(t, s, wilson)
	get := func() *Blob {
		b := testkit.Must(s.Get(t.Context(), "", addressOf(wilson)))(t)
		t.Cleanup(func() { b.Close() }) // it was only read
		return b
	}
	trusts := func(b *Blob) {
		t.Helper()
		p := make([]byte, len(wilson))
		testkit.Must(b.ReadAt(p, 0))(t)
		testkit.Holds(t, string(p) == wilson, p)
	}
	b := get()
	trusts(b)
	b.ctx = canceled() // so another verification fails
	clear(s.verified.at)
	trusts(b)
	other := get()
	trusts(other)
	other.ctx, b.ctx = canceled(), canceled()
	for _, renew := range []func() error{
		func() error { _, err := s.Missing(t.Context(), "", []Address{addressOf(wilson)}); return err },
		func() error { mustCommit(t, s, wilson); return nil },
	} {
		c.at = c.at.Add(2 * time.Hour)
		testkit.Check(t, renew())
		trusts(other)
		trusts(b)
		trusts(get())
	}
	for _, change := range []func() error{
		func() error { _, err := s.Put(t.Context(), "", strings.NewReader(wilson), Ref{}); return err },
		func() error { return s.Delete(t.Context(), "", addressOf(wilson)) },
	} {
		b := get()
		trusts(b)
		testkit.Check(t, change())
		clear(s.verified.at)
		b.ctx = canceled()
		testkit.Must(b.Seek(0, io.SeekStart))(t)
		trusts(b)
	}
}

// TestDamage: a blob with one flipped byte, cut short or grown is refused on every read, and the next Put repairs it.
func TestDamage(t *testing.T) {
	testkit.OneByOne(t)
	s := newStore(t, Options{})
	for _, size := range []int{1, 1000, bufferBytes, 2*bufferBytes + 7} {
		content := random(1, size)
		info := mustPut(t, s, content)
		mustRead(t, s, content) // it is in the list of verified blobs
		path := s.path(info.Address)
		flip := func(at int) func() error {
			return func() error {
				f, err := os.OpenFile(path, os.O_WRONLY, 0)
				if err != nil {
					return err
				}
				_, err = f.WriteAt([]byte{content[at] ^ 1}, int64(at))
				return errors.Join(err, f.Close())
			}
		}
		for name, damage := range map[string]func() error{
			"the first byte":  flip(0),
			"the last byte":   flip(size - 1),
			"one in between":  flip(size / 2),
			"shorter":         func() error { return os.Truncate(path, int64(size-1)) },
			"empty":           func() error { return os.Truncate(path, 0) },
			"longer":          func() error { return os.Truncate(path, int64(size+1)) },
			"another content": func() error { return os.WriteFile(path, []byte(wilson), 0o600) },
		} {
			testkit.NoError(t, damage())
			for range 2 {
				got, err := read(t, s, info.Address)
				testkit.Holds(t, err != nil, size, "bytes", name, len(got), "bytes were read")
				mustBeDamaged(t, err, path)
			}
			testkit.Holds(t, mustPut(t, s, content).Existed, size, "bytes", name, "it did not exist")
			mustRead(t, s, content)
			// A running store does not notice the lost bytes; the next one counts again.
			testkit.NoError(t, s.Close())
			s = mustOpen(t, s.dir, Options{})
			mustAddUp(t, s)
		}
	}
}

// TestDamageWhileOpen: a reader that has verified a blob notices that its file was changed.
func TestDamageWhileOpen(t *testing.T) {
	s := newStore(t, Options{})
	info := mustPut(t, s, wilson)
	b, err := s.Get(context.Background(), "", info.Address)
	testkit.NoError(t, err)
	defer b.Close()
	p := make([]byte, 3)
	testkit.Must(b.ReadAt(p, 2))(t)
	testkit.MustHold(t, string(p) == "LSO", string(p))
	// The size changes, because two changes within a tick of the file system's clock have the same time.
	testkit.NoError(t, os.WriteFile(s.path(info.Address), []byte("Wilson?!"), 0o600))
	_, err = b.ReadAt(p, 2)
	mustBeDamaged(t, err, s.path(info.Address))
}

func TestReader(t *testing.T) {
	s := newStore(t, Options{})
	content := random(2, 50_000) // TestReader reads it byte by byte
	info := mustPut(t, s, content)
	b := testkit.Must(s.Get(context.Background(), "", info.Address))(t)
	defer b.Close()
	testkit.Check(t, iotest.TestReader(b, []byte(content)))
	testkit.Must(b.Seek(10, io.SeekStart))(t)
	var rest bytes.Buffer
	n, err := io.Copy(&rest, b)
	testkit.Holds(t, n == int64(len(content)-10) && err == nil && rest.String() == content[10:], "the rest has", n, "bytes", err)
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// TestHTTP: a server that follows doc.go. The client of a damaged blob gets an error, whether it requests the whole
// blob or an intact range.
func TestHTTP(t *testing.T) {
	s := newStore(t, Options{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := addressOf(r.URL.Query().Get("content"))
		b, err := s.Get(r.Context(), "", a)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer b.Close()
		if r.Header.Get("Range") != "" {
			if err := b.Verify(); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			http.ServeContent(w, r, "blob", time.Time{}, b)
			return
		}
		w.Header().Set("Content-Length", strconv.FormatInt(b.Info().Size, 10))
		if _, err := b.WriteTo(w); err != nil {
			panic(http.ErrAbortHandler)
		}
	}))
	server.Config.ErrorLog = nil
	defer server.Close()
	content := strings.Repeat("x", 10_000)
	get := func(rang string) (int, string, error) {
		t.Helper()
		r := testkit.Must(http.NewRequest("GET", server.URL+"?content="+content, nil))(t)
		if rang != "" {
			r.Header.Set("Range", rang)
		}
		answer, err := server.Client().Do(r)
		if err != nil {
			return 0, "", err // the connection may end before the header
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		return answer.StatusCode, string(body), err
	}
	info := mustPut(t, s, content)
	for rang, want := range map[string]string{"": content, "bytes=0-9": content[:10], "bytes=-5": content[:5], "bytes=9000-": content[9000:]} {
		_, body, err := get(rang)
		testkit.Holds(t, body == want && err == nil, "range", rang, "has", len(body), "bytes", err)
	}
	testkit.NoError(t, os.WriteFile(s.path(info.Address), []byte(content[1:]+"y"), 0o600))
	_, body, err := get("")
	testkit.Holds(t, err != nil, len(body), "bytes of a damaged blob were sent without an error")
	for _, rang := range []string{"bytes=0-9", "bytes=-5", "bytes=5-6"} {
		if status, body, err := get(rang); status != http.StatusInternalServerError || err != nil || !strings.Contains(body, "damaged") {
			t.Errorf("range %s of a damaged blob: %d, %q, %v", rang, status, body, err)
		}
	}
}
