package load

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Sync is one append and fsync of a plain file.
type Sync struct {
	At   time.Time // when it began
	Took time.Duration
}

// Disk appends to a file of its own in a directory, and calls fsync after each append.
type Disk struct {
	Dir   string
	Bytes int           // of one append; 0 means 4096
	Every time.Duration // the time between two appends; 0 means that the next begins when the last has ended
	For   time.Duration // 0 means until the context ends
}

// diskFileBytes is the size after which the file begins again at its start, so that it does not fill the disk.
const diskFileBytes = 64 << 20

// Run appends until the time is over or ctx ends, which is no error. It calls each with every append. The file is
// deleted at the end.
func (d Disk) Run(ctx context.Context, each func(Sync)) (err error) {
	f, err := os.CreateTemp(d.Dir, "daybook-fsync-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	if d.Bytes == 0 {
		d.Bytes = 4096
	}
	block := make([]byte, d.Bytes)
	var written int64
	for start := time.Now(); ctx.Err() == nil && (d.For == 0 || time.Since(start) < d.For); {
		began := time.Now()
		if written+int64(len(block)) > diskFileBytes {
			if err := f.Truncate(0); err != nil {
				return err
			}
			written = 0
		}
		if _, err := f.WriteAt(block, written); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return fmt.Errorf("fsync %s: %w", filepath.Base(f.Name()), err)
		}
		written += int64(len(block))
		took := time.Since(began)
		each(Sync{began, took})
		if d.Every > took {
			time.Sleep(d.Every - took)
		}
	}
	return nil
}
