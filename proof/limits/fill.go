package limits

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/internal/testkit"
)

// amounts says how much of each thing the server gets.
type amounts struct {
	values   int // thousands of jobs with a value of meta each
	queues   int // thousands of queues with a job each, if the server takes as many
	lines    int // lines of a batch
	groups   int // batches of a thousand groups, with 16 entries of meta each
	payloads int // jobs of 4 MiB
	keys     int // creates of one job with an idempotency key each
	sessions int
	claims   int // of one job, each by a different runner
	streams  int // each with as many subscriptions as it may have, whose claims wait
}

const (
	ndjson = "application/x-ndjson"
	plain  = "text/plain"
)

// fill creates all this, and returns the number of jobs.
func (s *server) fill(n amounts) (jobs int) {
	s.t.Helper()
	add := func(what string, callers, count, each int, do func(i int) bool) int {
		s.t.Helper()
		done := 0
		s.filled(what, func() { done = s.each(count, callers, do) })
		jobs += done * each
		s.t.Logf("%s: %d of %d, %d MiB", what, done*max(1, each), count*max(1, each), s.resident()>>20)
		return done
	}
	add("fill: values of meta", bulk, n.values, 1000, func(i int) bool {
		return s.create("/jobs/create", ndjson, valuesBody("values", i))
	})
	add("fill: lines of a batch", bulk, 1, n.lines, func(int) bool {
		return s.create("/acme/job/lines/add", plain, bytes.Repeat([]byte("p\n"), n.lines))
	})
	add("fill: groups", bulk, n.groups, 1000, func(i int) bool { return s.create("/jobs/create", ndjson, groupsBody("groups", i)) })
	add("fill: payloads of 4 MiB", bulk, n.payloads, 1, func(int) bool { return s.create("/acme/job/large/add", plain, largeBody) })
	add("fill: idempotency keys", single, n.keys, 1, func(i int) bool {
		return s.create("/jobs/create", "application/json", []byte(`{"client":"acme","type":"keyed","payload":"p"}`), "Idempotency-Key", fmt.Sprint("key ", i))
	})
	post := func(path string, status int, body string) func(i int) bool {
		return func(i int) bool {
			got, answer, err := s.send(http.MethodPost, path, "application/json", fmt.Appendf(nil, body, i))
			if err != nil || got != status {
				s.t.Errorf("%s: %d %.200s, %v", path, got, answer, err)
			}
			return err == nil
		}
	}
	add("fill: sessions", single, n.sessions, 0, post("/sessions", http.StatusCreated, `{"runner_id":"session%d"}`))
	add("fill: claims of runners", single, n.claims, 0, post("/jobs/claim", http.StatusOK, `{"runner_id":"runner%d","types":["values"],"lease_ms":86400000}`))
	streams := add("fill: streams with 16 waiting claims", single, n.streams, 0, s.subscribe)
	testkit.Eventually(s.t, "the claims of all streams wait", func() bool { return int(s.metrics()["daybook_parked_claims"]) >= streams*subscriptions })
	// The queues come last: once the server cannot take more queues, it refuses jobs in new ones.
	queues := add("fill: queues", bulk, n.queues, 1000, func(i int) bool {
		return s.create("/jobs/create", ndjson, queuesBody("c", i))
	})
	if queues < n.queues {
		s.t.Logf("the server refuses more than %d thousand queues", queues)
	}
	return jobs
}

// subscriptions is how many subscriptions a stream may have.
const subscriptions = 16

// subscribe opens a stream whose subscriptions wait for jobs that never come, or reports false if the server cannot take
// more. The stream is open until the server ends.
func (s *server) subscribe(i int) bool {
	conn, answer, err := websocket.Dial(s.t.Context(), s.URL()+"/stream", &websocket.DialOptions{HTTPClient: s.http, Subprotocols: []string{"daybook.v1"}})
	if err != nil {
		if answer == nil || answer.StatusCode != http.StatusTooManyRequests && answer.StatusCode != http.StatusServiceUnavailable {
			s.t.Errorf("open stream %d: %v", i, err)
		}
		return false
	}
	lines := fmt.Appendf(nil, `{"n":0,"hello":{"runner_id":"waiting%d"}}`+"\n", i)
	for n := range subscriptions {
		lines = fmt.Appendf(lines, `{"n":%d,"subscribe":{"types":["waiting%d"],"credit":1}}`+"\n", n+1, i)
	}
	if err := conn.Write(s.t.Context(), websocket.MessageText, lines); err != nil {
		s.t.Errorf("stream %d: %v", i, err)
		return false
	}
	for answered := 0; answered <= subscriptions; {
		_, text, err := conn.Read(s.t.Context())
		if err != nil {
			s.t.Errorf("stream %d: %v", i, err)
			return false
		}
		for line := range bytes.Lines(text) {
			var l struct {
				Problem *struct{ Code string }
			}
			switch err := json.Unmarshal(line, &l); {
			case err != nil || l.Problem != nil && l.Problem.Code != "overloaded":
				s.t.Errorf("stream %d: %s, %v", i, line, err)
				return false
			case l.Problem != nil:
				_ = conn.CloseNow() // the server cannot take more
				return false
			}
			answered++
		}
	}
	go func() {
		for { // pings are answered
			if _, _, err := conn.Read(context.Background()); err != nil {
				return
			}
		}
	}()
	return true
}

// valuesBody returns a thousand jobs, each with a different value of meta.
func valuesBody(typ string, i int) []byte {
	var body bytes.Buffer
	for k := range 1000 {
		fmt.Fprintf(&body, `{"client":"acme","type":"%s","payload":"p","meta":{"order":"%016d"}}`+"\n", typ, i*1000+k)
	}
	return body.Bytes()
}

// queuesBody returns a job in each of a thousand queues.
func queuesBody(client string, i int) []byte {
	var body bytes.Buffer
	for k := range 1000 {
		fmt.Fprintf(&body, `{"client":"%s%d","type":"t%d","payload":"p"}`+"\n", client, i*10+k/100, k%100)
	}
	return body.Bytes()
}

// groupsBody returns a job in each of a thousand groups, with as much meta as 8 MiB can hold.
func groupsBody(typ string, i int) []byte {
	var body bytes.Buffer
	for k := range 1000 {
		fmt.Fprintf(&body, `{"client":"acme","type":"%s","payload":"p","priority":%d,"meta":{"k0":"%d"`, typ, k%10, k)
		for entry := 1; entry < 16; entry++ {
			fmt.Fprintf(&body, `,"k%d":"%0250d"`, entry, i*1000+k)
		}
		body.WriteString("}}\n")
	}
	return body.Bytes()
}

var largeBody = append(bytes.Repeat([]byte("p"), 4<<20-1), '\n')
