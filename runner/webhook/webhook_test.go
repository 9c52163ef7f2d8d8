package webhook

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/task"
)

// loopback returns an Allow for the test servers.
func loopback(t testing.TB) *Allow {
	t.Helper()
	return testkit.Must(ParseAllow([]string{"127.0.0.0/8", "::1"}))(t)
}

// executor returns a handler's executor, which may reach the test servers.
func executor(t testing.TB, url string, o handler.Options) *Executor {
	t.Helper()
	e, err := New(Settings{Allow: loopback(t)}, handler.Document{Kind: handler.HTTP, URL: url, ChainTypes: []string{handler.AnyType}, Options: &o})
	testkit.NoError(t, err)
	t.Cleanup(e.Close)
	return e
}

// web starts a server.
func web(t testing.TB, serve http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(serve)
	t.Cleanup(s.Close)
	return s.URL
}

// rawWeb starts a server that reads the headers of each request and then calls serve.
func rawWeb(t testing.TB, serve func(c net.Conn)) string {
	t.Helper()
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	var conns sync.WaitGroup
	t.Cleanup(conns.Wait)
	t.Cleanup(func() { l.Close() })
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer c.Close()
				buf := make([]byte, 4<<10)
				for read := ""; !strings.Contains(read, "\r\n\r\n"); {
					n, err := c.Read(buf)
					if err != nil {
						return
					}
					read += string(buf[:n])
				}
				serve(c)
			})
		}
	})
	return "http://" + l.Addr().String()
}

func newJob(i int, payload string) *client.Job {
	return &client.Job{ID: fmt.Sprintf("job-%d", i), Type: "mail", Client: "acme", Kind: client.Text, Payload: []byte(payload), RunAttempts: 1}
}

// ends collects the ends of runs.
type ends struct {
	mu   sync.Mutex
	list []task.End
	done []bool
}

// tasks returns a task for each job, and collects their ends.
func (e *ends) tasks(ctx context.Context, jobs []*client.Job) (tasks []*task.Task) {
	e.list, e.done = make([]task.End, len(jobs)), make([]bool, len(jobs))
	for i, j := range jobs {
		tasks = append(tasks, task.New(ctx, j, func(end task.End) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.list[i], e.done[i] = end, true
		}))
	}
	return tasks
}

// count returns how many tasks have ended.
func (e *ends) count() (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, done := range e.done {
		if done {
			n++
		}
	}
	return n
}

// run runs jobs as one batch. It fails the test if a job has not ended when Run returns.
func run(t testing.TB, ctx context.Context, e *Executor, jobs ...*client.Job) []task.End {
	t.Helper()
	var got ends
	e.Run(got.tasks(ctx, jobs))
	testkit.MustEqual(t, got.count(), len(jobs), "Run returned when", "of", "tasks had ended")
	return got.list
}

func want(t testing.TB, e task.End, code string, exit int, text string) {
	t.Helper()
	testkit.Holds(t, !e.Unget && e.Code == code && e.ExitCode == exit && strings.Contains(e.Error, text) && (e.Error == "" || code != "ok") &&
		(text != "" || e.Error == ""), "ended with", e.Code, e.ExitCode, e.Error, "(given back", e.Unget, ", not", code, exit, text)
}

func TestNew(t *testing.T) {
	for name, d := range map[string]handler.Document{
		"another kind":  {Kind: handler.Exec, Program: "a"},
		"no URL":        {Kind: handler.HTTP},
		"another URL":   {Kind: handler.HTTP, URL: "ftp://a/"},
		"a bad option":  {Kind: handler.HTTP, URL: "http://a/", Options: &handler.Options{InlineBytes: -1}},
		"no kind":       {URL: "http://a/"},
		"a URL of text": {Kind: handler.HTTP, URL: "http://a b/"},
	} {
		_, err := New(Settings{}, d)
		testkit.Holds(t, err != nil, name, "is accepted")
	}
	e, err := New(Settings{}, handler.Document{Kind: handler.HTTP, URL: "http://a/"})
	testkit.Holds(t, err == nil && cap(e.turns) == 10 && e.timeout == 120*time.Second && e.mostInline == 256<<10 &&
		e.mostOutput == 16<<20 && e.transport.Proxy == nil, "defaults", e, err)
}

// TestConnections: a handler has at most 10 requests and connections at a time, over all batches of all callers, and
// reuses its connections.
func TestConnections(t *testing.T) {
	for name, c := range map[string]struct {
		options handler.Options
		most    int
	}{
		"by default":       {handler.Options{}, 10},
		"with concurrency": {handler.Options{Concurrency: 3}, 3},
		"in batches":       {handler.Options{Batch: true}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var now, most, conns, open, mostOpen int
			full := make(chan struct{})
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				now++
				if most = max(most, now); now == c.most {
					select {
					case <-full:
					default:
						close(full)
					}
				}
				mu.Unlock()
				<-full // the first requests wait until as many run as may
				body, _ := io.ReadAll(r.Body)
				mu.Lock()
				now--
				mu.Unlock()
				io.WriteString(w, strings.Repeat("200\n", strings.Count(string(body), "\n")))
			}))
			s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				mu.Lock()
				defer mu.Unlock()
				switch state {
				case http.StateNew:
					conns++
					open++
					mostOpen = max(mostOpen, open)
				case http.StateClosed, http.StateHijacked:
					open--
				}
			}
			s.Start()
			defer s.Close()
			e := executor(t, s.URL, c.options)
			var callers sync.WaitGroup
			for range 25 {
				callers.Go(func() {
					var jobs []*client.Job
					for i := range 8 {
						jobs = append(jobs, newJob(i, "a"))
					}
					for _, end := range run(t, t.Context(), e, jobs...) {
						want(t, end, "ok", 200, "")
					}
				})
			}
			callers.Wait()
			mu.Lock()
			defer mu.Unlock()
			testkit.Holds(t, most == c.most && mostOpen <= c.most && conns <= 3*c.most, most, "requests, and", mostOpen,
				"connections, at a time", conns, "connections for all")
		})
	}
}

// TestNothingIsLeft: after Close, no goroutine of an executor is left, however its requests ended.
func TestNothingIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
	}))
	for _, path := range []string{"/", "/slow"} {
		for _, batch := range []bool{true, false} {
			e, err := New(Settings{Allow: loopback(t)}, handler.Document{Kind: handler.HTTP, URL: s.URL + path, Options: &handler.Options{Batch: batch, TimeoutMs: 50}})
			testkit.NoError(t, err)
			run(t, t.Context(), e, newJob(1, "a"), newJob(2, "b"), newJob(3, "c"))
			e.Close()
		}
	}
	close(release)
	s.Close()
	testkit.Eventually(t, "all goroutines of the executors have ended", func() bool { return runtime.NumGoroutine() <= before })
}
