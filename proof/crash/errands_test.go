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
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/api"
	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
)

// falseServer gives some answers that differ from the real server's.
type falseServer struct {
	real    http.Handler
	lie     *lie
	n       int                        // a counter that answer may use
	earlier *httptest.ResponseRecorder // a backup
}

func (l *falseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if l.lie.of != nil && l.lie.of(r) {
		l.lie.answer(l, w, r)
	} else {
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
	other.Header.Set("Authorization", r.Header.Get("Authorization"))
	if body != "" {
		other.Header.Set("Content-Type", "application/json")
	}
	return l.record(other)
}

// record sends r to the real server, and returns the answer.
func (l *falseServer) record(r *http.Request) *httptest.ResponseRecorder {
	r.Header.Del("Accept-Encoding") // lies look for texts
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

func bodyOf(r *http.Request) []byte {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err) // the server's package http reports it
	}
	return body
}

// decode decodes an answer or a body. A value that cannot be decoded is zero.
func decode[T any](body []byte) (doc T) { _ = json.Unmarshal(body, &doc); return doc }

func encode(doc any) []byte {
	body, err := json.Marshal(doc)
	if err != nil {
		panic(err) // all of these are maps of texts and numbers
	}
	return body
}

// testHeartbeat is the time between the heartbeats of a runner in TestErrands.
const testHeartbeat = 20 * time.Millisecond

// lie is the rule by which a false server answers some requests.
type lie struct {
	name   string
	notice string // a part of the error that the errands must end with; parts are separated by |
	of     func(r *http.Request) bool
	answer lying
}

type lying func(l *falseServer, w http.ResponseWriter, r *http.Request)

// to returns a condition: the method of a request, and its path, in which each * is one part.
func to(method, pattern string) func(*http.Request) bool {
	return func(r *http.Request) bool { is, _ := path.Match(pattern, r.URL.Path); return is && r.Method == method }
}

// The ways to lie.

// refused answers without carrying out the request.
func refused(status int, code string) lying {
	return func(_ *falseServer, w http.ResponseWriter, _ *http.Request) { refuse(w, status, code) }
}

// answered answers without carrying out the request; "" is an answer of 204.
func answered(body string) lying {
	return func(_ *falseServer, w http.ResponseWriter, _ *http.Request) {
		if body == "" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

// accepted carries out the request. If the server refuses it, it answers as if the request had succeeded.
func accepted(body string) lying {
	return func(l *falseServer, w http.ResponseWriter, r *http.Request) {
		if answer := l.record(r); answer.Code != http.StatusConflict {
			give(w, answer, answer.Body.Bytes())
			return
		}
		answered(body)(l, w, r)
	}
}

// altered changes the body of the request.
func altered(change func(body []byte) []byte) lying {
	return func(l *falseServer, w http.ResponseWriter, r *http.Request) {
		l.real.ServeHTTP(w, withBody(r, change(bodyOf(r))))
	}
}

// replaced replaces a text in the body, once.
func replaced(old, replacement string) func([]byte) []byte {
	return func(body []byte) []byte { return bytes.Replace(body, []byte(old), []byte(replacement), 1) }
}

// without removes a field from the body.
func without(field string) func([]byte) []byte {
	return func(body []byte) []byte {
		doc := decode[map[string]any](body)
		delete(doc, field)
		return encode(doc)
	}
}

// shown carries out the request, and changes the body of the answer.
func shown(change func(body []byte) []byte) lying {
	return func(l *falseServer, w http.ResponseWriter, r *http.Request) {
		answer := l.record(r)
		give(w, answer, change(answer.Body.Bytes()))
	}
}

// followed carries out the request, and then does something else before it answers. body is the request's.
func followed(then func(l *falseServer, r *http.Request, body, answer []byte)) lying {
	return func(l *falseServer, w http.ResponseWriter, r *http.Request) {
		body := bodyOf(r)
		answer := l.record(withBody(r, body))
		then(l, r, body, answer.Body.Bytes())
		give(w, answer, answer.Body.Bytes())
	}
}

// unheaded carries out the request without some headers.
func unheaded(names ...string) lying {
	return func(l *falseServer, w http.ResponseWriter, r *http.Request) {
		for _, name := range names {
			r.Header.Del(name)
		}
		l.real.ServeHTTP(w, r)
	}
}

// onlyRead answers with the document below which the request's path is, and does not carry out the request.
func onlyRead(l *falseServer, w http.ResponseWriter, r *http.Request) {
	answer := l.ask(r, http.MethodGet, path.Dir(r.URL.Path), "")
	give(w, answer, answer.Body.Bytes())
}

// from answers truthfully until the n-th request, and lies from then on.
func from(n int, do lying) lying {
	return func(l *falseServer, w http.ResponseWriter, r *http.Request) {
		if l.n++; l.n < n {
			l.real.ServeHTTP(w, r)
		} else {
			do(l, w, r)
		}
	}
}

var (
	creates, claimsJobs, completes = to("POST", "/jobs/create"), to("POST", "/jobs/claim"), to("POST", "/jobs/*/complete")
	heartbeats                     = to("POST", "/runners/*")
	aQueue, aHandler, aFileset     = "/queues/*/*", "/handlers/*", "/filesets/*"
	unnumbered                     = unheaded("Daybook-Session", "Daybook-Session-Slot", "Daybook-Session-Number")
)

// heartbeatMs is the part of an answer that says when the next heartbeat is due.
func heartbeatMs(d time.Duration) string { return fmt.Sprintf(`"heartbeat_ms":%d`, d.Milliseconds()) }

// jobDocument is a job, or an answer that names one.
type jobDocument struct {
	ID      string `json:"job_id"`
	Status  string `json:"status"`
	ClaimID string `json:"claim_id"`
	FirstID string `json:"first_id"`
}

// jobOf returns the job of an outcome; without an id: it is gone.
func (l *falseServer) jobOf(r *http.Request) jobDocument {
	return decode[jobDocument](l.ask(r, http.MethodGet, path.Dir(r.URL.Path), "").Body.Bytes())
}

// post sends a request to each batch with a status.
func (l *falseServer) post(r *http.Request, status, verb string) {
	type page struct {
		Batches []struct {
			ID string `json:"batch_id"`
		}
	}
	for _, b := range decode[page](l.ask(r, http.MethodGet, "/batches?status="+status, "").Body.Bytes()).Batches {
		l.ask(r, http.MethodPost, "/batches/"+b.ID+"/"+verb, "{}")
	}
}

var lies = []lie{
	{name: "the real server"},

	// Jobs and their queues
	{"an acknowledged job is lost", "create with a unique key that is held: Existing true", creates, followed(func(l *falseServer, r *http.Request, _, answer []byte) {
		if l.n++; l.n >= 5 {
			l.ask(r, http.MethodDelete, "/jobs/"+decode[jobDocument](answer).ID, "")
		}
	})},
	{"a repeated create is carried out again", "create: and its repeat with", creates, unnumbered},
	{"a repeated claim is carried out again", "claim: and its repeat with", claimsJobs, unnumbered},
	{"a repeated completion is carried out again", "complete: 409 claim_lost|read the session: carried out", completes, unnumbered},
	{"a unique key is not held", "create with a unique key that is held: Existing true", creates, altered(func(body []byte) []byte { // a repeat gets the same key
		return replaced(`"unique_key":"`, fmt.Sprintf(`"unique_key":"%08x `, crc32.ChecksumIEEE(body)))(body)
	})},
	{"a delete that does not happen", "complete a deleted job: must be not found", to("DELETE", "/jobs/*"), answered("")},
	{"a patch that is lost", "patch: the answer must be", to("PATCH", "/jobs/*"), func(l *falseServer, w http.ResponseWriter, r *http.Request) {
		before := decode[map[string]any](l.ask(r, http.MethodGet, r.URL.Path, "").Body.Bytes())
		answer := l.record(r)
		l.ask(r, http.MethodPatch, r.URL.Path, string(encode(map[string]any{"priority": before["priority"], "max_attempts": before["max_attempts"]})))
		give(w, answer, answer.Body.Bytes())
	}},
	{"another payload is handed out", "claim: the answer must be", claimsJobs, shown(replaced(`<errand`, `<Errand`))},
	{"a claim finds nothing", "claim: is no new id", claimsJobs, answered("")},
	{"a completion that does not happen", "read: must be not found|read the job of a lost runner: must be not found", completes, func(l *falseServer, w http.ResponseWriter, r *http.Request) {
		doc, body := l.jobOf(r), bodyOf(r)
		if doc.ClaimID == "" || !bytes.Contains(body, []byte(doc.ClaimID)) {
			l.real.ServeHTTP(w, withBody(r, body))
			return
		}
		answered(string(encode(map[string]any{"job_id": doc.ID, "status": "completed"})))(l, w, r)
	}},
	{"a completed job is there again", "read: must be not found", creates, altered(replaced(`"retention_ms":0`, `"retention_ms":1000000`))},
	{"a queue that is deleted and there again", "read a queue that was deleted: must be not found", to("DELETE", aQueue), answered("")},
	{"a queue without jobs that is not empty", "delete the queue: 409 queue_not_empty", to("DELETE", aQueue), refused(409, "queue_not_empty")},
	{"an idle queue that is deleted early", "read the queue: 404 queue_not_found|read an idle queue: no longer exists", to("GET", aQueue), refused(404, "queue_not_found")},
	{"a backup of an earlier state", "make and restore a backup: the backup does not have job|make and restore a backup: in the backup, job", to("GET", "/backup"), func(l *falseServer, w http.ResponseWriter, r *http.Request) {
		if l.earlier == nil {
			l.earlier = l.record(r)
		}
		give(w, l.earlier, l.earlier.Body.Bytes())
	}},
	{"a backup with a changed byte", "make and restore a backup: a complete backup|make and restore a backup: the backup is damaged", to("GET", "/backup"), shown(func(body []byte) []byte {
		body[len(body)/2] ^= 1
		return body
	})},

	// Chained jobs
	{"a chain that is lost", "claim chained jobs: the answer must be", completes, altered(without("then"))},
	{"a chain that is doubled", "claim chained jobs: the answer must be", completes, followed(func(l *falseServer, r *http.Request, body, _ []byte) {
		if then := decode[struct{ Then []json.RawMessage }](body).Then; then != nil {
			l.ask(r, http.MethodPost, "/jobs/create", string(then[0]))
		}
	})},
	{"a job that follows is lost", "claim chained jobs: the answer must be", creates, altered(without("on_complete"))},

	// Handlers, filesets and blobs
	{"a handler that is lost", "read the handler: 404 handler_not_found", to("GET", aHandler), refused(404, "handler_not_found")},
	{"a handler whose new version is lost", "read the handler: the answer must be", to("PUT", aHandler), followed(func(l *falseServer, r *http.Request, _, _ []byte) {
		if l.n++; l.n == 3 {
			l.ask(r, http.MethodDelete, r.URL.RequestURI(), "")
			l.ask(r, http.MethodPut, r.URL.RequestURI(), `{"kind":"exec","program":"other"}`)
		}
	})},
	{"a handler that is not deleted", "read the handler: must be not found", to("DELETE", aHandler), answered("")},
	{"a fileset that is lost", "read the fileset: 404 fileset_not_found", to("GET", aFileset), refused(404, "fileset_not_found")},
	{"a fileset whose new version is lost", "read the fileset: the answer must be", to("GET", aFileset), from(3, func(l *falseServer, w http.ResponseWriter, r *http.Request) {
		r.URL.RawQuery += "&version=1" // this version has other files
		l.real.ServeHTTP(w, r)
	})},
	{"a blob that is lost", "read the blobs: was stored, and is read with the error", to("GET", "/blobs/*"), from(9, refused(404, "blob_not_found"))},
	{"a blob that loses its SHA-1", "read the blobs: was stored, and is read with the error", func(r *http.Request) bool {
		return to("GET", "/blobs/*")(r) && !strings.Contains(r.URL.Path, "sha256")
	}, refused(404, "blob_not_found")},
	{"a damaged blob", "read the blobs: the blob is damaged", to("GET", "/blobs/*"), from(9, func(l *falseServer, w http.ResponseWriter, r *http.Request) {
		answer := l.record(r)
		body := answer.Body.Bytes()
		body[len(body)/2] ^= 4
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		give(w, answer, body)
	})},

	// Lost runners
	{"a silent runner that keeps its job", ": still holds job", heartbeats, answered("{" + heartbeatMs(testHeartbeat) + `,"alive_since":1}`)},
	{"a runner that is lost early", "wait until a runner is lost: was lost early", heartbeats, shown(replaced(heartbeatMs(testHeartbeat), heartbeatMs(runnerHeartbeat)))},
	{"a lost runner whose attempt does not count", "wait until a runner is lost: must be returned by its loss", to("GET", "/jobs/*"), shown(func(body []byte) []byte {
		if bytes.Contains(body, []byte("its runner was lost")) {
			body = replaced(`"run_attempts":1`, `"run_attempts":0`)(body)
		}
		return body
	})},
	{"a job that a lost runner held and nobody gets", "claim the job of a lost runner: is no new id", claimsJobs, func(l *falseServer, w http.ResponseWriter, r *http.Request) {
		body := bodyOf(r)
		if bytes.Contains(body, []byte("-held")) {
			l.n++
		}
		if l.n < 3 { // the first of these jobs is completed late, and is claimed only once
			l.real.ServeHTTP(w, withBody(r, body))
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}},
	{"a late outcome that is refused", "complete late: 409 claim_lost", completes, func(l *falseServer, w http.ResponseWriter, r *http.Request) {
		if l.jobOf(r).Status != "pending" {
			l.real.ServeHTTP(w, r)
			return
		}
		refuse(w, http.StatusConflict, "claim_lost")
	}},
	{"a repeat of a completion that is refused", "repeat a completion of a job that is gone: 404 job_not_found", completes, func(l *falseServer, w http.ResponseWriter, r *http.Request) {
		if l.jobOf(r).ID != "" {
			l.real.ServeHTTP(w, r)
			return
		}
		refuse(w, http.StatusNotFound, "job_not_found")
	}},
	{"an outcome of a lost runner that ends the next run", "outcome for a lost runner: must be not found or claim lost", completes, func(l *falseServer, w http.ResponseWriter, r *http.Request) {
		body := bodyOf(r)
		if job := l.jobOf(r); job.Status == "active" && !bytes.Contains(body, []byte(job.ClaimID)) {
			doc := decode[map[string]any](body)
			doc["claim_id"] = job.ClaimID
			body = encode(doc)
		}
		l.real.ServeHTTP(w, withBody(r, body))
	}},
	{"a tickle of a lost runner that is accepted", "tickle for a lost runner: must be not found or claim lost", to("POST", "/jobs/*/tickle"), accepted(`{"job_id":"a","status":"active"}`)},
	{"a heartbeat of a lost runner that is accepted", "heartbeat of a lost runner: accepts its heartbeat", heartbeats, accepted("{" + heartbeatMs(testHeartbeat) + `,"alive_since":1}`)},

	// Batches
	{"a batch that is lost", "read an open batch: 404 batch_not_found", to("GET", "/batches/*"), refused(404, "batch_not_found")},
	{"jobs that are added to a batch and lost", "read an open batch: Waiting 4", to("POST", "/batches/*/jobs"), followed(func(l *falseServer, r *http.Request, _, answer []byte) {
		l.ask(r, http.MethodDelete, "/jobs/"+decode[jobDocument](answer).FirstID, "")
	})},
	{"an addition to a batch that is carried out twice", "add to a batch: and its repeat with", to("POST", "/batches/*/jobs"), unheaded("Idempotency-Key")},
	{"a batch that loses its metadata", "read the metadata of a batch: the answer must be", to("GET", "/batches/*/metadata"), answered("")},
	{"a batch that is not paused", "read an open batch: Status paused", creates, altered(replaced(`"paused":true`, `"paused":false`))},
	{"a paused batch that hands out its jobs", "claim from a batch that is paused: must be {Jobs {}}", claimsJobs, func(l *falseServer, w http.ResponseWriter, r *http.Request) {
		body := bodyOf(r)
		if bytes.Contains(body, []byte("-batch")) {
			l.post(r, "paused", "resume")
		}
		l.real.ServeHTTP(w, withBody(r, body))
	}},
	{"a resume that does not happen", "resume a batch: must be {Status in_progress}", to("POST", "/batches/*/resume"), onlyRead},
	{"an open batch that ends", "read a batch that is open: the answer must be", to("POST", "/jobs/complete"), followed(func(l *falseServer, r *http.Request, _, _ []byte) { l.post(r, "in_progress", "close") })},
	{"a close that does not happen", "close a batch: must be {Open false", to("POST", "/batches/*/close"), onlyRead},
	{"a batch that goes on after a failure", "claim from a batch that has ended: must be {Jobs {}}", creates, altered(replaced(`"cancel_rest"`, `"continue"`))},
	{"a cancel of a batch that does not happen", "claim from a batch that has ended: must be {Jobs {}}", to("POST", "/batches/*/cancel"), answered(`{"moved":2}`)},
	{"a batch whose status changes after its end", "read a batch that has ended: the answer must be", to("GET", "/batches/*"), func(l *falseServer, w http.ResponseWriter, r *http.Request) {
		answer := l.record(r)
		body := answer.Body.Bytes()
		if bytes.Contains(body, []byte(`"status":"failed"`)) {
			if l.n++; l.n > 1 {
				body = replaced(`"status":"failed"`, `"status":"cancelled"`)(body)
			}
		}
		give(w, answer, body)
	}},
	{"a result that is another one", "read the end of a batch: the answer must be", to("GET", "/batches/*/results"), shown(replaced("\nof ", "\nat "))}, // in runs
	{"a batch that loses its results", "read a batch that has ended: the answer must be", to("GET", "/batches/*/results"), from(2, shown(func(body []byte) []byte { // in runs
		lines := bytes.SplitAfter(body, []byte("\n"))
		return slices.Concat(lines[0], lines[len(lines)-2])
	}))},
	{"a batch that accepts jobs after its end", "add to a batch that has ended: must be batch ended", to("POST", "/batches/*/jobs"), accepted(`{"batch_id":"a","count":1}`)},
	{"a deleted batch that is there again", "read a batch that was deleted: must be not found", to("DELETE", "/batches/*"), answered(`{"moved":4}`)},

	// Keys
	{"a key that is lost", "use the keys: 401 key_refused", to("POST", "/keys"), followed(func(l *falseServer, r *http.Request, _, answer []byte) {
		l.ask(r, http.MethodDelete, "/keys/"+decode[struct{ Name string }](answer).Name, "")
	})},
	{"a revoked key that is good", "use the keys: is good", to("DELETE", "/keys/*"), answered("")},
	{"a key that is another one", "use the keys: is boss", to("GET", "/whoami"), shown(func([]byte) []byte { return []byte(`{"name":"boss","roles":["admin"]}`) })},

	// Sessions
	{"a forgotten session", ": 404 session_not_found", func(r *http.Request) bool { return r.Header.Get("Daybook-Session") != "" }, from(20, refused(404, "session_not_found"))},
	{"a session that has lost its numbers", "read the session: carried out", to("GET", "/sessions/*"), shown(func(body []byte) []byte {
		if from := bytes.Index(body, []byte(`"slots":[`)); from > 0 {
			body = append(body[:from:from], `"slots":[]}`...)
		}
		return body
	})},
	{"a session that does not end", "read a session that was ended: must be session not found", to("DELETE", "/sessions/*"), answered("")},
}

// TestErrands: errands succeed on a server that keeps its promises, and notice a server that breaks one. Otherwise their
// success in a lane would prove nothing.
func TestErrands(t *testing.T) {
	for _, lie := range lies {
		t.Run(lie.name, func(t *testing.T) {
			t.Parallel()
			engine := testkit.Must(ingest.Open(ingest.Options{Dir: t.TempDir(), RunnerHeartbeat: testHeartbeat}))(t)
			ctx, stop := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- engine.Run(ctx) }()
			defer func() { stop(); testkit.Check(t, <-ended) }()
			for engine.Ready() != nil {
				time.Sleep(time.Millisecond)
			}
			blobs := testkit.Must(blob.OpenDir(t.Context(), filepath.Join(t.TempDir(), "blobs"), blob.Options{}))(t)
			defer blobs.Close()
			server := testkit.Must(api.New(api.Options{Engine: engine, Blobs: &api.Blobs{Store: func() (*blob.Store, error) { return blobs, nil }, Collector: &blob.Collector{}}}))(t)
			honest := httptest.NewServer(server.Handler())
			key := testkit.Must(firstKey(ctx, honest.URL))(t)
			honest.Close()
			there := httptest.NewServer(&falseServer{real: server.Handler(), lie: &lie})
			defer there.Close()

			h := newHistory()
			h.serverStarted()
			u := newUser(h, there.URL, "nobody", 2)
			u.key = key
			e := newErrands(u, "errand", 7)
			e.every = 0
			if lie.of != nil {
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
			noticed := func(how string) bool {
				step, text, _ := strings.Cut(how, ": ")
				return (step == "" || strings.Contains(e.err.Error(), step+", job ")) && strings.Contains(e.err.Error(), text)
			}
			testkit.Holds(t, lie.of == nil || e.err != nil && slices.ContainsFunc(strings.Split(lie.notice, "|"), noticed),
				"after", e.done, "errands the error is", e.err, "want", lie.notice)
			testkit.Holds(t, lie.of != nil || e.err == nil && len(h.wrong) == 0, e.err, h.wrong)
			testkit.Holds(t, lie.of != nil || h.count.LostRunners >= 2, h.count.LostRunners, "runners were lost")
			testkit.Holds(t, lie.of != nil || e.batches >= 2*len(batchWays), "there were", e.batches, "batches")
			counts := engine.Stats().Jobs
			testkit.Holds(t, lie.of != nil || counts["pending"]+counts["active"]+counts["completed"] <= 0, "jobs are left", counts)
		})
	}
}
