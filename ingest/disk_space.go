package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/daybookq/daybook/job"
)

// ErrDiskFull: less space than the reserve is free, so nothing large is taken until there is more. Claims and
// completions go on.
var ErrDiskFull = errors.New("the disk is nearly full")

const (
	// diskReserve is the space that creates leave free, or an eighth of a small disk. Pebble needs it to flush its
	// memtables (four of 64 MiB) and to compact them. On a full disk Pebble does not fail but blocks, and everything
	// waits for it.
	diskReserve = 512 << 20
	// One ballastShare-th of the reserve is a file, the ballast. It is deleted for claims and completions when even the
	// reserve runs out.
	ballastShare = 8
	// largeOutput is the size, of outputs and error texts together, from which a completion counts as bulk.
	largeOutput = 64 << 10
	diskEvery   = time.Second
)

// disk watches the free space of the file system with the data.
type disk struct {
	data   string
	statfs func(path string) (free, total uint64, err error)
	// fallocate reserves space for a file, as fallocate(2).
	fallocate func(fd int, mode uint32, offset, length int64) error

	free atomic.Uint64 // bytes, at the last look
	low  atomic.Bool   // whether these are less than the reserve

	mu      sync.Mutex // held by one look at a time
	reserve uint64
	problem string // that was logged last; "" when all went well
}

func newDisk(data string, statfs func(path string) (free, total uint64, err error)) *disk {
	return &disk{data: data, statfs: statfs, fallocate: unix.Fallocate}
}

func statfs(path string) (free, total uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, 0, fmt.Errorf("statfs %s: %w", path, err)
	}
	return s.Bavail * uint64(s.Bsize), s.Blocks * uint64(s.Bsize), nil
}

// look returns the free bytes, and whether they are less than the reserve. Once they were, they must exceed the reserve
// by a quarter, so that creates are not refused and taken by turns.
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

// keepBallast makes the ballast while there is space enough, and deletes it when the reserve is nearly used up.
func (d *disk) keepBallast(free uint64) error {
	size := d.reserve / ballastShare
	info, err := os.Stat(d.ballast())
	there := err == nil && uint64(info.Size()) >= size
	switch {
	case !there && free > 2*d.reserve:
		return d.makeBallast(int64(size))
	case err == nil && free < size:
		return os.Remove(d.ballast())
	}
	return nil
}

// makeBallast reserves the space of the ballast, or writes zeros where the file system cannot reserve space.
func (d *disk) makeBallast(size int64) (err error) {
	f, err := os.Create(d.ballast())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	err = d.fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		_, err = io.CopyN(f, zeros{}, size)
	}
	return err
}

// zeros is an endless reader of zero bytes.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

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
	was := e.disk.low.Load()
	free, low, err := e.disk.look(was)
	if err != nil {
		e.diskProblem(fmt.Errorf("see how much space is left: %w", err))
		return
	}
	e.disk.free.Store(free)
	if low != was {
		e.logger.Warn("disk space", "low", low, "free_bytes", free, "reserve_bytes", e.disk.reserve)
	}
	e.disk.low.Store(low)
	if low && !was {
		signal(e.history.flushed) // the log is cut before creates are refused for long
	}
	err = e.disk.keepBallast(free)
	if err != nil {
		err = fmt.Errorf("keep the ballast: %w", err)
	}
	e.diskProblem(err)
}

// diskProblem logs the error of a look at the disk, unless the look before had the same one.
func (e *Engine) diskProblem(err error) {
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	if problem != "" && problem != e.disk.problem {
		e.logger.Warn("the disk cannot be watched", "error", err)
	}
	e.disk.problem = problem
}

// bulky reports whether the outputs and error texts of a completion are so large that it must wait for disk space.
func bulky(c *job.Complete) bool {
	n := 0
	if c.All != nil {
		n = len(c.All.Output) + len(c.All.Error)
	}
	for i := range c.Outcomes {
		n += len(c.Outcomes[i].Output) + len(c.Outcomes[i].Error)
	}
	return n >= largeOutput
}
