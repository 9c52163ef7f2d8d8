package journal

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/tidwall/wal"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestSegmentsShareABuffer: tidwall/wal collects all segments in the memory of the first segment.
//
// If this fails after an update of tidwall/wal, check whether the library now keeps the buffer, or has an option for it.
// If so, remove segment_buffer.go and this test. Otherwise the fields that lastSegments looks for have changed.
func TestSegmentsShareABuffer(t *testing.T) {
	const segmentBytes = 64 << 10
	var buffers []*byte // of the filled segments; only the committer appends, and this goroutine reads after its end
	r := mustRun(t, Options{SegmentBytes: segmentBytes, VolumeBytes: 1 << 30, Hooks: Hooks{Write: func(l *wal.Log, b *wal.Batch) error {
		err := l.WriteBatch(b)
		full, begun := lastSegments(l)
		if full == nil {
			return err // the first segment
		}
		if *begun == nil { // by this write
			buffers = append(buffers, unsafe.SliceData(*full))
		}
		return err
	}}})
	for i := range 50 {
		r.mustPut("create", strings.Repeat("x", 200*i+3000))
	}
	r.stop()
	testkit.MustHold(t, len(buffers) >= 5, len(buffers), "segments were filled")
	for i, b := range buffers[1:] {
		testkit.Equal(t, b, buffers[0], "segment", i+2, "was collected in memory of its own")
	}
}

// TestSegmentBufferIsBounded: a buffer that a large record has grown is not kept.
func TestSegmentBufferIsBounded(t *testing.T) {
	const segmentBytes = 4 << 10
	kept := -1 // written by the committer, read after its end
	r := mustRun(t, Options{SegmentBytes: segmentBytes, Hooks: Hooks{Write: func(l *wal.Log, b *wal.Batch) error {
		if _, begun := lastSegments(l); begun != nil {
			kept = max(kept, cap(*begun))
		}
		return l.WriteBatch(b)
	}}})
	r.mustPut("create", strings.Repeat("x", (maxSpareFactor+1)*segmentBytes))
	r.mustPut("create", "small")
	r.stop()
	testkit.Holds(t, kept >= 0 && kept < segmentBytes, "the segment after the long one began with a buffer of", kept, "bytes (-1: there was none)")
}
