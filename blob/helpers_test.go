package blob

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func mustOpen(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func newStore(t testing.TB, o Options) *Store {
	t.Helper()
	return mustOpen(t, filepath.Join(t.TempDir(), "blobs"), o)
}

func put(s *Store, content string) (Info, error) {
	return s.Put(context.Background(), strings.NewReader(content), Ref{})
}

func mustPut(t testing.TB, s *Store, content string) Info {
	t.Helper()
	info, err := put(s, content)
	if err != nil {
		t.Fatal(err)
	}
	if info.Address != sha256.Sum256([]byte(content)) || info.SHA1 != sha1.Sum([]byte(content)) || info.Size != int64(len(content)) {
		t.Fatalf("Put of %d bytes returned %+v", len(content), info)
	}
	return info
}

func addressOf(content string) Address { return sha256.Sum256([]byte(content)) }

// read reads a blob by ReadAt, after it was verified, and by WriteTo, which verifies as it goes.
func read(t testing.TB, s *Store, a Address) (string, error) {
	t.Helper()
	b, err := s.Get(context.Background(), a)
	if err != nil {
		return "", err
	}
	defer b.Close()
	var whole bytes.Buffer
	_, streamErr := b.WriteTo(&whole)
	if streamErr != nil && int64(whole.Len()) >= b.Size {
		t.Errorf("WriteTo gave all of %d bytes before it reported %v", b.Size, streamErr)
	}
	ranged, err := io.ReadAll(io.NewSectionReader(b, 0, b.Size))
	if err != nil && len(ranged) > 0 {
		t.Errorf("ReadAt gave %d bytes of a blob before it reported %v", len(ranged), err)
	}
	if (err == nil) != (streamErr == nil) || err == nil && !bytes.Equal(whole.Bytes(), ranged) {
		t.Errorf("WriteTo gave %d bytes and %v; ReadAt gave %d bytes and %v", whole.Len(), streamErr, len(ranged), err)
	}
	return string(ranged), err
}

func mustRead(t testing.TB, s *Store, content string) {
	t.Helper()
	if got, err := read(t, s, addressOf(content)); err != nil || got != content {
		t.Errorf("read %d bytes, %v; want %d bytes", len(got), err, len(content))
	}
}

func mustFail(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got the error %v, want %v", err, want)
	}
}

func mustBeDamaged(t testing.TB, err error, path string) {
	t.Helper()
	var damaged *DamagedError
	if !errors.As(err, &damaged) || damaged.File != path || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "next step") {
		t.Errorf("got the error %v, want damage of %s", err, path)
	}
}

// mustBeEmpty checks that no upload has left a file.
func mustBeEmpty(t testing.TB, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		t.Errorf("%s is in %s", e.Name(), dir)
	}
}

// mustAddUp checks what the store believes is used against the files.
func mustAddUp(t testing.TB, s *Store) {
	t.Helper()
	var sum int64
	entries, err := os.ReadDir(s.blobs())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		sum += info.Size()
	}
	if s.Used() != sum {
		t.Errorf("Used is %d, the files have %d bytes", s.Used(), sum)
	}
}

// clock is a time that a test moves.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

// mustResolve returns the address that the SHA-1 of a content leads to.
func mustResolve(t testing.TB, s *Store, content string) Address {
	t.Helper()
	x := SHA1(sha1.Sum([]byte(content)))
	a, err := s.Resolve(Ref{SHA1: &x})
	if err != nil {
		t.Error(err)
	}
	return a
}
