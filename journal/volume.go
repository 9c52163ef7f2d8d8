package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Volume is one directory of the journal. It contains segment files in order, written by one tidwall/wal log. Every
// volume except the last is complete and durable, and is never written again.
type Volume struct {
	First uint64 // seq of its first record, which is also its name
	Last  uint64 // seq of its last record; First-1 if it has no records yet
	Bytes int64
	Path  string
	Tail  bool // this is the last volume, to which the journal writes
}

// volumeDir is a volume as found on disk.
type volumeDir struct {
	first    uint64
	path     string
	segments []segment
	leftover string // a .START or .END file of tidwall/wal's truncation, which would make its Open delete segments
}

// nameDigits is the length of the name of a volume or segment. The name is a seq in decimal with leading zeros, so that
// names sort as numbers. tidwall/wal names segments in this way.
const nameDigits = 20

func seqName(seq uint64) string { return fmt.Sprintf("%0*d", nameDigits, seq) }

// parseSeqName is the inverse of seqName. ok is false for every name that seqName does not return, and for 0, which is
// never a record's seq.
func parseSeqName(name string) (seq uint64, ok bool) {
	if len(name) != nameDigits {
		return 0, false
	}
	seq, err := strconv.ParseUint(name, 10, 64)
	return seq, err == nil && seq > 0 && name[0] != '+'
}

// removedSuffix is the suffix of a volume that Cut has removed but not deleted yet.
const removedSuffix = ".removed"

// listVolumes returns the volumes of dir by ascending first seq, without their segments. It ignores other names.
func listVolumes(dir string) ([]volumeDir, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	var vols []volumeDir
	for _, e := range entries {
		if seq, ok := parseSeqName(e.Name()); ok && e.IsDir() {
			vols = append(vols, volumeDir{first: seq, path: filepath.Join(dir, e.Name())})
		}
	}
	return vols, nil
}

// load lists the segments of v by ascending first seq.
func (v *volumeDir) load() error {
	entries, err := os.ReadDir(v.path)
	if err != nil {
		return fmt.Errorf("list segments: %w", err)
	}
	v.segments, v.leftover = v.segments[:0], ""
	for _, e := range entries {
		name := e.Name()
		if _, ok := parseSeqName(name[:min(len(name), nameDigits)]); !ok || e.IsDir() {
			continue
		}
		if strings.HasSuffix(name, ".START") || strings.HasSuffix(name, ".END") {
			v.leftover = filepath.Join(v.path, name)
			continue
		}
		seq, ok := parseSeqName(name)
		if !ok {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // a repair or a Cut has removed it since ReadDir
		} else if err != nil {
			return fmt.Errorf("list segments: %w", err)
		}
		v.segments = append(v.segments, segment{first: seq, path: filepath.Join(v.path, name), size: info.Size()})
	}
	slices.SortFunc(v.segments, func(a, b segment) int {
		if a.first < b.first {
			return -1
		}
		return 1
	})
	return nil
}

func (v *volumeDir) bytes() (n int64) {
	for _, s := range v.segments {
		n += s.size
	}
	return n
}

// loadVolumes lists the volumes of dir with their segments.
func loadVolumes(dir string) ([]volumeDir, error) {
	vols, err := listVolumes(dir)
	if err != nil {
		return nil, err
	}
	for i := range vols {
		if err := vols[i].load(); err != nil {
			return nil, err
		}
	}
	return vols, nil
}

// createVolume makes the volume that begins at seq first. It makes the directory, and in it an empty segment of the same
// name, which is the first index for tidwall/wal. Both are durable when it returns. If an error or a crash interrupted an
// earlier attempt, createVolume completes it.
func createVolume(h *Hooks, dir string, first uint64) error {
	path := filepath.Join(dir, seqName(first))
	if err := os.Mkdir(path, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("create volume: %w", err)
	}
	if err := createSegment(h, path, first); err != nil {
		return fmt.Errorf("create volume: %w", err)
	}
	if err := h.syncPath(dir); err != nil {
		return fmt.Errorf("create volume: %w", err)
	}
	return nil
}
