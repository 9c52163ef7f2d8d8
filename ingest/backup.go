package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// ErrBackupRunning: another backup is in progress. Only one can run at a time.
var ErrBackupRunning = errors.New("a backup is under way already; try again when it has ended")

const (
	// checkpointFlush bounds the flush before a checkpoint. It writes at most the memtables, 256 MiB. On a full disk it
	// would wait forever.
	checkpointFlush = time.Minute
	// maxBackupTime bounds the reading of a snapshot. Until its end, the snapshot keeps tables on the disk that the store
	// has replaced. Unreferenced blobs stay for a day, so that a backup can still fetch them.
	maxBackupTime = 12 * time.Hour
)

// checkpointDir returns the folder for the store of the backup in progress. Its files are hard links.
func checkpointDir(data string) string { return filepath.Join(data, "backup-checkpoint") }

// Snapshot is the state of a running engine at one moment, for a backup: a store, and the log from the store's cursor on.
// The engine keeps serving while a snapshot is open, but does not free the disk space of the snapshot's files. Close must
// be called.
type Snapshot struct {
	Journal string // UUID of the journal
	Cursor  uint64 // seq of the last command that the store of the snapshot includes
	Last    uint64 // seq of the last record of the journal of the snapshot
	Level   int    // of the rules that Apply follows
	TakenAt int64  // unix ms, by the wall clock

	e     *Engine
	until time.Time // reads fail after this time
	once  sync.Once
	err   error // of Close
}

// Snapshot takes a snapshot, which includes every command that was acknowledged before the call. It returns
// ErrBackupRunning while another snapshot is open, ErrDiskFull while disk space is low, or the reason why the engine
// accepts no requests.
func (e *Engine) Snapshot() (_ *Snapshot, err error) {
	if err := e.accepting(); err != nil {
		return nil, err
	}
	if !e.snapshots.TryLock() {
		return nil, ErrBackupRunning
	}
	s := &Snapshot{e: e, Level: e.store.Level(), TakenAt: time.Now().UnixMilli(), until: time.Now().Add(maxBackupTime)}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("take snapshot: %w", err), s.Close())
		}
	}()
	if err := s.diskError(); err != nil {
		return nil, err
	}
	if e.shared != nil { // this node may not have yet what another one has acknowledged
		if err := e.CatchUp(context.Background(), 0); err != nil {
			return nil, err
		}
	}
	durable, err := e.store.Durable()
	if err != nil {
		return nil, err
	}
	// The cursor of the checkpoint is at least durable. The backup includes the record at the cursor, because a start
	// needs the time of the last record.
	e.history.need(max(durable, 1))
	dir := checkpointDir(e.o.Dir)
	if err := os.RemoveAll(dir); err != nil { // an earlier snapshot could not remove it
		return nil, err
	}
	if err := e.store.Checkpoint(dir, checkpointFlush); err != nil {
		return nil, err
	}
	peeked, err := store.Peek(dir, e.storeOptions())
	if err != nil {
		return nil, err
	}
	s.Journal, s.Cursor = e.log.UUID(), peeked.Applied
	e.history.need(max(s.Cursor, 1))
	s.Last = e.log.Status().Synced
	return s, nil
}

// Base makes a copy of the store in a directory that does not exist, for another node of the cluster. It returns what the
// copy knows of the cluster.
func (e *Engine) Base(dir string) (job.Cluster, error) {
	if err := os.RemoveAll(dir); err != nil {
		return job.Cluster{}, err
	}
	if err := e.store.Checkpoint(dir, checkpointFlush); err != nil {
		return job.Cluster{}, fmt.Errorf("make a base: %w", err)
	}
	peeked, err := store.Peek(dir, e.storeOptions())
	return peeked.Cluster, err
}

// SnapshotFile is a file of a snapshot.
type SnapshotFile struct {
	Path string // relative to the data directory, with slashes
	Size int64
	io.Reader
}

// Files calls visit with each file of the snapshot: first the journal, and then the store. visit must read the whole
// file. Files stops at the first error of visit, at the end of ctx, with ErrDiskFull if disk space becomes low, or with
// ErrClosed when the engine stops.
func (s *Snapshot) Files(ctx context.Context, visit func(*SnapshotFile) error) error {
	name, identity := s.e.log.IdentityFile()
	send := func(path string, size int64, r io.Reader) error {
		return visit(&SnapshotFile{Path: path, Size: size, Reader: &snapshotReader{ctx: ctx, s: s, r: io.LimitReader(r, size)}})
	}
	if err := send("journal/"+name, int64(len(identity)), bytes.NewReader(identity)); err != nil {
		return err
	}
	for segment, err := range s.e.log.Segments(max(s.Cursor, 1), s.Last) {
		if err == nil {
			err = send("journal/"+segment.Path(), int64(len(segment.Data)), bytes.NewReader(segment.Data))
		}
		if err != nil {
			return err
		}
	}
	s.e.history.need(0) // the rest is in the checkpoint
	entries, err := os.ReadDir(checkpointDir(s.e.o.Dir))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() == "LOCK" { // Pebble made it when the checkpoint was read
			continue
		}
		if err := s.storeFile(entry.Name(), send); err != nil {
			return err
		}
	}
	return nil
}

func (s *Snapshot) storeFile(name string, send func(path string, size int64, r io.Reader) error) (err error) {
	f, err := os.Open(filepath.Join(checkpointDir(s.e.o.Dir), name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return send("store/"+name, info.Size(), f)
}

// snapshotReader reads a file of a snapshot as long as the snapshot may be read.
type snapshotReader struct {
	ctx context.Context
	s   *Snapshot
	r   io.Reader
}

func (r *snapshotReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if err := r.s.diskError(); err != nil {
		return 0, err
	}
	if err := r.s.e.state.Load().err; err != nil {
		return 0, err
	}
	if time.Now().After(r.s.until) {
		return 0, fmt.Errorf("the backup was read for longer than %v", maxBackupTime)
	}
	return r.r.Read(p)
}

// diskError returns ErrDiskFull while disk space is low.
func (s *Snapshot) diskError() error {
	if s.e.disk.Low() {
		return fmt.Errorf("%w: %d bytes are free; a backup would keep the space of files that the store replaces meanwhile", ErrDiskFull, s.e.disk.Left())
	}
	return nil
}

// Close ends the snapshot and removes its files. Only the first call does the work; every call returns the same error.
func (s *Snapshot) Close() error {
	s.once.Do(func() {
		s.e.history.need(0)
		signal(s.e.history.flushed) // the log may be cut now
		s.err = os.RemoveAll(checkpointDir(s.e.o.Dir))
		s.e.snapshots.Unlock()
	})
	return s.err
}
