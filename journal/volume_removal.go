package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// Cut removes whole volumes whose records are all at or below seq applied, oldest first, but keeps at least retain bytes
// of these volumes. With Options.Archive it moves them there instead. It never removes the tail volume or the last volume
// that has a record, because a start needs the time of that record.
//
// applied must be the cursor of the store on disk (the watermark flushed), because removed records cannot be applied
// again. The returned volumes are removed even if Cut returns an error.
func (j *Journal) Cut(applied uint64, retain int64) (removed []Volume, err error) {
	j.volumes.cutting.Lock()
	defer j.volumes.cutting.Unlock()
	for _, v := range j.volumes.removable(min(applied, j.Synced()), retain) {
		if err := j.removeVolume(v); err != nil {
			return removed, fmt.Errorf("remove volume %s: %w", seqName(v.First), err)
		}
		removed = append(removed, v)
		j.log.Info("journal: a volume was removed", "first", v.First, "last", v.Last, "bytes", v.Bytes, "archive", j.o.Archive)
	}
	return removed, nil
}

// removeVolume removes or archives the oldest volume, v. It first removes v from the list, so that no new reader begins
// in it. A reader that is within v can read the rest of its open file, and then gets ErrCut.
func (j *Journal) removeVolume(v Volume) error {
	j.volumes.removeFirst()
	h := &j.o.Hooks
	if j.o.Archive != "" {
		if err := archive(h, v.Path, filepath.Join(j.o.Archive, filepath.Base(v.Path))); err != nil {
			// The fsync after the move may have failed. The volume is then in the archive, and after a power cut in one
			// of the two places.
			if _, stat := os.Lstat(v.Path); stat == nil {
				j.volumes.putBack(v)
			}
			return err
		}
	}
	// The volume is renamed first, because the next start must not mistake a partly deleted directory for a volume.
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

// archive moves the volume at path from to path to. If the archive is on another file system, it copies the volume and
// keeps the original. The volume is durable in the archive when archive returns.
func archive(h *Hooks, from, to string) error {
	if err := MakeDir(filepath.Dir(to), h.syncPath); err != nil {
		return err
	}
	err := os.Rename(from, to)
	if errors.Is(err, syscall.EXDEV) {
		err = copyVolume(h, from, to)
	} else if err == nil {
		// The names in the directory were durable before. Its entry for its parent has changed.
		err = h.syncPath(to)
	}
	if err != nil {
		return err
	}
	return h.syncPath(filepath.Dir(to))
}

// copyVolume copies the volume at path from to path to. It does nothing if a complete copy exists. If anything else has
// that name, it returns an error and changes nothing.
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

// sameVolume returns nil if the volumes at a and b contain the same bytes.
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
		return fmt.Errorf("%s exists and is not a copy of %s", b, a)
	}
	return nil
}

// copyFile durably copies the file from, except for its first skip bytes, to the new file to.
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
