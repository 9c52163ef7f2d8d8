package wasi

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/daybookq/daybook/runner/disk"
)

// lookEvery is how many bytes a spool writes before it checks the free disk space again.
const lookEvery = 4 << 20

// spool holds a long output in an unnamed file until the guest has ended. So the guest can write as slowly as its
// time-out allows, and a failed upload can be repeated. Only one goroutine uses it.
type spool struct {
	file   *os.File
	dir    string
	bytes  int64
	look   int64 // number of bytes at which to check the disk again
	remove string
	free   func(dir string) (int64, error)
}

// newSpool creates the file in the cache.
func (p *Pool) newSpool() (*spool, error) {
	dir := filepath.Join(p.cache.dir, temporary)
	f, err := os.CreateTemp(dir, "output-")
	if err != nil {
		return nil, &machineError{fmt.Errorf("hold the output: %w", err)}
	}
	s := &spool{file: f, dir: dir, free: p.free}
	if os.Remove(f.Name()) != nil { // this system cannot delete open files: close does
		s.remove = f.Name()
	}
	return s, nil
}

// Write implements io.Writer. If the disk is full, it returns a *machineError. But if this output alone is longer than
// the space that must stay free, the output is too long for this machine: the error counts as a run, so that the guest is
// not run again for ever.
func (s *spool) Write(b []byte) (int, error) {
	if s.bytes >= s.look {
		if free, err := s.free(s.dir); err == nil && free < disk.ReserveBytes {
			return 0, s.full(fmt.Errorf("%d bytes of its disk are free, and guests must leave %d", free, int64(disk.ReserveBytes)))
		}
		s.look = s.bytes + lookEvery
	}
	n, err := s.file.Write(b)
	s.bytes += int64(n)
	if err != nil {
		return n, s.full(err)
	}
	return n, nil
}

// full returns the error for a full disk.
func (s *spool) full(err error) error {
	if s.bytes > disk.ReserveBytes {
		return fmt.Errorf("the output has more than %d bytes, and this runner has no room for the rest: %w", s.bytes, err)
	}
	return &machineError{fmt.Errorf("hold the output: %w", err)}
}

// reader returns a reader of the whole output.
func (s *spool) reader() (io.ReadSeeker, error) {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return nil, &machineError{fmt.Errorf("read the output again: %w", err)}
	}
	return s.file, nil
}

// close closes and deletes the file.
func (s *spool) close() error {
	err := s.file.Close()
	if s.remove != "" {
		err = errors.Join(err, os.Remove(s.remove))
	}
	return err
}
