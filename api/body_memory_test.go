package api

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/api/joblog"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// TestBodiesWaitForTheirShare: if there is no memory for a body, the server does not read it, and refuses it after a
// wait.
func TestBodiesWaitForTheirShare(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, l *pipeListener) {
		first := web.Share{Lane: s.bulk} // the oldest share gets all that it requests
		testkit.MustHold(t, first.Grow(t.Context(), 1, 0), "the budget is not empty")
		take := func() (giveBack func()) {
			testkit.MustHold(t, first.Grow(t.Context(), s.bulk.Total(), 0), "the oldest share does not get what it requests")
			return func() { first.Shrink(s.bulk.Total()) }
		}
		c := l.dial()
		defer c.Close()
		in := bufio.NewReader(c)
		post := func(n int) *http.Response {
			go fmt.Fprintf(c, "POST /add HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", n, lines(n))
			resp := testkit.Must(http.ReadResponse(in, nil))(t)
			testkit.Must(io.Copy(io.Discard, resp.Body))(t)
			return resp
		}
		for _, wait := range []time.Duration{web.MaxBudgetWait / 2, web.PaceTime + time.Second} { // shorter and longer than the client may take
			time.AfterFunc(wait, take())
			start := time.Now()
			if resp := post(100_000); resp.StatusCode != http.StatusCreated || time.Since(start) != wait {
				t.Errorf("a body that waited %s: %d after %s", wait, resp.StatusCode, time.Since(start))
			}
		}
		defer take()()
		start := time.Now()
		if resp := post(11); resp.StatusCode != http.StatusTooManyRequests || time.Since(start) < web.MaxBudgetWait || resp.Header.Get("Retry-After") == "" {
			t.Errorf("%d after %s", resp.StatusCode, time.Since(start))
		}
	})
}

// TestAnnouncedBodiesTakeNothing: connections that announce the longest body and send nothing, or only a few bytes, do
// not prevent others from posting.
func TestAnnouncedBodiesTakeNothing(t *testing.T) {
	for _, path := range []string{"/add", "/jobs/create", "/jobs/complete", "/jobs/claim"} {
		inBubble(t, func(t *testing.T, s *Server, l *pipeListener) {
			for range 100 {
				c := l.dial()
				defer c.Close()
				testkit.Must(io.WriteString(c, "POST "+path+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 8388608\r\n\r\nx"))(t)
			}
			synctest.Wait()
			used := s.bulk.Used() + s.control.Used()
			testkit.Holds(t, used <= 100*(web.FirstReadBytes+1), path, "a hundred connections that sent a byte hold", used)
			time.Sleep(web.PaceTime)
			synctest.Wait()
			testkit.Equal(t, s.bulk.Used()+s.control.Used(), 0, path, "connections that stand still hold after", web.PaceTime)
		})
	}
}

// TestBodyLimitsOfRoutes: a route refuses bodies that are longer than it needs.
func TestBodyLimitsOfRoutes(t *testing.T) {
	testkit.OneByOne(t)
	long := map[string]bool{
		"POST /jobs/create": true, "POST /add": true, "POST /:client/job/:type/add": true, "POST /batches/:id/jobs": true, // payloads
		"POST /jobs/claim": true, "POST /jobs/complete": true, "POST /jobs/:id/complete": true, // outputs
	}
	r := start(t, func(o *setup) { o.Quit = func() {} })
	for _, route := range r.server.routes() {
		if route.method != http.MethodPost && route.method != http.MethodPatch && route.method != http.MethodPut {
			continue
		}
		name := route.method + " " + route.path
		if streamsBody(route.method, route.path) {
			continue // bodies of any length: TestBlobLimits
		}
		path := strings.NewReplacer(":id", unknownID, ":client", "c", ":type", "t").Replace(route.path)
		limit := web.SmallBodyBytes
		if long[name] {
			limit = web.MaxBodyBytes
		} else if strings.Contains(route.path, "/handler") && !strings.HasSuffix(route.path, "/delete") && !strings.HasSuffix(route.path, "/del") {
			limit = 2 * job.MaxHandlerBytes
		} else if route.path == "/blobs/missing" {
			limit = 1 << 20
		}
		kind := "application/json"
		if route.path == "/jobs/:id/log" {
			limit, kind, path = joblog.MaxBytes, web.MIMEText, path+"?offset=0&claim_id="+unknownID
		}
		for _, chunks := range []bool{false, true} {
			text := strings.Repeat(" ", limit/2) + "\n" + strings.Repeat(" ", limit/2)
			var body io.Reader = strings.NewReader(text)
			if chunks {
				body = chunked(text)
			}
			a := r.do(route.method, path, body, "Content-Type", kind)
			testkit.Equal(t, a.status, http.StatusRequestEntityTooLarge, name, "chunked", chunks, a.body)
		}
		a := r.do(route.method, path, strings.NewReader(strings.Repeat(" ", limit/2)), "Content-Type", kind)
		testkit.Holds(t, a.status != http.StatusRequestEntityTooLarge, name, "half its limit", a.status, a.body)
	}
}
