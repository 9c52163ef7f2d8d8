package s3

import (
	"bytes"
	"context"
	"crypto/sha1"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/blob/s3/s3test"
	"github.com/daybookq/daybook/internal/testkit"
)

// behindProxy starts a server, a proxy in front of it, and stores that use the proxy.
func behindProxy(t *testing.T, o blob.Options) (*store, *s3test.Server, *s3test.Proxy) {
	t.Helper()
	server := s3test.Start(t, "bucket")
	proxy := s3test.NewProxy(t, server.Addr)
	s := newStore(t, s3test.Address("bucket/p", proxy.Addr), o)
	s.files = filepath.Join(server.Dir, "bucket", "p")
	return s, server, proxy
}

// TestBitFlip: every way to read a damaged object refuses it, and the next Put repairs it.
func TestBitFlip(t *testing.T) {
	all, server, _ := behindProxy(t, blob.Options{})
	s := all.of("")
	for _, content := range []string{"WILSON!", long(2<<20 + 5)} {
		a := mustPut(t, s, content).Address
		path := file(server, "p/blobs/sha256/"+hexOf(a))
		damaged := []byte(content)
		damaged[len(damaged)/2] ^= 4
		testkit.NoError(t, os.WriteFile(path, damaged, 0o600))
		got, err := read(t.Context(), s, a)
		of, ok := errors.AsType[*blob.DamagedError](err)
		testkit.MustHold(t, ok && len(got) < len(content), "read", len(got), "of", len(content), "damaged bytes", err)
		if text := of.Detail(); strings.Contains(text, "bucket") || !strings.Contains(text, a.String()) || !strings.Contains(err.Error(), "s3://bucket/p/") {
			t.Errorf("the text for clients: %s; the error: %v", text, err)
		}
		b := testkit.Must(s.Get(t.Context(), s.client, a))(t)
		for range 2 {
			n, err := b.ReadAt(make([]byte, 3), 0)
			_, ok := errors.AsType[*blob.DamagedError](err)
			testkit.Holds(t, ok && n == 0, "a range of a damaged blob", n, "bytes", err)
		}
		testkit.Check(t, b.Close())
		testkit.Holds(t, mustPut(t, s, content).Existed, "a damaged blob did not exist")
		mustRead(t, s, content)
	}
}

// TestRangesVerifyOnce: many ranges of a long blob download it once, and after that only the requested bytes.
func TestRangesVerifyOnce(t *testing.T) {
	all, _, proxy := behindProxy(t, blob.Options{})
	s, content := all.of(""), long(6<<20)
	a := mustPut(t, s, content).Address
	var whole, ranges atomic.Int64
	proxy.Before(func(_ http.ResponseWriter, r *http.Request) bool {
		testkit.Holds(t, r.Method != http.MethodGet || r.Header.Get("If-Match") != "", "a read without If-Match", r.URL)
		if r.Method == http.MethodGet && r.Header.Get("Range") == "" {
			whole.Add(1)
		} else if r.Method == http.MethodGet {
			ranges.Add(1)
		}
		return false
	})
	for i := range 10 {
		b := testkit.Must(s.Get(t.Context(), s.client, a))(t)
		p := make([]byte, 100)
		testkit.Must(b.ReadAt(p, int64(i)*1000))(t)
		testkit.Holds(t, string(p) == content[i*1000:i*1000+100], "range", i)
		testkit.Check(t, b.Close())
	}
	testkit.Holds(t, whole.Load() == 1 && ranges.Load() == 10, whole.Load(), "downloads and", ranges.Load(), "ranges, not 1 and 10")
}

// TestVerificationGoesOn: a reader that gives up does not end the download that verifies a long blob.
func TestVerificationGoesOn(t *testing.T) {
	all, _, proxy := behindProxy(t, blob.Options{})
	s, content := all.of(""), long(65<<20)
	a := mustPut(t, s, content).Address
	var downloads atomic.Int64
	asked, goOn := make(chan struct{}, 10), make(chan struct{})
	proxy.Before(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && r.Header.Get("Range") == "" {
			downloads.Add(1)
			asked <- struct{}{}
			<-goOn
		}
		return false
	})
	ctx, cancel := context.WithCancel(t.Context())
	first := testkit.Must(s.Get(ctx, s.client, a))(t)
	verified := make(chan error, 1)
	go func() { verified <- first.Verify() }()
	<-asked
	cancel()
	testkit.Failed(t, <-verified, context.Canceled)
	testkit.Check(t, first.Close())
	close(goOn)
	second := testkit.Must(s.Get(t.Context(), s.client, a))(t)
	p := make([]byte, 10)
	testkit.Must(second.ReadAt(p, 1000))(t)
	testkit.Holds(t, string(p) == content[1000:1010], "ReadAt")
	testkit.Check(t, second.Close())
	testkit.Equal(t, downloads.Load(), 1, "downloads")
}

// TestBrokenPut: if a copy fails for any reason, Put reports the error, and leaves neither a file nor a blob.
func TestBrokenPut(t *testing.T) {
	all, server, proxy := behindProxy(t, blob.Options{})
	isBlob := func(r *http.Request) bool {
		return (r.Method == http.MethodPut || r.Method == http.MethodPost) && strings.Contains(r.URL.Path, "/blobs/sha256/")
	}
	refuse := func(status int) func(w http.ResponseWriter, r *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if isBlob(r) {
				w.WriteHeader(status)
			}
			return isBlob(r)
		}
	}
	tests := map[string]func(http.ResponseWriter, *http.Request) bool{
		"500": refuse(500), "503": refuse(503), "403": refuse(403),
		"changed on the way": func(_ http.ResponseWriter, r *http.Request) bool {
			if isBlob(r) && r.Method == http.MethodPut {
				body := r.Body
				r.Body = struct {
					io.Reader
					io.Closer
				}{&flip{from: body}, body}
			}
			return false
		},
		"silent": func(_ http.ResponseWriter, r *http.Request) bool {
			if isBlob(r) {
				<-proxy.Ended
			}
			return isBlob(r)
		},
		"connection closed": func(_ http.ResponseWriter, r *http.Request) bool {
			if isBlob(r) {
				panic(http.ErrAbortHandler)
			}
			return false
		},
		"server killed": func(_ http.ResponseWriter, r *http.Request) bool {
			if isBlob(r) {
				server.Kill()
			}
			return false
		},
	}
	all.bucket.Silence = 300 * time.Millisecond
	all.reopen()
	s := all.of("")
	for name, before := range tests {
		for _, content := range []string{"content " + name, long(6<<20) + name} {
			proxy.Before(before)
			_, err := s.Put(t.Context(), s.client, strings.NewReader(content), blob.Ref{})
			testkit.Holds(t, errors.Is(err, blob.ErrUnavailable), name, "Put of", len(content), "bytes", err)
			all.noFiles()
			proxy.Before(nil)
			if name == "server killed" {
				server.Restart()
			}
			mustMiss(t, s, content)
		}
	}
	mustPut(t, s, "content 500")
	mustRead(t, s, "content 500")
	all.reopen()
	wantUsed(t, all, 11) // also bytes that no restart has counted
	server.Kill()
	testkit.Fails(s.Stat(t.Context(), s.client, addressOf("content 500")))(t)
}

// flip changes the first byte.
type flip struct {
	from io.Reader
	done bool
}

func (f *flip) Read(p []byte) (int, error) {
	n, err := f.from.Read(p)
	if n > 0 && !f.done {
		p[0] ^= 1
		f.done = true
	}
	return n, err
}

// TestChangedFile: a file that changed after it was received does not become a blob.
func TestChangedFile(t *testing.T) {
	all, _, _ := behindProxy(t, blob.Options{})
	for _, n := range []int{100, 11 << 20} {
		content := long(n)
		f := &blob.File{Info: blob.Info{Address: addressOf(content), Size: int64(n)}, Path: filepath.Join(t.TempDir(), "changed")}
		testkit.NoError(t, os.WriteFile(f.Path, []byte("X"+content[1:]), 0o600))
		testkit.Holds(t, all.opened.Put(t.Context(), "", []*blob.File{f}) != nil, "Put of another content of", n, "bytes succeeded")
		mustMiss(t, all.of(""), content)
	}
}

// TestPassingTrouble: a request that fails once is sent again.
func TestPassingTrouble(t *testing.T) {
	all, _, proxy := behindProxy(t, blob.Options{})
	s, content := all.of(""), long(11<<20)
	seen := map[string]bool{}
	fail := make(chan map[string]bool, 1)
	fail <- seen
	proxy.Before(func(w http.ResponseWriter, r *http.Request) bool {
		seen := <-fail
		defer func() { fail <- seen }()
		key := r.Method + r.URL.String()
		if seen[key] {
			return false
		}
		seen[key] = true
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	mustPut(t, s, content)
	mustRead(t, s, content)
	missing := testkit.Must(s.Missing(t.Context(), s.client, []blob.Address{addressOf(content)}))(t)
	testkit.Holds(t, len(missing) == 0, "missing", missing)
	stats := all.opened.transport.stats.Requests()[http.MethodPut]
	testkit.Holds(t, stats.Failures != 0 && stats.Requests > stats.Failures && stats.Seconds > 0, "stats of PUT", stats)
}

// TestBrokenGet: a download that breaks off is continued at the same offset.
func TestBrokenGet(t *testing.T) {
	all, server, proxy := behindProxy(t, blob.Options{})
	s, content := all.of(""), long(9<<20)
	a := mustPut(t, s, content).Address
	var breaks atomic.Int64
	proxy.Before(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || breaks.Add(1) > 2 {
			return false
		}
		var off int64
		if from, _, ok := strings.Cut(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "-"); ok {
			for _, c := range from {
				off = 10*off + int64(c-'0')
			}
		}
		w.Header().Set("Content-Length", itoa(int64(len(content))-off))
		w.Header().Set("ETag", r.Header.Get("If-Match"))
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		if off > 0 {
			w.WriteHeader(http.StatusPartialContent)
		}
		io.WriteString(w, content[off:off+3<<20])
		panic(http.ErrAbortHandler)
	})
	if got, err := read(t.Context(), s, a); err != nil || got != content {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	proxy.Before(nil)
	b := testkit.Must(s.Get(t.Context(), s.client, a))(t)
	server.Kill()
	var got bytes.Buffer
	n, err := b.WriteTo(&got)
	testkit.Holds(t, errors.Is(err, blob.ErrUnavailable) && n < int64(len(content)), "read", n, "bytes without a service", err)
	testkit.Check(t, b.Close())
	server.Restart()
	mustRead(t, s, content)
}

func itoa(n int64) string {
	text := ""
	for ; n > 0 || text == ""; n /= 10 {
		text = string(rune('0'+n%10)) + text
	}
	return text
}

// TestUnknownOutcome: when the answer to a write is lost, the bytes count as they are stored.
func TestUnknownOutcome(t *testing.T) {
	all, server, proxy := behindProxy(t, blob.Options{})
	s := all.of("")
	var lose atomic.Bool
	proxy.Before(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/blobs/sha256/") && lose.Load() {
			body, _ := io.ReadAll(r.Body)
			path := file(server, strings.TrimPrefix(r.URL.Path, "/bucket/"))
			testkit.Check(t, os.MkdirAll(filepath.Dir(path), 0o700))
			testkit.Check(t, os.WriteFile(path, body, 0o600))
			panic(http.ErrAbortHandler)
		}
		return false
	})
	lose.Store(true)
	testkit.Fails(s.Put(t.Context(), s.client, strings.NewReader("stored, but nobody knows"), blob.Ref{}))(t, blob.ErrUnavailable)
	wantUsed(t, s, 24)
	lose.Store(false)
	// Now even the check of the outcome fails.
	proxy.Before(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/sha256/") && (r.Method == http.MethodPut || lose.Load()) {
			lose.Store(true)
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	testkit.Fails(s.Put(t.Context(), s.client, strings.NewReader("not stored"), blob.Ref{}))(t, blob.ErrUnavailable)
	wantUsed(t, s, 24+10) // the largest possible sum
	proxy.Before(nil)
	mustMiss(t, s, "not stored")
	mustPut(t, s, "not stored")
	wantUsed(t, s, 24+10)
	all.reopen()
	wantUsed(t, all, 24+10)
}

// TestFinishAgain: if the copy of an upload has failed, the next Finish copies it, even after a restart.
func TestFinishAgain(t *testing.T) {
	all, _, proxy := behindProxy(t, blob.Options{})
	s := all.of("")
	u := testkit.Must(s.NewUpload(t.Context(), s.client, 7, blob.Ref{}))(t)
	testkit.NoError(t, u.Append(t.Context(), 0, strings.NewReader("WILSON!")))
	refuse := func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return r.Method == http.MethodPut
	}
	for range 2 {
		proxy.Before(refuse)
		testkit.Fails(u.Finish(t.Context()))(t, blob.ErrUnavailable)
		state := u.State()
		testkit.Holds(t, state.Blob == nil && state.Offset == 7, "state after a failed Finish", state)
		wantUsed(t, s, 7)
		proxy.Before(nil)
		all.reopen()
		s = all.of("")
		u = testkit.Must(s.Upload(t.Context(), s.client, u.State().ID))(t)
		wantUsed(t, s, 7)
	}
	ctx, cancel := context.WithCancel(t.Context())
	proxy.Before(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut {
			cancel() // the client hangs up
		}
		return false
	})
	testkit.Must(u.Finish(ctx))(t)
	mustRead(t, s, "WILSON!")
	wantUsed(t, s, 7)
}

// TestRefusedBatch: a batch that cannot be copied leaves no files.
func TestRefusedBatch(t *testing.T) {
	all, _, proxy := behindProxy(t, blob.Options{})
	s := all.of("")
	b := testkit.Must(s.NewBatch(t.Context(), s.client))(t)
	for _, content := range []string{"one", "two", "three"} {
		testkit.Must(b.Add(t.Context(), strings.NewReader(content), blob.Ref{}))(t)
	}
	proxy.Before(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, hexOf(addressOf("two"))) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	testkit.Failed(t, b.Commit(t.Context()), blob.ErrUnavailable)
	all.noFiles()
	proxy.Before(nil)
	mustMiss(t, s, "two")
	used := s.Used()
	all.reopen()
	wantUsed(t, all, int(used))
}

// TestResolveIsBounded: look-ups of SHA-1 digests count as open files, because each has a connection.
func TestResolveIsBounded(t *testing.T) {
	all, _, proxy := behindProxy(t, blob.Options{MaxFiles: blob.MinFiles})
	s := all.of("")
	var now, most atomic.Int64
	goOn := make(chan struct{})
	proxy.Before(func(http.ResponseWriter, *http.Request) bool {
		n := now.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		<-goOn
		now.Add(-1)
		return false
	})
	var running sync.WaitGroup
	const asked = 2 * blob.MinFiles
	for i := range asked {
		running.Go(func() {
			x := blob.SHA1(sha1.Sum([]byte{byte(i)}))
			_, err := s.Resolve(t.Context(), s.client, blob.Ref{SHA1: &x})
			testkit.Holds(t, errors.Is(err, blob.ErrNotFound) || errors.Is(err, blob.ErrFiles), err)
		})
	}
	testkit.Eventually(t, "the puts stand still", func() bool { return now.Load() >= blob.MinFiles/2 && now.Load() == most.Load() })
	close(goOn)
	running.Wait()
	n := most.Load()
	testkit.Holds(t, n <= blob.MinFiles, n, "look-ups at once")
}

// TestSlowJoin: a service may take longer to join the parts of a blob than it may otherwise be silent.
func TestSlowJoin(t *testing.T) {
	all, _, proxy := behindProxy(t, blob.Options{})
	all.bucket.Silence = 300 * time.Millisecond
	all.reopen()
	var joins atomic.Int64
	proxy.Before(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && r.URL.Query().Has("uploadId") {
			joins.Add(1)
			time.Sleep(4 * all.bucket.Silence) // real time: a service that is slow
		}
		return false
	})
	content := long(6 << 20)
	mustPut(t, all.of(""), content)
	testkit.Equal(t, joins.Load(), 1, "requests to join the parts")
	mustRead(t, all.of(""), content)
}
