package opsqueue_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/opsqueue"
	"github.com/daybookq/daybook/opsqueue/wire"
)

// send sends a request unchanged and returns the response.
func (h *host) send(method, path, kind, body string) (status int, header http.Header, text string) {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.ctx, method, "http://"+h.address+path, strings.NewReader(body))
	h.must(err)
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	resp, err := http.DefaultTransport.RoundTrip(r) // does not follow redirects
	h.must(err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	h.must(err)
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
		if status != c.status || c.want != none && body != c.want {
			t.Errorf("%s: %d %q, not %d %q", what, status, body, c.status, c.want)
		}
		if got := header.Get("Content-Type"); c.wantKind != none && (c.wantKind == "" && got != "" || !strings.HasPrefix(got, c.wantKind)) {
			t.Errorf("%s: Content-Type %q, not %q", what, got, c.wantKind)
		}
	}
	if _, err := h.producer().Count(h.ctx); err != nil {
		t.Errorf("after all of them: %v", err)
	}
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
	socket, _, err := websocket.Dial(h.ctx, "ws://"+h.address+"/consumer", nil)
	h.must(err)
	defer socket.CloseNow()
	r := &rawConsumer{h, socket}
	want := func(what string, message []byte) {
		t.Helper()
		if got := r.read(); !bytes.Equal(got, message) {
			t.Fatalf("%s:\n%x, not\n%x", what, got, message)
		}
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
