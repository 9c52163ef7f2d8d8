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

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/proof/powerfs"
)

// wilson is the example of CAStaway's documentation.
const wilson = "WILSON!"

// servalHex and servalSHA1 are the digests of a fixture of Serval.
const (
	servalHex  = "de58aa373d847cfc76ce55ac70ff628cee54dc648b74f0fe99428242405debbd"
	servalSHA1 = "c1ab010132ad2253c24a18cbc10dfcce0b728664"
)

func mustOpen(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s := testkit.Must(OpenDir(t.Context(), dir, o))(t)
	t.Cleanup(func() { testkit.Check(t, s.Close()) })
	return s
}

func newStore(t testing.TB, o Options) *Store {
	t.Helper()
	return mustOpen(t, filepath.Join(t.TempDir(), "blobs"), o)
}

func put(s *Store, content string) (Info, error) {
	return s.Put(context.Background(), "", strings.NewReader(content), Ref{})
}

func mustPut(t testing.TB, s *Store, content string) Info {
	t.Helper()
	info := testkit.Must(put(s, content))(t)
	testkit.MustHold(t, info.Address == sha256.Sum256([]byte(content)) && info.SHA1 == sha1.Sum([]byte(content)) &&
		info.Size == int64(len(content)), "Put of", len(content), "bytes returned", info)
	return info
}

// has reports whether a blob is stored.
func has(t testing.TB, s *Store, a Address) (bool, error) {
	t.Helper()
	_, err := s.Stat(t.Context(), "", a)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

func addressOf(content string) Address { return sha256.Sum256([]byte(content)) }

// read reads a blob by ReadAt, after it was verified, and by WriteTo, which verifies while it reads.
func read(t testing.TB, s *Store, a Address) (string, error) {
	t.Helper()
	b, err := s.Get(context.Background(), "", a)
	if err != nil {
		return "", err
	}
	defer b.Close()
	var whole bytes.Buffer
	_, streamErr := b.WriteTo(&whole)
	if streamErr != nil && int64(whole.Len()) >= b.Info().Size {
		t.Errorf("WriteTo gave all of %d bytes before it reported %v", b.Info().Size, streamErr)
	}
	ranged, err := io.ReadAll(io.NewSectionReader(b, 0, b.Info().Size))
	testkit.Holds(t, err == nil || len(ranged) == 0, "ReadAt gave", len(ranged), "bytes of a blob before it reported", err)
	testkit.Holds(t, (err == nil) == (streamErr == nil) && (err != nil || bytes.Equal(whole.Bytes(), ranged)),
		"WriteTo gave", whole.Len(), "bytes and", streamErr, "ReadAt gave", len(ranged), "bytes and", err)
	return string(ranged), err
}

func mustRead(t testing.TB, s *Store, content string) {
	t.Helper()
	got := testkit.Must(read(t, s, addressOf(content)))(t)
	testkit.Holds(t, got == content, "read", len(got), "bytes", "want", len(content), "bytes")
}

func mustBeDamaged(t testing.TB, err error, path string) {
	t.Helper()
	var damaged *DamagedError
	testkit.Holds(t, errors.As(err, &damaged) && damaged.File == path && strings.Contains(err.Error(), path) &&
		strings.Contains(err.Error(), "next step"), "got the error", err, "want damage of", path)
}

// mustBeEmpty checks that no upload has left a file.
func mustBeEmpty(t testing.TB, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	testkit.Check(t, err)
	for _, e := range entries {
		t.Errorf("%s is in %s", e.Name(), dir)
	}
}

// mustBeTidy checks that no upload has left a file, and that the count of used bytes is right.
func mustBeTidy(t testing.TB, s *Store) {
	t.Helper()
	mustBeEmpty(t, s.uploadsDir())
	mustAddUp(t, s)
}

// mustAddUp compares the store's count of used bytes with the files.
func mustAddUp(t testing.TB, s *Store) {
	t.Helper()
	var sum int64
	entries := testkit.Must(os.ReadDir(s.blobs()))(t)
	for _, e := range entries {
		info := testkit.Must(e.Info())(t)
		sum += info.Size()
	}
	testkit.Equal(t, s.Used(), sum, "bytes in use")
}

func (s *Store) local() *directory      { return s.backend.(*directory) }
func (s *Store) blobs() string          { return s.local().folder("", Blobs) }
func (s *Store) sha1s() string          { return s.local().folder("", SHA1s) }
func (s *Store) path(a Address) string  { return s.local().path(blobKey("", a)) }
func (s *Store) sha1Path(x SHA1) string { return s.local().path(sha1Key("", x)) }

// hidden is the number of blobs whose files are not durable.
func (s *Store) hidden() int { return len(s.local().unsynced) }

// clock is a time that a test moves.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

// mustResolve returns the address to which the SHA-1 of a content leads.
func mustResolve(t testing.TB, s *Store, content string) Address {
	t.Helper()
	x := SHA1(sha1.Sum([]byte(content)))
	a, err := s.Resolve(t.Context(), "", Ref{SHA1: &x})
	testkit.Check(t, err)
	return a
}

// mountDisk mounts a disk whose power the test cuts, and returns its mount point. It is unmounted when the test ends.
func mountDisk(t *testing.T) (disk *powerfs.FS, mount string) {
	t.Helper()
	mount = t.TempDir()
	disk, err := powerfs.Mount(mount)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { testkit.Check(t, disk.Close()) })
	return disk, mount
}

// afterCut cuts the power of a disk, unless that has happened at moment, and returns the store of dir after power is back.
// before is the store until then, or nil if it could not be opened.
func afterCut(t *testing.T, disk *powerfs.FS, moment <-chan struct{}, seed uint64, before *Store, dir string) *Store {
	t.Helper()
	select {
	case <-moment:
	default:
		disk.Cut(seed)
	}
	if before != nil {
		before.Close() // fails, as everything does
	}
	disk.PowerOn()
	return testkit.Must(OpenDir(t.Context(), dir, Options{}))(t)
}

// mustHaveDurable fails the test unless the store is tidy and has all durable contents. Each attempted content that is
// there must be whole, and is durable from then on.
func mustHaveDurable(t *testing.T, s *Store, attempted, durable map[string]bool) {
	t.Helper()
	mustBeTidy(t, s)
	for content := range attempted {
		there := testkit.Must(has(t, s, addressOf(content)))(t)
		testkit.Holds(t, there || !durable[content], "Has is", there)
		if there {
			mustRead(t, s, content)
			mustResolve(t, s, content)
			durable[content] = true
		}
	}
}
