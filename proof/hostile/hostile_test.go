package hostile

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/api"
	"github.com/daybookq/daybook/bench/rig"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/load"
	"github.com/daybookq/daybook/internal/load/works"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/proof/report"
)

var full = flag.Bool("full", false, "each attack on each route by itself, about 10 minutes; otherwise each on all routes at once")

// The targets:
const (
	mostResident = 256 << 20 // of a server that did little before
	// An attack on one route can fill one budget of package api, of at most 128 MiB. Uncollected garbage takes the same
	// amount again.
	mostMore = 256 << 20
	// mostNeverRead is how much more memory clients that never read may cost a server that did little before: a budget of
	// 128 MiB, and half of it in garbage, since the server collects when its heap has grown by half.
	mostNeverRead = 192 << 20
	// Large requests to several routes at once fill the budgets of bodies, documents, claims, changes and results.
	// Together these have 192 MiB.
	mostMoreLarge = 2 * 192 << 20
	mostSlower    = 2.0 // 99th percentile of honest claims during the attack, relative to the time without it
	leastPosts    = 0.8 // relative to the rate without the attack
	connections   = 500
	memory        = 1 << 30 // of the server, as docs/how-to/sizing.md requires
)

// quiet returns the load average of the machine. It fails the test if more processes than processors need one, since ratios of
// latencies then prove nothing.
func quiet(t *testing.T) float64 {
	t.Helper()
	average := testkit.Must(load.Average())(t)
	testkit.Holds(t, average <= float64(runtime.NumCPU()),
		"undecided: the load of the machine is", average, "on", runtime.NumCPU(), "processors; run -full on a quiet one")
	return average
}

// target is a server with large jobs, which the attacks request.
type target struct {
	*daybooktest.Process
	honest   *honest
	requests []*request // one for each route
	large    []*request
}

func begin(t *testing.T, files int) *target {
	t.Helper()
	return beginWith(t, files, nil)
}

// beginTLS is begin for a server that speaks TLS.
func beginTLS(t *testing.T) *target {
	t.Helper()
	authority := testkit.NewAuthority(t)
	cert, key := authority.Issue(t, "server")
	return beginWith(t, 0, &tls.Config{RootCAs: authority.Pool, ServerName: "localhost"}, "--tls-cert", cert, "--tls-key", key)
}

func beginWith(t *testing.T, files int, secure *tls.Config, args ...string) *target {
	t.Helper()
	if _, err := exec.LookPath("/bin/sh"); err != nil {
		t.Skipf("the attacks read /proc and need a shell: %v", err)
	}
	program, err := rig.Limited(t, memory, files)
	if err != nil {
		t.Logf("without a limit of memory: %v", err)
	}
	var log testkit.Log
	s := &daybooktest.Process{Binary: program, Data: t.TempDir(), Args: append([]string{"--log-level", "error"}, args...), Log: &log, TLS: secure}
	testkit.NoError(t, s.Start(t.Context()), &log)
	t.Cleanup(func() { testkit.Check(t, s.Stop(), "stop", &log) })
	b := &target{Process: s, honest: newHonest(s.URL(), secure)}
	// Post four pages of 8 MiB each.
	add := func(typ string, payload []byte) (firstID string) {
		text := testkit.Must(b.honest.post(t.Context(), "/victim/job/"+typ+"/add", "text/plain", payload))(t)
		_, rest, _ := strings.Cut(string(text), `"first_id":"`)
		firstID, _, _ = strings.Cut(rest, `"`)
		return firstID
	}
	payload := works.Lines(31, 256<<10-1)
	for range 4 {
		b.requests = requestsTo(add("large", payload))
	}
	b.large = largeRequests(add("huge", works.Lines(1, 4<<20)))
	return b
}

// largeRequests returns the largest possible requests, and requests for the largest answers: payloads of 4 MiB, a body
// full of outcomes, and a claim that waits with as many results as it may have.
func largeRequests(huge string) []*request {
	outcomes := func(n int) string {
		one := `{"job_id":"` + huge + `","code":"ok","claim_id":"` + huge + `"}`
		return "[" + one + strings.Repeat(","+one, n-1) + "]"
	}
	const most = 8 << 20
	full := most / len(outcomes(1))
	inRuns := fmt.Sprintf("#:complete v=1 claim_id=%s jobs=%d runs=1\n#:run job_id=%s n=%d code=ok\n", huge, job.MaxRunOutcomes, huge, job.MaxRunOutcomes)
	list := []*request{
		{what: "outcomes in runs", kind: runs.MediaType, route: api.Route{Method: "POST", Path: "/jobs/complete"}, body: inRuns},
		{what: "a job of 4 MiB", route: api.Route{Method: "GET", Path: "/jobs/" + huge}},
		{what: "a change of a job of 4 MiB", route: api.Route{Method: "POST", Path: "/jobs/" + huge + "/run"}, body: "{}"},
		{what: "a claim of 4 MiB", route: api.Route{Method: "POST", Path: "/jobs/claim"}, body: `{"runner_id":"hostile","clients":["victim"],"types":["huge"],"lease_ms":1000}`},
		{what: "a body full of outcomes", route: api.Route{Method: "POST", Path: "/jobs/complete"}, body: `{"outcomes":` + outcomes(full-1) + `}`},
		{what: "a claim that waits with a thousand results", route: api.Route{Method: "POST", Path: "/jobs/claim"}, body: `{"runner_id":"hostile","clients":["nobody"],"wait_ms":60000,"complete":` + outcomes(1000) + `}`},
		{what: "a claim with a body full of outcomes", route: api.Route{Method: "POST", Path: "/jobs/claim"}, body: `{"runner_id":"hostile","clients":["nobody"],"complete":` + outcomes(full-2) + `}`},
	}
	for _, r := range list {
		r.kind = cmp.Or(r.kind, "application/json")
		r.head = fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", r.route.Method, r.route.Path, r.kind, len(r.body))
	}
	return list
}

// TestLargeRequestsAreServed: the server would carry out the requests of the attacks if their clients read and wrote.
func TestLargeRequestsAreServed(t *testing.T) {
	if testing.Short() {
		t.Skip("short: the attacks of this package are left out")
	}
	b := begin(t, 0)
	for _, r := range b.large {
		least := 4 << 20
		switch r.what {
		case "outcomes in runs":
			least = job.MaxRunOutcomes * len(`{"job_id":""}`)
		case "a claim that waits with a thousand results":
			continue // the claim waits for a minute
		case "a claim with a body full of outcomes":
			if _, err := b.honest.post(t.Context(), r.route.Path, "application/json", []byte(r.body)); !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "the maximum in a claim request and in a stream is 1000") {
				t.Errorf("%s: %v", r.what, err)
			}
			continue
		case "a job of 4 MiB":
			resp := testkit.Must(http.Get(b.URL() + r.route.Path))(t)
			n := testkit.Must(io.Copy(io.Discard, resp.Body))(t)
			testkit.Holds(t, n >= 4<<20, r.what, n, "bytes")
			resp.Body.Close()
			continue
		}
		text := testkit.Must(b.honest.post(t.Context(), r.route.Path, r.kind, []byte(r.body)))(t)
		testkit.Holds(t, len(text) >= least, r.what, len(text), "bytes")
	}
}

// requestsTo makes a request for each route.
func requestsTo(id string) (list []*request) {
	bodies := map[string]string{
		"POST /jobs/create": `{"client":"victim","type":"posted","payload":"` + strings.Repeat("x", 60<<10) + `"}`,
		"POST /jobs/claim":  `{"runner_id":"hostile","clients":["victim"],"max":1000,"lease_ms":1000}`,
		"POST /jobs/tickle": `{"runner_id":"hostile"}`, "POST /jobs/complete": `{"claim_id":"` + id + `","status":"completed"}`,
		"POST /add": "x\n", "POST /:client/job/:type/add": "x\n",
	}
	effects := map[string]bool{"POST /stop": true, "POST /start": true, "POST /quit": true, "DELETE /jobs/:id": true, "DELETE /batches/:id": true, "DELETE /queues/:client/:type/jobs": true}
	for _, r := range api.Routes() {
		name := r.Method + " " + r.Path
		path := strings.NewReplacer(":id", id, ":client", "victim", ":type", "large", ":file", "swagger-ui-bundle.js").Replace(r.Path)
		body, given := bodies[name]
		if !given && r.Method != "GET" {
			body = "{}"
		}
		list = append(list, &request{
			route: r, body: body, effects: effects[name] || strings.HasPrefix(name, "GET /stop") || strings.HasPrefix(name, "GET /start") || strings.HasPrefix(name, "GET /quit"),
			head: fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", r.Method, path, len(body)),
		})
	}
	return list
}

// outcome is the result of an attack.
type outcome struct {
	calm, busy   window
	before, with usage // the maxima before the attack, and during it
	opened       int64
}

// under measures the honest clients without and with an attack, in turns.
func (b *target) under(t *testing.T, n int, a attack, requests []*request, turns int, d time.Duration) (o outcome) {
	t.Helper()
	for range turns {
		looking, looked := context.WithCancel(t.Context())
		before := make(chan usage, 1)
		go func() {
			l, _ := watch(looking, b.Process) // an error shows in the next request
			before <- l
		}()
		calm, err := b.honest.work(t.Context(), d)
		looked()
		o.before.most(<-before)
		testkit.NoError(t, err, "without an attack")
		o.calm.add(calm)

		ctx, cancel := context.WithCancel(t.Context())
		opened, loads, failed := make(chan int64, 1), make(chan usage, 1), make(chan error, 1)
		go func() { opened <- attackWith(ctx, b.Listen, b.TLS, n, a, requests) }()
		go func() {
			l, err := watch(ctx, b.Process)
			loads <- l
			failed <- err
		}()
		// Honest clients also work until all connections are open. If they pause for a second, the server may close their
		// connections, and on a busy machine a short sleep can take a second.
		opening, early := b.honest.work(t.Context(), d/4)
		busy, err := b.honest.work(t.Context(), d)
		cancel()
		busy.refused, busy.lost = busy.refused+opening.refused, busy.lost+opening.lost
		if err = errors.Join(early, err); err != nil {
			t.Errorf("%d × %s: honest clients: %d refused, %d without an answer; the first: %.300v", n, a.name, busy.refused, busy.lost, err)
		}
		o.busy.add(busy)
		o.opened += <-opened
		o.with.most(<-loads)
		testkit.NoError(t, <-failed)
	}
	return o
}

// bounds limits the resources that a server may take under an attack.
type bounds struct {
	more       int64 // bytes of memory, in addition to those before the attack
	goroutines int   // for each connection
}

// check checks that the server stayed within bounds under an attack by n connections.
func (o *outcome) check(t *testing.T, what string, n int, b bounds) {
	t.Helper()
	t.Log(o.row(what, n))
	memory := max(mostResident, o.before.resident+b.more)
	testkit.Holds(t, o.with.resident <= memory, what, "the server took", o.with.resident>>20, "MiB, more than", memory>>20)
	most := b.goroutines*n + 500
	testkit.Holds(t, o.with.goroutines <= most, what, o.with.goroutines, "goroutines, more than", most)
	most = 2*n + 500 // closed connections may linger for half a second
	testkit.Holds(t, o.with.descriptors <= most, what, o.with.descriptors, "descriptors, more than", most)
}

func (o *outcome) slower() float64 {
	return o.busy.claims.Quantile(.99).Seconds() / o.calm.claims.Quantile(.99).Seconds()
}

func (o *outcome) row(what string, n int) string {
	return fmt.Sprintf("| %s | %d | %d | %d → %d MiB | %d | %d | %.1f → %.1f ms | %.2f | %d | %d |\n", what, n, o.opened, o.before.resident>>20, o.with.resident>>20, o.with.goroutines, o.with.descriptors,
		o.calm.claims.Quantile(.99).Seconds()*1e3, o.busy.claims.Quantile(.99).Seconds()*1e3, o.busy.rate()/o.calm.rate(), o.busy.refused, o.busy.lost)
}

const rowHead = "| attack | connections | opened | resident, before → with | goroutines | descriptors | claim p99 of others | posts of others | refused | lost |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"

// TestHostileClients: each attack, with -full on each route, otherwise on all routes at once. Memory, goroutines and
// descriptors stay bounded, and honest clients can work.
func TestHostileClients(t *testing.T) {
	if testing.Short() {
		t.Skip("short: half a minute of attacks is left out")
	}
	b := begin(t, 0)
	d, turns := 2*time.Second, 1
	machine := 0.
	if *full {
		d, turns = 4*time.Second, 3
		machine = quiet(t)
	}
	var table strings.Builder
	table.WriteString(rowHead)
	more := int64(mostMore)
	check := func(what string, n int, o outcome) { t.Helper(); o.check(t, what, n, bounds{more, 6}) }
	var list []*request
	for _, r := range b.requests {
		if r.route == (api.Route{Method: "GET", Path: "/jobs"}) {
			list = []*request{r}
		}
	}
	fresh := b.under(t, connections, attacks[0], list, 1, 2*time.Second)
	check("never read `GET /jobs`, a fresh server", connections, fresh)
	table.WriteString(fresh.row("never read `GET /jobs`, a fresh server", connections))
	// The server's memory before the attack depends on how much the honest clients do in two seconds.
	if more := fresh.with.resident - fresh.before.resident; more > mostNeverRead {
		t.Errorf("a fresh server took %d MiB more for clients that never read; the bound is %d", more>>20, mostNeverRead>>20)
	}
	if !*full {
		turns = 0
	}
	reads := b.under(t, connections, attacks[0], list, turns, d)
	if *full {
		check("never read `GET /jobs`", connections, reads)
		table.WriteString(reads.row("never read `GET /jobs`", connections))
	}
	turns = max(turns, 1)
	writes := b.under(t, 2*connections, attacks[1], b.requests, turns, d)
	check("never write, all routes", 2*connections, writes)
	table.WriteString(writes.row("never write, all routes", 2*connections))
	for _, a := range attacks {
		if a.name == "never writes" {
			continue
		}
		o := b.under(t, connections, a, b.requests, 1, d)
		check(a.name+", all routes", connections, o)
		table.WriteString(o.row(a.name+", all routes", connections))
	}
	more = mostMoreLarge
	for _, a := range attacks {
		n := 10 * len(b.large) // each connection sends megabytes a second
		o := b.under(t, n, a, b.large, 1, d)
		check(a.name+", large requests", n, o)
		table.WriteString(o.row(a.name+", large requests", n))
	}
	more = mostMore
	if !*full {
		return // ratios over two seconds prove nothing
	}
	s := reads.slower()
	testkit.Holds(t, s <= mostSlower, "claims of others took", s, "× as long beside clients that never read")
	r := writes.busy.rate() / writes.calm.rate()
	testkit.Holds(t, r >= leastPosts, "posts of others went at", r, "of their rate beside clients that never write")
	var worst outcome
	worstOf := ""
	for _, r := range b.requests {
		for _, a := range attacks {
			o := b.under(t, connections, a, []*request{r}, 1, time.Second)
			name := fmt.Sprintf("%s, `%s %s`", a.name, r.route.Method, r.route.Path)
			check(name, connections, o)
			if o.with.resident > worst.with.resident {
				worst, worstOf = o, name
			}
		}
	}
	table.WriteString(worst.row("the most memory of all: "+worstOf, connections))
	report.Write(t, "hostile", table.String()+fmt.Sprintf("\nEach of %d routes under each of %d attacks by %d connections; all within their bounds of memory, goroutines and descriptors. The load of the machine was %.1f on %d processors before.\n", len(b.requests), len(attacks), connections, machine, runtime.NumCPU()))
}

// TestFewDescriptors: with 336 descriptors and a thousand connections the honest clients lose no request.
func TestFewDescriptors(t *testing.T) {
	if testing.Short() {
		t.Skip("short: ten seconds of attacks are left out; package cmd/daybook has a shorter test")
	}
	b := begin(t, 336)
	for _, a := range attacks {
		o := b.under(t, 1000, a, b.requests, 1, 2*time.Second)
		t.Log(o.row(a.name, 1000))
		testkit.Holds(t, o.busy.posts != 0 && len(o.busy.claims) != 0, a.name, o.busy.posts, "posts", len(o.busy.claims), "claims")
	}
}
