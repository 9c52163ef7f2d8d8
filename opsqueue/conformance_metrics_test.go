package opsqueue_test

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/opsqueue"
)

// TestMetrics: the server exports the original's metrics, for submissions in progress and for each way to end.
func TestMetrics(t *testing.T) {
	h := startHost(t, func(c *opsqueue.Config) { c.MaxChunkRetries = 2 })
	c, p := h.consumer(), h.producer()
	size := int64(10)
	h.insert(stored("completed", 3))
	for range 3 {
		h.must(c.Complete(h.ctx, h.reserveOne(c).Chunk.ChunkID, nil))
	}
	failed := h.insert(stored("failed", 4))
	for range 2 {
		h.must(c.Fail(h.ctx, h.reserve(c, 1, oldest)[0].Chunk.ChunkID, "boom"))
		h.reported(c) // so that the same chunk is handed out again
	}
	h.waitFor(failed, "Failed")
	h.must(p.Cancel(h.ctx, h.insert(stored("cancelled", 2))))
	waiting := stored("waiting", 5)
	waiting.ChunkSize = &size
	h.insert(waiting)
	h.reserveOne(c)

	// h.reported has inserted and completed two submissions of one chunk. Nobody had reserved those chunks.
	want := map[string]float64{
		"submissions_total_count": 4 + 2, "submissions_completed_count": 1 + 2, "submissions_failed_count": 1, "submissions_cancelled_count": 1,
		"chunks_total_count": 14 + 2, "chunks_completed_count": 3 + 2, "chunks_failed_count": 1, "chunks_retried_count": 1, "chunks_skipped_count": 3 + 2,
		"reserver_reservations_succeeded_count": 6, "reserver_reservations_failed_count": 0,
		"chunks_in_backlog_count": 5, "operations_in_backlog_count": 50, "reserver_chunks_reserved_count": 1, "consumers_connected_count": 1,
		"submissions_complete_duration_seconds_count": 1 + 2, "submissions_fail_duration_seconds_count": 1, "submissions_cancel_duration_seconds_count": 1,
		"chunks_duration_completed_seconds_count": 3, "chunks_duration_failure_seconds_count": 2,
		`consumer_fetch_and_reserve_chunks_duration_seconds_count{limit="1",strategy="oldest"}`: 6,
		"consumer_complete_chunk_duration_seconds_count":                                        3 + 2, "consumer_fail_chunk_duration_seconds_count": 2,
		`axum_http_requests_total{endpoint="/producer/submissions",method="POST",status="200"}`:                  4 + 2,
		`axum_http_requests_total{endpoint="/producer/submissions/cancel/{id}",method="POST",status="200"}`:      1,
		`axum_http_requests_duration_seconds_count{endpoint="/producer/submissions",method="POST",status="200"}`: 4 + 2,
		`axum_http_requests_pending{endpoint="/producer/submissions",method="POST"}`:                             0,
	}
	differing := ""
	defer func() {
		if t.Failed() {
			t.Log(differing)
		}
	}()
	testkit.Eventually(t, "the metrics are right", func() bool {
		_, _, text := h.send("GET", "/metrics", "", "")
		differing = ""
		for name, value := range want {
			found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(text)
			if found == nil {
				differing += fmt.Sprintf("%s is missing\n", name)
			} else if found[1] != fmt.Sprint(value) {
				differing += fmt.Sprintf("%s is %s, not %v\n", name, found[1], value)
			}
		}
		return differing == ""
	})
}
