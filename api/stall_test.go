package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/proof/stallfs"
	"github.com/daybookq/daybook/store"
)

// startStalled runs a server whose store blocks all commits.
func startStalled(t *testing.T) *rig {
	t.Helper()
	dir := testkit.Must(os.MkdirTemp("", "stalled"))(t) // not t.TempDir: an engine that did not end writes for a moment
	gate := make(chan struct{})
	engine := testkit.Must(ingest.Open(ingest.Options{Dir: dir, CommitWait: 200 * time.Millisecond,
		Store: store.Options{FS: stallfs.New(gate), MemtableBytes: stallfs.MemtableBytes}}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	t.Cleanup(func() {
		close(gate)
		cancel()
		err := <-ended
		testkit.Holds(t, err == nil || errors.Is(err, ingest.ErrStuck), "engine", err)
		testkit.Eventually(t, "the engine writes no file any more", func() bool { return os.RemoveAll(dir) == nil })
	})
	r := startOn(t, setup{Options: Options{Log: zerolog.Nop()}, parts: partsOf(engine, engine.Queries())})
	testkit.Eventually(t, "the engine is ready", func() bool { return engine.Ready() == nil })
	lines := strings.Repeat(strings.Repeat("x", 100)+"\n", 1000)
	for engine.Ready() == nil {
		a := r.add("/acme/job/mail/add", lines)
		testkit.MustHold(t, a.status == http.StatusCreated || a.status == http.StatusServiceUnavailable, "add", a.status, a.body)
	}
	return r
}

// TestEveryRouteAnswersWhileTheStoreTakesNoCommit sends a request to each route of the table. Each request soon
// succeeds or is refused with a reason.
func TestEveryRouteAnswersWhileTheStoreTakesNoCommit(t *testing.T) {
	r := startStalled(t)
	const claimOne = `{"runner_id":"r","max":1}`
	bodies := map[string]string{ // for routes that refuse an empty body before they call the engine
		"/jobs/create":           `{"payload":"x"}`,
		"/add":                   "one line\n",
		"/:client/job/:type/add": "one line\n",
		"/jobs/claim":            claimOne,
		"/jobs/tickle":           `{"runner_id":"r"}`,
		"/jobs/:id/tickle":       `{"runner_id":"r"}`,
		"/jobs/complete":         `{"claim_id":"` + unknownID + `","status":"completed"}`,
		"/jobs/:id/complete":     `{"status":"completed"}`,
		"PATCH /jobs/:id":        `{"priority":3}`,
	}
	path := strings.NewReplacer(":id", unknownID, ":client", "acme", ":type", "mail", ":file", "index.html")
	var requests sync.WaitGroup
	for _, route := range r.server.routes() {
		for _, headers := range [][2]string{{}, {"Idempotency-Key", `"k` + route.path + `"`}} {
			body, given := bodies[route.method+" "+route.path]
			if !given {
				body = bodies[route.path]
			}
			requests.Go(func() {
				what := route.method + " " + route.path
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, route.method, r.url+path.Replace(route.path), strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				if strings.HasPrefix(body, "{") {
					req.Header.Set("Content-Type", "application/json")
				}
				if headers[0] != "" {
					req.Header.Set(headers[0], headers[1])
				}
				answer, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Errorf("%s: %v", what, err)
					return
				}
				defer answer.Body.Close()
				text, err := io.ReadAll(answer.Body)
				testkit.Check(t, err, what)
				var p struct{ Code, Detail string }
				if answer.StatusCode >= 500 && (answer.StatusCode != http.StatusServiceUnavailable || json.Unmarshal(text, &p) != nil || p.Code == "" || p.Detail == "") &&
					route.path != "/readyz" {
					t.Errorf("%s: %d %s", what, answer.StatusCode, text)
				}
			})
		}
	}
	requests.Wait()
}
