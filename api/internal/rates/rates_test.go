package rates

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store/applied"
)

// engine is an engine with as many jobs as a claim takes. A claim that waits gets them when the test closes there.
type engine struct {
	backend.Engine
	nodes    int
	revoked  bool
	replayed bool
	there    chan struct{}
	created  int
	waited   atomic.Int64 // ns of the last claim
	ended    int          // completions
}

func (e *engine) Key(name string) *job.Key {
	if e.revoked {
		return nil
	}
	return &job.Key{}
}

func (e *engine) Cluster() (s job.ClusterStatus, ok bool) {
	for range e.nodes {
		s.Nodes = append(s.Nodes, job.MemberStatus{Role: "voter"})
	}
	s.Nodes = append(s.Nodes, job.MemberStatus{Role: "learner"})
	return s, e.nodes > 0
}

func (e *engine) Create(context.Context, *job.Create) (applied.Made, ingest.Receipt, error) {
	e.created++
	return applied.Made{}, ingest.Receipt{}, nil
}

func (e *engine) StartCreate(ctx context.Context, c *job.Create) func() (applied.Made, ingest.Receipt, error) {
	return func() (applied.Made, ingest.Receipt, error) { return e.Create(ctx, c) }
}

func (e *engine) ClaimAdmitted(_ context.Context, c job.Claim, wait time.Duration, _ func(int64) error) (applied.Claimed, []runs.Run, ingest.Receipt, error) {
	e.waited.Store(int64(wait))
	if e.there != nil {
		if wait == 0 {
			return applied.Claimed{}, nil, ingest.Receipt{}, nil
		}
		<-e.there
	}
	return applied.Claimed{Replayed: e.replayed}, []runs.Run{{N: c.Max}}, ingest.Receipt{}, nil
}

func (e *engine) ClaimUntil(ctx context.Context, c job.Claim, _ <-chan struct{}, admit func(int64) error) (applied.Claimed, []runs.Run, ingest.Receipt, error) {
	return e.ClaimAdmitted(ctx, c, time.Hour, admit)
}

func (e *engine) CompleteInOrder(context.Context, []job.Complete) ([]applied.Ended, ingest.Receipt, error) {
	e.ended++
	return nil, ingest.Receipt{}, nil
}

func (e *engine) Exchange(context.Context, []job.Complete, job.Claim) (*ingest.Exchange, error) {
	return nil, nil
}

// rig is a key with rates, and a clock that the test moves.
type rig struct {
	*testing.T
	*engine
	all    *Rates
	over   *Engine
	key    *job.Key
	passed time.Duration
}

func start(t *testing.T, rates job.Rates) *rig {
	r := &rig{T: t, engine: &engine{}, key: &job.Key{Actor: job.Actor{Name: "k"}, Rates: &rates}}
	r.all = New(r.engine, nil)
	began := time.Now()
	r.all.now = func() time.Time { return began.Add(r.passed) }
	r.over = r.all.Over(r.engine)
	return r
}

func (r *rig) ctx() context.Context { return job.WithKey(r.Context(), r.key) }

func (r *rig) create(jobs int) error {
	_, _, err := r.over.Create(r.ctx(), &job.Create{Groups: []job.Group{{Lines: jobs}}})
	return err
}

// claim returns how many jobs a claim gets.
func (r *rig) claim(most int, wait time.Duration) (int, error) {
	_, handed, _, err := r.over.ClaimAdmitted(r.ctx(), job.Claim{Max: most}, wait, nil)
	if len(handed) == 0 {
		return 0, err
	}
	return handed[0].N, err
}

// limited fails unless err is a refusal that says when to come back.
func (r *rig) limited(err error, seconds int64, text string) {
	r.Helper()
	p, ok := err.(*web.Problem)
	testkit.MustHold(r, ok, "not refused:", err)
	testkit.Equal(r, p.Status, http.StatusTooManyRequests)
	testkit.Equal(r, p.Code, Code)
	testkit.Equal(r, p.RetryAfter, time.Duration(seconds)*time.Second)
	testkit.Equal(r, p.Members["retry_after"], any(seconds))
	testkit.Contains(r, p.Detail, text)
}

// TestCreates: a key creates what its rate permits over time, in requests of any size.
func TestCreates(t *testing.T) {
	r := start(t, job.Rates{Creates: 10})
	testkit.NoError(t, r.create(10))
	r.limited(r.create(1), 1, "the key k may use 10 jobs a second that are created; repeat the request in 1 s")
	testkit.NoError(t, r.create(0)) // nothing is created
	r.passed += 100 * time.Millisecond
	testkit.NoError(t, r.create(35)) // a large request is carried out, and owes the rest
	r.limited(r.create(1), 4, "")
	r.passed += 3400 * time.Millisecond
	r.limited(r.create(1), 1, "")
	r.passed += 100 * time.Millisecond
	wait := r.over.StartCreate(r.ctx(), &job.Create{Groups: []job.Group{{Lines: 1}}})
	_, _, err := wait()
	testkit.NoError(t, err)
	_, _, err = r.over.StartCreate(r.ctx(), &job.Create{Groups: []job.Group{{Lines: 1}}})()
	r.limited(err, 1, "")
	testkit.Equal(t, r.created, 4)
	r.passed += time.Hour
	testkit.NoError(t, r.create(100_000_000)) // it owes an hour at most
	r.limited(r.create(1), 3601, "")
	r.passed += time.Hour + time.Second
	testkit.NoError(t, r.create(1))
}

// TestOthers: a key without rates, or without this one, is not bounded, and takes no memory.
func TestOthers(t *testing.T) {
	r := start(t, job.Rates{Reads: 1})
	for range 3 {
		testkit.NoError(t, r.create(1000))
		testkit.Equal(t, testkit.Must(r.claim(1000, time.Second))(t), 1000)
	}
	r.key.Rates = nil
	r.all.Tidy()
	testkit.NoError(t, r.create(1))
	testkit.NoError(t, r.all.MaySend(r.key))
	r.all.Sent(nil, 5)
	testkit.NoError(t, r.all.Admit(&http.Request{Method: "GET"}, r.key, false)) // it is not even looked at
	leave, err := r.all.Stream(r.key)
	testkit.NoError(t, err)
	leave()
	testkit.Equal(t, len(r.all.keys), 0)
	if n := testing.AllocsPerRun(100, func() { _ = r.all.of(r.key) }); n != 0 {
		t.Errorf("a key without rates takes %v allocations", n)
	}
}

// TestClaims: a claim gets what the rate still permits, and a repeat costs nothing.
func TestClaims(t *testing.T) {
	r := start(t, job.Rates{Claims: 10})
	testkit.Equal(t, testkit.Must(r.claim(4, 0))(t), 4)
	testkit.Equal(t, testkit.Must(r.claim(100, 0))(t), 6)
	_, err := r.claim(1, 0)
	r.limited(err, 1, "jobs a second that are claimed")
	r.passed += 250 * time.Millisecond
	r.replayed = true
	testkit.Equal(t, testkit.Must(r.claim(100, 0))(t), 2)
	r.replayed = false
	testkit.Equal(t, testkit.Must(r.claim(100, 0))(t), 2)
	_, err = r.claim(1, time.Minute)
	r.limited(err, 1, "")
}

// TestExchange: completions are carried out also if the claim after them is refused.
func TestExchange(t *testing.T) {
	r := start(t, job.Rates{Claims: 1})
	testkit.Must(r.claim(1, 0))(t)
	x := testkit.Must(r.over.Exchange(r.ctx(), []job.Complete{{}}, job.Claim{Max: 1}))(t)
	_, _, err := x.Ended(r.ctx())
	testkit.NoError(t, err)
	testkit.Equal(t, r.ended, 1)
	_, _, _, err = x.Claimed(r.ctx(), 0, nil)
	r.limited(err, 1, "")
	x.Close()
	r.key.Rates = nil
	testkit.Holds(t, testkit.Must(r.over.Exchange(r.ctx(), []job.Complete{{}}, job.Claim{Max: 1}))(t) == nil, "a key without rates takes the usual way")
}

// TestParked: one claim more than may wait does not wait. It gets jobs that are there, and is refused otherwise.
func TestParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, job.Rates{ParkedClaims: 2})
		r.there = make(chan struct{})
		got := make(chan int, 2)
		for range 2 {
			go func() {
				n, _ := r.claim(3, time.Minute)
				got <- n
			}()
		}
		synctest.Wait()
		_, err := r.claim(1, time.Minute)
		r.limited(err, 1, "2 claims at the same time that wait for jobs")
		testkit.Equal(t, r.waited.Load(), 0)
		testkit.Equal(t, testkit.Must(r.claim(1, 0))(t), 0)
		close(r.there)
		testkit.Equal(t, <-got+<-got, 6)
		synctest.Wait()
		testkit.Equal(t, testkit.Must(r.claim(1, time.Minute))(t), 1)
		r.all.Tidy()
		testkit.Equal(t, len(r.all.keys), 0)
	})
}

// TestPush: a subscription waits until the key may claim, and ends meanwhile if it is told to.
func TestPush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, job.Rates{Claims: 10})
		r.all.now = time.Now
		began, stop := time.Now(), make(chan struct{})
		total := 0
		for range 3 {
			_, handed, _, err := r.over.ClaimUntil(r.ctx(), job.Claim{Max: 10}, stop, nil)
			testkit.NoError(t, err)
			total += handed[0].N
		}
		testkit.Equal(t, total, 12) // ten at once, then one in each tenth of a second
		testkit.Holds(t, time.Since(began) >= 200*time.Millisecond && time.Since(began) < 210*time.Millisecond, time.Since(began))
		close(stop)
		_, handed, _, err := r.over.ClaimUntil(r.ctx(), job.Claim{Max: 10}, stop, nil)
		testkit.NoError(t, err)
		testkit.Equal(t, len(handed), 0)
		ctx, cancel := context.WithCancel(r.ctx())
		cancel()
		_, _, _, err = r.over.ClaimUntil(ctx, job.Claim{Max: 10}, nil, nil)
		testkit.Failed(t, err, context.Canceled)
	})
}

// TestReadsAndBytes: reads are counted by request, and bodies by byte. What must not be lost is counted only.
func TestReadsAndBytes(t *testing.T) {
	r := start(t, job.Rates{Reads: 2, Bytes: 1024})
	send := func(method, text string, kept bool) error {
		req := testkit.Must(http.NewRequestWithContext(t.Context(), method, "/", strings.NewReader(text)))(t)
		err := r.all.Admit(req, r.key, kept)
		if err == nil && text != "" {
			testkit.Equal(t, string(testkit.Must(io.ReadAll(req.Body))(t)), text)
		}
		return err
	}
	testkit.NoError(t, send("GET", "", false))
	testkit.NoError(t, send("HEAD", "", false))
	r.limited(send("GET", "", false), 1, "2 reads a second")
	stream := testkit.Must(http.NewRequestWithContext(t.Context(), "GET", "/stream", nil))(t)
	r.limited(r.all.Admit(stream, r.key, false), 1, "") // it opens none
	stream.Header.Set("Upgrade", "websocket")
	testkit.NoError(t, r.all.Admit(stream, r.key, false))
	other := testkit.Must(http.NewRequestWithContext(t.Context(), "GET", "/jobs", nil))(t)
	other.Header.Set("Upgrade", "websocket") // makes no stream of it
	r.limited(r.all.Admit(other, r.key, false), 1, "")

	testkit.NoError(t, send("POST", strings.Repeat("x", 3072), false))
	r.limited(send("POST", "x", false), 3, "1024 bytes of request bodies a second")
	testkit.NoError(t, send("POST", "", false))
	testkit.NoError(t, send("POST", strings.Repeat("x", 1024), true))
	r.limited(send("POST", "x", false), 4, "")
	r.limited(r.all.MaySend(r.key), 4, "")
	r.all.Sent(r.key, 1024)
	r.passed += 3 * time.Second
	r.limited(r.all.MaySend(r.key), 2, "")
	r.passed += time.Second + time.Millisecond
	testkit.NoError(t, r.all.MaySend(r.key))
}

// TestLongBody: a body that is longer than others may be is read as slowly as the rate says, unless it must not be lost.
func TestLongBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const more = 1 << 20
		for _, kept := range []bool{true, false} {
			r := start(t, job.Rates{Bytes: web.MaxBodyBytes})
			r.all.now = time.Now
			began := time.Now()
			req := testkit.Must(http.NewRequestWithContext(t.Context(), "PUT", "/", bytes.NewReader(make([]byte, 4*web.MaxBodyBytes))))(t)
			testkit.NoError(t, r.all.Admit(req, r.key, kept))
			testkit.Equal(t, testkit.Must(io.CopyBuffer(struct{ io.Writer }{io.Discard}, req.Body, make([]byte, more)))(t), 4*web.MaxBodyBytes)
			took := time.Since(began)
			testkit.Holds(t, kept == (took == 0) && (kept || took >= 2900*time.Millisecond && took < 3100*time.Millisecond), kept, took)
		}
	})
}

// TestStreams: the number of streams at the same time is bounded.
func TestStreams(t *testing.T) {
	r := start(t, job.Rates{Streams: 1})
	leave, err := r.all.Stream(r.key)
	testkit.NoError(t, err)
	_, err = r.all.Stream(r.key)
	r.limited(err, 1, "1 streams at the same time")
	r.all.Tidy()
	testkit.Equal(t, len(r.all.keys), 1)
	leave()
	leave, err = r.all.Stream(r.key)
	testkit.NoError(t, err)
	leave()
}

// TestNodes: each voting node permits its part, and at least one of what is counted at the same time.
func TestNodes(t *testing.T) {
	r := start(t, job.Rates{Creates: 30, Streams: 2})
	r.nodes = 3
	testkit.NoError(t, r.create(10))
	r.limited(r.create(1), 1, "each of 3 nodes permits its part")
	r.passed += 500 * time.Millisecond
	testkit.NoError(t, r.create(5))
	leave, err := r.all.Stream(r.key)
	testkit.NoError(t, err)
	_, err = r.all.Stream(r.key)
	r.limited(err, 1, "")
	leave()
	r.nodes = 1
	r.passed += 500 * time.Millisecond
	testkit.NoError(t, r.create(30)) // the two others have gone
	r.limited(r.create(1), 1, "")
}

// TestForgotten: the usage of a key is forgotten when it owes nothing, or was revoked, and not before.
func TestForgotten(t *testing.T) {
	r := start(t, job.Rates{Creates: 1})
	testkit.NoError(t, r.create(3))
	r.passed += 2 * time.Second
	r.all.Tidy()
	r.limited(r.create(1), 1, "")
	r.passed += time.Second
	r.all.Tidy()
	testkit.Equal(t, len(r.all.keys), 0)
	testkit.NoError(t, r.create(3))
	r.revoked = true
	r.all.Tidy()
	testkit.Equal(t, len(r.all.keys), 0)
	r.revoked = false
	testkit.NoError(t, r.create(3))
	r.key.Rates = &job.Rates{Creates: 5}
	testkit.NoError(t, r.create(5)) // another key of the same name
	r.limited(r.create(1), 1, "")
}

func BenchmarkWithoutRates(b *testing.B) {
	all, key := New(nil, time.Now), &job.Key{}
	b.ReportAllocs()
	for b.Loop() {
		if all.of(key) != nil {
			b.Fatal("it has rates")
		}
	}
}

func BenchmarkCreate(b *testing.B) {
	all := New(&engine{}, time.Now)
	over := all.Over(all.engine)
	ctx := job.WithKey(b.Context(), &job.Key{Actor: job.Actor{Name: "k"}, Rates: &job.Rates{Creates: job.MaxRate}})
	c := &job.Create{Groups: []job.Group{{Lines: 1}}}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := over.Create(ctx, c); err != nil {
			b.Fatal(err)
		}
	}
}
