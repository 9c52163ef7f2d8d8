package journal

import (
	"reflect"
	"unsafe"

	"github.com/tidwall/wal"
)

// maxSpareFactor bounds the buffer that is kept between segments. Records of several MiB may need a buffer of more than
// this many segments, which is left to the garbage collector.
const maxSpareFactor = 4

// segmentBuffer keeps the buffer in which tidwall/wal collects a segment, and reuses it for the next segment. The library
// alone begins each segment without a buffer and grows it entry by entry, which copies each byte of a bulk post about
// five times: a fifth of the processor time of bulk creates. It lacks an option for this, so next modifies its private
// fields. docs/024-segment-buffers.md discusses the alternatives, and TestSegmentsShareABuffer detects when this file can
// be removed.
type segmentBuffer struct{ spare []byte }

// next gives the segment that log has just begun the buffer of the previous segment. The caller must call it directly
// after the write that filled a segment, and no other goroutine may use log. If the library's fields are not as expected,
// next does nothing.
func (b *segmentBuffer) next(log *wal.Log, segmentBytes int) error {
	full, begun := lastSegments(log)
	if full == nil || begun == nil || *begun != nil {
		return nil
	}
	if *full != nil && cap(*full) <= maxSpareFactor*segmentBytes {
		b.spare = (*full)[:0]
	}
	if err := log.ClearCache(); err != nil { // now the full segment no longer uses its buffer
		return err
	}
	*begun, b.spare = b.spare, nil
	return nil
}

// lastSegments returns the buffers of the last two segments of a log.
func lastSegments(log *wal.Log) (full, begun *[]byte) {
	segments := reflect.ValueOf(log).Elem().FieldByName("segments")
	if segments.Kind() != reflect.Slice || segments.Len() < 2 {
		return nil, nil
	}
	buffer := func(i int) *[]byte {
		segment := segments.Index(i)
		if segment.Kind() != reflect.Pointer || segment.Type().Elem().Kind() != reflect.Struct {
			return nil
		}
		field := segment.Elem().FieldByName("ebuf")
		if !field.IsValid() || field.Type() != reflect.TypeFor[[]byte]() {
			return nil
		}
		return (*[]byte)(unsafe.Pointer(field.UnsafeAddr()))
	}
	return buffer(segments.Len() - 2), buffer(segments.Len() - 1)
}
