package runlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookq/daybook/client"
)

// MinBytes is the smallest bound of a log.
const MinBytes = 64 << 10

// keepTimeout bounds the time to store a log.
const keepTimeout = 5 * time.Minute

// Blobs stores a blob, and returns its address, which is the digest of its content. The reader is also an io.Seeker.
type Blobs interface {
	Put(ctx context.Context, client string, r io.Reader) (address string, err error)
}

// Logs receives a run's output. offset is the position of p in the log. If Append is slower than the run, parts are
// missing. An error does not end the run.
type Logs interface {
	Append(ctx context.Context, jobID, claimID string, offset int64, p []byte) error
}

// Keeper keeps the logs of runs.
type Keeper struct {
	Blobs Blobs         // nil: logs are not stored
	Logs  Logs          // nil: nothing is sent during a run
	Pause time.Duration // the first wait for an unreachable server; 0 means FirstPause
	Log   *slog.Logger  // nil: nothing is logged

	printed, kept atomic.Int64
}

// Bytes returns how many bytes were printed to the logs that have ended, and how many of them were stored.
func (k *Keeper) Bytes() (printed, kept int64) { return k.printed.Load(), k.kept.Load() }

// Log is the log of a run. Several goroutines may call Write until Keep is called.
type Log struct {
	keeper *Keeper
	job    *client.Job
	file   *file
	live   *live // nil if the text is not sent

	sending sync.WaitGroup
	ending  sync.Once
}

// Begin begins the log of a run, of at most most bytes. ctx ends when nobody waits for the run's result any more. The
// text is kept in dir or, if dir is "", in an unlinked file. The caller must call Close.
func (k *Keeper) Begin(ctx context.Context, j *client.Job, most int64, dir string) (*Log, error) {
	l := &Log{keeper: k, job: j}
	if k.Logs != nil {
		l.live = newLive(k.Logs, j.ID, j.ClaimID)
	}
	kept, err := createFile(dir)
	if err != nil {
		return nil, fmt.Errorf("create the log of a run: %w", err)
	}
	l.file = &file{most: most, live: l.live, f: kept}
	if l.live != nil {
		l.sending.Go(func() { l.live.run(ctx) })
	}
	return l, nil
}

// createFile creates the file of a log, and unlinks it where the system allows that for an open file.
func createFile(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "daybook-log-*")
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name()) // on some systems only Close can remove it
	return f, nil
}

// Write implements io.Writer. It never fails.
func (l *Log) Write(p []byte) (int, error) { return l.file.Write(p) }

// Tail returns the end of the output as the text of an error.
func (l *Log) Tail() string { return l.file.end() }

// Bytes returns how many bytes were printed.
func (l *Log) Bytes() int64 { return l.file.bytes() }

// Keep stores the log as a blob and returns its address. The address is "" if the log is empty, or if it could not be
// stored, which Keep logs.
func (l *Log) Keep(ctx context.Context) (address string) {
	k := l.keeper
	if k.Blobs == nil || l.Bytes() == 0 {
		return ""
	}
	log := k.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	text, err := l.file.read()
	if err == nil {
		err = Patiently(ctx, cmp.Or(k.Pause, FirstPause), log, l.job.ID, func(ctx context.Context) (err error) {
			if _, err = text.Seek(0, io.SeekStart); err == nil {
				address, err = k.Blobs.Put(ctx, l.job.Client, text)
			}
			return err
		})
	}
	if err != nil {
		log.Warn("the log of a job could not be stored", "job_id", l.job.ID, "error", err)
		return ""
	}
	k.kept.Add(min(l.Bytes(), l.file.most))
	return address
}

// Close sends the rest of the text, and removes the file. No Write may follow. Later calls do nothing.
func (l *Log) Close() (err error) {
	l.ending.Do(func() {
		l.keeper.printed.Add(l.Bytes())
		if l.live != nil {
			l.live.end()
			l.sending.Wait()
		}
		err = l.file.f.Close()
		if removed := os.Remove(l.file.f.Name()); !errors.Is(removed, os.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	})
	return err
}
