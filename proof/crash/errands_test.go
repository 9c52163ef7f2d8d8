package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/api"
	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/ingest"
)

// falseServer gives some answers that differ from the real server's.
type falseServer struct {
	real http.Handler
	lie  func(l *falseServer, w http.ResponseWriter, r *http.Request) (answered bool)
	n    map[string]int // counters that lie may use
}

func (l *falseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if l.lie == nil || !l.lie(l, w, r) {
		l.real.ServeHTTP(w, r)
	}
}

// recorder records an answer, and accepts deadlines.
type recorder struct{ *httptest.ResponseRecorder }

func (recorder) SetReadDeadline(time.Time) error  { return nil }
func (recorder) SetWriteDeadline(time.Time) error { return nil }

// ask sends an additional request to the real server.
func (l *falseServer) ask(r *http.Request, method, path, body string) *httptest.ResponseRecorder {
	other := httptest.NewRequestWithContext(r.Context(), method, path, strings.NewReader(body))
	other.Host = r.Host
	if body != "" {
		other.Header.Set("Content-Type", "application/json")
	}
	return l.record(other)
}

// count counts the calls under a name.
func (l *falseServer) count(name string) int {
	l.n[name]++
	return l.n[name]
}

// record sends r to the real server, and returns the answer.
func (l *falseServer) record(r *http.Request) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	l.real.ServeHTTP(recorder{answer}, r)
	return answer
}

// give sends a recorded answer with another body.
func give(w http.ResponseWriter, answer *httptest.ResponseRecorder, body []byte) {
	for name, values := range answer.Header() {
		if name != "Content-Length" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(body)
}

// refuse answers with a problem document.
func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"status": status, "code": code, "outcome": "not_stored"})
}

// withBody returns the request with another body.
func withBody(r *http.Request, body []byte) *http.Request {
	out := r.Clone(r.Context())
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return out
}

// without forwards a request after removing a field from its body.
func (l *falseServer) without(t *testing.T, w http.ResponseWriter, r *http.Request, field string) bool {
	var doc map[string]any
	if err := json.Unmarshal(bodyOf(t, r), &doc); err != nil {
		t.Error(err)
	}
	delete(doc, field)
	body, err := json.Marshal(doc)
	if err != nil {
		t.Error(err)
	}
	l.real.ServeHTTP(w, withBody(r, body))
	return true
}

func bodyOf(t *testing.T, r *http.Request) []byte {
	var b bytes.Buffer
	if _, err := b.ReadFrom(r.Body); err != nil {
		t.Error(err)
	}
	return b.Bytes()
}

// testHeartbeat is the time between the heartbeats of a runner in TestErrands.
const testHeartbeat = 20 * time.Millisecond

// TestErrands: errands succeed on a server that keeps its promises, and notice a server that breaks one. Otherwise their
// success in a lane would prove nothing.
func TestErrands(t *testing.T) {
	created := func(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Path == "/jobs/create" }
	claimed := func(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Path == "/jobs/claim" }
	completed := func(r *http.Request) bool {
		return r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/jobs/") && strings.HasSuffix(r.URL.Path, "/complete")
	}
	ofJob := func(r *http.Request, method string) bool {
		return r.Method == method && strings.HasPrefix(r.URL.Path, "/jobs/") && strings.Count(r.URL.Path, "/") == 2
	}
	ofQueue := func(r *http.Request, method string) bool {
		return r.Method == method && strings.HasPrefix(r.URL.Path, "/queues/") && strings.Count(r.URL.Path, "/") == 3
	}
	beats := func(r *http.Request) bool {
		return r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/runners/")
	}
	// jobOf returns the job of an outcome, or nil.
	jobOf := func(l *falseServer, r *http.Request) (doc *struct {
		ID      string `json:"job_id"`
		Status  string `json:"status"`
		ClaimID string `json:"claim_id"`
	},
	) {
		if answer := l.ask(r, http.MethodGet, strings.TrimSuffix(r.URL.Path, "/complete"), ""); answer.Code == http.StatusOK {
			_ = json.Unmarshal(answer.Body.Bytes(), &doc)
		}
		return doc
	}
	heartbeatMs := func(d time.Duration) []byte { return fmt.Appendf(nil, `"heartbeat_ms":%d`, d.Milliseconds()) }
	// accept carries out a request. If the server refuses it, accept answers with body, as if the request had succeeded.
	accept := func(l *falseServer, w http.ResponseWriter, r *http.Request, body string) bool {
		answer := l.record(r)
		if answer.Code != http.StatusConflict {
			give(w, answer, answer.Body.Bytes())
			return true
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
		return true
	}
	// ofBatch reports whether a request is for a batch, or for a path below it.
	ofBatch := func(r *http.Request, method, below string) bool {
		return r.Method == method && strings.HasPrefix(r.URL.Path, "/batches/") && strings.Count(r.URL.Path, "/") == 2+strings.Count(below, "/") && strings.HasSuffix(r.URL.Path, below)
	}
	// altered carries out a request, and replaces a part of its body.
	altered := func(l *falseServer, w http.ResponseWriter, r *http.Request, old, replaced string) bool {
		l.real.ServeHTTP(w, withBody(r, bytes.Replace(bodyOf(t, r), []byte(old), []byte(replaced), 1)))
		return true
	}
	unnumbered := func(r *http.Request) *http.Request {
		r = r.Clone(r.Context())
		for _, name := range []string{"Daybook-Session", "Daybook-Session-Slot", "Daybook-Session-Number"} {
			r.Header.Del(name)
		}
		return r
	}
	jobIn := func(body []byte) string {
		var doc struct {
			JobID string `json:"job_id"`
		}
		_ = json.Unmarshal(body, &doc)
		return doc.JobID
	}
	var earlier *httptest.ResponseRecorder // a backup
	for name, tt := range map[string]struct {
		notice string // a part of the error
		lie    func(*falseServer, http.ResponseWriter, *http.Request) bool
	}{
		"the real server": {},
		"an acknowledged job is lost": {"a create with the unique key of job", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !created(r) {
				return false
			}
			answer := l.record(r)
			if l.n["created"]++; l.n["created"] >= 5 {
				l.ask(r, http.MethodDelete, "/jobs/"+jobIn(answer.Body.Bytes()), "")
			}
			give(w, answer, answer.Body.Bytes())
			return true
		}},
		"a repeated create is carried out again": {"the unique key is free, and", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !created(r) {
				return false
			}
			l.real.ServeHTTP(w, unnumbered(r))
			return true
		}},
		"a repeated claim is carried out again": {"claim of the only job", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !claimed(r) {
				return false
			}
			l.real.ServeHTTP(w, unnumbered(r))
			return true
		}},
		"a repeated completion is carried out again": {"409 claim_lost|has carried out", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !completed(r) {
				return false
			}
			l.real.ServeHTTP(w, unnumbered(r))
			return true
		}},
		"a unique key is not held": {"a create with the unique key of job", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !created(r) {
				return false
			}
			body := bodyOf(t, r)
			other := fmt.Sprintf(`"unique_key":"%08x `, crc32.ChecksumIEEE(body)) // a repeat gets the same key
			l.real.ServeHTTP(w, withBody(r, bytes.Replace(body, []byte(`"unique_key":"`), []byte(other), 1)))
			return true
		}},
		"a delete that does not happen": {"complete a deleted job", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !ofJob(r, http.MethodDelete) {
				return false
			}
			w.WriteHeader(http.StatusNoContent)
			return true
		}},
		"a patch that is lost": {"it reads as", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !ofJob(r, http.MethodPatch) {
				return false
			}
			before := l.ask(r, http.MethodGet, r.URL.Path, "").Body.Bytes()
			answer := l.record(r)
			var doc struct {
				Priority    int `json:"priority"`
				MaxAttempts int `json:"max_attempts"`
			}
			_ = json.Unmarshal(before, &doc)
			back, _ := json.Marshal(map[string]int{"priority": doc.Priority, "max_attempts": doc.MaxAttempts})
			l.ask(r, http.MethodPatch, r.URL.Path, string(back))
			give(w, answer, answer.Body.Bytes())
			return true
		}},
		"another payload is handed out": {"it reads as", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !claimed(r) {
				return false
			}
			answer := l.record(r)
			give(w, answer, bytes.Replace(answer.Body.Bytes(), []byte(`<errand`), []byte(`<Errand`), 1))
			return true
		}},
		"a claim finds nothing": {"claim of the only job", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !claimed(r) {
				return false
			}
			w.WriteHeader(http.StatusNoContent)
			return true
		}},
		"a completion that does not happen": {"the job must be gone, and reads", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !completed(r) {
				return false
			}
			doc, body := jobOf(l, r), bodyOf(t, r)
			if doc == nil || doc.ClaimID == "" || !bytes.Contains(body, []byte(doc.ClaimID)) {
				l.real.ServeHTTP(w, withBody(r, body))
				return true
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{"job_id": doc.ID, "status": "completed"})
			return true
		}},
		"a completed job is there again": {"the job must be gone, and reads", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !created(r) {
				return false
			}
			l.real.ServeHTTP(w, withBody(r, bytes.Replace(bodyOf(t, r), []byte(`"retention_ms":0`), []byte(`"retention_ms":1000000`), 1)))
			return true
		}},
		"a queue that is deleted and there again": {"exists again", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !ofQueue(r, http.MethodDelete) {
				return false
			}
			w.WriteHeader(http.StatusNoContent)
			return true
		}},
		"a queue without jobs that is not empty": {"409 queue_not_empty", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !ofQueue(r, http.MethodDelete) {
				return false
			}
			refuse(w, http.StatusConflict, "queue_not_empty")
			return true
		}},
		"an idle queue that is deleted early": {"no longer exists", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !ofQueue(r, http.MethodGet) {
				return false
			}
			refuse(w, http.StatusNotFound, "queue_not_found")
			return true
		}},
		"a chain that is lost": {"must have created", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			return completed(r) && l.without(t, w, r, "then")
		}},
		"a chain that is doubled": {"must have created", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !completed(r) {
				return false
			}
			body := bodyOf(t, r)
			answer := l.record(withBody(r, body))
			var doc struct{ Then []json.RawMessage }
			if _ = json.Unmarshal(body, &doc); doc.Then != nil {
				l.ask(r, http.MethodPost, "/jobs/create", string(doc.Then[0]))
			}
			give(w, answer, answer.Body.Bytes())
			return true
		}},
		"a job that follows is lost": {"must have created", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			return created(r) && l.without(t, w, r, "on_complete")
		}},
		"a handler that is lost": {"no longer exists", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || !strings.HasPrefix(r.URL.Path, "/handlers/") {
				return false
			}
			refuse(w, http.StatusNotFound, "handler_not_found")
			return true
		}},
		"a handler whose new version is lost": {"reads as", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPut || !strings.HasPrefix(r.URL.Path, "/handlers/") {
				return false
			}
			answer := l.record(r)
			if l.n["stored"]++; l.n["stored"] == 3 {
				l.ask(r, http.MethodDelete, r.URL.Path+"?"+r.URL.RawQuery, "")
				l.ask(r, http.MethodPut, r.URL.Path+"?"+r.URL.RawQuery, `{"kind":"exec","program":"other"}`)
			}
			give(w, answer, answer.Body.Bytes())
			return true
		}},
		"a fileset that is lost": {"no longer exists", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || !strings.HasPrefix(r.URL.Path, "/filesets/") {
				return false
			}
			refuse(w, http.StatusNotFound, "fileset_not_found")
			return true
		}},
		"a fileset whose new version is lost": {"reads as", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || !strings.HasPrefix(r.URL.Path, "/filesets/") {
				return false
			}
			if l.n["read"]++; l.n["read"] < 3 {
				return false
			}
			r.URL.RawQuery += "&version=1" // this version has other files
			answer := l.record(r)
			give(w, answer, answer.Body.Bytes())
			return true
		}},
		"a handler that is not deleted": {"reads as", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodDelete || !strings.HasPrefix(r.URL.Path, "/handlers/") {
				return false
			}
			w.WriteHeader(http.StatusNoContent)
			return true
		}},
		"a blob that is lost": {"was stored, and is read with the error", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || !strings.HasPrefix(r.URL.Path, "/blobs/") || l.count("read") < 9 {
				return false
			}
			refuse(w, http.StatusNotFound, "blob_not_found")
			return true
		}},
		"a blob that loses its SHA-1": {"was stored, and is read with the error", func(_ *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || !strings.HasPrefix(r.URL.Path, "/blobs/") || strings.Contains(r.URL.Path, "sha256") {
				return false
			}
			refuse(w, http.StatusNotFound, "blob_not_found")
			return true
		}},
		"a damaged blob": {"the blob is damaged", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || !strings.HasPrefix(r.URL.Path, "/blobs/") || l.count("read") < 9 {
				return false
			}
			answer := l.record(r)
			body := answer.Body.Bytes()
			if len(body) > 0 {
				body[len(body)/2] ^= 4
			}
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			give(w, answer, body)
			return true
		}},
		"a silent runner that keeps its job": {"still holds job", func(_ *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !beats(r) {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{%s,"alive_since":1}`, heartbeatMs(testHeartbeat))
			return true
		}},
		"a runner that is lost early": {"was lost early", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !beats(r) {
				return false
			}
			answer := l.record(r)
			give(w, answer, bytes.Replace(answer.Body.Bytes(), heartbeatMs(testHeartbeat), heartbeatMs(runnerHeartbeat), 1))
			return true
		}},
		"a lost runner whose attempt does not count": {"must be returned by its loss", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !ofJob(r, http.MethodGet) {
				return false
			}
			answer := l.record(r)
			body := answer.Body.Bytes()
			if bytes.Contains(body, []byte("its runner was lost")) {
				body = bytes.Replace(body, []byte(`"run_attempts":1`), []byte(`"run_attempts":0`), 1)
			}
			give(w, answer, body)
			return true
		}},
		"a job that a lost runner held and nobody gets": {"for run 2", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !claimed(r) {
				return false
			}
			body := bodyOf(t, r)
			if bytes.Contains(body, []byte("-held")) {
				l.n["held"]++
			}
			if l.n["held"] < 3 { // the first of these jobs is completed late, and is claimed only once
				l.real.ServeHTTP(w, withBody(r, body))
				return true
			}
			w.WriteHeader(http.StatusNoContent)
			return true
		}},
		"a late outcome that is refused": {"complete late", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !completed(r) {
				return false
			}
			if doc := jobOf(l, r); doc == nil || doc.Status != "pending" {
				return false
			}
			refuse(w, http.StatusConflict, "claim_lost")
			return true
		}},
		"a repeat of a completion that is refused": {"within a minute", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !completed(r) || jobOf(l, r) != nil {
				return false
			}
			refuse(w, http.StatusNotFound, "job_not_found")
			return true
		}},
		"an outcome of a lost runner that ends the next run": {"a report under claim", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !completed(r) {
				return false
			}
			doc := jobOf(l, r)
			if doc == nil || doc.Status != "active" {
				return false
			}
			var body map[string]any
			if err := json.Unmarshal(bodyOf(t, r), &body); err != nil {
				t.Error(err)
			}
			body["claim_id"] = doc.ClaimID
			changed, err := json.Marshal(body)
			if err != nil {
				t.Error(err)
			}
			l.real.ServeHTTP(w, withBody(r, changed))
			return true
		}},
		"a tickle of a lost runner that is accepted": {"a report under claim", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			return strings.HasSuffix(r.URL.Path, "/tickle") && accept(l, w, r, `{"job_id":"a","status":"active"}`)
		}},
		"a heartbeat of a lost runner that is accepted": {"accepts its heartbeat", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			return beats(r) && accept(l, w, r, fmt.Sprintf(`{%s,"alive_since":1}`, heartbeatMs(testHeartbeat)))
		}},
		"a batch that is lost": {"is lost", func(_ *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !ofBatch(r, http.MethodGet, "") {
				return false
			}
			refuse(w, http.StatusNotFound, "batch_not_found")
			return true
		}},
		"jobs that are added to a batch and lost": {"with 4 jobs that wait", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !ofBatch(r, http.MethodPost, "/jobs") {
				return false
			}
			answer := l.record(r)
			var doc struct {
				FirstID string `json:"first_id"`
			}
			_ = json.Unmarshal(answer.Body.Bytes(), &doc)
			l.ask(r, http.MethodDelete, "/jobs/"+doc.FirstID, "")
			give(w, answer, answer.Body.Bytes())
			return true
		}},
		"an addition to a batch that is carried out twice": {"and its repeat with", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !ofBatch(r, http.MethodPost, "/jobs") {
				return false
			}
			r = r.Clone(r.Context())
			r.Header.Del("Idempotency-Key")
			l.real.ServeHTTP(w, r)
			return true
		}},
		"a batch that loses its metadata": {"has the metadata", func(_ *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !ofBatch(r, http.MethodGet, "/metadata") {
				return false
			}
			w.WriteHeader(http.StatusNoContent)
			return true
		}},
		"a batch that is not paused": {"must be paused", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			return created(r) && altered(l, w, r, `"paused":true`, `"paused":false`)
		}},
		"a paused batch that hands out its jobs": {"is paused, and the claim", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !claimed(r) {
				return false
			}
			body := bodyOf(t, r)
			if bytes.Contains(body, []byte("-batch")) {
				body := l.ask(r, http.MethodGet, "/batches?status=paused", "").Body.Bytes()
				var page struct {
					Batches []struct {
						BatchID string `json:"batch_id"`
					}
				}
				if _ = json.Unmarshal(body, &page); len(page.Batches) > 0 {
					l.ask(r, http.MethodPost, "/batches/"+page.Batches[0].BatchID+"/resume", "{}")
				}
			}
			l.real.ServeHTTP(w, withBody(r, body))
			return true
		}},
		"a resume that does not happen": {"is resumed, and is", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !ofBatch(r, http.MethodPost, "/resume") {
				return false
			}
			answer := l.ask(r, http.MethodGet, strings.TrimSuffix(r.URL.Path, "/resume"), "")
			give(w, answer, answer.Body.Bytes())
			return true
		}},
		"an open batch that ends": {"is open, and reads as", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost || r.URL.Path != "/jobs/complete" {
				return false
			}
			answer := l.record(r)
			var page struct {
				Batches []struct {
					BatchID string `json:"batch_id"`
				}
			}
			_ = json.Unmarshal(l.ask(r, http.MethodGet, "/batches?status=in_progress", "").Body.Bytes(), &page)
			for _, b := range page.Batches {
				l.ask(r, http.MethodPost, "/batches/"+b.BatchID+"/close", "{}")
			}
			give(w, answer, answer.Body.Bytes())
			return true
		}},
		"a close that does not happen": {"is closed as", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !ofBatch(r, http.MethodPost, "/close") {
				return false
			}
			answer := l.ask(r, http.MethodGet, strings.TrimSuffix(r.URL.Path, "/close"), "")
			give(w, answer, answer.Body.Bytes())
			return true
		}},
		"a batch that goes on after a failure": {"has ended, and the claim", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			return created(r) && altered(l, w, r, `"cancel_rest"`, `"continue"`)
		}},
		"a cancel of a batch that does not happen": {"has ended, and the claim", func(_ *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !ofBatch(r, http.MethodPost, "/cancel") {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"moved":2}`)
			return true
		}},
		"a batch whose status changes after its end": {"had ended as", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !ofBatch(r, http.MethodGet, "") {
				return false
			}
			answer := l.record(r)
			body := answer.Body.Bytes()
			if bytes.Contains(body, []byte(`"status":"failed"`)) && l.count("failed") > 1 {
				body = bytes.Replace(body, []byte(`"status":"failed"`), []byte(`"status":"cancelled"`), 1)
			}
			give(w, answer, body)
			return true
		}},
		"a result that is another one": {"must have ended as", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !ofBatch(r, http.MethodGet, "/results") {
				return false
			}
			answer := l.record(r) // in runs
			give(w, answer, bytes.Replace(answer.Body.Bytes(), []byte("\nof "), []byte("\nat "), 1))
			return true
		}},
		"a batch that loses its results": {"had ended as", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !ofBatch(r, http.MethodGet, "/results") || l.count("results") == 1 {
				return false
			}
			answer := l.record(r) // in runs
			lines := bytes.SplitAfter(answer.Body.Bytes(), []byte("\n"))
			give(w, answer, slices.Concat(lines[0], lines[len(lines)-2]))
			return true
		}},
		"a batch that accepts jobs after its end": {"has ended, and", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			return ofBatch(r, http.MethodPost, "/jobs") && accept(l, w, r, `{"batch_id":"a","count":1}`)
		}},
		"a deleted batch that is there again": {"was deleted, and reads", func(_ *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if !ofBatch(r, http.MethodDelete, "") {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"moved":4}`)
			return true
		}},
		"a forgotten session": {"404 session_not_found", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("Daybook-Session") == "" {
				return false
			}
			if l.n["numbered"]++; l.n["numbered"] < 20 {
				return false
			}
			refuse(w, http.StatusNotFound, "session_not_found")
			return true
		}},
		"a session that has lost its numbers": {"has carried out", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || !strings.HasPrefix(r.URL.Path, "/sessions/") {
				return false
			}
			answer := l.record(r)
			body := answer.Body.Bytes()
			if from := bytes.Index(body, []byte(`"slots":[`)); from > 0 {
				body = append(body[:from:from], `"slots":[]}`...)
			}
			give(w, answer, body)
			return true
		}},
		"a backup of an earlier state": {"the backup does not have job|in the backup, job", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/backup" {
				return false
			}
			if earlier == nil {
				earlier = l.record(r)
			}
			give(w, earlier, earlier.Body.Bytes())
			return true
		}},
		"a backup with a changed byte": {"a complete backup|the backup is damaged", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/backup" {
				return false
			}
			answer := l.record(r)
			body := answer.Body.Bytes()
			body[len(body)/2] ^= 1
			give(w, answer, body)
			return true
		}},
		"a session that does not end": {"was ended, and is", func(l *falseServer, w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodDelete || !strings.HasPrefix(r.URL.Path, "/sessions/") {
				return false
			}
			w.WriteHeader(http.StatusNoContent)
			return true
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			engine, err := ingest.Open(ingest.Options{Dir: t.TempDir(), RunnerHeartbeat: testHeartbeat})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- engine.Run(ctx) }()
			defer func() {
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}()
			for engine.Ready() != nil {
				time.Sleep(time.Millisecond)
			}
			blobs, err := blob.OpenClients(filepath.Join(t.TempDir(), "blobs"), blob.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer blobs.Close()
			server, err := api.New(api.Options{Engine: engine, Queries: engine.Queries(), Blobs: &blob.Keeper{Stores: blobs}})
			if err != nil {
				t.Fatal(err)
			}
			there := httptest.NewServer(&falseServer{real: server.Handler(), lie: tt.lie, n: map[string]int{}})
			defer there.Close()

			h := newHistory()
			h.serverStarted()
			e := newErrands(newUser(h, there.URL, "nobody", 2), "errand", 7)
			e.every = 0
			if tt.lie != nil {
				e.patience = 5 * time.Second // long enough to notice a job that is still held
			}
			for e.err == nil && e.done < 60 {
				if len(e.todo) == 0 {
					e.plan()
				}
				e.advance(ctx)
			}
			if e.err == nil && e.leaveOneJob(ctx) == nil {
				_ = e.check(ctx, false) // e.err has the error
			}
			if tt.lie != nil && (e.err == nil || !slices.ContainsFunc(strings.Split(tt.notice, "|"), func(n string) bool { return strings.Contains(e.err.Error(), n) })) {
				t.Errorf("after %d errands the error is %v, want %q", e.done, e.err, tt.notice)
			}
			if tt.lie == nil && (e.err != nil || len(h.wrong) > 0) {
				t.Errorf("%v, %q", e.err, h.wrong)
			}
			if tt.lie == nil && h.count.LostRunners < 2 {
				t.Errorf("%d runners were lost", h.count.LostRunners)
			}
			if tt.lie == nil && e.batches < 2*batchWays {
				t.Errorf("there were %d batches", e.batches)
			}
			if counts := engine.Stats().Jobs; tt.lie == nil && counts["pending"]+counts["active"]+counts["completed"] > 0 {
				t.Errorf("jobs are left: %v", counts)
			}
		})
	}
}
