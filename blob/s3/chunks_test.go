package s3

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/blob/s3/s3test"
)

// TestChunks stores and reads chunks beside the blobs of a server, which does not touch them.
func TestChunks(t *testing.T) {
	ctx := t.Context()
	server := s3test.Start(t, "bucket")
	proxy := s3test.NewProxy(t, server.Addr)
	chunks, err := OpenChunks(s3test.Address("bucket/p", proxy.Addr))
	if err != nil {
		t.Fatal(err)
	}
	defer chunks.Close()
	read := func(address string) (string, error) {
		in, err := chunks.Get(ctx, address)
		if err != nil {
			return "", err
		}
		text, err := io.ReadAll(in)
		return string(text), errors.Join(err, in.Close())
	}
	for _, content := range []string{"", "a chunk", long(3 << 20)} {
		for range 2 { // it may be there
			address, err := chunks.Put(ctx, []byte(content))
			if err != nil || address != addressOf(content).String() {
				t.Fatal(address, err)
			}
		}
		if got, err := read(addressOf(content).String()); err != nil || got != content {
			t.Errorf("%d bytes, %v; want %d", len(got), err, len(content))
		}
	}
	if _, err := read(addressOf("none").String()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no chunk: %v", err)
	}
	for _, bad := range []string{"", "../owner.json", strings.Repeat("0", 40)} {
		if _, err := read(bad); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", bad, err)
		}
	}

	// Bytes that change on the way are refused.
	proxy.Before(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut {
			r.Body = io.NopCloser(strings.NewReader("a chumk"))
		}
		return false
	})
	if _, err := chunks.Put(ctx, []byte("a chunc")); err == nil {
		t.Error("a chunk that was changed on the way was stored")
	}
	proxy.Before(nil)
	if _, err := read(addressOf("a chunc").String()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was stored: %v", err)
	}

	// A server with the same prefix removes its own blobs only.
	s := newStores(t, s3test.Address("bucket/p", server.Addr), blob.Options{})
	mustPut(t, s.of(""), "a blob")
	s.files = filepath.Join(server.Dir, "bucket", "p")
	s.age(72 * time.Hour)
	if removed, err := s.of("").Sweep(ctx, func(blob.Address) bool { return false }); err != nil || removed.Blobs != 1 {
		t.Errorf("removed %+v, %v", removed, err)
	}
	if got, err := read(addressOf("a chunk").String()); err != nil || got != "a chunk" {
		t.Errorf("after a collection: %q, %v", got, err)
	}

	server.Kill()
	if _, err := chunks.Put(ctx, []byte("x")); !errors.Is(err, blob.ErrUnavailable) {
		t.Errorf("the service is down: %v", err)
	}
}

// TestOpenChunks: addresses and credentials that cannot be used are refused without a request.
func TestOpenChunks(t *testing.T) {
	for _, bad := range []string{"", "file:///tmp", "s3://", "s3://key:secret@bucket/p"} {
		if _, err := OpenChunks(bad); !errors.Is(err, ErrAddress) || strings.Contains(err.Error(), "secret@") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY", "AWS_SECRET_KEY", "AWS_SESSION_TOKEN"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "credentials"))
	role := httptest.NewServer(http.NotFoundHandler())
	defer role.Close()
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", role.URL)
	if _, err := OpenChunks("s3://bucket/p?endpoint=" + role.URL); !errors.Is(err, ErrCredentials) {
		t.Errorf("without credentials: %v", err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", s3test.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3test.SecretKey)
	chunks, err := OpenChunks("s3://bucket/p?endpoint=" + role.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := chunks.Close(); err != nil {
		t.Error(err)
	}
}
