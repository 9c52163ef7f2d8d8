package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Cut removes whole volumes, the oldest first, all of whose records are at or below applied, but keeps at least retain
// bytes of them. With Options.Archive it moves them there. It never removes the tail volume, nor the last volume that
// holds a record: the journal's time is in it.
//
// applied must be what the base holds durably (the flushed watermark): what is removed can never be applied again. On
// an error the volumes that are returned have been removed all the same.
func (j *Journal) Cut(applied uint64, retain int64) (removed []Volume, err error) {
	j.volumes.cutting.Lock()
	defer j.volumes.cutting.Unlock()
	for _, v := range j.volumes.removable(min(applied, j.Synced()), retain) {
		if err := j.takeOut(v); err != nil {
			return removed, fmt.Errorf("remove volume %s: %w", seqName(v.First), err)
		}
		removed = append(removed, v)
		j.log.Info("journal: a volume was removed", "first", v.First, "last", v.Last, "bytes", v.Bytes, "archive", j.o.Archive)
	}
	return removed, nil
}

// takeOut removes or archives v. It leaves the list first, so that no reader begins with it; one that is in the middle
// of it keeps the file it has open and gets ErrCut at the next.
func (j *Journal) takeOut(v Volume) error {
	j.volumes.removeFirst()
	h := &j.o.Hooks
	if j.o.Archive != "" {
		if err := archive(h, v.Path, filepath.Join(j.o.Archive, filepath.Base(v.Path))); err != nil {
			// What failed may be the fsync after the move. The volume has left then; after a power cut it has one of
			// the two names.
			if _, stat := os.Lstat(v.Path); stat == nil {
				j.volumes.putBack(v)
			}
			return err
		}
	}
	// Renamed first: a directory that is half deleted must not look like a volume to the next start.
	out := v.Path + removedSuffix
	if _, err := os.Lstat(v.Path); err == nil {
		if err := h.Rename(v.Path, out); err != nil {
			j.volumes.putBack(v)
			return err
		}
	}
	if err := h.syncPath(j.o.Dir); err != nil {
		return err
	}
	return os.RemoveAll(out)
}

// archive moves the volume at from to to: by its name, or by copying it where the archive is another file system, in
// which case the original is still there. Everything is durable in the archive before this returns.
func archive(h *Hooks, from, to string) error {
	if err := MakeDir(filepath.Dir(to), h.syncPath); err != nil {
		return err
	}
	err := os.Rename(from, to)
	if errors.Is(err, unix.EXDEV) {
		err = copyVolume(h, from, to)
	} else if err == nil {
		// The names inside were durable before; the directory's own entries may have to be written again after the
		// move.
		err = h.syncPath(to)
	}
	if err != nil {
		return err
	}
	return h.syncPath(filepath.Dir(to))
}

// copyVolume copies the volume at from to to. A copy that an earlier attempt completed is taken, anything else of that
// name is left alone.
func copyVolume(h *Hooks, from, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return sameVolume(from, to)
	}
	part := to + ".part"
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	if err := os.Mkdir(part, 0o750); err != nil {
		return err
	}
	v := volumeDir{path: from}
	if err := v.load(); err != nil {
		return err
	}
	for _, s := range v.segments {
		if err := copyFile(h, s.path, filepath.Join(part, filepath.Base(s.path)), 0); err != nil {
			return err
		}
	}
	if err := h.syncPath(part); err != nil {
		return err
	}
	return os.Rename(part, to)
}

// sameVolume is nil if the volumes at a and b hold the same bytes.
func sameVolume(a, b string) error {
	va, vb := volumeDir{path: a}, volumeDir{path: b}
	if err := errors.Join(va.load(), vb.load()); err != nil {
		return err
	}
	same := len(va.segments) == len(vb.segments)
	for i := 0; same && i < len(va.segments); i++ {
		ba, errA := readSegment(va.segments[i].path, nil)
		bb, errB := readSegment(vb.segments[i].path, nil)
		if err := errors.Join(errA, errB); err != nil {
			return err
		}
		same = va.segments[i].first == vb.segments[i].first && bytes.Equal(ba, bb)
	}
	if !same {
		return fmt.Errorf("%s is there already and holds something else", b)
	}
	return nil
}

// copyFile copies from after its first skip bytes into the new file to, durably.
func copyFile(h *Hooks, from, to string, skip int64) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	if _, err := in.Seek(skip, io.SeekStart); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	if _, err = io.Copy(out, in); err == nil {
		err = h.SyncFile(out)
	}
	return errors.Join(err, out.Close())
}
