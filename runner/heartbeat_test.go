package runner

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
)

// registered returns the server's document of the runner "r", or a zero one.
func (r *rig) registered() client.Runner {
	r.Helper()
	doc, err := r.Runner(r.Context(), "r")
	testkit.MustHold(r.T, err == nil || errors.Is(err, client.ErrNotFound), err)
	return doc
}

// TestRegistered: the server lists a runner as alive while it runs, and as ended afterwards.
func TestRegistered(t *testing.T) {
	r := start(t)
	s := r.settings(map[string]string{"x": "cat", "y": "cat"})
	s.UntilIdle, s.Labels, s.Version, s.Clients = 0, map[string]string{"zone": "a"}, "1.2", []string{"default"}
	_, stop := r.begin(s)
	r.until("it is registered", func() bool { return r.registered().State == client.RunnerAlive })
	got := r.registered()
	testkit.Holds(t, got.Slots == 4 && got.Labels["zone"] == "a" && got.Version == "1.2" && got.Name != "" &&
		strings.Join(got.Kinds, ",") == "exec" && len(got.Clients) == 1, got)
	stop()
	got = r.registered()
	testkit.Holds(t, got.State == client.RunnerDead && got.End == client.RunnerLeft, got)
}

// TestTypesAreRegistered: after a runner's types change, the server learns them long before the next regular heartbeat.
func TestTypesAreRegistered(t *testing.T) {
	r := start(t, "--runner-heartbeat", "10m")
	s := r.settings(map[string]string{"x": "cat", "y": "cat"})
	s.UntilIdle, s.Accept = 0, []string{handler.Exec}
	r.begin(s)
	r.until("it has two types", func() bool { return slices.Equal(r.registered().Types, []string{"x", "y"}) })
	r.put("", "z", handler.Document{Kind: handler.Exec, Program: "x"})
	r.until("it has another type", func() bool { return slices.Equal(r.registered().Types, []string{"x", "y", "z"}) })
	testkit.NoError(t, r.DeleteHandler(t.Context(), "", "z"))
	r.until("the type is gone", func() bool { return slices.Equal(r.registered().Types, []string{"x", "y"}) })
}

// TestOneProcessHoldsAnID: the server refuses a second runner with the same id, or lets it replace the first if it asks
// to.
func TestOneProcessHoldsAnID(t *testing.T) {
	r := start(t, "--runner-heartbeat", "1s")
	s := r.settings(map[string]string{"x": "cat"})
	s.UntilIdle = 0
	first := make(chan error, 1)
	go func() { first <- r.new(s).Run(t.Context()) }()
	r.until("it is registered", func() bool { return r.registered().State == client.RunnerAlive })
	testkit.Failed(t, r.new(s).Run(t.Context()), client.ErrRunnerTaken)
	s.Takeover = true
	w, stop := r.begin(s)
	testkit.Failed(t, <-first, client.ErrRunnerReplaced)
	r.add("x", "a")
	r.until("the job is done", func() bool { return w.Totals().Ended["ok"] == 1 })
	stop()
}

// TestLostRunner: a runner whose heartbeats do not arrive is declared lost. Its jobs go back to their queues. When the
// runner learns it, it ends its runs and continues as a new instance.
func TestLostRunner(t *testing.T) {
	r := start(t, "--runner-heartbeat", "1s")
	var silent atomic.Bool
	to := testkit.Must(url.Parse(r.server.URL))(t)
	proxy := httputil.NewSingleHostReverseProxy(to)
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if silent.Load() && strings.HasPrefix(req.URL.Path, "/runners/") {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		req.Host = to.Host
		proxy.ServeHTTP(w, req)
	}))
	defer between.Close()
	dir := t.TempDir()
	s := r.settings(map[string]string{"x": "touch " + dir + "/$(cat).$$; sleep 60"})
	s.Handlers["x"].Program.ReadWrite = []string{dir}
	s.Client, s.UntilIdle, s.DrainTimeout = client.New(between.URL, client.Options{}), 0, time.Second
	j, err := r.Create(t.Context(), client.NewJob{Type: "x", Payload: []byte("a"), Attributes: client.Attributes{Backoff: &client.Backoff{InitialMs: new(int64)}}})
	testkit.NoError(t, err)
	w, stop := r.begin(s)
	r.until("the server knows that the job runs", func() bool {
		tickled, err := r.TickleJobs(t.Context(), []string{j.ID}, client.TickleOptions{RunnerID: "r"})
		return err == nil && len(tickled.Lost) == 0 && w.Totals().Held == 1
	})
	silent.Store(true)
	attempts := func() []client.Attempt { got := testkit.Must(r.Job(t.Context(), j.ID))(t); return got.Attempts }
	r.until("the runner is lost", func() bool { return r.registered().End == client.RunnerLost })
	r.until("its run is lost", func() bool { return len(attempts()) > 0 })
	got := attempts()[0]
	testkit.Holds(t, got.Why == "runner_lost" && got.RunnerID == "r", got)
	silent.Store(false)
	r.until("it is registered again", func() bool { return r.registered().State == client.RunnerAlive })
	r.until("the first run has ended", func() bool { return w.Totals().Ended["lost"]+w.Totals().Ended["returned"] > 0 })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	testkit.Must(r.Cancel(ctx, j.ID))(t)
	stop()
}
