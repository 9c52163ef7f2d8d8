//go:build unix

package examples

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestFaults: a worker ends its job in one run although the answer to its claim is lost, the server refuses its first tickle
// with 503, and its reports with 503 until it has tickled twice more, and the answer to its report is lost.
func TestFaults(t *testing.T) {
	unchanged := map[string][]string{"python": {}, "typescript": {}}
	forEachChanged(t, unchanged, func(t *testing.T, l language) {
		s := daybooktest.Start(t)
		post(t, s, l, "k", "one\n")
		between := newFaults(t, s.URL)
		w := start(t, between.URL, l.worker, "", []string{"words"}, []string{"LEASE_MS=12000"})
		testkit.Equal(t, done(t, s, 1), 0, "the job ran twice")
		// The job has ended when the server has the report. Its answer is lost after that.
		testkit.Eventually(t, "all faults are injected", between.injected)
		w.stop()
	})
}

// faults is a proxy to a server. It injects each fault of TestFaults once.
type faults struct {
	*httptest.Server
	lock                                 sync.Mutex
	claimLost, tickleRefused, reportLost bool
	tickles                              int // that the server has carried out
}

func newFaults(t *testing.T, server string) *faults {
	target := testkit.Must(url.Parse(server))(t)
	f := &faults{}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(answer *http.Response) error {
		f.lock.Lock()
		defer f.lock.Unlock()
		path, ok := answer.Request.URL.Path, answer.StatusCode == http.StatusOK
		switch {
		case strings.HasSuffix(path, "/claim") && ok && !f.claimLost:
			f.claimLost = true
			return errors.New("the answer is lost")
		case strings.HasSuffix(path, "/complete") && ok && !f.reportLost:
			f.reportLost = true
			return errors.New("the answer is lost")
		case strings.HasSuffix(path, "/tickle") && ok:
			f.tickles++
		}
		return nil
	}
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) } // ends the connection
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.refuses(r.URL.Path) {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

// refuses reports whether a request of this path gets 503.
func (f *faults) refuses(path string) bool {
	f.lock.Lock()
	defer f.lock.Unlock()
	switch {
	case strings.HasSuffix(path, "/tickle"):
		first := !f.tickleRefused
		f.tickleRefused = true
		return first
	case strings.HasSuffix(path, "/complete"):
		return f.tickles < 2
	}
	return false
}

// injected reports whether each fault was injected.
func (f *faults) injected() bool {
	f.lock.Lock()
	defer f.lock.Unlock()
	return f.claimLost && f.tickleRefused && f.tickles >= 2 && f.reportLost
}
