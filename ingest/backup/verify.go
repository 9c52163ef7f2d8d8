package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
)

// Verified is the result of a verification.
type Verified struct {
	*Manifest
	Records uint64 // of the journal
	Jobs    int64  // in the state at the cursor
	Blobs   *Blobs // nil: the backup was made without blobs
}

// Verify reads a whole backup and changes nothing. It checks that
//
//   - the files are the files of the manifest, with its digests;
//   - the records of the journal are intact, can be decoded, and continue where the store ends;
//   - the store can be read, and store.Check finds no problem in it;
//   - the blobs exist and, with readBlobs, have the bytes that their addresses promise.
//
// Otherwise it returns ErrDamaged.
func Verify(ctx context.Context, dir string, readBlobs bool) (*Verified, error) {
	m, blobs, err := open(dir)
	if err != nil {
		return nil, err
	}
	if err := onlyFiles(dir, m); err != nil {
		return nil, err
	}
	for i := range m.Files {
		f := &m.Files[i]
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		sum, err := sumFile(path)
		if err != nil {
			return nil, missingIsDamage(err)
		}
		if sum != f.SHA256 {
			return nil, fmt.Errorf("%w: the bytes of %s are not those that were written: their SHA-256 is %s", ErrDamaged, path, sum)
		}
	}
	v, err := verifyContent(ctx, dir, m)
	if err != nil {
		return nil, err
	}
	if v.Blobs = blobs; blobs != nil {
		err = blobs.verify(ctx, blobsOf(dir), readBlobs)
	}
	return v, err
}

// damaged converts an error to ErrDamaged, unless it means that this process may not read the files, or cannot lock them.
func damaged(err error) error {
	for _, other := range []error{syscall.EROFS, syscall.EACCES, syscall.EPERM, syscall.ENOSPC, syscall.EMFILE} {
		if errors.Is(err, other) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// missingIsDamage converts the error for a missing file to ErrDamaged.
func missingIsDamage(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// lockName is a file that Pebble makes while it reads a store.
const lockName = "store/LOCK"

// onlyFiles fails if a backup has files that are not in its manifest, because Pebble and the journal would use them.
func onlyFiles(dir string, m *Manifest) error {
	listed := map[string]int64{}
	for i := range m.Files {
		listed[m.Files[i].Path] = m.Files[i].Bytes
	}
	for _, part := range []string{"journal", "store"} {
		err := filepath.WalkDir(filepath.Join(dir, part), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			name, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			name = filepath.ToSlash(name)
			if name == lockName {
				return nil
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			if size, ok := listed[name]; !ok || !info.Mode().IsRegular() || size != info.Size() {
				return fmt.Errorf("%w: its manifest does not describe the file %s of %d bytes", ErrDamaged, path, info.Size())
			}
			delete(listed, name)
			return nil
		})
		if err != nil {
			return missingIsDamage(err)
		}
	}
	for name := range listed {
		return fmt.Errorf("%w: %s is missing", ErrDamaged, filepath.Join(dir, filepath.FromSlash(name)))
	}
	return nil
}

// verifyContent checks the content of the journal and the store. Their files are known to be intact.
func verifyContent(ctx context.Context, dir string, m *Manifest) (*Verified, error) {
	v := &Verified{Manifest: m}
	report, err := journal.Verify(ingest.JournalDir(dir))
	switch {
	case err != nil:
		return nil, damaged(err)
	case report.Damage != nil:
		return nil, fmt.Errorf("%w: %w", ErrDamaged, report.Damage)
	case report.UUID != m.Journal || report.Last != m.Last || report.First > m.Cursor+1:
		return nil, fmt.Errorf("%w: its journal %s has the records %d to %d; the store of journal %s has the cursor %d, and the last record must be %d",
			ErrDamaged, report.UUID, report.First, report.Last, m.Journal, m.Cursor, m.Last)
	}
	for r, err := range journal.Scan(ingest.JournalDir(dir), report.First) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err == nil {
			_, _, err = job.DecodeRecord(r.Verb, r.Fields, r.Body)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: record %d of its journal: %w", ErrDamaged, r.Seq, err)
		}
		v.Records++
	}
	v.Jobs, err = verifyStore(dir, m)
	return v, err
}

// verifyCacheBytes is less than a server's cache, because the check reads each row about once, and the command may run
// next to a server.
const verifyCacheBytes = 16 << 20

func verifyStore(dir string, m *Manifest) (jobs int64, err error) {
	path := ingest.StoreDir(dir)
	defer func() {
		if removed := os.Remove(filepath.Join(path, filepath.Base(lockName))); removed != nil && !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}()
	peeked, err := store.Peek(path, store.Options{})
	if err != nil {
		return 0, damaged(err)
	}
	if peeked.Torn != "" || peeked.Journal != m.Journal || peeked.Applied != m.Cursor {
		return 0, fmt.Errorf("%w: its store is of journal %s with the cursor %d, and must be of %s with %d; %s", ErrDamaged, peeked.Journal, peeked.Applied, m.Journal, m.Cursor, peeked.Torn)
	}
	s, err := store.Open(path, store.Options{ReadOnly: true, CacheBytes: verifyCacheBytes, MemtableBytes: verifyCacheBytes / 4})
	if err != nil {
		return 0, damaged(err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	first := ""
	problems, err := s.Check(func(problem string) bool { first = problem; return false })
	if err != nil {
		return 0, damaged(err)
	}
	if problems > 0 {
		return 0, fmt.Errorf("%w: the check of its store found a problem: %s", ErrDamaged, first)
	}
	counts := s.Totals().Counts
	return counts.Total(), nil
}
