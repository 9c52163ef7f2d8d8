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
	"syscall"
	"time"

	"github.com/daybookq/daybook/job"
)

// ErrDiskFull: less space is free than the reserve, so the engine refuses creates and large completions. It still accepts
// claims and small completions.
var ErrDiskFull = errors.New("the disk is nearly full")

const (
	// diskReserve is the free space below which creates are refused; on a small disk it is an eighth of the disk. Pebble
	// needs it to flush its memtables (four of 64 MiB) and to compact tables. On a full disk Pebble does not return an
	// error: it blocks, and so does the engine.
	diskReserve = 512 << 20
	// ballastShare is the ratio of the reserve to the ballast. The ballast is a file that the engine deletes when the
	// reserve is nearly used up, so that claims and completions still work.
	ballastShare = 8
	// largeOutput is the size, of outputs and error texts together, at which a completion counts as bulk.
	largeOutput = 64 << 10
	diskEvery   = time.Second
)

// disk watches the free space of the file system with the data.
type disk struct {
	data   string
	statfs func(path string) (free, total uint64, err error)
	// fallocate reserves space for a file, as fallocate(2) does.
	fallocate func(fd int, mode uint32, offset, length int64) error

	free atomic.Uint64 // free bytes at the last look
	low  atomic.Bool   // whether that was too little; see look
	met  atomic.Int64  // when a write last failed on a full disk, unix ns; 0: never

	mu      sync.Mutex // guards the fields below, and is held during a look at the disk
	reserve uint64
	problem string // the error of the last look; "" if it succeeded
}

func newDisk(data string, statfs func(path string) (free, total uint64, err error)) *disk {
	return &disk{data: data, statfs: statfs, fallocate: fallocate}
}

// look returns the number of free bytes, and whether it is too low. It becomes too low when it falls below the reserve,
// and stays so until it exceeds the reserve by a quarter, so that creates are not alternately refused and accepted.
func (d *disk) look() (free uint64, low bool, err error) {
	free, total, err := d.statfs(d.data)
	if err != nil {
		return 0, d.low.Load(), err
	}
	d.reserve = min(diskReserve, total/8)
	needed := d.reserve
	if d.low.Load() {
		needed += d.reserve / 4
	}
	return free, free < needed, nil
}

func (d *disk) ballast() string { return filepath.Join(d.data, "ballast") }

// keepBallast makes the ballast if there is enough space, and deletes it when the reserve is nearly used up.
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

// makeBallast makes the ballast. It reserves space for the file, or writes zeros if the file system cannot reserve space.
func (d *disk) makeBallast(size int64) (err error) {
	f, err := os.Create(d.ballast())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	err = d.fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		_, err = io.CopyN(f, zeros{}, size)
	}
	return err
}

// zeros is an endless reader of zero bytes.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// watchDisk looks at the disk every second, until ctx is done.
func (e *Engine) watchDisk(ctx context.Context) {
	for ctx.Err() == nil {
		e.lookAtDisk()
		pause(ctx, diskEvery)
	}
}

// metFullDisk checks the disk immediately after a write failed on a full disk, so that the engine's status is not older.
func (e *Engine) metFullDisk(err error) {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		e.disk.met.Store(time.Now().UnixNano())
		e.lookAtDisk()
	}
}

// isFull reports whether a write failed on a full disk within the last second.
func (d *disk) isFull() bool { return time.Since(time.Unix(0, d.met.Load())) < time.Second }

func (e *Engine) lookAtDisk() {
	e.disk.mu.Lock()
	defer e.disk.mu.Unlock()
	free, low, err := e.disk.look()
	if err != nil {
		e.diskProblem(fmt.Errorf("read how much space is free: %w", err))
		return
	}
	e.disk.free.Store(free)
	if wasLow := e.disk.low.Swap(low); low != wasLow {
		text := "there is enough disk space again: creates are accepted"
		if low {
			text = "disk space is low: creates are refused"
		}
		e.logger.Warn(text, "low", low, "free_bytes", free, "reserve_bytes", e.disk.reserve)
		if low {
			signal(e.history.flushed) // cutting the log may free enough space for creates
		}
	}
	err = e.disk.keepBallast(free)
	if err != nil {
		err = fmt.Errorf("make or delete the ballast: %w", err)
	}
	e.diskProblem(err)
}

// diskProblem logs the error of a check of the disk, unless the previous check had the same error.
func (e *Engine) diskProblem(err error) {
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	if problem != "" && problem != e.disk.problem {
		e.logger.Warn("cannot watch the disk space; trying again", "error", err)
	}
	e.disk.problem = problem
}

// bulky reports whether the outputs and error texts of a completion are large enough to refuse it while disk space is
// low.
func bulky(c *job.Complete) bool {
	n := resultBytes(c.All)
	for i := range c.Outcomes {
		n += resultBytes(&c.Outcomes[i])
	}
	return n >= largeOutput
}
