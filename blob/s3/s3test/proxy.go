package s3test

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// Proxy passes requests on to a server.
type Proxy struct {
	Addr  string
	Ended chan struct{} // closed when the test has ended, for requests that get no answer

	mu     sync.Mutex // guards before
	before func(http.ResponseWriter, *http.Request) bool
}

// NewProxy starts a proxy in front of an address, until the test ends.
func NewProxy(t *testing.T, to string) *Proxy {
	t.Helper()
	p := &Proxy{Ended: make(chan struct{})}
	reverse := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: to})
			r.Out.Host = r.In.Host // it is a part of the signature
		},
		ErrorLog: log.New(io.Discard, "", 0), // tests break connections
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		before := p.before
		p.mu.Unlock()
		if before == nil || !before(w, r) {
			reverse.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		close(p.Ended)
		s.CloseClientConnections()
		s.Close()
	})
	p.Addr = strings.TrimPrefix(s.URL, "http://")
	return p
}

// Before sets a function that gets each request first. The proxy passes the request on unless the function returns
// true. With nil it passes all requests on.
func (p *Proxy) Before(do func(http.ResponseWriter, *http.Request) (answered bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before = do
}
