package stockclient

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// mostTries is how often a request is sent at most: once, and up to 100 times again.
const mostTries = 101

// answer is an answer whose body was read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// request is a request and the rules for trying it again.
type request struct {
	method, path string
	body         []byte // nil: none
	header       http.Header
	once         bool // is not tried again after any error
	on5xx        bool // is tried again after an answer of status 5xx
}

// exchange sends a request until it gets an answer that is not to be tried again.
func (p *Producer) exchange(ctx context.Context, r request) (answer, error) {
	var pauses backoff
	for try := 1; ; try++ {
		a, err := p.send(ctx, r)
		again := err != nil || r.on5xx && a.status >= 500
		if !again || r.once || try == mostTries {
			return a, err
		}
		p.retries.Add(1)
		if ended := pauses.wait(ctx); ended != nil {
			if err == nil {
				err = fmt.Errorf("status %d: %s", a.status, a.body)
			}
			return answer{}, fmt.Errorf("%s %s: %w (after %w)", r.method, r.path, ended, err)
		}
	}
}

func (p *Producer) send(ctx context.Context, r request) (answer, error) {
	if r.method == http.MethodPost && r.body == nil {
		return p.sendBare(ctx, r)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, "http://"+p.address+r.path, strings.NewReader(string(r.body)))
	if err != nil {
		return answer{}, err
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	return read(resp)
}

func read(resp *http.Response) (answer, error) {
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	return answer{resp.StatusCode, resp.Header, body}, nil
}

// sendBare sends a POST without a body, a Content-Length and a Content-Type, as the original does. Package net/http would
// add `Content-Length: 0`.
func (p *Producer) sendBare(ctx context.Context, r request) (answer, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", p.address)
	if err != nil {
		return answer{}, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\naccept: */*\r\nhost: %s\r\n\r\n", r.method, r.path, p.address); err != nil {
		return answer{}, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: r.method})
	if err != nil {
		return answer{}, err
	}
	return read(resp)
}
