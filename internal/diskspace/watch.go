// Package diskspace watches how much space the file system of a directory has left.
package diskspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// Reserve is the free space below which space is low; on a small disk it is an eighth of the disk. Pebble needs it to
	// flush its memtables (four of 64 MiB) and to compact tables. On a full disk Pebble does not return an error: it blocks,
	// and so does the engine.
	Reserve = 512 << 20
	// BallastShare is the ratio of the reserve to the ballast. The ballast is a file that the Watch deletes when the
	// reserve is nearly used up, so that small writes still work.
	BallastShare = 8

	every = time.Second
)

// Watch looks at a file system each second.
type Watch struct {
	dir    string
	free   FreeFunc
	log    *slog.Logger
	became func(low bool)
	// fallocate reserves space for a file, as fallocate(2) does.
	fallocate func(fd int, mode uint32, offset, length int64) error

	left  atomic.Uint64 // free bytes at the last look
	total atomic.Uint64 // all bytes at the last look
	low   atomic.Bool   // whether that was too little; see measure
	tight atomic.Bool   // see Tight
	met   atomic.Int64  // when a write last failed on a full disk, unix ns; 0: never

	mu      sync.Mutex // guards the fields below, and is held during a look at the disk
	reserve uint64
	problem string // the error of the last look; "" if it succeeded
}

// FreeFunc returns the free bytes and all bytes of the file system that has path.
type FreeFunc func(path string) (free, total uint64, err error)

// NewWatch returns a Watch of the file system that has dir, in which it keeps the file ballast. It calls became when space
// becomes low and when it is no longer low. If free is nil, it is Free.
func NewWatch(dir string, free FreeFunc, log *slog.Logger, became func(low bool)) *Watch {
	if free == nil {
		free = Free
	}
	return &Watch{dir: dir, free: free, log: log, became: became, fallocate: fallocate}
}

// Run looks at the disk every second, until ctx is done.
func (w *Watch) Run(ctx context.Context) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for ctx.Err() == nil {
		w.Look()
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// Low reports whether less space than the reserve was free at the last look.
func (w *Watch) Low() bool { return w.low.Load() }

// Tight reports whether less than one and a half times the reserve was free at the last look. The engine then deletes history,
// before it has to refuse creates.
func (w *Watch) Tight() bool { return w.tight.Load() }

// Total returns the number of bytes of the file system at the last look.
func (w *Watch) Total() uint64 { return w.total.Load() }

// Left returns the number of free bytes at the last look.
func (w *Watch) Left() uint64 { return w.left.Load() }

// IsFull reports whether a write failed on a full disk within the last second.
func (w *Watch) IsFull() bool { return time.Since(time.Unix(0, w.met.Load())) < time.Second }

// Met looks at the disk at once if err, the error of a write, says that the disk is full. So Low is not older than the error.
func (w *Watch) Met(err error) {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		w.met.Store(time.Now().UnixNano())
		w.Look()
	}
}

// Look looks at the disk now, and makes or deletes the ballast. It logs an error unless the look before had the same.
func (w *Watch) Look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.look()
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	if problem != "" && problem != w.problem {
		w.log.Warn("cannot watch the disk space; trying again", "error", err)
	}
	w.problem = problem
}

func (w *Watch) look() error {
	free, low, err := w.measure()
	if err != nil {
		return fmt.Errorf("read how much space is free: %w", err)
	}
	w.left.Store(free)
	if wasLow := w.low.Swap(low); low != wasLow {
		text := "there is enough disk space again: creates are accepted"
		if low {
			text = "disk space is low: creates are refused"
		}
		w.log.Warn(text, "low", low, "free_bytes", free, "reserve_bytes", w.reserve)
		w.became(low)
	}
	if err := w.keepBallast(free); err != nil {
		return fmt.Errorf("make or delete the ballast: %w", err)
	}
	return nil
}

// measure returns the number of free bytes, and whether it is too low. It becomes too low when it falls below the reserve,
// and stays so until it exceeds the reserve by a quarter, so that creates are not alternately refused and accepted.
func (w *Watch) measure() (free uint64, low bool, err error) {
	free, total, err := w.free(w.dir)
	if err != nil {
		return 0, false, err
	}
	w.reserve = min(Reserve, total/8)
	w.total.Store(total)
	w.tight.Store(free < w.reserve*3/2)
	needed := w.reserve
	if w.low.Load() {
		needed += w.reserve / 4
	}
	return free, free < needed, nil
}

func (w *Watch) ballast() string { return filepath.Join(w.dir, "ballast") }

// keepBallast makes the ballast if there is enough space, and deletes it when the reserve is nearly used up.
func (w *Watch) keepBallast(free uint64) error {
	size := w.reserve / BallastShare
	info, err := os.Stat(w.ballast())
	there := err == nil && uint64(info.Size()) >= size
	switch {
	case !there && free > 2*w.reserve:
		return w.makeBallast(int64(size))
	case err == nil && free < size:
		return os.Remove(w.ballast())
	}
	return nil
}

// makeBallast makes the ballast. It reserves space for the file, or writes zeros if the file system cannot reserve space.
func (w *Watch) makeBallast(size int64) (err error) {
	f, err := os.Create(w.ballast())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	err = w.fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		_, err = io.CopyN(f, zeros{}, size)
	}
	return err
}

// zeros is an endless reader of zero bytes.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
