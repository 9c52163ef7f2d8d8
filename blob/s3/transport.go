package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookq/daybook/blob"
)

const (
	connectFor = 5 * time.Second
	// silentFor is the time that a request waits for the next byte that it sends or receives.
	silentFor = 30 * time.Second
	// joinFor is the longest time in which the service may join parts into one object. Some services copy the bytes for
	// that. All tries of the request together have this time.
	joinFor = 15 * time.Minute
	// maxRequests is the largest number of concurrent writes, and also of other concurrent requests. The API bounds
	// downloads.
	maxRequests = 32
	// MaxFiles is the largest number of file descriptors that a bucket takes, without downloads: for writes and the
	// files that they copy, for other requests, for idle connections, and for the SHA-1 entries that a collection
	// reads.
	MaxFiles = 4*maxRequests + blob.RemoteRequests
)

// errSilent: the service has neither sent nor taken a byte for too long.
var errSilent = errors.New("the service was silent for too long")

// Stats counts requests. Its zero value works.
type Stats struct {
	mu sync.Mutex // guards of
	of map[string]blob.RequestStats
}

// Requests returns the counts of each method.
func (s *Stats) Requests() map[string]blob.RequestStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.of)
}

func (s *Stats) count(method string, response *http.Response, took time.Duration) {
	if !slices.Contains(blob.RequestMethods, method) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[string]blob.RequestStats{}
	}
	of := s.of[method]
	of.Requests++
	of.Seconds += took.Seconds()
	if response == nil || response.StatusCode >= 500 || response.StatusCode == http.StatusTooManyRequests || response.StatusCode == http.StatusForbidden {
		of.Failures++
	}
	s.of[method] = of
}

// transport sends requests. It ends requests that make no progress, counts all, and reads the clock of the service.
type transport struct {
	base   http.RoundTripper
	silent time.Duration
	writes chan struct{}   // has an element for each outstanding write
	short  chan struct{}   // the same for HEAD, POST and DELETE
	ended  context.Context // ends all requests

	stats *Stats

	// ahead is the number of nanoseconds by which the service's clock is ahead of ours. A Date has a resolution of a
	// second.
	ahead atomic.Int64
}

func newTransport(ended context.Context, stats *Stats) *transport {
	return &transport{
		silent: silentFor, writes: make(chan struct{}, maxRequests), short: make(chan struct{}, maxRequests), ended: ended, stats: stats,
		base: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: connectFor, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout: connectFor, ExpectContinueTimeout: time.Second, IdleConnTimeout: time.Minute,
			MaxIdleConns: maxRequests, MaxIdleConnsPerHost: maxRequests,
			DisableCompression: true, // ranges are ranges of the stored bytes
		},
	}
}

// joining is the context key of a request that joins parts into an object.
type joining struct{}

// RoundTrip sends a request.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		room := t.short
		if r.Method == http.MethodPut { // it may take minutes
			room = t.writes
		}
		select {
		case room <- struct{}{}:
			defer func() { <-room }()
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := context.AfterFunc(t.ended, func() { cancel(context.Canceled) })
	end := func() {
		stop()
		cancel(nil)
	}
	w := &watch{wait: t.silent, cancel: cancel}
	if r.Context().Value(joining{}) != nil { // also while its answer is read: some services send spaces, and then the result
		w.wait = joinFor
	}
	r = r.Clone(ctx)
	var sent *sending
	if r.Body != nil && r.Body != http.NoBody {
		sent = &sending{from: r.Body, w: w}
		r.Body, r.GetBody = sent, nil
	}
	began := time.Now()
	w.start(w.wait)
	response, err := t.base.RoundTrip(r)
	w.stop()
	t.stats.count(r.Method, response, time.Since(began))
	if err != nil {
		if context.Cause(ctx) == errSilent {
			err = errSilent
		}
		end()
		sent.seal()
		return nil, err
	}
	if at, err := http.ParseTime(response.Header.Get("Date")); err == nil && response.StatusCode/100 == 2 { // other statuses may be a proxy's
		t.ahead.Store(int64(time.Until(at)))
	}
	response.Body = &receiving{response.Body, w, sent, end, ctx}
	return response, nil
}

// now is the time by the service's clock, which stamps the objects.
func (t *transport) now() time.Time { return time.Now().Add(time.Duration(t.ahead.Load())) }

// watch ends a request that makes no progress.
type watch struct {
	wait   time.Duration
	cancel context.CancelCauseFunc

	mu    sync.Mutex // guards timer
	timer *time.Timer
}

func (w *watch) start(wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
	w.timer = time.AfterFunc(wait, func() { w.cancel(errSilent) })
}

func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
}

// sending is the body of a request. Each read of it is progress.
type sending struct {
	w *watch

	mu   sync.Mutex    // guards from
	from io.ReadCloser // nil: sealed
}

func (s *sending) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.from == nil {
		return 0, errSealed
	}
	s.w.start(s.w.wait)
	return s.from.Read(p)
}

func (s *sending) Close() error {
	s.seal()
	return nil
}

// errSealed: the request has ended.
var errSealed = errors.New("the request has ended")

// seal ends the use of the source. net/http may continue to read after it has returned an answer, while the library
// already sends the same source again.
func (s *sending) seal() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.from != nil {
		s.from.Close() // by the library's choice this does nothing
		s.from = nil
	}
}

// receiving is the body of an answer. Only the service has to be quick, not the reader.
type receiving struct {
	io.ReadCloser
	w    *watch
	sent *sending
	end  func()
	ctx  context.Context
}

func (r *receiving) Read(p []byte) (int, error) {
	r.w.start(r.w.wait)
	defer r.w.stop()
	n, err := r.ReadCloser.Read(p)
	if err != nil && err != io.EOF && context.Cause(r.ctx) == errSilent {
		err = fmt.Errorf("%w: %w", errSilent, err)
	}
	return n, err
}

func (r *receiving) Close() error {
	defer r.end()
	r.sent.seal()
	return r.ReadCloser.Close()
}
