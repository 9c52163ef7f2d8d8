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

// mostTries bounds the tries of a request: the first, and up to 100 more.
const mostTries = 101

// answer is a response whose body was read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// request is a request with the rules for repeating it.
type request struct {
	method, path string
	body         []byte // nil: none
	header       http.Header
	once         bool // never repeat it
	on5xx        bool // repeat it after a response with status 5xx
}

// exchange sends a request until it gets a response that it must not repeat.
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

// sendBare sends a POST without a body, Content-Length or Content-Type, as the original does. Package net/http would add
// `Content-Length: 0`.
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
