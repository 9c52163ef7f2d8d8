package daybook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/daybookq/daybook/bench/peers/measure"
)

// plain is a session of plain HTTP requests. Each caller has a separate connection.
type plain struct {
	*server
	accept string // the format of answers to claims; "": JSON
}

func openHTTP(s *server) measure.Session { return plain{s, ""} }

func (p plain) Dial(_ context.Context, caller int) (measure.Conn, error) {
	return &plainConn{
		url: p.process.URL(), accept: p.accept, runner: runnerID(caller), body: lines(1000),
		http: &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1, DisableCompression: true, ReadBufferSize: 64 << 10, WriteBufferSize: 64 << 10}},
	}, nil
}

type plainConn struct {
	url, accept, runner string
	http                *http.Client
	body                []byte       // a thousand lines
	answer              bytes.Buffer // of the last request
	claim               string       // the claim whose jobs this caller holds
}

// post sends a body and reads the answer, which must have one of two statuses.
func (c *plainConn) post(ctx context.Context, path, contentType string, body []byte, want ...int) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", contentType)
	if c.accept != "" && path == "/jobs/claim" {
		req.Header.Set("Accept", c.accept)
	}
	answer, err := c.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	c.answer.Reset()
	if _, err := c.answer.ReadFrom(answer.Body); err != nil {
		return 0, err
	}
	for _, w := range want {
		if answer.StatusCode == w {
			return w, nil
		}
	}
	return 0, fmt.Errorf("POST %s: the answer has status %d, expected %d: %.300s", path, answer.StatusCode, want, c.answer.Bytes())
}

const mimeJSON = "application/json"

func (c *plainConn) Create(ctx context.Context, jobs int) error {
	if jobs > 1 {
		_, err := c.post(ctx, "/default/job/default/add", "text/plain", c.body[:jobs*lineBytes], http.StatusCreated)
		return err
	}
	body := fmt.Appendf(nil, `{"payload":"%s"}`, c.body[:measure.PayloadBytes])
	_, err := c.post(ctx, "/jobs/create", mimeJSON, body, http.StatusCreated)
	return err
}

func (c *plainConn) Claim(ctx context.Context, most int) (int, error) {
	body := fmt.Appendf(nil, `{"runner_id":"%s","max":%d}`, c.runner, most)
	status, err := c.post(ctx, "/jobs/claim", mimeJSON, body, http.StatusOK, http.StatusNoContent)
	if err != nil || status == http.StatusNoContent {
		return 0, err
	}
	return c.claimed()
}

// claimed finds the claim and the payloads in the answer, and returns the number of jobs. The payloads contain neither
// escapes nor braces.
func (c *plainConn) claimed() (jobs int, err error) {
	if c.accept == mimeRuns {
		c.claim, jobs, err = claimedRuns(c.answer.Bytes())
		return jobs, err
	}
	const claim, payload, idBytes = `"claim_id":"`, `"payload":"`, 36
	answer := c.answer.Bytes()
	at := bytes.Index(answer, []byte(claim))
	if at < 0 || at+len(claim)+idBytes > len(answer) {
		return 0, nil // a request that also completes jobs is answered even if no job waits
	}
	c.claim = string(answer[at+len(claim) : at+len(claim)+idBytes])
	for {
		at := bytes.Index(answer, []byte(payload))
		if at < 0 {
			return jobs, nil
		}
		answer = answer[at+len(payload):]
		if len(answer) <= measure.PayloadBytes || answer[measure.PayloadBytes] != '"' {
			return 0, errors.New("the answer to a claim has a payload of another length than was posted")
		}
		answer = answer[measure.PayloadBytes:]
		jobs++
	}
}

func (c *plainConn) Complete(ctx context.Context) error {
	body := fmt.Appendf(nil, `{"claim_id":"%s","status":"completed"}`, c.claim)
	_, err := c.post(ctx, "/jobs/complete", mimeJSON, body, http.StatusOK)
	return err
}

func (c *plainConn) Exchange(ctx context.Context, most int) (int, error) {
	body := fmt.Appendf(nil, `{"runner_id":"%s","max":%d,"complete":{"claim_id":"%s","status":"completed"}}`, c.runner, most, c.claim)
	if _, err := c.post(ctx, "/jobs/claim", mimeJSON, body, http.StatusOK); err != nil {
		return 0, err
	}
	return c.claimed()
}

func (c *plainConn) Close() error {
	c.http.CloseIdleConnections()
	return nil
}
