package wasi

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/daybookq/daybook/runner/disk"
)

// lookEvery is after how many bytes a spool looks again how much of the disk is free.
const lookEvery = 4 << 20

// spool is a file without a name that has a long output until the guest has ended. So a guest may write as slowly as its
// time-out allows, and storing the blob can be repeated. One goroutine uses it.
type spool struct {
	file   *os.File
	dir    string
	bytes  int64
	look   int64 // at how many bytes
	remove string
	free   func(dir string) (int64, error)
}

// newSpool creates a spool in the cache.
func (p *Pool) newSpool() (*spool, error) {
	dir := filepath.Join(p.cache.dir, temporary)
	f, err := os.CreateTemp(dir, "output-")
	if err != nil {
		return nil, &machineError{fmt.Errorf("hold the output: %w", err)}
	}
	s := &spool{file: f, dir: dir, free: p.free}
	if os.Remove(f.Name()) != nil { // this system does not remove open files
		s.remove = f.Name()
	}
	return s, nil
}

// Write implements io.Writer. The error is a *machineError if the disk is full. If this output alone has more than what must
// stay free, it is the output that is too long for this machine: the run counts, so that the guest does not run for ever.
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

// full returns the error of a disk that takes no more.
func (s *spool) full(err error) error {
	if s.bytes > disk.ReserveBytes {
		return fmt.Errorf("the output has more than %d bytes, and this runner has no room for the rest: %w", s.bytes, err)
	}
	return &machineError{fmt.Errorf("hold the output: %w", err)}
}

// reader returns all that was written, as an io.ReadSeeker.
func (s *spool) reader() (io.ReadSeeker, error) {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return nil, &machineError{fmt.Errorf("read the output again: %w", err)}
	}
	return s.file, nil
}

// close removes the file.
func (s *spool) close() error {
	err := s.file.Close()
	if s.remove != "" {
		err = errors.Join(err, os.Remove(s.remove))
	}
	return err
}
