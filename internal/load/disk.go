package load

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Sync is the duration of one append and fsync.
type Sync struct {
	At   time.Time // when it started
	Took time.Duration
}

// Disk appends to a private file in a directory, and calls fsync after each append.
type Disk struct {
	Dir   string
	Bytes int           // of one append; 0 means 4096
	Every time.Duration // the interval between two appends; 0 means that each starts when the last has ended
	For   time.Duration // 0 means until the context ends
}

// diskFileBytes is the size at which writing continues at the start of the file, so that it does not fill the disk.
const diskFileBytes = 64 << 20

// Run appends until the time is over or ctx ends. It returns nil in both cases. It calls each after every append. At the
// end, it deletes the file.
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
