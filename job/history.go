package job

import "fmt"

// SetHistory bounds the rows of effects, which history is read from. Apply cannot know the settings of a server or the size
// of its disk, so the server that leads proposes its settings, and proposes to delete rows when the disk is low.
type SetHistory struct {
	// Bytes and AgeMs are the bounds from now on: at least MinHistoryBytes and MinHistoryMs. Both are 0 if they do not change.
	Bytes, AgeMs int64
	// Before, if not 0, deletes the segments of rows that begin before this seq, except the newest segment.
	Before uint64
}

const (
	// MinHistoryBytes is the smallest bound of the bytes of history, and MaxHistoryBytes the largest.
	MinHistoryBytes, MaxHistoryBytes = 1 << 20, 1 << 50
	// DefaultHistoryMs is the bound of the age of history of a server that is given none: 14 days.
	DefaultHistoryMs = 14 * 24 * 60 * 60 * 1000
	// MinHistoryMs is the smallest bound of the age of history. The largest is MaxDelayMs.
	MinHistoryMs = 60 * 1000
)

// Verb returns "history".
func (SetHistory) Verb() string { return "history" }

// Encode returns the fields. There is no body.
func (h SetHistory) Encode() (fieldText, body []byte) {
	var f fields
	f.int("bytes", h.Bytes)
	f.int("age_ms", h.AgeMs)
	f.int("before", int64(h.Before))
	return f, nil
}

func decodeHistory(r *fieldReader) Command {
	var h SetHistory
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		switch key {
		case "bytes":
			h.Bytes = r.int(key, raw, MinHistoryBytes, MaxHistoryBytes)
		case "age_ms":
			h.AgeMs = r.int(key, raw, MinHistoryMs, MaxDelayMs)
		case "before":
			h.Before = uint64(r.int(key, raw, 1, 1<<63-1))
		default:
			r.unknown(key)
		}
	}
	if (h.Bytes == 0) != (h.AgeMs == 0) {
		r.fail(fmt.Errorf("bytes and age_ms are given together"))
	}
	if h.Bytes == 0 && h.Before == 0 {
		r.fail(fmt.Errorf("bytes or before is missing"))
	}
	return h
}
