package opsqueue_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/opsqueue"
	"github.com/daybookq/daybook/opsqueue/wire"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/query"
)

// send sends a request unchanged and returns the response.
func (h *host) send(method, path, kind, body string) (status int, header http.Header, text string) {
	h.t.Helper()
	r := testkit.Must(http.NewRequestWithContext(h.ctx, method, "http://"+h.address+path, strings.NewReader(body)))(h.t)
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	resp := testkit.Must(http.DefaultTransport.RoundTrip(r))(h.t) // does not follow redirects
	defer resp.Body.Close()
	answer := testkit.Must(io.ReadAll(resp.Body))(h.t)
	return resp.StatusCode, resp.Header, string(answer)
}

const (
	asJSON = "application/json"
	asText = "text/plain"
)

// TestStatuses: each route answers with the right status, and where the original's body and its type are known, with the
// same.
func TestStatuses(t *testing.T) {
	h := startHost(t)
	const none = "(any)"
	large := `{"chunk_contents":{"Direct":{"contents":[[` + strings.Repeat("1,", 1<<20) + `1]]}}}`
	insert := `{"chunk_contents":{"SeeObjectStorage":{"prefix":"p","count":0}}}`
	for _, c := range []struct {
		method, path, kind, body string
		status                   int
		wantKind, want           string
	}{
		{"GET", "/ping", "", "", 200, asText, "pong"},
		{"GET", "/version", "", "", 200, asText, "v0.40.1"},
		{"GET", "/producer/version", "", "", 200, asText, "v0.40.1"},
		{"GET", "/metrics", "", "", 200, asText, none},
		{"GET", "/intentionally-panic-for-tests", "", "", 500, asJSON, none},
		{"GET", "/producer/submissions/count", "", "", 200, asJSON, "0"},
		{"GET", "/producer/submissions/count_completed", "", "", 200, asJSON, "0"},
		{"GET", "/producer/submissions/1", "", "", 200, asJSON, "null"},
		{"GET", "/producer/submissions/9223372036854775807", "", "", 200, asJSON, "null"},
		{"GET", "/producer/submissions/lookup_id_by_prefix/x", "", "", 200, asJSON, "null"},
		{"POST", "/producer/submissions/lookup_ids_by_strategic_metadata", asJSON, "{}", 200, asJSON, "[]"},
		{"POST", "/producer/submissions/cancel/17", "", "", 404, asJSON, "17"},
		{"POST", "/producer/submissions", asJSON, insert, 200, asJSON, none},
		{"POST", "/producer/submissions", asJSON + "; charset=utf-8", insert, 200, asJSON, none},

		{"GET", "/", "", "", 404, "", ""},
		{"GET", "/nowhere", "", "", 404, "", ""},
		{"GET", "/producer", "", "", 404, "", ""},
		{"GET", "/producer/nowhere", "", "", 404, "", ""},
		{"GET", "/ping/", "", "", 404, "", ""},
		{"GET", "/consumer/", "", "", 404, "", ""},
		{"POST", "/producer/submissions/", asJSON, insert, 404, "", ""},
		{"GET", "/producer/submissions/count/", "", "", 404, "", ""},
		{"GET", "/producer/submissions/1/", "", "", 404, "", ""},
		{"GET", "/producer/submissions/lookup_id_by_prefix/", "", "", 404, "", ""},
		{"GET", "/producer//version", "", "", 404, "", ""},
		{"GET", "//ping", "", "", 404, "", ""},
		{"GET", "/producer/../ping", "", "", 404, "", ""},

		{"GET", "/producer/submissions", "", "", 405, "", ""},
		{"DELETE", "/producer/submissions/1", "", "", 405, "", ""},
		{"POST", "/producer/submissions/1", asJSON, "{}", 405, "", ""},
		{"POST", "/producer/submissions/count", "", "", 405, "", ""},
		{"GET", "/producer/submissions/cancel/1", "", "", 405, "", ""},
		{"GET", "/producer/submissions/lookup_ids_by_strategic_metadata", "", "", 405, "", ""},
		{"GET", "/producer/submissions/cancel", "", "", 400, asText, none}, // the id is not a number
		{"POST", "/ping", "", "", 405, "", ""},
		{"POST", "/consumer", "", "", 405, "", ""},

		{"GET", "/producer/submissions/x", "", "", 400, asText, none},
		{"GET", "/producer/submissions/-1", "", "", 400, asText, none},
		{"GET", "/producer/submissions/1.5", "", "", 400, asText, none},
		{"GET", "/producer/submissions/9223372036854775808", "", "", 400, asText, none},
		{"POST", "/producer/submissions/cancel/x", "", "", 400, asText, none},
		{"POST", "/producer/submissions", asJSON, "", 400, asText, none},
		{"POST", "/producer/submissions", asJSON, "{", 400, asText, none},
		{"POST", "/producer/submissions", asJSON, insert + "x", 400, asText, none},
		{"POST", "/producer/submissions", "", insert, 415, asText, none},
		{"POST", "/producer/submissions", asText, insert, 415, asText, none},
		{"POST", "/producer/submissions/lookup_ids_by_strategic_metadata", "", "{}", 415, asText, none},
		{"POST", "/producer/submissions", asJSON, "{}", 422, asText, none},
		{"POST", "/producer/submissions", asJSON, `{"chunk_contents":{"SeeObjectStorage":{"prefix":"p","count":-1}}}`, 422, asText, none},
		{"POST", "/producer/submissions", asJSON, `{"chunk_contents":{"SeeObjectStorage":{"prefix":"p","count":1.5}}}`, 422, asText, none},
		{"POST", "/producer/submissions", asJSON, `{"chunk_contents":{"Direct":{"contents":[[256]]}}}`, 422, asText, none},
		{"POST", "/producer/submissions/lookup_ids_by_strategic_metadata", asJSON, `{"a":"b"}`, 422, asText, none},
		{"POST", "/producer/submissions", asJSON, large, 413, asText, none},
	} {
		what := fmt.Sprintf("%s %s %q %.60s", c.method, c.path, c.kind, c.body)
		status, header, body := h.send(c.method, c.path, c.kind, c.body)
		testkit.Holds(t, status == c.status && (c.want == none || body == c.want), what, status, body, "not", c.status, c.want)
		if got := header.Get("Content-Type"); c.wantKind != none && (c.wantKind == "" && got != "" || !strings.HasPrefix(got, c.wantKind)) {
			t.Errorf("%s: Content-Type %q, not %q", what, got, c.wantKind)
		}
	}
	testkit.Must(h.producer().Count(h.ctx))(t)
}

// vector returns the bytes of a protocol example, with its id replaced.
func vector(t *testing.T, name string, id wire.SubmissionID) []byte {
	t.Helper()
	text := testkit.Must(os.ReadFile("wire/testdata/vectors/" + name + ".hex"))(t)
	b := testkit.Must(hex.DecodeString(strings.TrimSpace(string(text))))(t)
	head := []byte{0x1b}
	return bytes.ReplaceAll(b, fmt.Appendf(head, "%s", "\x65\xdc\xeb\x1c\x6b\x5e\x00\x00"), uint64CBOR(uint64(id)))
}

func uint64CBOR(n uint64) []byte {
	b := []byte{0x1b}
	for shift := 56; shift >= 0; shift -= 8 {
		b = append(b, byte(n>>shift))
	}
	return b
}

// TestBytesOfMessages: each message of a connection matches its example, byte for byte.
func TestBytesOfMessages(t *testing.T) {
	h := startHost(t, func(c *opsqueue.Config) {
		c.ConnID = func() string { return "red" }
		c.ReservationExpiration = 200 * time.Millisecond
	})
	size := int64(20)
	s := stored("p", 2, "id", 42)
	s.ChunkSize = &size
	id := h.insert(s)
	socket, _ := testkit.Must2(websocket.Dial(h.ctx, "ws://"+h.address+"/consumer", nil))(h.t)
	defer socket.CloseNow()
	r := &rawConsumer{h, socket}
	want := func(what string, message []byte) {
		t.Helper()
		got := r.read()
		testkit.MustHold(t, bytes.Equal(got, message), what, fmt.Sprintf("%x", got), "not", fmt.Sprintf("%x", message))
	}
	want("Init", vector(t, "init", 0))
	reserve := vector(t, "reserve_random", 0)
	reserve = append(bytes.TrimSuffix(reserve, []byte("\x66Random")), "\x66Oldest"...)
	r.send(websocket.MessageBinary, reserve)
	want("a chunk", vector(t, "reserved_one", id))
	want("its expiry", vector(t, "expired", id))
	r.send(websocket.MessageBinary, vector(t, "fail", id)) // the client sends it on its own
	r.settle(9)
	r.send(websocket.MessageBinary, bytes.Replace(reserve, []byte("\x63max\x01"), []byte("\x63max\x00"), 1))
	want("a reservation of no chunks", vector(t, "reserved_error", 0))
	r.send(websocket.MessageBinary, vector(t, "complete_null", id))
	h.waitDone(id, 1)
}

// sortedFields sorts the fields of each object in a JSON text, and keeps numbers unchanged.
func sortedFields(text string) string {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return "not JSON: " + text
	}
	sorted, err := json.Marshal(value)
	if err != nil {
		return "not JSON: " + text
	}
	return string(sorted)
}

// listedState counts the lists of batches, and how many of them may read batches without attributes.
type listedState struct {
	opsqueue.Queries
	lists, wide atomic.Int64
}

func (s *listedState) Batches(f query.BatchFilter) ([]document.Batch, query.BatchPlace, error) {
	s.lists.Add(1)
	if !f.Attributed {
		s.wide.Add(1)
	}
	return s.Queries.Batches(f)
}

// TestListsOfSubmissionsOnly: no request reads batches without attributes. A server that also serves Daybook's API may
// have very many.
func TestListsOfSubmissionsOnly(t *testing.T) {
	h := newHost(t)
	var state listedState
	h.wrapState = func(q opsqueue.Queries) opsqueue.Queries { state.Queries = q; return &state }
	h.start()
	h.insert(stored("p", 1))
	before := state.lists.Load()
	for _, r := range [][4]string{
		{http.MethodGet, "/metrics", "", ""},
		{http.MethodPost, "/producer/submissions/lookup_ids_by_strategic_metadata", "application/json", "{}"},
		{http.MethodGet, "/producer/submissions/lookup_id_by_prefix/p", "", ""},
	} {
		status, _, text := h.send(r[0], r[1], r[2], r[3])
		testkit.Equal(t, status, http.StatusOK, r[1], text)
	}
	lists, wide := state.lists.Load()-before, state.wide.Load()
	testkit.Holds(t, lists == 3 && wide == 0, lists, "lists", wide, "of them of all batches")
}

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
