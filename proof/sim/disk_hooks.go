package sim

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/tidwall/wal"

	"github.com/daybookq/daybook/journal"
)

// hooks lets the journal use this disk.
func (d *disk) hooks() journal.Hooks {
	return journal.Hooks{
		OpenLog: func(path string, segmentBytes int) (*wal.Log, error) {
			if err := d.fault("open", path); err != nil {
				return nil, err
			}
			l, err := journal.OpenLog(path, segmentBytes)
			if err == nil {
				d.mu.Lock()
				d.logs[l] = path
				d.mu.Unlock()
			}
			return l, err
		},
		Write:    d.write,
		Sync:     d.syncLog,
		SyncFile: func(f *os.File) error { return d.sync("sync", f.Name()) },
		Create: func(path string) (*os.File, error) {
			if err := d.fault("create", path); err != nil {
				return nil, err
			}
			return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
		},
		WriteAt: func(f *os.File, b []byte, offset int64) error {
			if err := d.fault("write", f.Name()); err != nil {
				return err
			}
			if _, err := f.WriteAt(b, offset); err != nil {
				return err
			}
			return d.clearFailed(f.Name(), offset, len(b))
		},
		Truncate: func(f *os.File, size int64) error {
			if err := d.fault("truncate", f.Name()); err != nil {
				return err
			}
			return f.Truncate(size)
		},
		Rename: func(from, to string) error {
			if err := d.fault("rename", from); err != nil {
				return err
			}
			return os.Rename(from, to)
		},
		Remove: func(path string) error {
			if err := d.fault("remove", path); err != nil {
				return err
			}
			return os.Remove(path)
		},
	}
}

// write appends a batch. A failed write has written some of its bytes. Within a batch, the library syncs each segment
// before it begins the next one, so all segments but the last are durable afterwards.
func (d *disk) write(l *wal.Log, b *wal.Batch) error {
	volume := d.volume(l)
	fault := d.fault("write", volume)
	before := map[string][]byte{} // the last segment: the batch may append to it, or overwrite its preallocated room
	if fault != nil {
		segments, err := os.ReadDir(volume)
		if err != nil {
			return err
		}
		path := filepath.Join(volume, segments[len(segments)-1].Name())
		if before[path], err = os.ReadFile(path); err != nil {
			return err
		}
	}
	if err := l.WriteBatch(b); err != nil {
		return err
	}
	segments, err := os.ReadDir(volume)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	last := filepath.Join(volume, segments[len(segments)-1].Name())
	for _, s := range segments[:len(segments)-1] {
		if path := filepath.Join(volume, s.Name()); path >= d.tails[l] {
			if err := d.markDurable(path); err != nil {
				return err
			}
		}
	}
	d.tails[l] = last
	if fault == nil {
		return nil
	}
	return errorsOr(d.undoPart(last, before[last]), fault)
}

// undoPart restores the old bytes of the segment at path, from a random point within the batch to its end.
func (d *disk) undoPart(path string, before []byte) error {
	after, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin := 0
	for begin < min(len(before), len(after)) && before[begin] == after[begin] {
		begin++
	}
	end := len(after)
	for end > begin && len(before) == len(after) && before[end-1] == after[end-1] {
		end--
	}
	cut := begin + d.random.IntN(end-begin+1)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if cut < len(before) {
		_, err = f.WriteAt(before[cut:], int64(cut))
	}
	return errors.Join(err, f.Truncate(int64(max(cut, len(before)))), f.Close())
}

func (d *disk) volume(l *wal.Log) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.logs[l]
}

// syncLog makes the last segment of a volume durable.
func (d *disk) syncLog(l *wal.Log) error {
	volume := d.volume(l)
	segments, err := os.ReadDir(volume)
	if err != nil {
		return err
	}
	return d.sync("fsync", filepath.Join(volume, segments[len(segments)-1].Name()))
}

// sync makes the file or directory at path durable. A failed fsync may have written some of it. The rest may never be
// written, because the kernel then takes those pages for clean.
func (d *disk) sync(call, path string) error {
	if err := d.fault(call, path); err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		return errorsOr(d.markFailed(path), err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.markDurable(path)
}

func errorsOr(first, second error) error {
	if first != nil {
		return first
	}
	return second
}
