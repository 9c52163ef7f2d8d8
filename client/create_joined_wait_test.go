package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/problem"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
)

// TestJoinableCreates: each create becomes a run. A create that the server would refuse is a separate request, whose
// refusal has the reason.
func TestJoinableCreates(t *testing.T) {
	negative := int64(-1)
	for name, n := range map[string]NewJob{
		"no UTF-8":            {Payload: []byte{0xff}, Kind: Text},
		"no JSON":             JSONJob("t", []byte("{")),
		"unknown kind":        {Payload: []byte("x"), Kind: "x"},
		"input alone":         {InputAddr: "x"},
		"two payloads":        {BinaryAddr: "x", Payload: []byte("y")},
		"negative delay":      {Attributes: Attributes{DelayMs: -1}},
		"negative retention":  {Attributes: Attributes{RetentionMs: &negative}},
		"meta without a name": {Attributes: Attributes{Meta: map[string]string{"": "x"}}},
		"long":                {Payload: make([]byte, maxJoinedBytes+1)},
		"a long name":         TextJob(strings.Repeat("t", maxJoinedBytes), "x"),
	} {
		own := n.joinable()
		testkit.Holds(t, own == nil, name, own)
	}
	var creates []*joinedCreate
	for _, n := range []NewJob{TextJob("b", "1"), TextJob("a", "2\n"), TextJob("b", "3"), {Type: "n"}, TextJob("a", "4"), {Type: "n"}} {
		creates = append(creates, n.joinable())
	}
	text := appendRuns(nil, creates)
	d := runs.NewDecoder(text)
	head := testkit.Must(d.Creation())(t)
	testkit.MustEqual(t, head, runs.Creation{NoBatch: true, Jobs: 6, Runs: 3})
	line := 0
	for range head.Runs {
		r, err := d.NewRun()
		testkit.NoError(t, err)
		rest := r.Payloads
		for range r.N {
			own := creates[line] // they are in the order of their runs now
			var payload []byte
			if payload, rest, err = r.Frame.Next(rest); err != nil || !bytes.Equal(payload, own.payload) || r.Type != own.run.Type || r.Kind != own.run.Kind {
				t.Errorf("job %d: %q of %+v, want %q of %+v (%v)", line, payload, r, own.payload, own.run, err)
			}
			line++
		}
	}
	err := d.End()
	testkit.Holds(t, err == nil && line == 6, line, "jobs", err)
	testkit.Holds(t, creates[0].run.Type == "a" && creates[2].run.Type == "b" && creates[5].run.Kind == job.Nothing, text)
}

// TestWaitingCreates: creates that wait become one request, and a create whose context ends is not sent, or is unknown.
func TestWaitingCreates(t *testing.T) {
	var j joinedCreates
	c := New("http://127.0.0.1:1", Options{})
	waiting := func() int {
		j.mu.Lock()
		defer j.mu.Unlock()
		return len(j.waiting)
	}
	j.requests, j.sentAt = 1, time.Now().Add(time.Hour) // a request is outstanding, and the next is not due
	ctx, cancel := context.WithCancel(t.Context())
	answers := make(chan joinedAnswer, 3)
	for i := range 3 {
		n := TextJob("t", fmt.Sprint(i))
		go func() { answers <- j.create(ctx, c, n.joinable()) }()
	}
	testkit.Eventually(t, "three creates wait", func() bool { return waiting() >= 3 })
	j.mu.Lock()
	creates, callers := j.take(3)
	j.mu.Unlock()
	n := TextJob("t", "later")
	go func() { answers <- j.create(ctx, c, n.joinable()) }()
	testkit.Eventually(t, "a create waits", func() bool { return waiting() >= 1 })
	testkit.MustEqual(t, len(creates), 3, "creates are one request")
	id := job.NewID(5, 7, 0)
	creates[0].answer <- joinedAnswer{id: id}
	a := <-answers
	testkit.Holds(t, a.err == nil && a.id == id, a)
	cancel()
	unknown, unsent := 0, 0
	for range 3 {
		a := <-answers
		switch {
		case errors.Is(a.err, problem.ErrUnknown):
			unknown++
		case errors.Is(a.err, problem.ErrUnavailable):
			unsent++
		}
	}
	testkit.Holds(t, unknown == 2 && unsent == 1 && waiting() == 0, unknown, "unknown", unsent, "not sent", waiting(), "wait")
	callers.Wait() // send does not wait for callers that have left

	// Without a stream, waiting creates are not sent, and each becomes a separate request.
	j.requests, j.sentAt = 0, time.Time{}
	a = j.create(t.Context(), c, n.joinable())
	testkit.Holds(t, errors.Is(a.err, errNotJoined), a)
}

// TestFullRequests: creates that fill a request do not wait for the previous answer, and the remaining ones wait for
// the timer.
func TestFullRequests(t *testing.T) {
	c := New("http://127.0.0.1:1", Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	long := joinedCreates{requests: 1, sentAt: time.Now().Add(time.Hour)}
	const callers = 2 * maxCreateRequests
	answers := make(chan joinedAnswer, callers)
	for range callers {
		n := TextJob("t", strings.Repeat("x", maxJoinedBytes*2/3))
		go func() { answers <- long.create(ctx, c, n.joinable()) }()
	}
	for range callers - 1 { // the last one may wait
		a := <-answers
		testkit.Holds(t, errors.Is(a.err, errNotJoined), a) // there is no stream
	}
	cancel()
	<-answers

	var j joinedCreates
	for range maxJoinedCreates + 44 {
		n := TextJob("t", "x")
		j.waiting = append(j.waiting, n.joinable())
	}
	all := append([]*joinedCreate(nil), j.waiting...)
	j.mu.Lock()
	j.sendDue(c)
	testkit.Holds(t, len(j.waiting) == 44 && j.requests == 1 &&
		j.late != nil, len(j.waiting), "creates wait", j.requests, "requests, timer", j.late)
	j.mu.Unlock()
	for _, own := range all {
		<-own.answer
		own.request.Done()
	}
}

// TestEndedContext: a create whose context has already ended is not sent.
func TestEndedContext(t *testing.T) {
	var j joinedCreates
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		n := TextJob("t", "x")
		a := j.create(ctx, New("http://127.0.0.1:1", Options{}), n.joinable())
		testkit.Holds(t, errors.Is(a.err, problem.ErrUnavailable) && !errors.Is(a.err, problem.ErrUnknown) && !errors.Is(a.err, errNotJoined), a)
	}
}

// answering returns a client of a server whose streams answer hello. Then the server reads a message and calls then.
func answering(t *testing.T, then func(*websocket.Conn)) *Client {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{streamProtocol}})
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		ctx := context.Background()
		_, _, err = conn.Read(ctx)
		testkit.Check(t, err)
		testkit.Check(t, conn.Write(ctx, websocket.MessageText, []byte(`{"n":1,"ok":{"stream_id":"s","heartbeat_ms":3600000}}`)))
		if _, _, err := conn.Read(ctx); err == nil {
			then(conn)
			_, _, _ = conn.Read(ctx) // until the client closes the connection
		}
	}))
	t.Cleanup(s.Close)
	return New(s.URL, Options{})
}

// TestUnusedStream: a stream that is open only after the creates have ended is closed when it is idle.
func TestUnusedStream(t *testing.T) {
	var j joinedCreates
	j.Open(answering(t, nil))
	testkit.MustHold(t, j.stream.Load() != nil && j.idle != nil, "stream", j.stream.Load(), "timer", j.idle)
	j.idle.Stop()
	s := j.stream.Load()
	j.closeIdle()
	<-s.Done()
	testkit.Holds(t, j.stream.Load() == nil, "an idle stream is still used")
}

// TestIdleStreamInUse: a stream is not closed while a create runs. If a create finds a stream that is closed before the
// create is added, the create must be a separate request.
func TestIdleStreamInUse(t *testing.T) {
	var j joinedCreates
	c := answering(t, nil)
	j.Open(c)
	j.idle.Stop()
	s := j.stream.Load()
	testkit.MustHold(t, j.count(c), "the stream was not found")
	j.closeIdle()
	testkit.MustHold(t, j.stream.Load() == s && !s.ended(), "a stream was closed while a create was under way")
	j.end()
	testkit.Holds(t, j.idle.Stop(), "the last create has not set the timer")
	j.closeIdle()
	j.underWay.Add(1) // and it has read the stream already
	job := TextJob("", "x")
	a := j.create(t.Context(), c, job.joinable())
	testkit.Holds(t, errors.Is(a.err, errNotJoined), a)
}

// TestJoinedAnswers: the creates of a request are sent again only if the answer proves that nothing was stored.
func TestJoinedAnswers(t *testing.T) {
	line := func(text string) func(*websocket.Conn) {
		return func(conn *websocket.Conn) {
			_ = conn.Write(context.Background(), websocket.MessageText, []byte(text+"\n"))
		}
	}
	first, last := job.NewID(5, 7, 3), job.NewID(5, 7, job.MaxLines-1)
	for name, x := range map[string]struct {
		then func(*websocket.Conn)
		want error
	}{
		"stored":                  {line(fmt.Sprintf(`{"n":2,"ok":{"count":2,"first_id":%q,"run_at":[0,9]},"seq":7}`, first)), nil},
		"refused":                 {line(`{"n":2,"problem":{"status":400,"code":"bad_request","outcome":"not_stored"}}`), errNotJoined},
		"unknown":                 {line(`{"n":2,"problem":{"status":503,"code":"writes_failed","outcome":"unknown"}}`), problem.ErrUnknown},
		"problem without outcome": {line(`{"n":2,"problem":{"status":500,"code":"x"}}`), problem.ErrUnknown},
		"neither":                 {line(`{"n":2}`), problem.ErrUnknown},
		"fewer":                   {line(fmt.Sprintf(`{"n":2,"ok":{"count":1,"first_id":%q}}`, first)), problem.ErrUnknown},
		"other times":             {line(fmt.Sprintf(`{"n":2,"ok":{"count":2,"first_id":%q,"run_at":[1]}}`, first)), problem.ErrUnknown},
		"no id":                   {line(`{"n":2,"ok":{"count":2}}`), problem.ErrUnknown},
		"too few ids":             {line(fmt.Sprintf(`{"n":2,"ok":{"count":2,"first_id":%q}}`, last)), problem.ErrUnknown},
		"not JSON":                {line(`x`), problem.ErrUnknown},
		"ends":                    {func(conn *websocket.Conn) { _ = conn.Close(statusDone, "") }, errNotJoined},
		"a proxy goes away":       {func(conn *websocket.Conn) { _ = conn.Close(websocket.StatusGoingAway, "") }, problem.ErrUnknown},
		"closed":                  {func(conn *websocket.Conn) { _ = conn.Close(websocket.StatusMessageTooBig, "") }, problem.ErrUnknown},
		"cut":                     {func(conn *websocket.Conn) { _ = conn.CloseNow() }, problem.ErrUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			c := answering(t, x.then)
			s := testkit.Must(c.OpenStream(t.Context(), StreamOptions{}))(t)
			defer s.Close()
			one, two := TextJob("t", "1"), TextJob("t", "2")
			made, err := s.createAll(c, []*joinedCreate{one.joinable(), two.joinable()})
			testkit.Holds(t, errors.Is(err, x.want) && (!errors.Is(err, problem.ErrUnknown) || !errors.Is(err, errNotJoined)), made, err)
			testkit.Holds(t, err != nil || made.first == first && made.runAt(0) == 0 && made.runAt(1) == 9, made)
		})
	}
}
