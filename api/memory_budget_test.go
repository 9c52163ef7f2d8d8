package api

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/api/joblog"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

func TestBudget(t *testing.T) {
	const large = smallShareBytes + 1
	inTime := func(t *testing.T, test func(t *testing.T)) { t.Helper(); synctest.Test(t, test) }
	// grown starts to grow a share, waits until all goroutines are blocked, and reports whether the share has grown.
	grown := func(t *testing.T, s *share, n int64) *bool {
		given := new(bool)
		go func() { *given = s.grow(t.Context(), n, time.Second) }()
		synctest.Wait()
		return given
	}
	t.Run("in order of arrival", func(t *testing.T) {
		inTime(t, func(t *testing.T) {
			b := newBudget(10 * large)
			var one, two, three share
			one.budget, two.budget, three.budget = b, b, b
			if !one.grow(t.Context(), 8*large, time.Second) {
				t.Fatal("the first is not given")
			}
			second := grown(t, &two, 2*large)
			third := grown(t, &three, large/2+large)
			if *second || *third {
				t.Error("more is given than there is")
			}
			one.release()
			synctest.Wait()
			if !*second || !*third || b.used() != 2*large+large/2+large {
				t.Errorf("%t %t, %d used", *second, *third, b.used())
			}
		})
	})
	t.Run("small ones do not wait for large ones", func(t *testing.T) {
		inTime(t, func(t *testing.T) {
			b := newBudget(80 * large)
			one, two, small := share{budget: b}, share{budget: b}, share{budget: b}
			one.grow(t.Context(), 70*large, 0)
			if given := grown(t, &two, large); *given {
				t.Error("a large one is given what is for small ones")
			}
			if !small.grow(t.Context(), smallShareBytes, 0) {
				t.Error("the small one waits")
			}
		})
	})
	t.Run("one that gives up lets those after it pass", func(t *testing.T) {
		inTime(t, func(t *testing.T) {
			b := newBudget(100 * large)
			one, two, three := share{budget: b}, share{budget: b}, share{budget: b}
			one.grow(t.Context(), 60*large, 0)
			second := grown(t, &two, 80*large)
			given := false
			go func() { given = three.grow(t.Context(), 20*large, 2*time.Second) }()
			time.Sleep(1500 * time.Millisecond) // fake time
			synctest.Wait()
			if *second || !given {
				t.Errorf("%t %t", *second, given)
			}
		})
	})
	t.Run("shares that wait for each other all end", func(t *testing.T) {
		inTime(t, func(t *testing.T) {
			b := newBudget(10 * large)
			var done sync.WaitGroup
			for range 20 {
				done.Go(func() {
					s := share{budget: b}
					defer s.release()
					for range 8 {
						if !s.grow(t.Context(), large, time.Second) {
							t.Error("not given")
							return
						}
						time.Sleep(time.Millisecond)
					}
				})
			}
			for range 20 {
				time.Sleep(time.Millisecond)
				if used := b.used(); used > 18*large {
					t.Errorf("%d used of %d", used, 10*large)
				}
			}
			done.Wait()
			if b.used() != 0 || b.oldest != nil || len(b.peers) != 0 {
				t.Errorf("%d used at the end", b.used())
			}
		})
	})
	t.Run("one address gets half", func(t *testing.T) {
		inTime(t, func(t *testing.T) {
			b := newBudget(100 * large)
			first := share{budget: b}
			first.grow(t.Context(), large, 0)
			here, there := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
			one, two, other := share{budget: b, peer: here}, share{budget: b, peer: here}, share{budget: b, peer: there}
			if !one.grow(t.Context(), 50*large, 0) {
				t.Fatal("half is not given")
			}
			second := grown(t, &two, large)
			third := grown(t, &other, 20*large)
			if *second || !*third {
				t.Errorf("%t %t", *second, *third)
			}
			one.shrink(large)
			synctest.Wait()
			if !*second {
				t.Error("not given although there is room")
			}
		})
	})
	t.Run("at random", func(t *testing.T) {
		inTime(t, func(t *testing.T) {
			const total = 40 * large
			b := newBudget(total)
			peers := []netip.Addr{{}, netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")}
			var done sync.WaitGroup
			for seed := range uint64(200) {
				done.Go(func() {
					r := rand.New(rand.NewPCG(1, seed))
					s := share{budget: b, peer: peers[seed%3]}
					for range r.IntN(8) {
						time.Sleep(time.Duration(r.IntN(5)) * time.Millisecond)
						if !s.grow(t.Context(), 1+r.Int64N(large), time.Duration(r.IntN(2000))*time.Millisecond) {
							break
						}
						if used := b.used(); used > total+8*large {
							t.Errorf("%d used of %d", used, total)
						}
					}
					s.release()
				})
			}
			done.Wait()
			if b.used() != 0 || b.oldest != nil || b.newest != nil || len(b.peers)+len(b.waiting[0])+len(b.waiting[1]) != 0 {
				t.Errorf("%d used at the end, %d waiting", b.used(), len(b.waiting[0])+len(b.waiting[1]))
			}
		})
	})
}

// TestBodiesWaitForTheirShare: if there is no memory for a body, the server does not read it, and refuses it after a
// wait.
func TestBodiesWaitForTheirShare(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, l *pipeListener) {
		first := share{budget: s.bulk} // the oldest share gets all that it requests
		if !first.grow(t.Context(), 1, 0) {
			t.Fatal("the budget is not empty")
		}
		c := l.dial()
		defer c.Close()
		in := bufio.NewReader(c)
		post := func(n int) *http.Response {
			go fmt.Fprintf(c, "POST /add HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", n, lines(n))
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				t.Fatal(err)
			}
			return resp
		}
		for _, wait := range []time.Duration{maxBudgetWait / 2, paceTime + time.Second} { // shorter and longer than the client may take
			s.bulk.free = 0
			time.AfterFunc(wait, func() {
				s.bulk.mu.Lock()
				s.bulk.free = s.bulk.total
				s.bulk.serve()
				s.bulk.mu.Unlock()
			})
			start := time.Now()
			if resp := post(100_000); resp.StatusCode != http.StatusCreated || time.Since(start) != wait {
				t.Errorf("a body that waited %s: %d after %s", wait, resp.StatusCode, time.Since(start))
			}
		}
		s.bulk.free = 0
		start := time.Now()
		if resp := post(11); resp.StatusCode != http.StatusTooManyRequests || time.Since(start) < maxBudgetWait || resp.Header.Get("Retry-After") == "" {
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
				if _, err := io.WriteString(c, "POST "+path+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 8388608\r\n\r\nx"); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			if used := s.bulk.used() + s.control.used(); used > 100*(firstReadBytes+1) {
				t.Errorf("%s: a hundred connections that sent a byte hold %d", path, used)
			}
			time.Sleep(paceTime)
			synctest.Wait()
			if used := s.bulk.used() + s.control.used(); used != 0 {
				t.Errorf("%s: connections that stand still hold %d after %s", path, used, paceTime)
			}
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
		limit := smallBodyBytes
		if long[name] {
			limit = maxBodyBytes
		} else if strings.Contains(route.path, "/handler") && !strings.HasSuffix(route.path, "/delete") && !strings.HasSuffix(route.path, "/del") {
			limit = 2 * job.MaxHandlerBytes
		} else if route.path == "/blobs/missing" {
			limit = 1 << 20
		}
		kind := "application/json"
		if route.path == "/jobs/:id/log" {
			limit, kind, path = joblog.MaxBytes, mimeText, path+"?offset=0&claim_id="+unknownID
		}
		for _, chunks := range []bool{false, true} {
			text := strings.Repeat(" ", limit/2) + "\n" + strings.Repeat(" ", limit/2)
			var body io.Reader = strings.NewReader(text)
			if chunks {
				body = chunked(text)
			}
			a := r.do(route.method, path, body, "Content-Type", kind)
			if a.status != http.StatusRequestEntityTooLarge {
				t.Errorf("%s, chunked %t: %d %s", name, chunks, a.status, a.body)
			}
		}
		a := r.do(route.method, path, strings.NewReader(strings.Repeat(" ", limit/2)), "Content-Type", kind)
		if a.status == http.StatusRequestEntityTooLarge {
			t.Errorf("%s half its limit: %d %s", name, a.status, a.body)
		}
	}
}
