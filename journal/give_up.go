package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/daybookq/daybook/internal/filelock"
)

// GiveUp removes all records after seq last from the journal in dir, which must not be open. Operators use it when a
// start is refused and no copy can be restored. It is the only function of this package that can remove acknowledged
// records.
//
// GiveUp deletes nothing: it moves the removed records to the directory that it returns. Whole segments and volumes keep
// their names there, and the rest of a segment is named `<segment>.<offset>`.
//
// The records up to last must be intact. Afterwards, the store must be rebuilt from a base whose cursor is at most last,
// because the seqs after last will be used again.
func GiveUp(dir string, last uint64) (kept string, err error) {
	lock, err := filelock.Open(dir)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	var h Hooks
	h.fill()
	vols, err := loadVolumes(dir)
	if err != nil {
		return "", err
	}
	id, err := identityOf(dir, vols)
	if err != nil {
		return "", err
	}
	if len(vols) == 0 || last+1 < vols[0].first {
		return "", fmt.Errorf("give up after seq %d: %w", last, ErrCut)
	}
	n := len(vols)
	for vols[n-1].first > last+1 {
		n--
	}
	v := &vols[n-1]
	offset, keep, err := endOf(v, id.salt, last)
	if err != nil {
		return "", fmt.Errorf("give up after seq %d: %w", last, err)
	}
	if kept, err = makeKept(dir, last+1); err != nil {
		return "", fmt.Errorf("give up after seq %d: %w", last, err)
	}
	if err := moveOut(&h, kept, vols[n:], volumeEnd{v, keep, offset}); err != nil {
		return kept, fmt.Errorf("give up after seq %d: %w", last, err)
	}
	return kept, nil
}

// endOf returns the place where record last ends: at offset, in the last of the first keep segments of v. If keep is 0,
// no record of v is kept.
func endOf(v *volumeDir, salt uint32, last uint64) (offset int64, keep int, err error) {
	for keep < len(v.segments) && v.segments[keep].first <= last+1 {
		keep++
	}
	if keep == 0 {
		if v.first != last+1 {
			return 0, 0, fmt.Errorf("the journal has no record %d", last)
		}
		return 0, 0, nil
	}
	s := v.segments[keep-1]
	data, err := readSegment(s.path, nil)
	if err != nil {
		return 0, 0, err
	}
	sc := scanner{data: data, salt: salt, next: s.first}
	for sc.next <= last && sc.step() {
	}
	if sc.next != last+1 {
		return 0, 0, fmt.Errorf("record %d is missing or damaged, and record %d is the last intact one (%s)", last, sc.next-1, sc.found.reason)
	}
	return int64(sc.off), keep, nil
}

// makeKept makes a new directory for the removed files.
func makeKept(dir string, first uint64) (string, error) {
	for n := 1; ; n++ {
		kept := filepath.Join(dir, fmt.Sprintf("given-up-%s-%d", seqName(first), n))
		if err := os.Mkdir(kept, 0o750); !errors.Is(err, os.ErrExist) {
			return kept, err
		}
	}
}

// volumeEnd is the new end of a volume: offset, in the last of its first keep segments.
type volumeEnd struct {
	volume *volumeDir
	keep   int
	offset int64
}

// moveOut moves the later volumes, and everything after the new end of the volume before them, to the directory kept. It
// starts at the end of the journal, so that an interruption leaves a journal that ends earlier but is otherwise complete.
func moveOut(h *Hooks, kept string, later []volumeDir, end volumeEnd) error {
	v, keep, offset := end.volume, end.keep, end.offset
	for i := len(later) - 1; i >= 0; i-- {
		if err := os.Rename(later[i].path, filepath.Join(kept, filepath.Base(later[i].path))); err != nil {
			return err
		}
	}
	part := filepath.Join(kept, filepath.Base(v.path))
	if err := os.Mkdir(part, 0o750); err != nil {
		return err
	}
	for i := len(v.segments) - 1; i >= keep; i-- {
		if err := os.Rename(v.segments[i].path, filepath.Join(part, filepath.Base(v.segments[i].path))); err != nil {
			return err
		}
	}
	if keep > 0 {
		s := v.segments[keep-1]
		rest := filepath.Join(part, fmt.Sprintf("%s.%d", seqName(s.first), offset))
		if err := copyFile(h, s.path, rest, offset); err != nil {
			return err
		}
	}
	for _, d := range []string{part, kept, filepath.Dir(kept), v.path} {
		if err := h.syncPath(d); err != nil {
			return err
		}
	}
	if keep > 0 {
		return truncateSegment(h, v.segments[keep-1].path, offset)
	}
	return nil
}
