package clienttest

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

// Call is a request that a fake server received.
type Call struct {
	Method, Route string // with {id} in place of a job's id
	Id            string
	Query         url.Values
	Text          []byte
	Body          map[string]any
	Header        http.Header
	At            time.Time
}

// Reply is how a fake server handles a request: it answers with a status and a body, or aborts the request with err.
type Reply struct {
	Status int
	Body   string
	Header http.Header
	Err    error
	After  time.Duration // how long it waits before that; less than 0 means for ever
	Stream io.ReadCloser // instead of body
}

// Fake is a server in place of a transport, so that a test can use a fake clock and lose answers.
type Fake struct {
	Answer   func(Call) Reply
	OneByOne bool // only one goroutine at a time calls answer

	mu    sync.Mutex
	Calls []Call
	turn  sync.Mutex // held while answer runs, if OneByOne is set
}

// Serial runs f while no call of answer runs.
func (f *Fake) Serial(do func()) {
	f.turn.Lock()
	defer f.turn.Unlock()
	do()
}

func (f *Fake) RoundTrip(r *http.Request) (*http.Response, error) {
	c := Call{Method: r.Method, Route: r.URL.Path, Query: r.URL.Query(), Header: r.Header, At: time.Now()}
	if parts := strings.Split(r.URL.Path, "/"); len(parts) == 4 && parts[1] == "jobs" {
		c.Route, c.Id = "/jobs/{id}/"+parts[3], parts[2]
	}
	if strings.HasPrefix(c.Route, "/sessions/") {
		c.Route, c.Id = "/sessions/{id}", strings.TrimPrefix(c.Route, "/sessions/")
	}
	var err error
	if r.Body != nil {
		if c.Text, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	if r.Header.Get("Content-Type") == "application/json" {
		if err := json.Unmarshal(c.Text, &c.Body); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	f.Calls = append(f.Calls, c)
	f.mu.Unlock()
	var a Reply
	if f.OneByOne {
		f.Serial(func() { a = f.Answer(c) })
	} else {
		a = f.Answer(c)
	}
	if a.After != 0 {
		wait := time.NewTimer(a.After)
		defer wait.Stop()
		if a.After < 0 {
			wait.Stop()
		}
		select {
		case <-wait.C:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	if a.Err != nil {
		return nil, a.Err
	}
	if a.Header == nil {
		a.Header = http.Header{}
	}
	if a.Stream == nil {
		a.Stream = io.NopCloser(strings.NewReader(a.Body))
	}
	return &http.Response{
		StatusCode: a.Status, Status: fmt.Sprint(a.Status, " ", http.StatusText(a.Status)), Header: a.Header, Body: a.Stream, ContentLength: -1, Request: r,
	}, nil
}

// All returns all calls, in order.
func (f *Fake) All() []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.Calls)
}

// To returns the calls of a route.
func (f *Fake) To(route string) (list []Call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.Calls {
		if c.Route == route {
			list = append(list, c)
		}
	}
	return list
}

func (f *Fake) Client(o client.Options) *client.Client {
	o.HTTP = &http.Client{Transport: f}
	return client.New("http://fake", o)
}

// InTurn answers each request with the next reply, and with the last one when no more are left.
func InTurn(replies ...Reply) *Fake {
	var mu sync.Mutex
	return &Fake{Answer: func(Call) Reply {
		mu.Lock()
		defer mu.Unlock()
		r := replies[0]
		if len(replies) > 1 {
			replies = replies[1:]
		}
		return r
	}}
}

func Problem(status int, code, outcome string) Reply {
	return Reply{Status: status, Body: fmt.Sprintf(`{"status":%d,"code":%q,"detail":"…","outcome":%q}`, status, code, outcome)}
}

// RefusedConnection is the error of a transport if no server listens.
var RefusedConnection = Reply{Err: &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}}

var LostAnswer = Reply{Err: io.ErrUnexpectedEOF}

func TestID(n int) string { return job.NewID(1_700_000_000_000, 1, n).String() }

const TestClaim = "018bcfe5-6800-7000-8000-0000000000c1"

// HandOut is an answer to a claim, with n jobs and a lease.
func HandOut(n int, lease time.Duration) Reply { return HandOutFrom(0, n, lease) }

// HandOutFrom is HandOut with the jobs from the given number on.
func HandOutFrom(from, n int, lease time.Duration) Reply {
	var b bytes.Buffer
	for i := from; i < from+n; i++ {
		fmt.Fprintf(&b, `,{"job_id":%q,"status":"active"}`, TestID(i))
	}
	return Reply{Status: 200, Body: fmt.Sprintf(`{"claim_id":%q,"lease_ms":%d,"jobs":[%s]}`, TestClaim, lease.Milliseconds(), strings.TrimPrefix(b.String(), ","))}
}

// EachByItself answers n claims with one job each, and all later claims with none.
func EachByItself(n int) func(Call) Reply {
	next := 0
	return func(c Call) Reply {
		if next == n {
			return Nothing(c)
		}
		r := Reply{Status: 200, Body: fmt.Sprintf(`{"claim_id":%q,"lease_ms":60000,"jobs":[{"job_id":%q,"status":"active"}]}`, TestID(1000+next), TestID(next))}
		next++
		return r
	}
}

// Nothing is an answer to a claim without jobs, after its wait.
func Nothing(c Call) Reply {
	ms, _ := c.Body["wait_ms"].(float64)
	return Reply{Status: 204, After: time.Duration(ms)*time.Millisecond + time.Millisecond}
}

// Completed answers a bulk complete as a server does if all its jobs are held.
func Completed(c Call) Reply {
	var results []string
	outcomes, _ := c.Body["outcomes"].([]any)
	for _, o := range outcomes {
		results = append(results, fmt.Sprintf(`{"job_id":%q,"status":"completed"}`, o.(map[string]any)["job_id"]))
	}
	return Reply{Status: 200, Body: fmt.Sprintf(`{"ended":1,"results":[%s]}`, strings.Join(results, ","))}
}

// Once answers the first claim with a reply, and all later claims with no jobs.
func Once(first Reply) func(Call) Reply {
	var done bool
	return func(c Call) Reply {
		if done {
			return Nothing(c)
		}
		done = true
		return first
	}
}

// Opened is the answer to a request that opens a session.
func Opened(n int) Reply {
	return Reply{Status: 201, Body: fmt.Sprintf(`{"session_id":%q,"slots":[]}`, TestID(9000+n))}
}

// Runner is a fake server with an answer for each route. Routes that are not given succeed.
func Runner(t *testing.T, routes map[string]func(Call) Reply) *Fake {
	return &Fake{OneByOne: true, Answer: func(c Call) Reply {
		if answer := routes[c.Route]; answer != nil {
			return answer(c)
		}
		switch c.Route {
		case "/stream": // it offers no streams
			return Reply{Status: 404}
		case "/sessions":
			return Opened(0)
		case "/sessions/{id}":
			return Reply{Status: 204}
		case "/jobs/claim":
			return Nothing(c)
		case "/jobs/tickle":
			return Reply{Status: 200, Body: `{"held":1,"lost":[]}`}
		case "/jobs/complete":
			return Completed(c)
		case "/jobs/{id}/release":
			return Reply{Status: 200, Body: fmt.Sprintf(`{"job_id":%q,"status":"pending"}`, c.Id)}
		}
		t.Errorf("an unexpected request: %s %s", c.Method, c.Route)
		return Reply{Status: 404}
	}}
}

// Endless is a body without an end.
type Endless struct{}

func (Endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}
func (Endless) Close() error { return nil }
