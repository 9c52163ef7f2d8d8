package client_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/job"
)

// call is a request that a fake server received.
type call struct {
	method, route string // with {id} in place of a job's id
	id            string
	query         url.Values
	text          []byte
	body          map[string]any
	header        http.Header
	at            time.Time
}

// reply is how a fake server handles a request: it answers with a status and a body, or aborts the request with err.
type reply struct {
	status int
	body   string
	header http.Header
	err    error
	after  time.Duration // how long it waits before that; less than 0 means for ever
	stream io.ReadCloser // instead of body
}

// fake is a server in place of a transport, so that a test can use a fake clock and lose answers.
type fake struct {
	answer   func(call) reply
	oneByOne bool // only one goroutine at a time calls answer

	mu    sync.Mutex
	calls []call
	turn  sync.Mutex // held while answer runs, if oneByOne is set
}

// serial runs f while no call of answer runs.
func (f *fake) serial(do func()) {
	f.turn.Lock()
	defer f.turn.Unlock()
	do()
}

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	c := call{method: r.Method, route: r.URL.Path, query: r.URL.Query(), header: r.Header, at: time.Now()}
	if parts := strings.Split(r.URL.Path, "/"); len(parts) == 4 && parts[1] == "jobs" {
		c.route, c.id = "/jobs/{id}/"+parts[3], parts[2]
	}
	if strings.HasPrefix(c.route, "/sessions/") {
		c.route, c.id = "/sessions/{id}", strings.TrimPrefix(c.route, "/sessions/")
	}
	var err error
	if r.Body != nil {
		if c.text, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	if r.Header.Get("Content-Type") == "application/json" {
		if err := json.Unmarshal(c.text, &c.body); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	f.calls = append(f.calls, c)
	f.mu.Unlock()
	var a reply
	if f.oneByOne {
		f.serial(func() { a = f.answer(c) })
	} else {
		a = f.answer(c)
	}
	if a.after != 0 {
		wait := time.NewTimer(a.after)
		defer wait.Stop()
		if a.after < 0 {
			wait.Stop()
		}
		select {
		case <-wait.C:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	if a.err != nil {
		return nil, a.err
	}
	if a.header == nil {
		a.header = http.Header{}
	}
	if a.stream == nil {
		a.stream = io.NopCloser(strings.NewReader(a.body))
	}
	return &http.Response{
		StatusCode: a.status, Status: fmt.Sprint(a.status, " ", http.StatusText(a.status)), Header: a.header, Body: a.stream, ContentLength: -1, Request: r,
	}, nil
}

// all returns all calls, in order.
func (f *fake) all() []call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

// to returns the calls of a route.
func (f *fake) to(route string) (list []call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if c.route == route {
			list = append(list, c)
		}
	}
	return list
}

func (f *fake) client(o client.Options) *client.Client {
	o.HTTP = &http.Client{Transport: f}
	return client.New("http://fake", o)
}

// inTurn answers each request with the next reply, and with the last one when no more are left.
func inTurn(replies ...reply) *fake {
	var mu sync.Mutex
	return &fake{answer: func(call) reply {
		mu.Lock()
		defer mu.Unlock()
		r := replies[0]
		if len(replies) > 1 {
			replies = replies[1:]
		}
		return r
	}}
}

func problem(status int, code, outcome string) reply {
	return reply{status: status, body: fmt.Sprintf(`{"status":%d,"code":%q,"detail":"…","outcome":%q}`, status, code, outcome)}
}

// refusedConnection is the error of a transport if no server listens.
var refusedConnection = reply{err: &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}}

var lostAnswer = reply{err: io.ErrUnexpectedEOF}

func testID(n int) string { return job.NewID(1_700_000_000_000, 1, n).String() }

const testClaim = "018bcfe5-6800-7000-8000-0000000000c1"

// handOut is an answer to a claim, with n jobs and a lease.
func handOut(n int, lease time.Duration) reply { return handOutFrom(0, n, lease) }

// handOutFrom is handOut with the jobs from the given number on.
func handOutFrom(from, n int, lease time.Duration) reply {
	var b bytes.Buffer
	for i := from; i < from+n; i++ {
		fmt.Fprintf(&b, `,{"job_id":%q,"status":"active"}`, testID(i))
	}
	return reply{status: 200, body: fmt.Sprintf(`{"claim_id":%q,"lease_ms":%d,"jobs":[%s]}`, testClaim, lease.Milliseconds(), strings.TrimPrefix(b.String(), ","))}
}

// eachByItself answers n claims with one job each, and all later claims with none.
func eachByItself(n int) func(call) reply {
	next := 0
	return func(c call) reply {
		if next == n {
			return nothing(c)
		}
		r := reply{status: 200, body: fmt.Sprintf(`{"claim_id":%q,"lease_ms":60000,"jobs":[{"job_id":%q,"status":"active"}]}`, testID(1000+next), testID(next))}
		next++
		return r
	}
}

// nothing is an answer to a claim without jobs, after its wait.
func nothing(c call) reply {
	ms, _ := c.body["wait_ms"].(float64)
	return reply{status: 204, after: time.Duration(ms)*time.Millisecond + time.Millisecond}
}

// completed answers a bulk complete as a server does if all its jobs are held.
func completed(c call) reply {
	var results []string
	outcomes, _ := c.body["outcomes"].([]any)
	for _, o := range outcomes {
		results = append(results, fmt.Sprintf(`{"job_id":%q,"status":"completed"}`, o.(map[string]any)["job_id"]))
	}
	return reply{status: 200, body: fmt.Sprintf(`{"ended":1,"results":[%s]}`, strings.Join(results, ","))}
}

// once answers the first claim with a reply, and all later claims with no jobs.
func once(first reply) func(call) reply {
	var done bool
	return func(c call) reply {
		if done {
			return nothing(c)
		}
		done = true
		return first
	}
}

// opened is the answer to a request that opens a session.
func opened(n int) reply {
	return reply{status: 201, body: fmt.Sprintf(`{"session_id":%q,"slots":[]}`, testID(9000+n))}
}

// runner is a fake server with an answer for each route. Routes that are not given succeed.
func runner(t *testing.T, routes map[string]func(call) reply) *fake {
	return &fake{oneByOne: true, answer: func(c call) reply {
		if answer := routes[c.route]; answer != nil {
			return answer(c)
		}
		switch c.route {
		case "/stream": // it offers no streams
			return reply{status: 404}
		case "/sessions":
			return opened(0)
		case "/sessions/{id}":
			return reply{status: 204}
		case "/jobs/claim":
			return nothing(c)
		case "/jobs/tickle":
			return reply{status: 200, body: `{"held":1,"lost":[]}`}
		case "/jobs/complete":
			return completed(c)
		case "/jobs/{id}/release":
			return reply{status: 200, body: fmt.Sprintf(`{"job_id":%q,"status":"pending"}`, c.id)}
		}
		t.Errorf("an unexpected request: %s %s", c.method, c.route)
		return reply{status: 404}
	}}
}
