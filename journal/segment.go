package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// segment is one file of a volume, named by the seq of its first record.
type segment struct {
	first uint64
	path  string
	size  int64
}

// begin ends the segment of t. The next segment begins with the record at seq first.
func (t *tail) begin(first uint64) { t.segment, t.offset = first, 0 }

// full reports whether the segment of t is full. tidwall/wal does not report this, so full computes it by the library's rule: it
// begins the next segment after the record that reaches the size.
func (t *tail) full(segmentBytes int) bool { return t.offset >= int64(segmentBytes) }

// maxSegmentBytes bounds the bytes that are read into memory at once. A segment ends with the record with which it
// reaches Options.SegmentBytes, so it is at most maxSegmentOption and one record long.
const maxSegmentBytes = maxSegmentOption + MaxRecordBytes + 64

// readSegment reads a whole segment file into buf, which it extends if necessary, and returns buf. If the file grows
// during the read, readSegment reads only its initial length.
func readSegment(path string, buf []byte) (_ []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return buf[:0], fmt.Errorf("read segment: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return buf[:0], fmt.Errorf("read segment: %w", err)
	}
	if info.Size() > maxSegmentBytes {
		return buf[:0], fmt.Errorf("read segment %s: it has %d bytes, and no segment has more than %d", path, info.Size(), int64(maxSegmentBytes))
	}
	size := int(info.Size())
	buf = slices.Grow(buf[:0], size)[:size]
	n, err := io.ReadFull(f, buf)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return buf[:n], nil // a repair has truncated the file; the missing records were never durable
	} else if err != nil {
		return buf[:0], fmt.Errorf("read segment %s: %w", path, err)
	}
	return buf, nil
}

// createSegment makes an empty segment that begins at seq first, in the volume at path. The segment is durable when it
// returns. An existing segment must be empty. createSegment replaces it, because the old file may include blocks of a
// failed write.
func createSegment(h *Hooks, path string, first uint64) error {
	name := filepath.Join(path, seqName(first))
	if info, err := os.Stat(name); err == nil {
		if info.Size() != 0 {
			return fmt.Errorf("create segment %s: the file exists and has %d bytes", name, info.Size())
		}
		if err := h.Remove(name); err != nil {
			return fmt.Errorf("create segment: %w", err)
		}
	}
	f, err := h.Create(name)
	if err != nil {
		return fmt.Errorf("create segment: %w", err)
	}
	if err := errors.Join(h.SyncFile(f), f.Close()); err != nil {
		return fmt.Errorf("create segment: %w", err)
	}
	if err := h.syncPath(path); err != nil {
		return fmt.Errorf("create segment: %w", err)
	}
	return nil
}
