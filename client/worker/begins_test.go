package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/internal/clienttest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/worker"
)

// begins are the runs that the runner of a stream has announced.
type begins struct {
	mu    sync.Mutex
	came  *sync.Cond
	ids   []string
	lines int
	conn  *websocket.Conn // the last one
}

// has waits until the run of a job is announced.
func (b *begins) has(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !slices.Contains(b.ids, id) {
		b.came.Wait()
	}
}

func (b *begins) All() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.ids)
}

// beginServer offers a stream, sends a claim of n jobs in it, and records the announced runs. It refuses all requests
// over HTTP.
func beginServer(t *testing.T, n int) (*client.Client, *begins) {
	t.Helper()
	b := &begins{}
	b.came = sync.NewCond(&b.mu)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/stream" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"daybook.v1"}})
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		conn.SetReadLimit(-1)
		b.mu.Lock()
		b.conn = conn
		b.mu.Unlock()
		for {
			kind, text, err := conn.Read(context.Background())
			if err != nil {
				return
			}
			if kind == websocket.MessageBinary {
				continue // outcomes
			}
			for line := range strings.Lines(string(text)) {
				var o struct {
					N         *int
					Hello     any
					Subscribe any
					Begin     struct {
						Claim string   `json:"claim_id"`
						Jobs  []string `json:"job_ids"`
					}
				}
				testkit.Check(t, json.Unmarshal([]byte(line), &o), "line", line)
				var answer, push string
				switch {
				case o.N == nil:
					testkit.Holds(t, o.Begin.Claim == clienttest.TestClaim && len(o.Begin.Jobs) != 0, "line", line)
					b.mu.Lock()
					b.lines++
					b.ids = append(b.ids, o.Begin.Jobs...)
					b.came.Broadcast()
					b.mu.Unlock()
					continue
				case o.Hello != nil:
					answer = fmt.Sprintf(`{"n":%d,"ok":{"stream_id":"s","heartbeat_ms":60000}}`, *o.N)
				case o.Subscribe != nil:
					answer = fmt.Sprintf(`{"n":%d,"ok":{}}`, *o.N)
					push = fmt.Sprintf("#:push subscription=%d\n#:claim v=1 claim_id=%s runner_id=r lease_ms=60000 jobs=%d runs=1\n#:run job_id=%s n=%d client=c type=t run_attempts=1 kind=text frame=line bytes=%d\n%s",
						*o.N, clienttest.TestClaim, n, clienttest.TestID(0), n, 2*n, strings.Repeat("x\n", n))
				default:
					continue // outcomes and tickles
				}
				if err := conn.Write(context.Background(), websocket.MessageText, []byte(answer+"\n")); err != nil {
					return
				}
				if push == "" {
					continue
				}
				if err := conn.Write(context.Background(), websocket.MessageBinary, []byte(push)); err != nil {
					return
				}
			}
		}
	}))
	t.Cleanup(func() {
		b.mu.Lock()
		if b.conn != nil {
			_ = b.conn.CloseNow()
		}
		b.mu.Unlock()
		s.Close()
	})
	return client.New(s.URL, client.Options{RetryFor: -1}), b
}

// TestBeginsInAStream: the server knows that a run has begun before its handler does anything. It gets no announcement
// of jobs that wait for a handler.
func TestBeginsInAStream(t *testing.T) {
	for _, take := range []bool{false, true} {
		t.Run(fmt.Sprintf("take=%v", take), func(t *testing.T) {
			c, b := beginServer(t, 5)
			began, proceed := make(chan string), make(chan struct{})
			w := &worker.Worker{Client: c, RunnerID: "r", Concurrency: 2, Prefetch: 3, DrainTimeout: time.Millisecond, ReportTimeout: time.Millisecond}
			handler := func(ctx context.Context, j *client.Job) (client.Outcome, error) {
				began <- j.ID
				<-proceed
				return client.Outcome{}, nil
			}
			if take {
				w.Take = func(runs []*worker.Run) {
					for _, u := range runs {
						go func() { u.End(handler(u, u.Job)) }()
					}
				}
			} else {
				w.Handler = handler
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- w.Run(ctx) }()
			running := []string{<-began, <-began}
			b.has(running[0])
			b.has(running[1])
			testkit.Equal(t, len(b.All()), 2, "said and", running, "run")
			proceed <- struct{}{}
			b.has(<-began)
			cancel()
			close(proceed)
			<-ended // with an error, because nobody answers the reports
		})
	}
}

// TestBeginsAreSaidAgain: the worker announces the runs again in the stream that takes them over.
func TestBeginsAreSaidAgain(t *testing.T) {
	c, b := beginServer(t, 2)
	began, proceed := make(chan string, 4), make(chan struct{})
	w := &worker.Worker{Client: c, RunnerID: "r", Concurrency: 1, Prefetch: 1, DrainTimeout: time.Millisecond, ReportTimeout: time.Millisecond,
		Handler: func(ctx context.Context, j *client.Job) (client.Outcome, error) {
			began <- j.ID
			<-proceed
			return client.Outcome{}, nil
		}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	id := <-began
	b.has(id)
	b.mu.Lock()
	b.ids = nil
	_ = b.conn.CloseNow()
	b.mu.Unlock()
	b.has(id)
	got := b.All()
	testkit.Holds(t, !slices.ContainsFunc(got, func(other string) bool { return other != id }), "said of", got, "and", id, "runs")
	cancel()
	close(proceed)
	<-ended
}

// TestQuickRunsBeginTogether: runs that take almost no time are announced together.
func TestQuickRunsBeginTogether(t *testing.T) {
	const jobs = 1000
	c, b := beginServer(t, jobs)
	done := make(chan struct{}, jobs)
	w := &worker.Worker{Client: c, RunnerID: "r", Concurrency: 1, Prefetch: jobs, DrainTimeout: time.Millisecond, ReportTimeout: time.Millisecond,
		Handler: func(context.Context, *client.Job) (client.Outcome, error) {
			done <- struct{}{}
			return client.Outcome{}, nil
		}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	for range jobs {
		<-done
	}
	b.has(clienttest.TestID(jobs - 1))
	b.mu.Lock()
	testkit.Holds(t, b.lines <= jobs/2 && len(b.ids) == jobs, b.lines, "lines say of", len(b.ids), "jobs that they have begun")
	b.mu.Unlock()
	cancel()
	<-ended
}

// TestBeginLater: without a stream, a Worker with BeginLater claims jobs that have not begun, and Begin names them in a
// tickle before it returns.
func TestBeginLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{"/jobs/claim": clienttest.Once(clienttest.HandOut(3, time.Minute))})
		var runs []*worker.Run
		stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Concurrency: 3, Batch: 3, BeginLater: true, Take: func(some []*worker.Run) { runs = append(runs, some...) }})
		synctest.Wait()
		claims := f.To("/jobs/claim")
		testkit.Holds(t, len(claims) != 0 && claims[0].Body["begins"] == 0.0, "claims", claims)
		tickles := f.To("/jobs/tickle")
		testkit.MustHold(t, len(runs) == 3 && len(tickles) == 0, len(runs), "runs, tickles", tickles)
		worker.Begin(runs[1:])
		worker.Begin(runs[1:]) // once is enough
		tickles = f.To("/jobs/tickle")
		testkit.Holds(t, len(tickles) == 1 && fmt.Sprint(tickles[0].Body["job_ids"]) == fmt.Sprint([]string{runs[1].Job.ID, runs[2].Job.ID}) &&
			tickles[0].Body["runner_id"] == "r", "tickles", tickles)
		for _, u := range runs {
			u.End(client.Outcome{}, nil)
		}
		time.Sleep(time.Second) // reports wait for more ended jobs
		testkit.Check(t, stop())
	})
	t.Run("a Worker without it sends nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{"/jobs/claim": clienttest.Once(clienttest.HandOut(3, time.Minute))})
			stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Concurrency: 3, Handler: well})
			time.Sleep(time.Second)
			testkit.Check(t, stop())
			claims := f.To("/jobs/claim")
			testkit.Holds(t, claims[0].Body["begins"] == nil && len(f.To("/jobs/tickle")) == 0, "claims", claims, "tickles", f.To("/jobs/tickle"))
		})
	})
}
