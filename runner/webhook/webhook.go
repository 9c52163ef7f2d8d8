package webhook

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/answers"
	"github.com/daybookq/daybook/runner/task"
)

const (
	defaultConnections = 10 // as in miniq
	defaultTimeout     = 2 * time.Minute

	// maxHeaderBytes bounds the headers of an answer, including the informational answers before it.
	maxHeaderBytes = 64 << 10
	// maxBesideBytes bounds the body of an answer to a batch, in addition to the longest outputs of all its jobs.
	maxBesideBytes = 64 << 20

	handshakeTimeout = 10 * time.Second
	// idleTimeout is how long an unused connection is kept. It is short, because a runner may have many handlers, each
	// with separate connections.
	idleTimeout = 30 * time.Second
)

// Settings apply to all of a runner's handlers of kind http.
type Settings struct {
	// Allow lists addresses that requests may go to although they are not public.
	Allow *Allow
	// Proxy returns the proxy of a request. Nil means no proxy, whatever the environment says. A proxy must have a
	// public address or be in Allow. The proxy connects to the URLs of handlers, so it must check them.
	Proxy func(*http.Request) (*url.URL, error)
	// TLS is the configuration of https. Nil means the default.
	TLS *tls.Config
	// UserAgent is the header User-Agent. The default is Daybook.
	UserAgent string
}

// Executor runs the tasks of one handler. It is a task.Executor.
type Executor struct {
	url        *url.URL
	batches    bool
	chain      answers.ChainTypes
	timeout    time.Duration // for a request and its answer
	mostInline int64         // most bytes of an output that is reported with the outcome
	mostOutput int64
	mostBeside int64 // most bytes of a batch's answer in addition to outputs
	userAgent  string

	dialer    *dialer
	transport *http.Transport
	turns     chan struct{} // has an element for each running request
}

var _ task.Executor = (*Executor)(nil)

// New returns the executor of a handler of kind http, or an error if its document is invalid.
func New(s Settings, d handler.Document) (*Executor, error) {
	if d.Kind != handler.HTTP {
		return nil, fmt.Errorf("a handler of kind %q cannot run as one of kind %s", d.Kind, handler.HTTP)
	}
	if err := d.Check(); err != nil {
		return nil, err
	}
	to, err := url.Parse(d.URL)
	if err != nil {
		return nil, err
	}
	var o handler.Options
	if d.Options != nil {
		o = *d.Options
	}
	e := &Executor{
		url: to, batches: o.Batch, chain: d.ChainTypes,
		timeout: defaultTimeout, mostBeside: maxBesideBytes, userAgent: "Daybook",
		dialer: newDialer(s.Allow), turns: make(chan struct{}, defaultConnections),
	}
	if o.TimeoutMs > 0 {
		e.timeout = time.Duration(o.TimeoutMs) * time.Millisecond
	}
	e.mostInline, e.mostOutput = o.Outputs()
	if o.Concurrency > 0 {
		e.turns = make(chan struct{}, o.Concurrency)
	}
	if s.UserAgent != "" {
		e.userAgent = s.UserAgent
	}
	e.transport = &http.Transport{
		Proxy: s.Proxy, DialContext: e.dialer.dial, TLSClientConfig: s.TLS, ForceAttemptHTTP2: true,
		MaxConnsPerHost: cap(e.turns), MaxIdleConnsPerHost: cap(e.turns), IdleConnTimeout: idleTimeout,
		TLSHandshakeTimeout: handshakeTimeout, MaxResponseHeaderBytes: maxHeaderBytes, DisableCompression: true,
	}
	return e, nil
}

// Run runs a batch of tasks, and ends each.
func (e *Executor) Run(tasks []*task.Task) {
	if e.batches {
		e.runBatch(tasks)
		return
	}
	e.runSingles(tasks)
}

// Close closes the connections that are kept for later requests.
func (e *Executor) Close() { e.transport.CloseIdleConnections() }

// begin waits until the handler may send one more request. It returns false if ctx ends first.
func (e *Executor) begin(ctx context.Context) bool {
	select {
	case e.turns <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (e *Executor) done() { <-e.turns }

// limit returns a request's context, which ends at the handler's time-out.
func (e *Executor) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, e.timeout, &timeoutError{e.timeout})
}
