package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"time"

	"github.com/daybookq/daybook/job"
)

// user sends requests and records them.
type user struct {
	h     *history
	url   string
	queue string
	http  *http.Client
	key   string // that its requests have; "": none

	// badDisk means that reads from the disk may fail, too, as they do between a power cut and the server's end. The
	// server then answers with 500.
	badDisk bool

	stream *streamed // of a user that sends requests through a stream, as far as possible; nil: it uses HTTP
}

func newUser(h *history, url, queue string, callers int) *user {
	return &user{h: h, url: url, queue: queue, http: &http.Client{
		Timeout: maxWait, Transport: &http.Transport{MaxIdleConns: callers, MaxIdleConnsPerHost: callers, DisableCompression: true},
	}}
}

// reply is the result of a request.
type reply struct {
	call, ret int64
	status    int    // 0: no answer
	seq       string // Daybook-Seq
	body      []byte
	streamed  bool // it arrived in a stream: the answer to a change of one job has no document
	problem   struct {
		Code    string `json:"code"`
		Detail  string `json:"detail"`
		Outcome string `json:"outcome"`
	}
}

// open reports whether the result of the request is unknown. The outcome "stored" says that the command is stored, but
// not what was decided.
func (r *reply) open() bool {
	return r.status == 0 || r.status >= 400 && (r.problem.Outcome == "unknown" || r.problem.Outcome == "stored")
}

func (r *reply) ok() bool { return r.status >= 200 && r.status < 300 }

// errNotSent means that no server was listening, so nothing can have happened.
var errNotSent = errors.New("not sent")

// send sends a request. The error is errNotSent or ctx's error. If the request gets no answer, the reply has status 0.
func (u *user) send(ctx context.Context, method, path, contentType string, body []byte) (*reply, error) {
	return u.sendWith(ctx, method, path, map[string]string{"Content-Type": contentType}, body)
}

// sendWith is send with headers. Headers without a value are left out.
func (u *user) sendWith(ctx context.Context, method, path string, headers map[string]string, body []byte) (*reply, error) {
	if u.stream != nil {
		if verb, text := verbOf(method, path, headers["Content-Type"], body); verb != "" {
			return u.stream.send(ctx, u, verb, text, headers["Idempotency-Key"])
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, u.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range headers {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	u.authorize(req.Header)
	if headers["Idempotency-Key"] != "" {
		// Otherwise the transport would repeat the request, and ECONNREFUSED would not mean that nothing was sent.
		req.GetBody = nil
	}
	r := &reply{call: u.h.now()}
	answer, err := u.http.Do(req)
	if err == nil {
		r.body, err = io.ReadAll(answer.Body)
		answer.Body.Close()
	}
	r.ret = u.h.now()
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, errNotSent
	}
	u.h.countRequest(err == nil)
	if err != nil {
		return r, nil
	}
	r.status, r.seq = answer.StatusCode, answer.Header.Get("Daybook-Seq")
	if r.status >= 400 {
		if err := json.Unmarshal(r.body, &r.problem); err != nil {
			u.h.problem("%s %s: %d with %.200q, which is no problem document", method, path, r.status, r.body)
		}
		u.judgeRefusal(r, method+" "+path)
	}
	return r, nil
}

// authorize sets the header with the key of the user.
func (u *user) authorize(h http.Header) {
	if u.key != "" {
		h.Set("Authorization", "Bearer "+u.key)
	}
}

// judgeRefusal reports a refusal that a correct request must not get.
func (u *user) judgeRefusal(r *reply, what string) {
	switch r.status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusInternalServerError,
		http.StatusForbidden, http.StatusMethodNotAllowed:
		failedRead := u.badDisk && r.status == http.StatusInternalServerError
		if r.problem.Code != "job_not_active" && !failedRead {
			u.h.problem("%s: %d %s: %s", what, r.status, r.problem.Code, r.problem.Detail)
		}
	}
}

// create posts p and records the answer.
func (u *user) create(ctx context.Context, p *post) (*reply, error) {
	path, contentType, body := p.request(u.queue)
	u.h.mu.Lock()
	u.h.posts[p.tag] = p
	p.call, p.ret = u.h.now(), never
	u.h.mu.Unlock()
	key := ""
	if p.keyed {
		key = p.tag
	}
	headers := map[string]string{"Content-Type": contentType, "Idempotency-Key": key}
	r, err := u.sendWith(ctx, http.MethodPost, path, headers, body)
	// A create with a key is repeated. It must have been carried out at most once.
	for err == nil && r.open() && p.keyed && ctx.Err() == nil {
		pause(ctx, retryPause)
		again, sent := u.sendWith(ctx, http.MethodPost, path, headers, body)
		if sent == nil && !again.open() && !again.ok() && (again.status == http.StatusServiceUnavailable || again.status == http.StatusTooManyRequests || again.status == http.StatusInsufficientStorage) {
			continue // the server refuses creates now, and the first one is still open
		}
		if sent == nil {
			again.call = r.call
			r = again
		}
	}
	switch {
	case err != nil || !r.open() && !r.ok():
		u.h.mu.Lock()
		if p.first.IsZero() {
			delete(u.h.posts, p.tag) // none of its jobs may be seen
		} else {
			u.h.problemLocked("post %s was refused, but it is stored", p.tag)
		}
		u.h.mu.Unlock()
		return r, err
	case r.open():
		u.h.receipt(p, r.call, r.ret, job.ID{})
		return r, nil
	}
	var receipt struct {
		BatchID job.ID   `json:"batch_id"`
		JobID   job.ID   `json:"job_id"`
		Count   int      `json:"count"`
		FirstID job.ID   `json:"first_id"`
		LastID  job.ID   `json:"last_id"`
		JobIDs  []job.ID `json:"job_ids"`
	}
	if err := json.Unmarshal(r.body, &receipt); err != nil || r.status != http.StatusCreated && !r.streamed {
		u.h.problem("post %s: %d, %.200q, %v", p.tag, r.status, r.body, err)
	}
	if r.streamed && p.form != asArray && p.keyed {
		receipt.BatchID = receipt.JobID // which the stream does not say
	}
	if (p.form == asLines || p.form == asArray) && (receipt.Count != p.lines || receipt.FirstID != receipt.BatchID || receipt.LastID != receipt.BatchID.WithLine(p.lines-1)) {
		u.h.problem("post %s of %d lines was acknowledged as %.200q", p.tag, p.lines, r.body)
	}
	first := receipt.BatchID
	if p.form != asLines && p.form != asArray {
		first = receipt.JobID
	}
	if receipt.BatchID != (&post{form: p.form, keyed: p.keyed, first: first}).batch() {
		u.h.problem("post %s was acknowledged with the batch %s: %.200q", p.tag, receipt.BatchID, r.body)
	}
	u.h.receipt(p, r.call, r.ret, first)
	return r, nil
}

// document is the job document of the API.
type document struct {
	JobID       job.ID          `json:"job_id"`
	BatchID     job.ID          `json:"batch_id"`
	Type        string          `json:"type"`
	Status      string          `json:"status"`
	Payload     json.RawMessage `json:"payload"`
	PayloadB64  []byte          `json:"payload_b64"`
	Code        *string         `json:"code"`
	RunAttempts int32           `json:"run_attempts"`
	MaxAttempts int32           `json:"max_attempts"`
	ClaimID     *job.ID         `json:"claim_id"`
	RunnerID    *string         `json:"runner_id"`
	LeaseMs     int64           `json:"lease_ms"`

	Meta map[string]string `json:"meta"`
}

// payload returns the payload as it was posted.
func (d *document) payload() ([]byte, error) {
	if d.PayloadB64 != nil {
		return d.PayloadB64, nil
	}
	if len(d.Payload) > 0 && d.Payload[0] == '"' {
		var text string
		err := json.Unmarshal(d.Payload, &text)
		return []byte(text), err
	}
	return d.Payload, nil
}

// noteDocument records the contents of a document. It returns nil if the job is not one of ours.
func (u *user) noteDocument(d *document) *post {
	payload, err := d.payload()
	if err != nil {
		u.h.problem("job %s: payload %.80q: %v", d.JobID, d.Payload, err)
		return nil
	}
	var p *post
	if of := d.Meta["of"]; of != "" && d.Type == u.nextQueue() {
		p = u.h.seenNext(d.JobID, of, payload)
	} else {
		p = u.h.seen(d.JobID, payload)
	}
	if p == nil {
		return nil
	}
	if d.MaxAttempts != p.maxAttempts || d.RunAttempts > d.MaxAttempts || d.BatchID != p.batch() || p.chained != (d.Type == u.nextQueue()) {
		u.h.problem("job %s of post %s: type %s, batch %s, attempts %d of %d, which was to be %d", d.JobID, p.tag, d.Type, d.BatchID, d.RunAttempts, d.MaxAttempts, p.maxAttempts)
	}
	return p
}

// get reads a job and records its state. found says whether the server has the job. The document is nil if it differs
// from the posted job. With an error, nothing is known of the job.
func (u *user) get(ctx context.Context, id job.ID) (d *document, found bool, err error) {
	r, err := u.send(ctx, http.MethodGet, "/jobs/"+id.String(), "", nil)
	if err != nil {
		return nil, false, err
	}
	switch r.status {
	case http.StatusOK:
	case http.StatusNotFound:
		u.h.add(id, event{call: r.call, ret: r.ret, kind: observed, answer: absent, attempts: -1})
		return nil, false, nil
	case 0:
		return nil, false, undecided("get %s had no answer after %v", id, time.Duration(r.ret-r.call))
	default:
		return nil, false, fmt.Errorf("get %s: %d %s", id, r.status, r.problem.Detail)
	}
	d = &document{}
	if err := json.Unmarshal(r.body, d); err != nil || d.JobID != id {
		u.h.problem("get %s: %.200q: %v", id, r.body, err)
		return nil, true, nil
	}
	if u.noteDocument(d) == nil {
		return nil, true, nil
	}
	if !u.observe(id, r, d) {
		return nil, true, nil
	}
	return d, true, nil
}

// observe records the state in a document of a job. It returns false if the document has no possible state.
func (u *user) observe(id job.ID, r *reply, d *document) bool {
	status, err := parseStatus(d.Status)
	if err != nil {
		u.h.problem("the document of %s: %v", id, err)
		return false
	}
	e := event{call: r.call, ret: r.ret, kind: observed, attempts: d.RunAttempts, status: status}
	if d.ClaimID != nil && status == active {
		e.claim = u.h.known(*d.ClaimID)
	}
	u.h.add(id, e)
	return true
}

// counts returns how many jobs have each status.
func (u *user) counts(ctx context.Context) (map[string]int64, error) {
	r, err := u.send(ctx, http.MethodGet, "/stats", "", nil)
	if err != nil {
		return nil, err
	}
	if r.status != http.StatusOK {
		return nil, fmt.Errorf("stats: %d", r.status)
	}
	var stats struct {
		Jobs map[string]int64 `json:"jobs"`
	}
	err = json.Unmarshal(r.body, &stats)
	return stats.Jobs, err
}

// unfinished returns how many jobs have not ended.
func (u *user) unfinished(ctx context.Context) (int64, error) {
	jobs, err := u.counts(ctx)
	return jobs["pending"] + jobs["active"] + jobs["deferred"], err
}
