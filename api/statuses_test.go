package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store"
)

// faulty is an engine that fails, or that starts a sweep for every operation on many jobs. Reads fail in CatchUp.
type faulty struct {
	parts
	mu    sync.Mutex
	err   error
	sweep bool
}

func (f *faulty) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *faulty) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *faulty) Create(ctx context.Context, c *job.Create) (store.Made, ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return store.Made{}, ingest.Receipt{}, err
	}
	return f.parts.Create(ctx, c)
}

func (f *faulty) StartCreate(ctx context.Context, c *job.Create) func() (store.Made, ingest.Receipt, error) {
	return func() (store.Made, ingest.Receipt, error) { return f.Create(ctx, c) }
}

func (f *faulty) ClaimAdmitted(ctx context.Context, c job.Claim, wait time.Duration, admit func(int64) error) (store.Claimed, []runs.Run, ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return store.Claimed{}, nil, ingest.Receipt{}, err
	}
	return f.parts.ClaimAdmitted(ctx, c, wait, admit)
}

func (f *faulty) Exchange(ctx context.Context, commands []job.Complete, c job.Claim) (*ingest.Exchange, error) {
	if err := f.failure(); err != nil {
		return nil, err
	}
	return f.parts.Exchange(ctx, commands, c)
}

func (f *faulty) Tickle(ctx context.Context, t job.Tickle) (store.Tickled, ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return store.Tickled{}, ingest.Receipt{}, err
	}
	return f.parts.Tickle(ctx, t)
}

func (f *faulty) Complete(ctx context.Context, c job.Complete) (store.Ended, ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return store.Ended{}, ingest.Receipt{}, err
	}
	return f.parts.Complete(ctx, c)
}

func (f *faulty) CompleteInOrder(ctx context.Context, commands []job.Complete) ([]store.Ended, ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return nil, ingest.Receipt{}, err
	}
	return f.parts.CompleteInOrder(ctx, commands)
}

func (f *faulty) Pause(ctx context.Context, p job.Pause) (store.Paused, ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return store.Paused{}, ingest.Receipt{}, err
	}
	return f.parts.Pause(ctx, p)
}

func (f *faulty) Move(ctx context.Context, m job.Move) (store.Moved, ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return store.Moved{}, ingest.Receipt{}, err
	}
	return f.parts.Move(ctx, m)
}

func (f *faulty) MoveAll(ctx context.Context, m job.Move) (store.Swept, ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return store.Swept{}, ingest.Receipt{}, err
	}
	if f.sweep {
		return store.Swept{Sweep: job.NewID(1, 1, 0)}, ingest.Receipt{Seq: 1, At: 1}, nil
	}
	return f.parts.MoveAll(ctx, m)
}

func (f *faulty) Patch(ctx context.Context, p job.Patch) (store.Moved, ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return store.Moved{}, ingest.Receipt{}, err
	}
	return f.parts.Patch(ctx, p)
}

func (f *faulty) Switch(ctx context.Context, s job.Switch) (store.Switched, ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return store.Switched{}, ingest.Receipt{}, err
	}
	return f.parts.Switch(ctx, s)
}

func (f *faulty) OpenSession(ctx context.Context, o job.OpenSession) (store.Session, ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return store.Session{}, ingest.Receipt{}, err
	}
	return f.parts.OpenSession(ctx, o)
}

func (f *faulty) EndSession(ctx context.Context, s job.EndSession) (ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return ingest.Receipt{}, err
	}
	return f.parts.EndSession(ctx, s)
}

func (f *faulty) PutHandler(ctx context.Context, p job.PutHandler) (store.HandlerPut, ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return store.HandlerPut{}, ingest.Receipt{}, err
	}
	return f.parts.PutHandler(ctx, p)
}

func (f *faulty) DeleteHandler(ctx context.Context, d job.DeleteHandler) (ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return ingest.Receipt{}, err
	}
	return f.parts.DeleteHandler(ctx, d)
}

func (f *faulty) DeleteQueue(ctx context.Context, d job.DeleteQueue) (store.QueueDeleted, ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return store.QueueDeleted{}, ingest.Receipt{}, err
	}
	return f.parts.DeleteQueue(ctx, d)
}

func (f *faulty) AcceptTime(ctx context.Context) (int64, error) {
	if err := f.failure(); err != nil {
		return 0, err
	}
	return f.parts.AcceptTime(ctx)
}

func (f *faulty) CatchUp(ctx context.Context, minSeq uint64) error {
	if err := f.failure(); err != nil {
		return err
	}
	return f.parts.CatchUp(ctx, minSeq)
}

func (f *faulty) Stats() ingest.Stats {
	if err := f.failure(); err != nil {
		panic(err) // only a programming error can cause it
	}
	return f.parts.Stats()
}

func (f *faulty) Ready() error {
	if err := f.failure(); err != nil {
		return err
	}
	return f.parts.Ready()
}

// operation is a route, and a request that it accepts.
type operation struct {
	route
	path string // with values instead of parameters
	body string // body, if the route accepts one
	kind string // media type of the body
}

func (o *operation) name() string {
	return o.method + " " + regexp.MustCompile(`:(\w+)`).ReplaceAllString(o.route.path, "{$1}")
}
func (o *operation) takesBody() bool {
	return o.method == http.MethodPost || o.method == http.MethodPatch || o.method == http.MethodPut
}

// takesLines reports whether the body of the operation has a job in each line.
func (o *operation) takesLines() bool {
	return o.route.path == "/add" || strings.HasSuffix(o.route.path, "/job/:type/add")
}

// changes reports whether the operation writes a command to the journal.
func (o *operation) changes() bool {
	return (o.method != http.MethodGet || o.route.path == "/start" || o.route.path == "/stop") && o.route.path != "/quit"
}

// movesMany reports whether the operation can become a sweep.
func (o *operation) movesMany() bool {
	switch o.method + " " + o.route.path[strings.LastIndexByte(o.route.path, '/'):] {
	case "POST /cancel", "POST /redrive", "DELETE /jobs":
		return !strings.HasPrefix(o.route.path, "/jobs/")
	}
	return o.method == http.MethodDelete && o.route.path == "/batches/:id"
}

// statuses are the statuses of the answers to each operation.
type statuses struct {
	mu   sync.Mutex
	seen map[string]map[int]bool
}

func (s *statuses) note(operation string, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[operation] == nil {
		s.seen[operation] = map[int]bool{}
	}
	s.seen[operation][status] = true
}

// TestEveryDocumentedStatus: a request can get each status that openapi.yaml lists for its operation. Each answer is
// also compared with openapi.yaml, so each status that a request gets is listed.
func TestEveryDocumentedStatus(t *testing.T) {
	t.Parallel() // the test waits for slow bodies and for full budgets
	engine := &faulty{}
	r := start(t, func(o *setup) {
		engine.parts = o.parts
		o.parts, o.Quit, o.GetSwitches = partsOf(engine, engine), func() {}, true
	})
	seen := &statuses{seen: map[string]map[int]bool{}}
	do := func(o *operation, path, body string, headers ...string) reply {
		t.Helper()
		var in io.Reader
		if o.takesBody() && body != "" {
			in = strings.NewReader(body)
			if !slices.Contains(headers, "Content-Type") {
				headers = append(headers, "Content-Type", o.kind)
			}
		}
		a := r.do(o.method, path, in, headers...)
		seen.note(o.name(), a.status)
		return a
	}

	bodies := map[string]string{
		"/jobs/create": `{"client":"a","type":"b"}`, "/add": "x\n", "/:client/job/:type/add": "x\n", "/jobs/claim": `{"runner_id":"r","types":["none"]}`,
		"/jobs/tickle": `{"claim_id":"ID"}`, "/jobs/complete": `{"outcomes":[]}`, "/jobs/:id/complete": `{"status":"completed"}`, "/jobs/:id/release": `{"how":"unget"}`, "/handlers/:type": `{"kind":"exec","program":"a"}`, "/:client/handler/:type/add": `{"lang":"sh","body":"handle() { cat; }"}`, "/jobs/:id": `{"priority":1}`,
		"/runners/:id": `{"instance":"i"}`,
	}
	id := r.add("/a/job/b/add", "x\n").object(http.StatusCreated)["first_id"].(string) // a job that has a batch
	var operations []operation
	byName := map[string]*operation{}
	for _, route := range append(r.server.routes(), r.server.getSwitches()...) {
		o := operation{route: route, kind: mimeJSON, body: "{}"}
		if body, ok := bodies[route.path]; ok {
			o.body = strings.ReplaceAll(body, "ID", id)
		}
		o.path = strings.NewReplacer(":id", id, ":client", "a", ":type", "b", ":file", "page.js").Replace(route.path)
		if route.method == http.MethodDelete && strings.HasSuffix(route.path, "/jobs") {
			o.path += "?status=all"
		}
		if o.name() == "DELETE /runners/{id}" {
			o.path += "?instance=i"
		}
		operations = append(operations, o)
	}
	for i := range operations {
		byName[operations[i].name()] = &operations[i]
	}

	// Refusals of any operation before the engine is called.
	for i := range operations {
		o := &operations[i]
		plain, _, _ := strings.Cut(o.path, "?")
		do(o, plain+"?nonsense=1", "").wantStatus(http.StatusBadRequest)
		do(o, o.path, o.body, "Host", "evil.example").wantStatus(http.StatusForbidden)
		if !o.takesBody() {
			continue
		}
		if o.takesLines() {
			do(o, o.path, o.body, "Content-Encoding", "br").wantStatus(http.StatusUnsupportedMediaType)
		} else {
			do(o, o.path, o.body, "Content-Type", "text/csv").wantStatus(http.StatusUnsupportedMediaType)
		}
		seen.note(o.name(), r.head(o, maxBodyBytes+1, http.StatusRequestEntityTooLarge))
	}

	// Bodies that do not arrive, and then memory budgets that stay full. Each takes seconds, so all operations wait at
	// the same time.
	var all sync.WaitGroup
	for i := range operations {
		if o := &operations[i]; o.takesBody() {
			all.Go(func() { seen.note(o.name(), r.head(o, 10, http.StatusRequestTimeout)) })
		}
	}
	all.Wait()
	var hogs []*share
	for budget, bytes := range map[*budget]int64{
		r.server.bulk: bulkBudgetBytes, r.server.control: controlBudgetBytes, r.server.documents: documentsBudgetBytes, r.server.handouts: handoutsBudgetBytes, r.server.changes: changesBudgetBytes,
	} {
		hog := &share{budget: budget}
		if !hog.grow(t.Context(), bytes, 0) {
			t.Fatal("the budget is not free")
		}
		hogs = append(hogs, hog)
	}
	for i := range operations {
		o := &operations[i]
		if o.takesBody() {
			all.Go(func() { do(o, o.path, o.body).wantStatus(http.StatusTooManyRequests) })
		} else if !o.changes() && o.route.path != "/quit" {
			all.Go(func() { do(o, o.path, "") })
		}
	}
	all.Wait()
	for _, hog := range hogs {
		hog.release()
	}

	// Failures of the engine.
	faults := func(o *operation) []error {
		switch path := o.route.path; {
		case o.changes():
			return []error{ingest.ErrWritesFailed, fmt.Errorf("%w: broken", ingest.ErrApply), fmt.Errorf("%w: %w", ingest.ErrNotStored, syscall.ENOSPC)}
		case path == "/readyz":
			return []error{ingest.ErrNotReady}
		case path == "/metrics":
			return nil
		default:
			return []error{store.ErrDamaged, ingest.ErrStale}
		}
	}
	for i := range operations {
		o := &operations[i]
		for _, err := range faults(o) {
			engine.set(err)
			do(o, o.path, o.body)
			engine.set(nil)
		}
		if o.movesMany() {
			engine.set(job.TooManySweeps)
			do(o, o.path, o.body).refused(http.StatusTooManyRequests, "too_many_sweeps")
			engine.set(nil)
		}
	}
	engine.sweep = true
	for i := range operations {
		if o := &operations[i]; o.movesMany() {
			do(o, o.path, o.body).wantStatus(http.StatusAccepted)
		}
	}
	engine.sweep = false

	// Jobs, batches and other resources that do not exist.
	for i := range operations {
		o := &operations[i]
		path := strings.NewReplacer(":id", unknownID, ":client", "none", ":type", "none", ":file", "none").Replace(o.route.path)
		if path != o.route.path && !strings.HasSuffix(path, "/add") && o.method != http.MethodPut && o.name() != "POST /runners/{id}" {
			if _, query, ok := strings.Cut(o.path, "?"); ok {
				path += "?" + query
			}
			do(o, path, o.body).wantStatus(http.StatusNotFound)
		}
	}

	// Keys, claims and states.
	ask := func(name, body string, status int, headers ...string) map[string]any {
		t.Helper()
		o := byName[name]
		if o == nil {
			t.Fatalf("no operation %s", name)
		}
		a := do(o, o.path, strings.ReplaceAll(body, "ID", id), headers...)
		a.wantStatus(status)
		if !strings.HasPrefix(a.body, "{") {
			return nil
		}
		return a.object(status)
	}
	for _, name := range []string{"POST /add", "POST /{client}/job/{type}/add"} {
		ask(name, "a\n", http.StatusCreated, "Idempotency-Key", "k"+name)
		ask(name, "b\n", http.StatusUnprocessableEntity, "Idempotency-Key", "k"+name)
	}
	ask("POST /jobs/create", `{"unique_key":"u"}`, http.StatusCreated, "Idempotency-Key", "k")
	ask("POST /jobs/create", `{"unique_key":"v"}`, http.StatusUnprocessableEntity, "Idempotency-Key", "k")
	ask("POST /jobs/create", `{"unique_key":"u"}`, http.StatusOK)
	ask("POST /jobs/claim", `{"runner_id":"r","types":["b"],"strategy":"oldest","max":100}`, http.StatusOK, "Idempotency-Key", "c")
	ask("POST /jobs/claim", `{"runner_id":"r","max":2}`, http.StatusUnprocessableEntity, "Idempotency-Key", "c")
	ask("POST /jobs/claim", `{"runner_id":"r","types":["none"]}`, http.StatusNoContent)
	ask("POST /jobs/{id}/tickle", `{"claim_id":"`+unknownID+`"}`, http.StatusConflict)
	ask("POST /jobs/{id}/complete", `{"status":"failed","claim_id":"`+unknownID+`"}`, http.StatusConflict)
	ask("POST /jobs/{id}/release", `{"how":"retry","claim_id":"`+unknownID+`"}`, http.StatusConflict)
	ask("POST /jobs/complete", `{"status":"failed","claim_id":"`+unknownID+`"}`, http.StatusConflict)
	ask("POST /jobs/tickle", `{"claim_id":"`+unknownID+`"}`, http.StatusConflict)
	ask("POST /jobs/{id}/redrive", ``, http.StatusConflict)
	ask("POST /jobs/{id}/run", ``, http.StatusConflict)
	ask("PATCH /jobs/{id}", `{"priority":1}`, http.StatusConflict)
	ask("POST /jobs/tickle", `{"job_ids":["ID"]}`, http.StatusOK)
	ask("POST /jobs/{id}/tickle", ``, http.StatusOK)
	ask("POST /jobs/{id}/release", `{"how":"unget"}`, http.StatusOK)
	ask("PATCH /jobs/{id}", `{"priority":1}`, http.StatusOK)
	ask("POST /jobs/{id}/run", ``, http.StatusOK)
	ask("POST /jobs/claim", `{"runner_id":"r","types":["b"],"clients":["a"]}`, http.StatusOK)
	ask("POST /jobs/{id}/complete", `{"status":"failed"}`, http.StatusOK)
	ask("POST /jobs/complete", `{"outcomes":[]}`, http.StatusOK)
	ask("POST /jobs/{id}/cancel", ``, http.StatusConflict)
	ask("POST /jobs/{id}/redrive", ``, http.StatusOK)
	ask("POST /jobs/{id}/cancel", ``, http.StatusOK)

	// Runners.
	ask("POST /runners/{id}", `{"instance":"again"}`, http.StatusOK)
	ask("POST /runners/{id}", `{"instance":"other"}`, http.StatusConflict)
	do(byName["DELETE /runners/{id}"], "/runners/"+id+"?instance=other", "").wantStatus(http.StatusConflict)

	// Sessions and their numbers, for each operation that supports them. The server refuses a wrong number before it
	// changes anything.
	session := r.post("/sessions", "").object(http.StatusCreated)["session_id"].(string)
	for number, o := range slices.Backward(operations) {
		op := describedOf(t).doc.Paths.Value(strings.TrimPrefix(o.name(), o.method+" ")).GetOperation(o.method)
		if !slices.ContainsFunc(op.Parameters, func(p *openapi3.ParameterRef) bool { return p.Value.Name == "Daybook-Session" }) {
			continue
		}
		slot := []string{"Daybook-Session", session, "Daybook-Session-Slot", strconv.Itoa(number), "Daybook-Session-Number"}
		other := `{"runner_id":"other"}`
		switch path := o.route.path; {
		case o.takesLines():
			other = "other\n"
		case path == "/jobs/create":
			other = `{"payload":"other"}`
		case strings.HasSuffix(path, "/complete"):
			other = `{"outcomes":[{"job_id":"` + id + `","status":"failed"}]}`
			if path != "/jobs/complete" {
				other = `{"status":"failed","error":"other"}`
			}
		case strings.HasSuffix(path, "/release"):
			other = `{"how":"retry"}`
		}
		body := o.body
		switch o.route.path {
		case "/jobs/complete":
			body = `{"outcomes":[{"job_id":"` + id + `","status":"completed"}]}`
		case "/jobs/claim":
			body = `{"runner_id":"r"}` // one that finds a job: a claim in vain is not remembered
		}
		do(&o, o.path, body, append(slot, "2")...)
		do(&o, o.path, other, append(slot, "2")...).wantStatus(http.StatusUnprocessableEntity)
		do(&o, o.path, body, append(slot, "1")...).wantStatus(http.StatusConflict)
		do(&o, o.path, body, "Daybook-Session", unknownID, "Daybook-Session-Number", "1").wantStatus(http.StatusNotFound)
	}

	ask("PUT /handlers/{type}", `{"kind":"exec","program":"a"}`, http.StatusCreated)
	ask("POST /{client}/handler/{type}/add", `{"lang":"sh","body":"handle() { cat; }"}`, http.StatusCreated)
	version := ask("PUT /handlers/{type}", `{"kind":"exec","program":"a"}`, http.StatusOK)["handler_id"].(string)

	// Operations that succeed in any state, with DELETE as the last.
	slices.SortStableFunc(operations, func(a, b operation) int {
		return strings.Compare(strconv.FormatBool(a.method == http.MethodDelete), strconv.FormatBool(b.method == http.MethodDelete))
	})
	for i := range operations {
		o := &operations[i]
		if strings.HasPrefix(o.route.path, "/jobs/") && o.method == http.MethodPost || o.method == http.MethodPatch {
			continue
		}
		path := o.path
		switch {
		case o.route.path == "/sweeps/:id", o.route.path == "/stream":
			continue
		case o.route.path == "/runners/:id":
		case o.route.path == "/sessions/:id":
			path = "/sessions/" + session
		case o.route.path == "/handler-versions/:id":
			path = "/handler-versions/" + version
		case o.route.path == "/claims/:id":
			r.add("/add?jobtype=claimed", "x\n")
			path = "/claims/" + r.post("/jobs/claim", `{"runner_id":"r","types":["claimed"]}`).object(http.StatusOK)["claim_id"].(string)
		case o.route.path == "/jobs/:id/output":
			for _, outcome := range []string{`{"code":"ok"}`, `{"code":"ok","output":"x"}`} {
				fresh := r.make(`{"type":"ended"}`)
				r.claimed("ended")
				do(o, "/jobs/"+fresh+"/output", "").wantStatus(http.StatusConflict)
				r.post("/jobs/"+fresh+"/complete", outcome).object(http.StatusOK)
				path = "/jobs/" + fresh + "/output"
				do(o, path, "")
			}
		case strings.Contains(o.route.path, ":id"): // what an operation before this one has not deleted
			fresh := r.add("/a/job/b/add", "x\n").object(http.StatusCreated)["first_id"].(string)
			path = strings.ReplaceAll(path, id, fresh)
		}
		a := do(o, path, o.body)
		if a.status >= 300 && a.status != http.StatusConflict { // a queue that has jobs
			t.Errorf("%s: %d %s", a.what, a.status, a.body)
		}
		if tag := a.header.Get("ETag"); tag != "" {
			do(o, path, "", "If-None-Match", tag).wantStatus(http.StatusNotModified)
		}
	}

	deleteQueue := &operations[slices.IndexFunc(operations, func(o operation) bool { return o.name() == "DELETE /queues/{client}/{type}" })]
	r.add("/empty/job/empty/add", "x\n")
	do(deleteQueue, "/queues/empty/empty", "").wantStatus(http.StatusConflict)
	r.do(http.MethodDelete, "/queues/empty/empty/jobs?status=all", nil).object(http.StatusOK)
	do(deleteQueue, "/queues/empty/empty", "").wantStatus(http.StatusNoContent)

	elsewhere := map[string]string{"GET /sweeps/{id} 200": "TestSweep", "GET /stream 101": "TestStream", "GET /stream 503": "TestStreamAtShutdown"}
	// A programming error in a handler that does not call the engine. TestEngineErrors tests the errors of the engine.
	faultless := map[string]bool{"/": true, "/ping": true, "/healthz": true, "/readyz": true, "/version": true, "/metrics": true, "/openapi.yaml": true, "/docs": true, "/docs/{file}": true, "/quit": true, "/runners/{id}": true}
	for path, item := range describedOf(t).doc.Paths.Map() {
		for method, op := range item.Operations() {
			name := method + " " + path
			var described []int
			for status := range op.Responses.Map() {
				n, err := strconv.Atoi(status)
				if err != nil {
					t.Fatal(err)
				}
				described = append(described, n)
			}
			slices.Sort(described)
			for _, status := range described {
				if !seen.seen[name][status] && elsewhere[fmt.Sprint(name, " ", status)] == "" && !(status == 500 && faultless[path]) {
					t.Errorf("%s: status %d is documented, and no request got it", name, status)
				}
			}
			for status := range maps.Keys(seen.seen[name]) {
				if !slices.Contains(described, status) {
					t.Errorf("%s: status %d is not documented", name, status)
				}
			}
		}
	}
}

// head sends a head that announces n bytes of a body, but sends no body. It checks and returns the status of the
// answer.
func (r *rig) head(o *operation, n int, want int) int {
	r.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		r.Error(err)
		return 0
	}
	defer c.Close()
	path, _, _ := strings.Cut(o.path, "?")
	if _, err := fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", o.method, path, o.kind, n); err != nil {
		r.Error(err)
		return 0
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		r.Errorf("%s %s with a head only: %v", o.method, path, err)
		return 0
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		r.Error(err)
	}
	if resp.StatusCode != want {
		r.Errorf("%s %s with a head only: %d %s, want %d", o.method, path, resp.StatusCode, text, want)
	}
	return resp.StatusCode
}
