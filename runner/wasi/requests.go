package wasi

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"golang.org/x/sync/semaphore"

	"github.com/daybookq/daybook/runner/wasi/guest"
)

const (
	// requestTimeout bounds a request of a guest, including redirects and the answer. turnTimeout bounds how long the
	// request waits for its turn before that.
	requestTimeout = 30 * time.Second
	turnTimeout    = 30 * time.Second
	// maxRequests bounds the concurrent requests of all guests of a runner.
	maxRequests = 32
	// maxBodyBytes bounds the body of an answer, which base64 makes a third longer.
	maxBodyBytes = 8 << 20
	// bodyCopies is the memory that an answer needs, as a multiple of its body's length: one for the body, one for its
	// text, and 1.5 each for the JSON and the frame. The first freeBytes of a body are not counted. All answers of a
	// runner share roomBytes.
	bodyCopies       = 5
	freeBytes        = 64 << 10
	roomBytes        = 256 << 20
	maxHeaderBytes   = 64 << 10
	maxHeaders       = 100
	maxRedirects     = 10
	handshakeTimeout = 10 * time.Second
	idleTimeout      = 30 * time.Second
	maxIdlePerHost   = 4
	maxIdle          = 32
	maxURLBytes      = 8 << 10
)

// guestRequest is a request of a guest.
type guestRequest struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	BodyB64 []byte            `json:"body_b64"`
}

// guestAnswer is the answer that the guest gets: an error, or all other fields.
type guestAnswer struct {
	Error   string            `json:"error,omitzero"`
	Status  int               `json:"status,omitzero"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitzero"`
	BodyB64 string            `json:"body_b64,omitzero"`
}

type requests struct {
	transport *http.Transport
	turns     chan struct{}
	room      *semaphore.Weighted // in bytes
	userAgent string
}

func newRequests(s *Settings) *requests {
	return &requests{
		transport: &http.Transport{
			Proxy: nil, DialContext: s.Allow.DialContext, TLSClientConfig: s.TLS, ForceAttemptHTTP2: true,
			MaxIdleConns: maxIdle, MaxIdleConnsPerHost: maxIdlePerHost, IdleConnTimeout: idleTimeout,
			TLSHandshakeTimeout: handshakeTimeout, MaxResponseHeaderBytes: maxHeaderBytes,
		},
		turns: make(chan struct{}, maxRequests), room: semaphore.NewWeighted(roomBytes), userAgent: s.UserAgent,
	}
}

// do sends the request of a guest and passes the answer on. Both are JSON. While the request waits for its turn or for
// room, the clock of the run is paused.
func (q *requests) do(ctx context.Context, run *clock, allowed permissions, text []byte, pass func(answer []byte)) {
	held := &room{of: q.room}
	defer held.free()
	answer, err := q.send(ctx, run, allowed, text, held)
	if err != nil {
		answer = failedAnswer(err)
	}
	b, err := json.Marshal(answer)
	if err == nil {
		err = fitsAnswer(len(b))
	}
	if err != nil {
		b, _ = json.Marshal(failedAnswer(err)) // cannot fail: the error is only text
	}
	pass(b)
}

func failedAnswer(err error) *guestAnswer {
	return &guestAnswer{Error: strings.ToValidUTF8(err.Error(), "\uFFFD")}
}

// fitsAnswer returns an error if an answer with so many bytes of JSON is too long.
func fitsAnswer(bytes int) error {
	if bytes > guest.MaxAnswerBytes {
		return fmt.Errorf("the answer has at least %d bytes of JSON; the maximum is %d", bytes, guest.MaxAnswerBytes)
	}
	return nil
}

// hopByHop are the headers of the connection, which a guest cannot set.
var hopByHop = []string{"Connection", "Content-Length", "Host", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// turn waits until fewer than maxRequests are running. The caller ends its turn by receiving from turns.
func (q *requests) turn(ctx context.Context, run *clock) error {
	select {
	case q.turns <- struct{}{}:
		return nil
	default:
	}
	most := min(run.pause(), turnTimeout)
	defer run.resume()
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case q.turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-late.C:
		return fmt.Errorf("this runner sends at most %d requests at a time, and none of them ended within %v; the request was not sent", maxRequests, most.Round(time.Millisecond))
	}
}

func (q *requests) send(ctx context.Context, run *clock, allowed permissions, text []byte, held *room) (*guestAnswer, error) {
	var asked guestRequest
	if err := json.Unmarshal(text, &asked, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("the request is not JSON with method, url, headers and body or body_b64: %w", err)
	}
	request, err := q.request(&asked, allowed)
	if err != nil {
		return nil, err
	}
	if err := q.turn(ctx, run); err != nil {
		return nil, err
	}
	defer func() { <-q.turns }()
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, fmt.Errorf("the request took longer than %v", requestTimeout))
	defer cancel()
	sender := http.Client{Transport: q.transport, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return fmt.Errorf("there are more than %d redirects", maxRedirects)
		}
		return checkURL(r.URL, allowed)
	}}
	response, err := sender.Do(request.WithContext(ctx))
	if err != nil {
		return nil, whyNot(ctx, err)
	}
	defer response.Body.Close()
	body, err := readBody(ctx, run, response, held)
	if err != nil {
		return nil, err
	}
	isText := utf8.Valid(body)
	if err := fitsAnswer(encodedBytes(body, isText)); err != nil {
		return nil, err
	}
	answer := &guestAnswer{Status: response.StatusCode, Headers: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(response.Header)) {
		answer.Headers[strings.ToLower(name)] = strings.ToValidUTF8(strings.Join(response.Header[name], ", "), "\uFFFD")
	}
	if isText {
		answer.Body = string(body)
	} else {
		answer.BodyB64 = base64.StdEncoding.EncodeToString(body)
	}
	return answer, nil
}

// whyNot returns the cause of a failed request, without the URL, which the guest knows.
func whyNot(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if of, ok := errors.AsType[*url.Error](err); ok {
		return of.Err
	}
	return err
}

// checkURL returns nil if a guest may send requests to a URL, or the reason why not.
func checkURL(to *url.URL, allowed permissions) error {
	switch {
	case to.Scheme != "http" && to.Scheme != "https" || to.Host == "":
		return errors.New("the URL must have http or https and a host")
	case to.User != nil:
		return errors.New("the URL must not have a user or password; send the header Authorization")
	}
	return allowed.host(to)
}

// request converts a guest's request to an HTTP request. It returns an error if the request is invalid or not allowed.
func (q *requests) request(asked *guestRequest, allowed permissions) (*http.Request, error) {
	if len(asked.URL) > maxURLBytes {
		return nil, fmt.Errorf("the URL has %d bytes; the maximum is %d", len(asked.URL), maxURLBytes)
	}
	to, err := url.Parse(asked.URL)
	if err != nil {
		return nil, fmt.Errorf("the URL %.100q cannot be parsed", asked.URL)
	}
	if err := checkURL(to, allowed); err != nil {
		return nil, err
	}
	body := asked.BodyB64
	if asked.Body != "" {
		if len(body) > 0 {
			return nil, errors.New("body and body_b64 must not be given together")
		}
		body = []byte(asked.Body)
	}
	if asked.Method == "" {
		asked.Method = http.MethodGet
	}
	r, err := http.NewRequest(strings.ToUpper(asked.Method), asked.URL, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%.40q is not a method of HTTP", asked.Method)
	}
	if r.Method == http.MethodConnect {
		return nil, errors.New("the method CONNECT is not possible")
	}
	if len(asked.Headers) > maxHeaders {
		return nil, fmt.Errorf("there are %d headers; the maximum is %d", len(asked.Headers), maxHeaders)
	}
	bytes := 0
	for name, value := range asked.Headers {
		bytes += len(name) + len(value)
		if slices.Contains(hopByHop, http.CanonicalHeaderKey(name)) {
			return nil, fmt.Errorf("the header %s cannot be set", name)
		}
		r.Header.Set(name, value) // the transport refuses invalid names and values
	}
	if bytes > maxHeaderBytes {
		return nil, fmt.Errorf("the headers have %d bytes; the maximum is %d", bytes, maxHeaderBytes)
	}
	if r.Header.Get("User-Agent") == "" {
		r.Header.Set("User-Agent", q.userAgent)
	}
	return r, nil
}
