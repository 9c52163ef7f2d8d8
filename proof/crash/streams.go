package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/job"
)

// streamed sends the requests of one user through a stream. When the stream has ended, it opens a new one. A user makes
// one request at a time.
type streamed struct {
	runner string
	rng    *rand.Rand
	http   *http.Client // the user's, over wires that freeze
	wire   *wire        // of conn

	mu     sync.Mutex // guards the fields below, which the reading goroutine also uses
	conn   *websocket.Conn
	id     string // of the stream
	last   uint64 // number of a request
	alive  int64  // when the last request was sent that the server has answered
	answer chan streamLine
	pushes []push
	held   map[job.ID]*grant // jobs that return to the queues when the stream ends, also if the runner has forgotten them
	ended  chan struct{}
}

const (
	// streamHeartbeat is so short that the server looks for ended leases before it gives a frozen runner up.
	streamHeartbeat = 800 * time.Millisecond
	// freezeOneIn: a runner with a stream freezes at one in this many subscriptions for one job.
	freezeOneIn = 3
)

// streamLine is a line of a text message.
type streamLine struct {
	N            *uint64         `json:"n"`
	OK           json.RawMessage `json:"ok"`
	Problem      json.RawMessage `json:"problem"`
	Seq          uint64          `json:"seq"`
	Subscription uint64          `json:"subscription"`
	ClaimID      job.ID          `json:"claim_id"`
	LeaseMs      int64           `json:"lease_ms"`
	Jobs         []document      `json:"jobs"`
}

// push are jobs that the server has sent.
type push struct {
	subscription uint64
	claim        job.ID
	jobs         []document
	at           int64 // the time by which they had arrived
}

// overStreams returns a user that sends requests through its own stream, as far as streams carry them.
func (u *user) overStreams(runner string, rng *rand.Rand) *user {
	own := *u
	s := &streamed{runner: runner, rng: rng, held: map[job.ID]*grant{}}
	s.http = &http.Client{Timeout: u.http.Timeout, Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		s.wire = &wire{Conn: c} // open, which dials, waits for this
		return s.wire, nil
	}, DisableKeepAlives: true}}
	own.stream = s
	return &own
}

// wire is the connection of a process that can be frozen. Data that it writes while it is frozen, such as the answer to a
// ping, is sent when it continues. It reads all the time, so that the test knows which data had arrived.
type wire struct {
	net.Conn
	mu     sync.Mutex
	frozen bool
	unsent []byte
}

func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.frozen {
		w.unsent = append(w.unsent, p...)
		return len(p), nil
	}
	return w.Conn.Write(p)
}

func (w *wire) freeze() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frozen = true
}

func (w *wire) thaw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frozen = false
	_, _ = w.Conn.Write(w.unsent) // if the connection has ended, the reader sees it
	w.unsent = nil
}

// verbOf returns the stream's verb for an HTTP request, or "" if streams have none.
func verbOf(method, path, contentType string, body []byte) (verb string, text []byte) {
	if method != http.MethodPost || contentType != "application/json" {
		return "", nil
	}
	rest, _ := strings.CutPrefix(path, "/jobs/")
	switch rest {
	case "create", "complete", "tickle":
		return rest, body
	}
	id, what, _ := strings.Cut(rest, "/")
	if what != "complete" && what != "release" {
		return "", nil
	}
	return what, append(fmt.Appendf(nil, `{"job_id":%q,`, id), bytes.TrimPrefix(body, []byte("{"))...)
}

// send sends a request and waits for its answer, as user.send does.
func (s *streamed) send(ctx context.Context, u *user, verb string, body []byte, key string) (*reply, error) {
	if err := s.open(ctx, u); err != nil {
		return nil, err
	}
	return s.sendOn(ctx, u, verb, body, key), nil
}

// sendOn sends a request in the open stream, which may have ended.
func (s *streamed) sendOn(ctx context.Context, u *user, verb string, body []byte, key string) *reply {
	r := &reply{call: u.h.now(), streamed: true}
	if key != "" {
		key = fmt.Sprintf(`,"idempotency_key":%q`, key)
	}
	l, answered := s.ask(ctx, verb, body, key)
	if r.ret = u.h.now(); answered {
		s.alive = r.call
	}
	u.h.countRequest(answered)
	if !answered {
		s.close(u)
		return r
	}
	r.status, r.body, r.seq = http.StatusOK, l.OK, strconv.FormatUint(l.Seq, 10)
	if l.Problem == nil {
		return r
	}
	r.body = l.Problem
	var p struct{ Status int }
	if err := errors.Join(json.Unmarshal(r.body, &r.problem), json.Unmarshal(r.body, &p)); err != nil || p.Status < 400 {
		u.h.problem("%s in a stream: refused with %.200q: %v", verb, r.body, err)
	}
	r.status = p.Status
	u.judgeRefusal(r, verb+" in a stream")
	return r
}

// ask writes a request and returns the line with its answer, or false if it gets none.
func (s *streamed) ask(ctx context.Context, verb string, body []byte, more string) (streamLine, bool) {
	s.mu.Lock()
	s.last++
	n, conn, ended := s.last, s.conn, s.ended
	s.mu.Unlock()
	text := fmt.Appendf(nil, `{"n":%d,%q:%s%s}`, n, verb, body, more)
	if conn.Write(context.Background(), websocket.MessageText, text) != nil {
		return streamLine{}, false
	}
	for {
		select {
		case l := <-s.answer:
			if *l.N == n {
				return l, true
			}
		case <-ended:
			select {
			case l := <-s.answer:
				if *l.N == n {
					return l, true
				}
			default:
			}
			return streamLine{}, false
		case <-time.After(maxWait):
			return streamLine{}, false
		case <-ctx.Done():
			return streamLine{}, false
		}
	}
}

// open opens a stream, unless one is open. The new stream resumes the last one, and names the claims that the runner has
// from it. Now and then it names none, like a runner that has forgotten them.
func (s *streamed) open(ctx context.Context, u *user) error {
	if s.conn != nil {
		select {
		case <-s.ended:
			s.close(u)
		default:
			return nil
		}
	}
	headers := http.Header{}
	u.authorize(headers)
	conn, answer, err := websocket.Dial(ctx, u.url+"/stream", &websocket.DialOptions{HTTPClient: s.http, HTTPHeader: headers, Subprotocols: []string{"daybook.v1"}})
	if err != nil {
		if answer != nil && answer.StatusCode != 0 && answer.StatusCode != http.StatusServiceUnavailable {
			u.h.problem("open a stream: %d %v", answer.StatusCode, err)
		}
		return errNotSent // a handshake changes nothing
	}
	conn.SetReadLimit(-1)
	s.mu.Lock()
	s.conn, s.answer, s.ended, s.pushes = conn, make(chan streamLine, 16), make(chan struct{}), nil
	s.mu.Unlock()
	go s.read(u, conn, s.answer, s.ended)
	hello := map[string]any{"runner_id": s.runner, "linger_ms": []int{0, 300, 5000}[s.rng.IntN(3)]}
	if s.id != "" {
		hello["resume"] = s.id
	}
	if len(s.held) > 0 && s.rng.IntN(4) > 0 {
		hello["claims"] = slices.Collect(maps.Keys(s.held))
	}
	asked := u.h.now()
	l, answered := s.ask(ctx, "hello", marshal(hello), "")
	var doc struct {
		StreamID string `json:"stream_id"`
		Claims   []struct {
			ClaimID job.ID `json:"claim_id"`
			Held    int    `json:"held"`
		} `json:"claims"`
	}
	if !answered || l.Problem != nil {
		s.close(u)
		return errNotSent
	}
	if err := json.Unmarshal(l.OK, &doc); err != nil {
		u.h.problem("hello is answered %.200q: %v", l.OK, err)
	}
	before := s.held
	s.held = map[job.ID]*grant{}
	for _, c := range doc.Claims {
		g := before[c.ClaimID]
		if g == nil || c.Held > len(g.jobs) || c.Held < 1 {
			u.h.problem("hello names %v and is told that claim %s holds %d jobs", slices.Collect(maps.Keys(before)), c.ClaimID, c.Held)
			continue
		}
		s.held[c.ClaimID] = g
	}
	s.id, s.alive = doc.StreamID, asked
	return nil
}

// read reads what arrives until the connection ends.
func (s *streamed) read(u *user, conn *websocket.Conn, answers chan<- streamLine, ended chan<- struct{}) {
	defer close(ended)
	for {
		_, text, err := conn.Read(context.Background())
		if err != nil {
			return
		}
		for line := range bytes.Lines(text) {
			var l streamLine
			if err := json.Unmarshal(line, &l); err != nil {
				if _, _, ended := conn.Read(context.Background()); ended != nil && !bytes.HasSuffix(line, []byte("\n")) {
					return // if the connection ends between two frames of a message, the library takes the message for complete
				}
				u.h.problem("a stream has the line %.200q: %v", line, err)
				return
			}
			switch {
			case l.N != nil:
				answers <- l
			case l.Jobs != nil:
				s.mu.Lock()
				s.pushes = append(s.pushes, push{l.Subscription, l.ClaimID, l.Jobs, u.h.now()})
				s.mu.Unlock()
			}
		}
	}
}

// close ends the stream. The jobs of its claims may return to their queues at any time after the last request that the
// server answered in it.
func (s *streamed) close(u *user) {
	if s.conn == nil {
		return
	}
	_ = s.conn.CloseNow() // it has usually ended already
	<-s.ended
	now := u.h.now()
	for _, g := range s.held {
		u.addAll(g, event{call: s.alive, ret: now, kind: returned, answer: lost, attempts: -1})
	}
	s.conn = nil
}

// freeze acts on a runner like SIGSTOP, for longer than a short lease: the runner neither tickles nor answers pings. When
// the lease has ended, the server sends no more. So it must not send a subscription more jobs than its credit.
func (s *streamed) freeze(ctx context.Context, u *user, subscription uint64, credit int) {
	s.wire.freeze()
	select {
	case <-time.After(time.Duration(500+s.rng.IntN(3500)) * time.Millisecond):
	case <-s.ended:
	case <-ctx.Done():
	}
	sent := s.sent(subscription)
	s.wire.thaw()
	u.h.tally(func(t *tally) { t.Frozen++ })
	if len(sent) > credit && slices.ContainsFunc(sent[:credit], func(id job.ID) bool { return s.abandoned(ctx, u, id) }) {
		u.h.problem("a frozen runner with a credit of %d was sent %d jobs", credit, len(sent))
	}
}

// sent returns the jobs of a subscription that have arrived but that claimInStream has not recorded yet.
func (s *streamed) sent(subscription uint64) (jobs []job.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pushes {
		if p.subscription == subscription {
			for i := range p.jobs {
				jobs = append(jobs, p.jobs[i].JobID)
			}
		}
	}
	return jobs
}

// period is a period of the history.
type period struct{ begin, end int64 }

// abandoned reports whether a run of a job has ended because its lease in this runner ended. A cancelled job also makes
// room for another job, which the runner may get.
func (s *streamed) abandoned(ctx context.Context, u *user, id job.ID) bool {
	r, err := u.send(ctx, http.MethodGet, "/jobs/"+id.String(), "", nil)
	if err != nil || !r.ok() {
		return false
	}
	var doc struct {
		Attempts []struct {
			RunnerID string `json:"runner_id"`
			Why      string `json:"why"`
		} `json:"attempts"`
	}
	if err := json.Unmarshal(r.body, &doc); err != nil {
		u.h.problem("get %s: %v", id, err)
	}
	for _, a := range doc.Attempts {
		if a.RunnerID == s.runner && a.Why == "abandoned" {
			return true
		}
	}
	return false
}

// claimInStream subscribes, waits a little for jobs, and ends the subscription. Each push is a claim. Some runners freeze
// during this.
func (u *user) claimInStream(ctx context.Context, w claimRequest) ([]*grant, *reply, error) {
	s := u.stream
	if err := s.open(ctx, u); err != nil {
		return nil, nil, err
	}
	credit := max(w.max, 1)
	fields := w.fields(u, map[string]any{"credit": credit, "max": credit})
	began := u.h.now()
	r := s.sendOn(ctx, u, "subscribe", marshal(fields), "")
	number := s.last
	unseen := []period{{began, never}} // when the server may have made claims that are not known here
	if r.ok() {
		pause(ctx, time.Duration(1+s.rng.IntN(w.waitMs+5))*time.Millisecond)
		// It takes exponential time to audit the histories of the events during a freeze. So a runner freezes with one
		// job, and without credit for a second: then the server makes no claim until the runner continues.
		if credit == 1 && len(s.sent(number)) == 1 && s.rng.IntN(freezeOneIn) == 0 {
			unseen[0].end = u.h.now()
			s.freeze(ctx, u, number, credit)
			unseen = append(unseen, period{u.h.now(), never})
		}
		r = s.sendOn(ctx, u, "unsubscribe", fmt.Appendf(nil, `{"subscription":%d}`, number), "")
	}
	s.mu.Lock()
	pushes := s.pushes
	s.pushes = nil
	s.mu.Unlock()
	var grants []*grant
	jobs := 0
	for _, p := range pushes {
		g := u.granted(&w, claimed{claim: p.claim, jobs: p.jobs}, began, p.at)
		grants = append(grants, g)
		if p.subscription == number { // not an earlier one, which the server has refused to end, as it does when it stops
			jobs += len(p.jobs)
		}
		s.held[g.id] = g
		if s.conn == nil { // the connection has ended
			u.addAll(g, event{call: began, ret: u.h.now(), kind: returned, answer: lost, attempts: -1})
		}
	}
	if jobs > credit && len(unseen) == 1 {
		u.h.problem("a subscription with a credit of %d was sent %d jobs", credit, jobs)
	}
	for _, p := range unseen {
		p.end = min(p.end, u.h.now())
		u.h.addEmptyClaim(p.begin, p.end) // a claim whose jobs the server did not push
		if r.ok() {
			continue
		}
		for range min(3, credit) { // the server may have made more claims, one after another
			u.h.addOpenClaim(event{call: p.begin, ret: p.end, kind: handed, answer: lost, attempts: -1, lease: max(w.leaseMs, minLeaseMs) * ms})
		}
	}
	return grants, r, nil
}
