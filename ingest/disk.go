package ingest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/daybookq/daybook/job"
)

// ErrDiskFull: less space than the reserve is left, so nothing large is taken until there is more again; claims and completions go on.
var ErrDiskFull = errors.New("the disk is nearly full")

const (
	// diskReserve is what creates leave free: Pebble needs it to flush the memtables it holds (four of 64 MiB) and to compact
	// them. On a full disk it would not fail but block, and everything with it. On a small disk it is an eighth.
	diskReserve = 512 << 20
	// ballastShare of the reserve lies in a file that is given up for claims and completions when even the reserve runs out.
	ballastShare = 8
	// largeOutput is the size from which a completion counts as bulk.
	largeOutput = 64 << 10
	diskEvery   = time.Second
)

// disk watches the space that is left where the data lies.
type disk struct {
	data   string
	statfs func(path string) (free, total uint64, err error)

	mu      sync.Mutex // held by one look at a time
	reserve uint64
}

func statfs(path string) (free, total uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, 0, fmt.Errorf("statfs %s: %w", path, err)
	}
	return s.Bavail * uint64(s.Bsize), s.Blocks * uint64(s.Bsize), nil
}

// look returns the free bytes and whether they are less than the reserve; with some margin once they were, so that creates do not
// flutter.
func (d *disk) look(was bool) (free uint64, low bool, err error) {
	free, total, err := d.statfs(d.data)
	if err != nil {
		return 0, was, err
	}
	d.reserve = min(diskReserve, total/8)
	if was {
		return free, free < d.reserve+d.reserve/4, nil
	}
	return free, free < d.reserve, nil
}

func (d *disk) ballast() string { return filepath.Join(d.data, "ballast") }

// keepBallast makes the ballast while there is plenty, and gives it up when the last of the reserve goes.
func (d *disk) keepBallast(free uint64) error {
	size := d.reserve / ballastShare
	info, err := os.Stat(d.ballast())
	there := err == nil && uint64(info.Size()) >= size
	switch {
	case !there && free > 2*d.reserve:
		f, err := os.Create(d.ballast())
		if err != nil {
			return err
		}
		return errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, int64(size)), f.Close())
	case err == nil && free < size:
		return os.Remove(d.ballast())
	}
	return nil
}

// watchDisk looks at the disk until ctx is done.
func (e *Engine) watchDisk(ctx context.Context) {
	for ctx.Err() == nil {
		e.lookAtDisk()
		pause(ctx, diskEvery)
	}
}

func (e *Engine) lookAtDisk() {
	e.disk.mu.Lock()
	defer e.disk.mu.Unlock()
	was := e.diskLow.Load()
	free, low, err := e.disk.look(was)
	if err != nil {
		e.log.Warn("cannot see how much space is left", "error", err)
		return
	}
	e.diskFree.Store(free)
	if low != was {
		e.log.Warn("disk space", "low", low, "free_bytes", free, "reserve_bytes", e.disk.reserve)
	}
	if low && !was && e.o.JournalRetain > 0 {
		e.cut(0) // history is given up before work
	}
	e.diskLow.Store(low)
	if err := e.disk.keepBallast(free); err != nil {
		e.log.Warn("cannot keep the ballast", "error", err)
	}
}

// bulky reports whether a completion carries so much that it must wait for disk space.
func bulky(c *job.Complete) bool {
	n := 0
	if c.All != nil {
		n = len(c.All.Output)
	}
	for i := range c.Outcomes {
		n += len(c.Outcomes[i].Output)
	}
	return n >= largeOutput
}
