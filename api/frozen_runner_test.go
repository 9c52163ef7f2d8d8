package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/api/internal/stream"
	"github.com/daybookq/daybook/ingest/registry"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// frozenConn is a connection whose peer may be frozen: bytes sent to it arrive, and are not read.
type frozenConn struct {
	net.Conn
	mu       sync.Mutex
	changed  *sync.Cond
	received []byte
	frozen   bool
	err      error
}

func newFrozenConn(c net.Conn) *frozenConn {
	f := &frozenConn{Conn: c}
	f.changed = sync.NewCond(&f.mu)
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := c.Read(b)
			f.mu.Lock()
			f.received, f.err = append(f.received, b[:n]...), err
			f.changed.Broadcast()
			f.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return f
}

func (f *frozenConn) Read(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.frozen || len(f.received) == 0 && f.err == nil {
		f.changed.Wait()
	}
	n := copy(b, f.received)
	if f.received = f.received[n:]; n == 0 {
		return 0, f.err
	}
	return n, nil
}

func (f *frozenConn) freeze(frozen bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen = frozen
	f.changed.Broadcast()
}

// fateRig is a server in a synctest bubble, with streams over connections that can be frozen.
type fateRig struct {
	*scenario
	l *pipeListener
}

// inFate runs a test with a server whose streams have a heartbeat.
func inFate(t *testing.T, streamHeartbeat time.Duration, test func(t *testing.T, s *fateRig)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := &fateRig{&scenario{t: t, dir: dir, began: time.Now(), names: map[string]string{}, waiting: map[string]chan string{}, free: 1 << 40}, newPipeListener()}
		s.up()
		s.server.streams.Heartbeat = streamHeartbeat
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- s.server.Run(ctx, s.l, time.Second) }()
		defer func() {
			cancel()
			testkit.Check(t, <-ended)
			s.down(true)
		}()
		test(t, s)
	})
}

// fateRunner is a client of a stream: it reads, answers pings, and sends heartbeats, unless it is frozen.
type fateRunner struct {
	s    *fateRig
	id   string
	conn *frozenConn
	ws   *websocket.Conn

	mu    sync.Mutex
	got   []string // ids of jobs
	claim string
	err   error // the reason why the connection ended
}

// runner opens a stream that takes up to credit jobs at once.
func (s *fateRig) runner(id string, credit int) *fateRunner {
	s.t.Helper()
	f := &fateRunner{s: s, id: id}
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		f.conn = newFrozenConn(s.l.dial())
		return f.conn, nil
	}}
	ws, _, err := websocket.Dial(context.Background(), "ws://localhost/stream", &websocket.DialOptions{Subprotocols: []string{stream.Protocol}, HTTPClient: &http.Client{Transport: transport}})
	testkit.NoError(s.t, err)
	f.ws = ws
	s.t.Cleanup(func() { _ = ws.CloseNow() })
	f.send(fmt.Sprintf(`{"n":1,"hello":{"runner_id":%q,"linger_ms":60000}}`, id))
	f.send(fmt.Sprintf(`{"n":2,"subscribe":{"credit":%d}}`, credit))
	go func() {
		for {
			_, r, err := ws.Reader(context.Background())
			var text []byte
			if err == nil {
				text, err = io.ReadAll(r)
			}
			f.mu.Lock()
			if f.err = err; err != nil {
				f.mu.Unlock()
				return
			}
			for line := range strings.Lines(string(text)) {
				var o struct {
					Claim string `json:"claim_id"`
					Jobs  []struct {
						ID string `json:"job_id"`
					} `json:"jobs"`
				}
				if err := json.Unmarshal([]byte(line), &o); err != nil {
					f.err = err
				}
				for _, j := range o.Jobs {
					f.got, f.claim = append(f.got, j.ID), o.Claim
				}
			}
			f.mu.Unlock()
		}
	}()
	return f
}

func (f *fateRunner) send(text string) {
	f.s.t.Helper()
	testkit.NoError(f.s.t, f.ws.Write(context.Background(), websocket.MessageText, []byte(text)))
}

// jobs returns the ids of the jobs that arrived.
func (f *fateRunner) jobs() []string {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.got...)
}

func (s *fateRig) beat(ids ...string) {
	s.t.Helper()
	for _, id := range ids {
		testkit.Must2(s.engine.Heartbeat(s.t.Context(), id, registry.Info{Instance: "i"}, false))(s.t)
	}
}

func (s *fateRig) create(n int, leaseMs int64) (ids []job.ID) {
	s.t.Helper()
	c := job.Create{Groups: []job.Group{{Client: "c", Type: "t", Lines: n, Attributes: job.Attributes{
		Kind: job.Nothing, MaxAttempts: 3, LeaseMs: leaseMs, Backoff: job.Backoff{InitialMs: 1000, FactorMilli: 2000, MaxMs: 10_000}, RetentionMs: 1_000_000,
	}}}}
	made, _ := testkit.Must2(s.engine.Create(context.Background(), &c))(s.t)
	for i := range n {
		ids = append(ids, made.Batch.WithLine(i))
	}
	return ids
}

func (s *fateRig) job(id job.ID) job.Job {
	s.t.Helper()
	synctest.Wait()
	return testkit.Must(s.engine.Queries().Job(id))(s.t)
}

// await lets time pass until a condition holds, for an hour at most.
func (s *fateRig) await(what string, holds func() bool) {
	s.t.Helper()
	for range 36_000 {
		if synctest.Wait(); holds() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.t.Fatalf("never: %s", what)
}

// is checks the state of a job.
func (s *fateRig) is(id job.ID, status job.Status, attempts int) {
	s.t.Helper()
	if doc := s.job(id); doc.Status != status || doc.RunAttempts != attempts {
		s.t.Errorf("job %v is %v with %d attempts, want %v with %d: %+v", id, doc.Status, doc.RunAttempts, status, attempts, doc.Attempts)
	}
}

// TestFrozenStream: after a lease ended without a tickle, a stream gets no more jobs until its client shows life. A job
// that no process ever read loses one attempt.
func TestFrozenStream(t *testing.T) {
	inFate(t, time.Hour, func(t *testing.T, s *fateRig) { // the connection of a frozen client does not end
		ice := s.runner("ice", 3)
		synctest.Wait()
		ice.conn.freeze(true)
		ids := s.create(1, 2000)
		time.Sleep(time.Minute)
		s.is(ids[0], job.Pending, 1)
		ids = append(ids, s.create(2, 2000)...)
		s.is(ids[1], job.Pending, 0)
		// Another runner gets both jobs.
		other := s.runner("other", 2)
		got := other.jobs()
		testkit.Holds(t, len(got) == 2 && got[0] == ids[0].String() && got[1] == ids[1].String(), "the other runner got", got)
		// The runner shows life again, and gets jobs.
		ice.conn.freeze(false)
		got = ice.jobs()
		testkit.Holds(t, len(got) == 2 && got[0] == ids[0].String() && got[1] == ids[2].String(), "the runner that is no longer frozen got", got)
		s.is(ids[2], job.Active, 1)
	})
}

// TestFrozenClaim: if a lease of a runner ends without a tickle, the runner's waiting claims end without jobs.
func TestFrozenClaim(t *testing.T) {
	inFate(t, time.Hour, func(t *testing.T, s *fateRig) {
		ctx := context.Background()
		ids := s.create(1, 2000)
		claim := job.Claim{Runner: "ice", Max: 1, MaxBytes: 1 << 20}
		_, _, _, err := s.engine.Claim(ctx, claim, 0)
		testkit.NoError(t, err)
		ended := make(chan int, 1)
		go func() {
			_, handed, _, err := s.engine.Claim(ctx, claim, time.Minute)
			testkit.Check(t, err)
			ended <- len(handed)
		}()
		testkit.Equal(t, <-ended, 0, "jobs of a claim that waited when its runner had proved silent")
		s.is(ids[0], job.Pending, 1)
		_, handed, _, err := s.engine.Claim(ctx, claim, 0)
		testkit.Holds(t, err == nil && len(handed) == 1, "a later claim got", len(handed), "jobs", err) // a new request is a sign of life
	})
}

// TestLostRunnersStream: a runner that is declared lost gets nothing more. In the same step its streams are closed, and
// its waiting claims end. Jobs that it had not begun go to a healthy runner at once, begun jobs after their backoff.
func TestLostRunnersStream(t *testing.T) {
	inFate(t, time.Hour, func(t *testing.T, s *fateRig) {
		s.beat("frozen", "healthy")
		frozen := s.runner("frozen", 5)
		ids := s.create(2, 3_600_000)
		testkit.MustEqual(t, len(frozen.jobs()), 2)
		frozen.send(fmt.Sprintf(`{"begin":{"claim_id":%q,"job_ids":[%q]}}`, frozen.claim, ids[0]))
		synctest.Wait()
		frozen.conn.freeze(true)
		waited := make(chan int, 1)
		go func() {
			_, handed, _, err := s.engine.Claim(context.Background(), job.Claim{Runner: "frozen", Clients: []string{"none"}, Max: 1, MaxBytes: 1 << 20}, 24*time.Hour)
			testkit.Check(t, err)
			waited <- len(handed)
		}()
		healthy := s.runner("healthy", 5)
		s.await("the runner is lost", func() bool { s.beat("healthy"); return s.engine.Stats().Runners.Lost == 1 })
		s.is(ids[1], job.Active, 1)
		got := healthy.jobs()
		testkit.Holds(t, len(got) == 1 && got[0] == ids[1].String(), "in the same step the healthy runner got", got)
		s.is(ids[0], job.Deferred, 1)
		doc := s.job(ids[0])
		testkit.Holds(t, len(doc.Attempts) == 1 && doc.Attempts[0].Why == job.RunnerLost && doc.Attempts[0].Runner == "frozen", doc.Attempts)
		testkit.Equal(t, <-waited, 0, "jobs of the lost runner's claim")
		frozen.conn.freeze(false)
		got = frozen.jobs()
		testkit.Holds(t, len(got) == 2 && frozen.err != nil, "the lost runner's stream is open, with", got)
		s.await("the backoff ends", func() bool { return len(healthy.jobs()) == 2 })
		s.is(ids[0], job.Active, 2)
	})
}

// TestLostClaims: a claim over HTTP says how many of its jobs begin with it. The loss of the runner costs these jobs an
// attempt, and also the jobs that a tickle has named. If the claim does not say it, all runs have begun.
func TestLostClaims(t *testing.T) {
	for _, c := range []struct {
		begins string
		begun  []bool
	}{{`,"begins":1`, []bool{true, false, true}}, {`,"begins":0`, []bool{false, false, true}}, {``, []bool{true, true, true}}} {
		inFate(t, time.Hour, func(t *testing.T, s *fateRig) {
			s.beat("r")
			ids := s.create(3, 3_600_000)
			s.post("/jobs/claim", `{"runner_id":"r","max":3`+c.begins+`}`)
			s.post("/jobs/tickle", fmt.Sprintf(`{"job_ids":[%q]}`, ids[2]))
			s.await("the runner is lost", func() bool { return s.engine.Stats().Runners.Lost == 1 })
			for i, begun := range c.begun {
				if begun {
					s.is(ids[i], job.Deferred, 1)
				} else {
					s.is(ids[i], job.Pending, 0)
				}
			}
		})
	}
}

// post sends a request, which must be a success.
func (s *fateRig) post(path, body string) {
	s.t.Helper()
	req := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:1717"+path, strings.NewReader(body))
	req.RemoteAddr = "127.0.0.1:5"
	req.Header.Set("Content-Type", "application/json")
	res := httptest.NewRecorder()
	s.server.Handler().ServeHTTP(patient{res}, req)
	testkit.MustEqual(s.t, res.Code, http.StatusOK, path, body, res.Body)
}

// TestRunnersFromTwoSources: GET /runners lists each runner once, in order and on pages of any length, whether it sent
// heartbeats, holds jobs, or both.
func TestRunnersFromTwoSources(t *testing.T) {
	r := start(t)
	var want []string
	for i := range 30 {
		id := fmt.Sprint("r", i*7)
		if i%3 > 0 {
			r.post("/runners/"+id, `{"instance":"i"}`).object(http.StatusOK)
		}
		if i%3 < 2 {
			r.add("/a/job/b/add", "x\n")
			r.post("/jobs/claim", `{"runner_id":"`+id+`"}`).object(http.StatusOK)
		}
		want = append(want, id)
	}
	slices.SortFunc(want, registry.Compare)
	for _, limit := range []int{1, 2, 3, 7, 29, 30, 31} {
		var got []string
		after := ""
		for range len(want) + 1 {
			page := r.get(fmt.Sprintf("/runners?limit=%d%s", limit, after)).object(http.StatusOK)
			list := page["runners"].([]any)
			for _, one := range list {
				doc := one.(map[string]any)
				id := doc["runner_id"].(string)
				var n int
				fmt.Sscanf(id, "r%d", &n)
				kind := n / 7 % 3
				testkit.Holds(t, (doc["state"] == "ALIVE") == (kind > 0) && (doc["instance"] == "i") == (kind > 0) &&
					(fmt.Sprint(doc["held"]) == "1") == (kind < 2), "runner", id, doc)
				got = append(got, id)
			}
			if page["next"] == nil {
				break
			}
			testkit.MustHold(t, len(list) == limit && page["next"] == got[len(got)-1], "limit", limit, "a page of", len(list), "next", page["next"])
			after = "&after=" + page["next"].(string)
		}
		testkit.EqualSlices(t, got, want, "limit", limit)
	}
}
