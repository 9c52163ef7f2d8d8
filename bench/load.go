package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/daybookq/daybook/internal/load/works"
	"github.com/daybookq/daybook/job/runs"
)

// Load sends requests to a server. It does as little work as possible, since it shares the processors with the server: it
// reads answers, and looks only for the fields that the next request needs.
type Load struct {
	URL    string
	HTTP   *http.Client
	Runner string // the runner id of claims
	Accept string // the form of the answers to claims; "": JSON
	Key    string // of access; "": none
}

// NewLoad makes a load that keeps one connection for each caller.
func NewLoad(url string, callers int) *Load {
	return &Load{URL: url, Runner: "load", HTTP: &http.Client{Transport: &http.Transport{
		MaxIdleConns: callers, MaxIdleConnsPerHost: callers, DisableCompression: true, ReadBufferSize: 64 << 10, WriteBufferSize: 64 << 10,
	}}}
}

// As returns a load for another runner, which uses the same connections.
func (l *Load) As(runner string) *Load {
	as := *l
	as.Runner = runner
	return &as
}

// InRuns returns a load whose claims are answered in runs. It uses the same connections.
func (l *Load) InRuns() *Load {
	in := *l
	in.Accept = runs.MediaType
	return &in
}

// Close closes the idle connections.
func (l *Load) Close() { l.HTTP.CloseIdleConnections() }

// authorize puts the key into the header of a request.
func (l *Load) authorize(h http.Header) {
	if l.Key != "" {
		h.Set("Authorization", "Bearer "+l.Key)
	}
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// post sends body and passes the answer to look. The answer is valid only during that call.
func (l *Load) post(ctx context.Context, path, contentType string, body []byte, look func(status int, answer []byte) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.URL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", contentType)
	l.authorize(req.Header)
	if l.Accept != "" {
		req.Header.Set("Accept", l.Accept)
	}
	answer, err := l.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	buffer := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(buffer)
	buffer.Reset()
	if _, err := buffer.ReadFrom(answer.Body); err != nil {
		return err
	}
	return look(answer.StatusCode, buffer.Bytes())
}

// errOverloaded means that the server refused a create because too many bytes wait to be applied.
var errOverloaded = errors.New("the server has not applied earlier creates yet")

func expect(want int) func(int, []byte) error {
	return func(status int, answer []byte) error {
		if status == http.StatusTooManyRequests {
			return fmt.Errorf("%w: %.200s", errOverloaded, answer)
		}
		if status != want {
			return fmt.Errorf("the answer has status %d, want %d: %.200s", status, want, answer)
		}
		return nil
	}
}

// Add posts a body of lines.
func (l *Load) Add(ctx context.Context, body []byte) error {
	return l.AddTo(ctx, "default", "default", body)
}

// AddTo posts a body of lines to a queue.
func (l *Load) AddTo(ctx context.Context, client, typ string, body []byte) error {
	return l.post(ctx, "/"+client+"/job/"+typ+"/add", "text/plain", body, expect(http.StatusCreated))
}

// Create posts one job.
func (l *Load) Create(ctx context.Context) error { return l.CreateBody(ctx, createBody) }

// CreateBody posts the JSON document of a job.
func (l *Load) CreateBody(ctx context.Context, body []byte) error {
	return l.post(ctx, "/jobs/create", "application/json", body, expect(http.StatusCreated))
}

var createBody = []byte(`{"payload":"` + string(works.Lines(1, 99)[:99]) + `"}`)

const idBytes = 36

// claimID finds the claim_id in an answer without decoding it.
func claimID(answer []byte) string {
	key := `"claim_id":"`
	if bytes.HasPrefix(answer, []byte("#:")) {
		key = " claim_id="
	}
	at := bytes.Index(answer, []byte(key))
	if at < 0 || at+len(key)+idBytes > len(answer) {
		return ""
	}
	return string(answer[at+len(key) : at+len(key)+idBytes])
}

// Claim claims up to n jobs. It returns the claim, or "" if no job was pending.
func (l *Load) Claim(ctx context.Context, n int) (claim string, err error) {
	return l.ClaimAnd(ctx, n, "", func([]byte) error { return nil })
}

// ClaimAnd claims up to n jobs, and in the same request ends all jobs of the claim complete, unless that is "". It passes the answer to look,
// and returns the claim, or "" if no job was pending.
func (l *Load) ClaimAnd(ctx context.Context, n int, complete string, look func(answer []byte) error) (claim string, err error) {
	if complete != "" {
		complete = `,"complete":{"claim_id":"` + complete + `","status":"completed"}`
	}
	body := fmt.Appendf(nil, `{"runner_id":"%s","max":%d%s}`, l.Runner, n, complete)
	err = l.post(ctx, "/jobs/claim", "application/json", body, func(status int, answer []byte) error {
		if status == http.StatusNoContent {
			return nil
		}
		if err := expect(http.StatusOK)(status, answer); err != nil {
			return err
		}
		// Results of completions come first and do not contain claim ids. So the first claim_id is the new claim, or null.
		claim = claimID(answer)
		return look(answer)
	})
	return claim, err
}

// Complete ends all jobs of a claim.
func (l *Load) Complete(ctx context.Context, claim string) error {
	body := []byte(`{"claim_id":"` + claim + `","status":"completed"}`)
	return l.post(ctx, "/jobs/complete", "application/json", body, expect(http.StatusOK))
}

// Stats reads the server's figures.
func (l *Load) Stats(ctx context.Context) (s Stats, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.URL+"/stats", nil)
	if err != nil {
		return s, err
	}
	l.authorize(req.Header)
	answer, err := l.HTTP.Do(req)
	if err != nil {
		return s, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(text, &s)
}

// Stats is the part of /stats that the benchmarks use.
type Stats struct {
	Applied uint64           `json:"applied"`
	Synced  uint64           `json:"synced"`
	Jobs    map[string]int64 `json:"jobs"`
	Journal struct {
		Syncs   uint64 `json:"syncs"`
		Written uint64 `json:"bytes_written"`
	} `json:"journal"`
}
