package s3

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/blob/s3/s3test"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestMain makes the rests between two tries of a request short.
func TestMain(m *testing.M) {
	minio.DefaultRetryUnit, minio.DefaultRetryCap = 5*time.Millisecond, 20*time.Millisecond
	os.Exit(m.Run())
}

// store is the store of a server in a bucket or, without one, in a directory.
type store struct {
	*blob.Store
	t      *testing.T
	dir    string
	o      blob.Options
	bucket *Options // nil: a directory
	opened *Bucket
	files  string // the directory of the blobs' files
}

// age makes all blobs and renewals older.
func (s *store) age(by time.Duration) {
	s.t.Helper()
	testkit.NoError(s.t, filepath.WalkDir(s.files, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		at := info.ModTime().Add(-by)
		return os.Chtimes(path, at, at)
	}))
}

func newStore(t *testing.T, address string, o blob.Options) *store {
	t.Helper()
	s := &store{t: t, dir: filepath.Join(t.TempDir(), "blobs"), o: o}
	s.files = s.dir
	if address != "" {
		a := testkit.Must(ParseAddress(address))(t)
		s.bucket = &Options{Address: a, Server: "server-1", PartBytes: 5 << 20, Silence: 2 * time.Second}
	}
	testkit.NoError(t, s.open())
	t.Cleanup(s.close)
	return s
}

func (s *store) open() (err error) {
	if s.bucket == nil {
		s.Store, err = blob.OpenDir(context.Background(), s.dir, s.o)
		return err
	}
	b, err := Open(context.Background(), *s.bucket)
	if err != nil {
		return err
	}
	s.opened = b
	s.Store, err = blob.Open(context.Background(), s.dir, b, s.o)
	return err
}

func (s *store) close() {
	if s.Store == nil {
		return
	}
	testkit.Check(s.t, s.Close())
	s.Store = nil
}

func (s *store) reopen() {
	s.t.Helper()
	s.close()
	testkit.NoError(s.t, s.open())
}

// of returns the blobs of a client.
func (s *store) of(client string) blobs { return blobs{s.Store, client} }

// blobs are the blobs of a client.
type blobs struct {
	*blob.Store
	client string
}

func (s blobs) put(ctx context.Context, content string, want blob.Ref) (blob.Info, error) {
	return s.Put(ctx, s.client, strings.NewReader(content), want)
}

// resolve looks up the SHA-1 of a content.
func (s blobs) resolve(t *testing.T, content string) (blob.Address, error) {
	x := blob.SHA1(sha1.Sum([]byte(content)))
	return s.Resolve(t.Context(), s.client, blob.Ref{SHA1: &x})
}

func (s blobs) Used() int64 { return s.UsedBy(s.client) }

// noFiles checks that the directory of the store contains no uploads.
func (s *store) noFiles() {
	s.t.Helper()
	testkit.Check(s.t, filepath.WalkDir(s.dir, func(path string, d os.DirEntry, err error) error {
		testkit.Holds(s.t, err != nil || d.IsDir() || filepath.Base(filepath.Dir(path)) != "uploads", path, "was left")
		return err
	}))
}

func mustPut(t *testing.T, s blobs, content string) blob.Info {
	t.Helper()
	info := testkit.Must(s.put(t.Context(), content, blob.Ref{}))(t)
	testkit.MustHold(t, info.Address == sha256.Sum256([]byte(content)) && info.SHA1 == sha1.Sum([]byte(content)) &&
		info.Size == int64(len(content)), "Put of", len(content), "bytes", info)
	return info
}

func addressOf(content string) blob.Address { return sha256.Sum256([]byte(content)) }

// read reads a blob by WriteTo.
func read(ctx context.Context, s blobs, a blob.Address) (string, error) {
	b, err := s.Get(ctx, s.client, a)
	if err != nil {
		return "", err
	}
	var all bytes.Buffer
	_, err = b.WriteTo(&all)
	return all.String(), errors.Join(err, b.Close())
}

func mustRead(t *testing.T, s blobs, content string) {
	t.Helper()
	got := testkit.Must(read(t.Context(), s, addressOf(content)))(t)
	testkit.MustHold(t, got == content, "read", len(got), "bytes", "put were", len(content))
}

func mustMiss(t *testing.T, s blobs, content string) {
	t.Helper()
	_, err := s.Stat(t.Context(), s.client, addressOf(content))
	testkit.Failed(t, err, blob.ErrNotFound)
	if text := err.Error(); strings.Contains(text, "bucket") || !strings.Contains(text, addressOf(content).String()) {
		t.Errorf("the error must name the blob, and not its place: %s", text)
	}
	testkit.Fails(s.Get(t.Context(), s.client, addressOf(content)))(t, blob.ErrNotFound)
}

func wantUsed(t *testing.T, s interface{ Used() int64 }, want int) {
	t.Helper()
	testkit.MustEqual(t, s.Used(), int64(want), "bytes are used", want)
}

// long is a text of n bytes without repetition.
func long(n int) string {
	b := make([]byte, n)
	x := uint64(88172645463325252)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return string(b)
}

// file is the file of an object.
func file(server *s3test.Server, key string) string {
	return filepath.Join(server.Dir, "bucket", filepath.FromSlash(key))
}

func hexOf(a blob.Address) string { return strings.TrimPrefix(a.String(), "sha256:") }
