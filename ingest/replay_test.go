package ingest

import (
	"bytes"
	"fmt"
	"iter"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
)

// TestReplayCountsRecords: the progress of a replay is a number of records, even if the log has gaps and does not begin
// with the first record.
func TestReplayCountsRecords(t *testing.T) {
	s := testkit.Must(store.Open(t.TempDir(), store.Options{}))(t)
	defer s.Close()
	c := lines(1)
	c.Longest = job.MaxPayloadBytes
	c.Payloads = append(bytes.Repeat([]byte("x"), c.Longest), '\n')
	fields, body := c.Encode()
	var records iter.Seq2[journal.Record, error] = func(yield func(journal.Record, error) bool) {
		for seq := uint64(100); seq < 110; seq += 2 {
			if !yield(journal.Record{Verb: c.Verb(), Seq: seq, At: 1, Fields: fields, Body: body}, nil) {
				return
			}
		}
	}
	var seen []string
	n, err := Replay(t.Context(), s, records, func(seq, n uint64) { seen = append(seen, fmt.Sprint(seq, ":", n)) })
	if err != nil || n != 5 || len(seen) < 2 || seen[0] != fmt.Sprint(100, ":", 1) && seen[0] != fmt.Sprint(102, ":", 2) {
		t.Errorf("%d records, progress %v, %v", n, seen, err)
	}
}
