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

// MinBytes is the least that a log is bounded to.
const MinBytes = 64 << 10

// keepTimeout bounds the storing of a log.
const keepTimeout = 5 * time.Minute

// Blobs stores bytes under the digest of their content. The address is that of the blob. The reader is an io.Seeker, too.
type Blobs interface {
	Put(ctx context.Context, client string, r io.Reader) (address string, err error)
}

// Logs gets what a run prints. offset is that of p in the log. Parts may be missing, if Append is slower than the run. A
// run goes on after an error.
type Logs interface {
	Append(ctx context.Context, jobID, claimID string, offset int64, p []byte) error
}

// Keeper keeps the logs of runs.
type Keeper struct {
	Blobs Blobs         // nil: logs are not stored
	Logs  Logs          // nil: nothing is sent while a run goes on
	Pause time.Duration // the first wait for a server that is away; 0 means FirstPause
	Log   *slog.Logger  // nil: nothing is logged

	printed, kept atomic.Int64
}

// Bytes returns how much was printed in the logs that have ended, and how much of it was stored.
func (k *Keeper) Bytes() (printed, kept int64) { return k.printed.Load(), k.kept.Load() }

// Log is the log of a run. Write may be called from several goroutines, until Keep.
type Log struct {
	keeper *Keeper
	job    *client.Job
	file   *file
	live   *live // nil if nobody is sent the text

	sending sync.WaitGroup
	ending  sync.Once
}

// Begin begins the log of a run, with at most so many bytes. ctx ends when nobody waits for the result of the run any more.
// The text is kept in dir or, if that is "", in a file without a name. The caller calls Close.
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

// createFile creates the file of a log. Without a directory, it has no name where the system lets one remove an open file.
func createFile(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "daybook-log-*")
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name()) // on some systems only Close can
	return f, nil
}

// Write implements io.Writer. It never fails.
func (l *Log) Write(p []byte) (int, error) { return l.file.Write(p) }

// Tail returns the end of the text, as the text of an error.
func (l *Log) Tail() string { return l.file.end() }

// Bytes returns how much was printed.
func (l *Log) Bytes() int64 { return l.file.bytes() }

// Keep stores the log, and returns the address of the blob. An empty log has no blob. An error is logged, and the address
// is "" then.
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

// Close sends the rest of the text, and removes the file. No Write follows. Later calls do nothing.
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
