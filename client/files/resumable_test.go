package files_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/files"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/problem"
)

// uploadServer is a server of resumable uploads. Each of its connections breaks after cut bytes, unless cut is nil.
type uploadServer struct {
	*httptest.Server
	cut func() int64

	mu      sync.Mutex // guards the fields below
	uploads map[string]*serverUpload
	begun   int
	patches int
	// collected makes the server lack the next blob that the client looks up.
	collected bool
	// before, if not nil, may answer a request in place of the server.
	before func(w http.ResponseWriter, r *http.Request) bool
}

type serverUpload struct {
	size int64
	got  []byte
}

func newUploadServer(t *testing.T, cut func() int64) *uploadServer {
	s := &uploadServer{uploads: map[string]*serverUpload{}, cut: cut}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.Listener = cutListener{s.Listener, s}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

type cutListener struct {
	net.Listener
	s *uploadServer
}

func (l cutListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil || l.s.cut == nil {
		return c, err
	}
	return &cutConn{Conn: c, left: l.s.cut()}, nil
}

// cutConn is a connection that breaks after some bytes were read from it.
type cutConn struct {
	net.Conn
	left int64
}

func (c *cutConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errors.Join(net.ErrClosed, c.Close())
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

func (s *uploadServer) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.before != nil && s.before(w, r) {
		return
	}
	refuse := func(status int, code string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"code":%q,"outcome":"not_stored"}`, code)
	}
	if r.URL.Path == "/blobs/missing" {
		text, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Query().Get("client") != "acme" {
			refuse(400, "bad_request")
		} else if s.collected {
			s.collected = false
			fmt.Fprintf(w, `{"missing":%s}`, bytes.TrimSuffix(bytes.TrimPrefix(text, []byte(`{"addresses":`)), []byte("}")))
		} else {
			fmt.Fprint(w, `{"missing":[]}`)
		}
		return
	}
	if r.Method == http.MethodPost {
		size, err := strconv.ParseInt(r.Header.Get("Upload-Length"), 10, 64)
		if err != nil || r.URL.Query().Get("client") != "acme" {
			refuse(400, "bad_request")
			return
		}
		s.begun++
		path := fmt.Sprintf("/uploads/u%d", s.begun)
		s.uploads[path] = &serverUpload{size: size}
		w.Header().Set("Location", path+"?client=acme")
		s.describe(w, s.uploads[path])
		w.WriteHeader(http.StatusCreated)
		return
	}
	u := s.uploads[r.URL.Path]
	if u == nil {
		refuse(404, "upload_not_found")
		return
	}
	if r.Method == http.MethodGet {
		s.describe(w, u)
		fmt.Fprintf(w, `{"size":%d,"offset":%d,"blob":%q}`, u.size, len(u.got), w.Header().Get("Daybook-Blob"))
		return
	}
	s.patches++
	if r.Header.Get("Upload-Offset") != strconv.Itoa(len(u.got)) || r.Header.Get("Content-Type") != "application/offset+octet-stream" {
		refuse(409, "offset_differs")
		return
	}
	body, err := io.ReadAll(r.Body)
	u.got = append(u.got, body...)
	if err != nil {
		refuse(400, "bad_request") // nobody reads it
		return
	}
	s.describe(w, u)
	w.WriteHeader(http.StatusNoContent)
}

func (s *uploadServer) describe(w http.ResponseWriter, u *serverUpload) {
	if int64(len(u.got)) == u.size {
		w.Header().Set("Daybook-Blob", fmt.Sprintf("sha256:%x", sha256.Sum256(u.got)))
	}
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{1})
	rng.Read(b)
	return b
}

// TestUploadOverCutConnections: a blob arrives over connections that all break, and each byte of progress counts.
func TestUploadOverCutConnections(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	content := randomBytes(300_000)
	s := newUploadServer(t, func() int64 { return 2000 + rng.Int64N(60_000) })
	c := client.New(s.URL, client.Options{}).Blobs("acme")
	c.SetResumableFrom(1000)
	r := bytes.NewReader(append([]byte("before"), content...))
	testkit.Must(r.Seek(6, io.SeekStart))(t)
	b := testkit.Must(c.Put(t.Context(), r))(t)
	testkit.Holds(t, b.Address == addressOf(string(content)) && len(b.SHA1) == 40 && b.Size == int64(len(content)) && b.ChangedAt != 0, b)
	testkit.Holds(t, s.begun == 1 && s.patches >= 5, s.begun, "uploads with", s.patches, "parts")
}

// TestUploadResumed: a second process continues the upload of the first, and begins again only if it must.
func TestUploadResumed(t *testing.T) {
	content := randomBytes(100_000)
	for name, c := range map[string]struct {
		change func(s *uploadServer, path *string, content []byte) []byte // between the processes
		begun  int
	}{
		"nothing has changed": {func(*uploadServer, *string, []byte) []byte { return content }, 1},
		"the server has all of it": {func(s *uploadServer, path *string, _ []byte) []byte {
			s.uploads[*path].got = bytes.Clone(content)
			return content
		}, 1},
		"the server has stored and collected it": {func(s *uploadServer, path *string, _ []byte) []byte {
			s.uploads[*path].got = bytes.Clone(content)
			s.collected = true
			return content
		}, 2},
		"the server has lost it":            {func(s *uploadServer, path *string, _ []byte) []byte { clear(s.uploads); return content }, 2},
		"the file has other bytes":          {func(_ *uploadServer, _ *string, b []byte) []byte { b[0]++; return b }, 2},
		"the file is longer":                {func(_ *uploadServer, _ *string, b []byte) []byte { return append(b, 'x') }, 2},
		"the path is not that of an upload": {func(_ *uploadServer, path *string, b []byte) []byte { *path = "/uploads/../quit"; return b }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newUploadServer(t, nil)
			var path string
			ctx, cancel := context.WithCancel(t.Context())
			s.before = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPatch {
					return false
				}
				part, err := io.ReadAll(io.LimitReader(r.Body, 40_000))
				testkit.Check(t, err)
				s.uploads[r.URL.Path].got = part
				cancel() // the process has ended
				panic(http.ErrAbortHandler)
			}
			dial := client.New(s.URL, client.Options{})
			_, err := dial.Blobs("acme").Upload(ctx, bytes.NewReader(content), files.UploadOptions{Begun: func(p string) error { path = p; return nil }})
			testkit.MustHold(t, errors.Is(err, context.Canceled) && path == "/uploads/u1", path, err)
			s.mu.Lock()
			s.before = nil
			now := c.change(s, &path, bytes.Clone(content))
			s.mu.Unlock()
			first := int64(-1)
			o := files.UploadOptions{Resume: path, Progress: func(sent, size int64) {
				if first < 0 {
					first = sent
				}
				testkit.Holds(t, size == int64(len(now)) && sent <= size, sent, "of", size)
			}}
			b := testkit.Must(dial.Blobs("acme").Upload(t.Context(), bytes.NewReader(now), o))(t)
			testkit.Holds(t, b.Address == addressOf(string(now)) && s.begun == c.begun, b, s.begun, "uploads")
			testkit.Holds(t, name != "nothing has changed" || first > 40_000, "it went on at", first)
		})
	}
}

// TestUploadFailures: some failures end an upload, and some do not.
func TestUploadFailures(t *testing.T) {
	content := randomBytes(5000)
	refuse := func(status int, code string) func(w http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"code":%q,"outcome":"not_stored"}`, code)
		}
	}
	for name, c := range map[string]struct {
		method string
		answer func(w http.ResponseWriter) // in place of the server's
		times  int
		want   error
	}{
		"busy, then not":              {http.MethodPatch, refuse(423, "upload_busy"), 3, nil},
		"another offset":              {http.MethodPatch, refuse(409, "offset_differs"), 2, nil},
		"503 at the beginning":        {http.MethodPost, refuse(503, "not_ready"), 2, nil},
		"a proxy without a server":    {http.MethodPatch, func(w http.ResponseWriter) { w.WriteHeader(502) }, 2, nil},
		"the answer is lost":          {http.MethodPatch, func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, 2, nil},
		"the server loses it, once":   {http.MethodPatch, refuse(404, "upload_not_found"), 1, nil},
		"the server loses it always":  {http.MethodPatch, refuse(404, "upload_not_found"), 1 << 30, problem.ErrNotFound},
		"busy for ever":               {http.MethodPatch, refuse(423, "upload_busy"), 1 << 30, problem.ErrConflict},
		"the quota":                   {http.MethodPatch, refuse(507, "blob_quota"), 1, problem.ErrOverloaded},
		"no blobs":                    {http.MethodPost, refuse(501, "no_blobs"), 1, problem.ErrNoBlobs},
		"not a path of an upload":     {http.MethodPost, func(w http.ResponseWriter) { w.Header().Set("Location", "//evil/uploads"); w.WriteHeader(201) }, 1, problem.ErrUnexpectedAnswer},
		"more bytes than it has":      {http.MethodGet, func(w http.ResponseWriter) { io.WriteString(w, `{"size":5000,"offset":5001}`) }, 1, problem.ErrUnexpectedAnswer},
		"the blob has another digest": {http.MethodPatch, func(w http.ResponseWriter) { w.Header().Set("Daybook-Blob", addressOf("x")); w.WriteHeader(204) }, 1, problem.ErrUnexpectedAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			s := newUploadServer(t, nil)
			left := c.times
			s.before = func(w http.ResponseWriter, r *http.Request) bool {
				if c.method == http.MethodGet && r.Method == http.MethodPatch { // so that the client requests the offset
					w.WriteHeader(502)
					return true
				}
				if r.Method != c.method || left == 0 {
					return false
				}
				left--
				c.answer(w)
				return true
			}
			dial := client.New(s.URL, client.Options{RetryFor: time.Second})
			b, err := dial.Blobs("acme").Upload(t.Context(), bytes.NewReader(content), files.UploadOptions{})
			testkit.Holds(t, errors.Is(err, c.want) && (err != nil || b.Address == addressOf(string(content))), b, err, "want", c.want)
			testkit.Holds(t, s.begun <= 3, s.begun, "uploads have begun")
		})
	}
	s := newUploadServer(t, nil)
	dial := client.New(s.URL, client.Options{})
	_, err := dial.Blobs("acme").Upload(t.Context(), bytes.NewReader(content), files.UploadOptions{Begun: func(string) error { return os.ErrPermission }})
	testkit.Holds(t, errors.Is(err, os.ErrPermission) && s.patches == 0, err, "after", s.patches, "parts")
	// A file that becomes shorter during the upload, and a file that cannot be read.
	name := filepath.Join(t.TempDir(), "file")
	testkit.NoError(t, os.WriteFile(name, content, 0o600))
	f := testkit.Must(os.Open(name))(t)
	_, err = dial.Blobs("acme").Upload(t.Context(), f, files.UploadOptions{Begun: func(string) error { return os.Truncate(name, 10) }})
	testkit.Failed(t, err, io.ErrUnexpectedEOF, "has become shorter")
	testkit.NoError(t, f.Close())
	_, err = dial.Blobs("acme").Upload(t.Context(), f, files.UploadOptions{})
	testkit.Holds(t, errors.Is(err, problem.ErrBadRequest), "a closed file", err)
	b := testkit.Must(dial.Blobs("acme").Upload(t.Context(), bytes.NewReader(nil), files.UploadOptions{}))(t)
	testkit.Holds(t, b.Address == addressOf(""), "an empty blob", b)
}
