package api

import (
	"bufio"
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

	"github.com/daybookq/daybook/api/internal/files"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// tried is a route, and a request that it accepts.
type tried struct {
	route
	path string // with values instead of parameters
	body string // body, if the route accepts one
	kind string // media type of the body
	// headers of each request, in pairs
	headers []string
}

func (o *tried) name() string {
	return o.method + " " + regexp.MustCompile(`:(\w+)`).ReplaceAllString(o.route.path, "{$1}")
}
func (o *tried) takesBody() bool {
	return o.method == http.MethodPost || o.method == http.MethodPatch || o.method == http.MethodPut
}

// takesLines reports whether the body of the operation has a job in each line.
func (o *tried) takesLines() bool {
	return o.route.path == "/add" || strings.HasSuffix(o.route.path, "/job/:type/add")
}

// streams reports whether the operation stores its body while the body arrives.
func (o *tried) streams() bool { return streamsBody(o.method, o.route.path) }

// ofBlobs reports whether the operation is about blobs, and therefore needs no engine.
func (o *tried) ofBlobs() bool {
	return strings.HasPrefix(o.route.path, "/blob") || strings.HasPrefix(o.route.path, "/uploads")
}

func (o *tried) ofUploads() bool { return strings.HasPrefix(o.route.path, "/uploads") }

// changes reports whether the operation writes a command to the journal.
func (o *tried) changes() bool {
	return (o.method != http.MethodGet || o.route.path == "/start" || o.route.path == "/stop") && o.route.path != "/quit" && o.route.path != "/jobs/:id/log"
}

// movesMany reports whether the operation can become a sweep.
func (o *tried) movesMany() bool {
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

// TestEveryDocumentedStatus: some request gets each status that the description lists for its operation. Each answer is
// also compared with the description, so the description lists each status that a request gets.
func TestEveryDocumentedStatus(t *testing.T) {
	testkit.OneByOne(t)
	t.Parallel() // the test waits for slow bodies and for full budgets
	engine := &faulty{}
	r := start(t, func(o *setup) {
		engine.Engine = o.engine
		o.engine, o.Quit, o.GetSwitches, o.now = engine, func() {}, true, func() time.Time { return time.Time{} } // no read becomes free
	})
	x := &everyStatus{
		rig: r, faults: engine, seen: &statuses{seen: map[string]map[int]bool{}}, byName: map[string]*tried{},
		id: r.add("/a/job/b/add", "x\n").object(http.StatusCreated)["first_id"].(string),
	}
	x.findOperations()
	x.refusals()
	x.stalls()
	x.failures()
	x.missing()
	x.states()
	x.runners()
	x.batches()
	x.sessions()
	x.backups()
	x.blobsAndFilesets()
	x.successes()
	x.keys()
	x.compare()
}

// everyStatus sends requests until each operation has answered with each of its statuses.
type everyStatus struct {
	*rig
	faults     *faulty
	seen       *statuses
	operations []tried
	byName     map[string]*tried
	id         string // of a job that has a batch
	session    string
	open       string // a batch that takes jobs
}

// do sends a request of an operation, and notes the status of the answer.
func (x *everyStatus) do(o *tried, path, body string, headers ...string) reply {
	x.Helper()
	var in io.Reader
	if o.takesBody() && body != "" {
		in = strings.NewReader(body)
		if !slices.Contains(headers, "Content-Type") {
			headers = append(headers, "Content-Type", o.kind)
		}
	}
	headers = append(slices.Clone(o.headers), headers...)
	a := x.rig.do(o.method, path, in, headers...)
	x.seen.note(o.name(), a.status)
	return a
}

// ask sends a request of the operation with a name, checks the status, and returns the object in the answer. In body,
// ID is replaced by the id of the job.
func (x *everyStatus) ask(name, body string, status int, headers ...string) map[string]any {
	x.Helper()
	o := x.byName[name]
	testkit.MustHold(x, o != nil, "no operation", name)
	a := x.do(o, o.path, strings.ReplaceAll(body, "ID", x.id), headers...)
	a.wantStatus(status)
	if !strings.HasPrefix(a.body, "{") {
		return nil
	}
	return a.object(status)
}

// findOperations finds all operations, with a request that each accepts.
func (x *everyStatus) findOperations() {
	bodies := map[string]string{
		"/jobs/create": `{"client":"a","type":"b"}`, "/add": "x\n", "/:client/job/:type/add": "x\n", "/jobs/claim": `{"runner_id":"r","types":["none"]}`,
		"/jobs/tickle": `{"claim_id":"ID"}`, "/jobs/complete": `{"outcomes":[]}`, "/jobs/:id/complete": `{"status":"completed"}`, "/jobs/:id/release": `{"how":"unget"}`, "/handlers/:type": `{"kind":"exec","program":"a"}`, "/:client/handler/:type/add": `{"lang":"sh","body":"handle() { cat; }"}`, "/:client/handler/add/:type/add": `{"lang":"sh","body":"handle() { cat; }"}`, "/jobs/:id": `{"priority":1}`,
		"/batches/:id/jobs": `{"payload":"x"}`, "/runners/:id": `{"instance":"i"}`, "/blobs/missing": `{"addresses":["` + addressOf("{}") + `"]}`,
		"/limits/:client": `{"queues":1000000}`, "/keys": `{"name":"b","roles":["admin"]}`,
	}
	upload := x.begin(20)
	x.open = x.newBatch(`{"batch":{"client":"a","type":"open","open":true}}`)
	for _, route := range append(x.server.routes(), x.server.getSwitches()...) {
		o := tried{route: route, kind: web.MIMEJSON, body: "{}"}
		if body, ok := bodies[route.path]; ok {
			o.body = strings.ReplaceAll(body, "ID", x.id)
		}
		o.path = strings.NewReplacer(":id", x.id, ":client", "a", ":type", "b", ":file", "page.js", ":address", addressOf("{}"), ":name", "b").Replace(route.path)
		if o.name() == "POST /batches/{id}/jobs" {
			o.path = "/batches/" + x.open + "/jobs"
		}
		if o.name() == "PUT /filesets/{name}" {
			o.kind, o.body = files.MIMETar, tarOf(x.T, "a", "A")
		}
		if route.method == http.MethodDelete && strings.HasSuffix(route.path, "/jobs") {
			o.path += "?status=all"
		}
		if o.ofUploads() {
			o.kind, o.headers = files.MIMEOffset, []string{"Upload-Length", "2", "Upload-Offset", "0"}
			o.path = strings.Replace(o.path, "/"+x.id, strings.TrimPrefix(upload, "/uploads"), 1)
		}
		if o.name() == "POST /jobs/{id}/log" {
			o.path, o.body, o.kind = o.path+"?offset=0&claim_id="+x.id, "printed", web.MIMEText
		}
		if o.name() == "DELETE /runners/{id}" {
			o.path += "?instance=i"
		}
		x.operations = append(x.operations, o)
	}
	x.nameOperations()
}

func (x *everyStatus) nameOperations() {
	for i := range x.operations {
		x.byName[x.operations[i].name()] = &x.operations[i]
	}
}

// newBatch creates a batch with attributes, and returns its id.
func (x *everyStatus) newBatch(body string) string {
	return x.post("/jobs/create", body).object(http.StatusCreated)["batch_id"].(string)
}

// batches has the statuses of batches with attributes.
func (x *everyStatus) batches() {
	ended := "/batches/" + x.newBatch(`{"batch":{"metadata":"m"}}`)
	for _, name := range []string{"cancel", "redrive", "resume", "jobs"} {
		o := x.byName["POST /batches/{id}/"+name]
		x.do(o, ended+"/"+name, o.body).refused(http.StatusConflict, "batch_ended")
	}
	metadata := x.byName["GET /batches/{id}/metadata"]
	a := x.do(metadata, ended+"/metadata", "")
	a.wantStatus(http.StatusOK)
	tag := a.header.Get("ETag")
	x.do(metadata, ended+"/metadata", "", "If-None-Match", tag).wantStatus(http.StatusNotModified)
	x.do(x.byName["GET /batches"], "/batches?name_prefix=a&after="+unknownID, "").wantStatus(http.StatusNotFound)
	testkit.NoError(x, x.server.resultReaders.places.Take(job.Owner{}, maxResultReaders, maxResultReaders))
	x.do(x.byName["GET /batches/{id}/results"], ended+"/results?follow=true", "").refused(http.StatusTooManyRequests, web.CodeOverloaded)
	x.server.resultReaders.places.Return("", maxResultReaders)
	x.do(x.byName["POST /batches/{id}/jobs"], "/batches/"+x.open+"/jobs", "{}").wantStatus(http.StatusCreated)
}

// refusals are the refusals of all operations before they call the engine.
func (x *everyStatus) refusals() {
	for i := range x.operations {
		o := &x.operations[i]
		plain, _, _ := strings.Cut(o.path, "?")
		if o.route.path != web.ReturnPath { // issuers add parameters
			x.do(o, plain+"?nonsense=1", "").wantStatus(http.StatusBadRequest)
		}
		x.do(o, o.path, o.body, "Host", "evil.example").wantStatus(http.StatusForbidden)
		if !o.takesBody() {
			continue
		}
		if o.takesLines() || o.streams() {
			x.do(o, o.path, o.body, "Content-Encoding", "br").wantStatus(http.StatusUnsupportedMediaType)
		} else {
			x.do(o, o.path, o.body, "Content-Type", "text/csv").wantStatus(http.StatusUnsupportedMediaType)
		}
		if o.streams() {
			long := strings.Repeat("x", maxTestBlob+1)
			if o.kind == files.MIMETar {
				long = tarOf(x.T, "a", long)
			}
			x.do(o, o.path, long).refused(http.StatusRequestEntityTooLarge, web.CodeTooLarge)
			continue
		}
		x.seen.note(o.name(), x.head(o, web.MaxBodyBytes+1, http.StatusRequestEntityTooLarge))
	}
}

// stalls are bodies that do not arrive, and then budgets of memory that stay full. Each takes seconds, so all
// operations wait at the same time.
func (x *everyStatus) stalls() {
	var all sync.WaitGroup
	for i := range x.operations {
		if o := &x.operations[i]; o.takesBody() {
			all.Go(func() { x.seen.note(o.name(), x.head(o, 10, http.StatusRequestTimeout)) })
		}
	}
	all.Wait()
	x.put("/filesets/b", tarOf(x.T, "a", "A")).wantStatus(http.StatusCreated)
	var hogs []*web.Share
	for _, lane := range slices.Concat(x.server.arriving.Lanes(), x.server.answered.Lanes()) {
		hog := &web.Share{Lane: lane}
		testkit.MustHold(x, hog.Grow(x.Context(), lane.Total(), 0), "the lane is not free")
		hogs = append(hogs, hog)
	}
	for i := range x.operations {
		o := &x.operations[i]
		if o.takesBody() {
			all.Go(func() { x.do(o, o.path, o.body).wantStatus(http.StatusTooManyRequests) })
		} else if !o.changes() && o.route.path != "/quit" {
			all.Go(func() { x.do(o, o.path, "") })
		}
	}
	all.Wait()
	for _, hog := range hogs {
		hog.Release()
	}
}

// failures are the failures of the engine.
func (x *everyStatus) failures() {
	faults := func(o *tried) []error {
		switch path := o.route.path; {
		case path == "/blobs/collect":
			return []error{store.ErrDamaged, ingest.ErrStale}
		case o.ofBlobs():
			return nil
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
	x.put("/blobs", "old").wantStatus(http.StatusCreated)
	x.blobs.wait(25 * time.Hour) // so that there is something to collect
	for i := range x.operations {
		o := &x.operations[i]
		for _, err := range faults(o) {
			x.faults.set(err)
			x.do(o, o.path, o.body)
			x.faults.set(nil)
		}
		if o.movesMany() {
			x.faults.set(job.TooManySweeps)
			x.do(o, o.path, o.body).refused(http.StatusTooManyRequests, "too_many_sweeps")
			x.faults.set(nil)
		}
	}
	x.faults.sweep = true
	for i := range x.operations {
		if o := &x.operations[i]; o.movesMany() {
			x.do(o, o.path, o.body).wantStatus(http.StatusAccepted)
		}
	}
	x.faults.sweep = false
}

// missing requests jobs, batches and other resources that do not exist.
func (x *everyStatus) missing() {
	for i := range x.operations {
		o := &x.operations[i]
		path := strings.NewReplacer(":id", unknownID, ":client", "none", ":type", "none", ":file", "none", ":address", addressOf("none"), ":name", "none").Replace(o.route.path)
		if path != o.route.path && !strings.HasSuffix(path, "/add") && o.method != http.MethodPut && o.name() != "POST /runners/{id}" {
			if _, query, ok := strings.Cut(o.path, "?"); ok {
				path += "?" + query
			}
			x.do(o, path, o.body).wantStatus(http.StatusNotFound)
		}
	}
}

// states has the statuses that depend on keys, claims and states.
func (x *everyStatus) states() {
	for _, name := range []string{"POST /add", "POST /{client}/job/{type}/add"} {
		x.ask(name, "a\n", http.StatusCreated, "Idempotency-Key", "k"+name)
		x.ask(name, "b\n", http.StatusUnprocessableEntity, "Idempotency-Key", "k"+name)
	}
	x.ask("POST /jobs/create", `{"unique_key":"u"}`, http.StatusCreated, "Idempotency-Key", "k")
	x.ask("POST /jobs/create", `{"unique_key":"v"}`, http.StatusUnprocessableEntity, "Idempotency-Key", "k")
	x.ask("POST /jobs/create", `{"unique_key":"u"}`, http.StatusOK)
	x.ask("POST /jobs/claim", `{"runner_id":"r","types":["b"],"strategy":"oldest","max":100}`, http.StatusOK, "Idempotency-Key", "c")
	x.ask("POST /jobs/claim", `{"runner_id":"r","max":2}`, http.StatusUnprocessableEntity, "Idempotency-Key", "c")
	x.ask("POST /jobs/claim", `{"runner_id":"r","types":["none"]}`, http.StatusNoContent)
	x.ask("POST /jobs/{id}/tickle", `{"claim_id":"`+unknownID+`"}`, http.StatusConflict)
	x.ask("POST /jobs/{id}/complete", `{"status":"failed","claim_id":"`+unknownID+`"}`, http.StatusConflict)
	x.ask("POST /jobs/{id}/release", `{"how":"retry","claim_id":"`+unknownID+`"}`, http.StatusConflict)
	x.ask("POST /jobs/complete", `{"status":"failed","claim_id":"`+unknownID+`"}`, http.StatusConflict)
	x.ask("POST /jobs/tickle", `{"claim_id":"`+unknownID+`"}`, http.StatusConflict)
	x.ask("POST /jobs/{id}/redrive", ``, http.StatusConflict)
	x.ask("POST /jobs/{id}/run", ``, http.StatusConflict)
	x.ask("PATCH /jobs/{id}", `{"priority":1}`, http.StatusConflict)
	x.ask("POST /jobs/tickle", `{"job_ids":["ID"]}`, http.StatusOK)
	x.ask("POST /jobs/{id}/tickle", ``, http.StatusOK)
	x.ask("POST /jobs/{id}/log", "printed", http.StatusConflict)
	claim := x.get("/jobs/" + x.id).object(http.StatusOK)["claim_id"].(string)
	x.do(x.byName["POST /jobs/{id}/log"], "/jobs/"+x.id+"/log?offset=0&claim_id="+claim, "printed").wantStatus(http.StatusNoContent)
	x.ask("GET /jobs/{id}/log", "", http.StatusOK)
	testkit.NoError(x, x.server.logs.readers.places.Take(job.Owner{}, maxLogReaders, maxLogReaders))
	x.do(x.byName["GET /jobs/{id}/log"], "/jobs/"+x.id+"/log?follow=true", "").refused(http.StatusTooManyRequests, web.CodeOverloaded)
	x.server.logs.readers.places.Return("", maxLogReaders)
	x.ask("POST /jobs/{id}/release", `{"how":"unget"}`, http.StatusOK)
	x.ask("PATCH /jobs/{id}", `{"priority":1}`, http.StatusOK)
	x.ask("POST /jobs/{id}/run", ``, http.StatusOK)
	x.ask("POST /jobs/claim", `{"runner_id":"r","types":["b"],"clients":["a"]}`, http.StatusOK)
	x.ask("POST /jobs/{id}/complete", `{"status":"failed"}`, http.StatusOK)
	x.ask("POST /jobs/complete", `{"outcomes":[]}`, http.StatusOK)
	x.ask("POST /jobs/{id}/cancel", ``, http.StatusConflict)
	x.ask("POST /jobs/{id}/redrive", ``, http.StatusOK)
	x.ask("POST /jobs/{id}/cancel", ``, http.StatusOK)
}

// runners has the statuses of heartbeats.
func (x *everyStatus) runners() {
	x.ask("POST /runners/{id}", `{"instance":"again"}`, http.StatusOK)
	x.ask("POST /runners/{id}", `{"instance":"other"}`, http.StatusConflict)
	x.do(x.byName["DELETE /runners/{id}"], "/runners/"+x.id+"?instance=other", "").wantStatus(http.StatusConflict)
}

// backups has the refusals of backups.
func (x *everyStatus) backups() {
	for err, status := range map[error]int{ingest.ErrBackupRunning: http.StatusConflict, ingest.ErrDiskFull: http.StatusInsufficientStorage} {
		x.faults.set(err)
		x.ask("GET /backup", "", status)
		x.faults.set(nil)
	}
	storage := x.server.blobs.Storage
	x.server.blobs.Storage = nil
	x.ask("GET /backup/clients", "", http.StatusNotImplemented)
	x.server.blobs.Storage = storage
}

// sessions uses sessions and their numbers, for each operation that supports them. The server refuses a wrong number before
// it changes anything.
func (x *everyStatus) sessions() {
	x.session = x.post("/sessions", "").object(http.StatusCreated)["session_id"].(string)
	for number, o := range slices.Backward(x.operations) {
		op := describedOf(x.T).doc.Paths.Value(strings.TrimPrefix(o.name(), o.method+" ")).GetOperation(o.method)
		if !slices.ContainsFunc(op.Parameters, func(p *openapi3.ParameterRef) bool { return p.Value.Name == "Daybook-Session" }) {
			continue
		}
		slot := []string{"Daybook-Session", x.session, "Daybook-Session-Slot", strconv.Itoa(number), "Daybook-Session-Number"}
		other := `{"runner_id":"other"}`
		switch path := o.route.path; {
		case o.takesLines():
			other = "other\n"
		case path == "/jobs/create", path == "/batches/:id/jobs":
			other = `{"payload":"other"}`
		case strings.HasSuffix(path, "/complete"):
			other = `{"outcomes":[{"job_id":"` + x.id + `","status":"failed"}]}`
			if path != "/jobs/complete" {
				other = `{"status":"failed","error":"other"}`
			}
		case strings.HasSuffix(path, "/release"):
			other = `{"how":"retry"}`
		}
		body := o.body
		switch o.route.path {
		case "/jobs/complete":
			body = `{"outcomes":[{"job_id":"` + x.id + `","status":"completed"}]}`
		case "/jobs/claim":
			body = `{"runner_id":"r"}` // a claim that finds a job: a claim in vain is not remembered
		}
		x.do(&o, o.path, body, append(slot, "2")...)
		x.do(&o, o.path, other, append(slot, "2")...).wantStatus(http.StatusUnprocessableEntity)
		x.do(&o, o.path, body, append(slot, "1")...).wantStatus(http.StatusConflict)
		x.do(&o, o.path, body, "Daybook-Session", unknownID, "Daybook-Session-Number", "1").wantStatus(http.StatusNotFound)
	}
}

// blobsAndFilesets has the statuses of blobs and of filesets.
func (x *everyStatus) blobsAndFilesets() {
	x.statusesOfBlobs(x.operations, x.do)

	storage := x.server.blobs.Storage
	x.server.blobs.Storage = nil
	x.ask("PUT /filesets/{name}", tarOf(x.T, "a", "A"), http.StatusNotImplemented)
	x.ask("GET /filesets/{name}", "", http.StatusNotImplemented)
	x.server.blobs.Storage = storage
	x.ask("PUT /filesets/{name}", tarOf(x.T, "a", "B"), http.StatusCreated)
	x.ask("PUT /filesets/{name}", tarOf(x.T, "a", "B"), http.StatusOK)
	x.ask("PUT /filesets/{name}", `{"format":1,"files":[{"path":"a","blob":"`+addressOf("none")+`","size":4}]}`, http.StatusConflict, "Content-Type", web.MIMEJSON)
}

// conditions changes handlers and filesets under a condition that does not hold.
func (x *everyStatus) conditions() {
	x.ask("PUT /handlers/{type}", `{"kind":"exec","program":"b"}`, http.StatusPreconditionFailed, "If-Match", `"999"`)
	x.ask("PUT /filesets/{name}", tarOf(x.T, "a", "C"), http.StatusPreconditionFailed, "If-Match", `"999"`)
	for _, name := range []string{"POST /{client}/handler/{type}/add", "POST /{client}/handler/add/{type}/add"} {
		x.ask(name, `{"lang":"sh","body":"handle() { exit; }"}`, http.StatusPreconditionFailed, "If-Match", `"999"`)
	}
	for _, name := range []string{"DELETE /handlers/{type}", "DELETE /filesets/{name}", "POST /{client}/handler/{type}/delete", "POST /{client}/handler/del/{type}/del"} {
		x.ask(name, "", http.StatusPreconditionFailed, "If-Match", `"999"`)
	}
}

// successes calls the operations that succeed in any state, with DELETE as the last.
func (x *everyStatus) successes() {
	x.ask("PUT /handlers/{type}", `{"kind":"exec","program":"a"}`, http.StatusCreated)
	x.ask("POST /{client}/handler/{type}/add", `{"lang":"sh","body":"handle() { cat; }"}`, http.StatusCreated)
	x.ask("POST /{client}/handler/{type}/add", `{"lang":"sh","body":"handle() { cat; }"}`, http.StatusOK)
	x.ask("POST /{client}/handler/add/{type}/add", `{"lang":"sh","body":"handle() { cat; } # 2"}`, http.StatusCreated)
	x.ask("POST /{client}/handler/add/{type}/add", `{"lang":"sh","body":"handle() { cat; } # 2"}`, http.StatusOK)
	version := x.ask("PUT /handlers/{type}", `{"kind":"exec","program":"a"}`, http.StatusOK)["handler_id"].(string)
	x.conditions()

	// Operations that succeed in any state, with DELETE as the last.
	slices.SortStableFunc(x.operations, func(a, b tried) int {
		return strings.Compare(strconv.FormatBool(a.method == http.MethodDelete), strconv.FormatBool(b.method == http.MethodDelete))
	})
	for i := range x.operations {
		o := &x.operations[i]
		if strings.HasPrefix(o.route.path, "/jobs/") && o.method == http.MethodPost || o.method == http.MethodPatch {
			continue
		}
		path := o.path
		switch {
		case strings.HasPrefix(o.route.path, "/keys"), strings.HasPrefix(o.route.path, "/limits"):
			continue // see keys
		case strings.HasPrefix(o.route.path, "/log"): // see keys, and TestLoginsOfPeople
			continue
		case o.route.path == "/sweeps/:id", o.route.path == "/stream", o.route.path == "/batches/:id/jobs":
			continue
		case o.route.path == "/runners/:id":
		case o.route.path == "/sessions/:id":
			path = "/sessions/" + x.session
		case o.route.path == "/handler-versions/:id":
			path = "/handler-versions/" + version
		case o.route.path == "/claims/:id":
			x.add("/add?jobtype=claimed", "x\n")
			path = "/claims/" + x.post("/jobs/claim", `{"runner_id":"r","types":["claimed"]}`).object(http.StatusOK)["claim_id"].(string)
		case o.route.path == "/jobs/:id/output":
			blob := x.rig.do(http.MethodPut, "/blobs", strings.NewReader("an output")).object(http.StatusCreated)["address"].(string)
			for _, outcome := range []string{`{"code":"ok"}`, `{"code":"ok","output_addr":"` + blob + `"}`, `{"code":"ok","output":"x"}`} {
				fresh := x.make(`{"type":"ended"}`)
				x.claimed("ended")
				x.do(o, "/jobs/"+fresh+"/output", "").wantStatus(http.StatusConflict)
				x.post("/jobs/"+fresh+"/complete", outcome).object(http.StatusOK)
				path = "/jobs/" + fresh + "/output"
				x.do(o, path, "")
				if strings.Contains(outcome, blob) {
					x.do(o, path, "", "Range", "bytes=0-1").wantStatus(http.StatusPartialContent)
					x.do(o, path, "", "Range", "bytes=99-").wantStatus(http.StatusRequestedRangeNotSatisfiable)
				}
			}
		case o.route.path == "/uploads/:id":
			path = x.begin(2)
		case o.route.path == "/jobs/:id/log":
			fresh := x.make(`{"type":"printed"}`)
			_, claim := x.claimed("printed")
			path = "/jobs/" + fresh + "/log"
			x.rig.do(http.MethodPost, path+"?offset=0&claim_id="+claim, strings.NewReader("printed"), "Content-Type", web.MIMEText).wantStatus(http.StatusNoContent)
		case strings.Contains(o.route.path, ":id"): // not deleted by an earlier operation
			fresh := x.add("/a/job/b/add", "x\n").object(http.StatusCreated)["first_id"].(string)
			path = strings.ReplaceAll(path, x.id, fresh)
		}
		a := x.do(o, path, o.body)
		testkit.Holds(x, a.status < 300 || a.status == http.StatusConflict, a.what, a.status, a.body) // a queue with jobs
		if tag := a.header.Get("ETag"); tag != "" && !o.takesBody() {
			x.do(o, path, "", "If-None-Match", tag).wantStatus(http.StatusNotModified)
		}
	}

	deleteQueue := &x.operations[slices.IndexFunc(x.operations, func(o tried) bool { return o.name() == "DELETE /queues/{client}/{type}" })]
	x.add("/empty/job/empty/add", "x\n")
	x.do(deleteQueue, "/queues/empty/empty", "").wantStatus(http.StatusConflict)
	x.rig.do(http.MethodDelete, "/queues/empty/empty/jobs?status=all", nil).object(http.StatusOK)
	x.do(deleteQueue, "/queues/empty/empty", "").wantStatus(http.StatusNoContent)
}

// keys creates keys, after all else, because from the first one on each request needs one.
func (x *everyStatus) keys() {
	x.nameOperations() // successes has sorted them
	for name, status := range map[string]int{"GET /limits/{client}": 404, "DELETE /limits/{client}": 404} {
		x.ask(name, "", status)
	}
	x.ask("PUT /limits/{client}", `{"unfinished":1000000}`, http.StatusOK)
	x.ask("GET /limits/{client}", "", http.StatusOK)
	x.ask("GET /limits", "", http.StatusOK)
	x.ask("DELETE /limits/{client}", "", http.StatusNoContent)
	for name, status := range map[string]int{"GET /keys/{name}": 404, "POST /keys/{name}/rotate": 404, "DELETE /keys/{name}": 404} {
		x.ask(name, "", status)
	}
	key := as(x.ask("POST /keys", `{"name":"b","roles":["admin"]}`, http.StatusCreated)["key"].(string))
	x.byName["POST /keys"].headers = key
	x.ask("POST /keys", `{"name":"b","roles":["admin"]}`, http.StatusConflict)
	x.byName["POST /keys"].headers = nil
	x.byName["POST /keys"].headers = key
	slow := as(x.ask("POST /keys", `{"name":"slow","roles":["admin"],"rates":{"reads":1,"streams":1}}`, http.StatusCreated)["key"].(string))
	x.byName["POST /keys"].headers = nil
	x.do(x.byName["GET /whoami"], "/whoami", "", slow...).wantStatus(http.StatusOK)
	held := testkit.Must(x.server.rates.Stream(x.engine.Key("slow")))(x)
	for i := range x.operations {
		if o := &x.operations[i]; access[o.id].NeedsKey() {
			x.do(o, o.path, o.body).wantStatus(http.StatusUnauthorized)
			if o.method == http.MethodGet {
				x.do(o, o.path, "", slow...).wantStatus(http.StatusTooManyRequests)
			}
		}
	}
	held()
	x.faults.replays.Store(true) // then not even a right key is accepted
	for i := range x.operations {
		if o := &x.operations[i]; access[o.id].NeedsKey() {
			x.do(o, o.path, o.body, key...).refused(http.StatusServiceUnavailable, "not_ready")
		}
	}
	x.faults.replays.Store(false)
	for _, name := range []string{"GET /keys", "GET /keys/{name}", "GET /whoami"} {
		x.do(x.byName[name], x.byName[name].path, "", key...).wantStatus(http.StatusOK)
	}
	x.logins(key)
	for range wrongKeysPerMinute {
		x.do(x.byName["GET /whoami"], "/whoami", "", as("wrong")...)
	}
	for i := range x.operations {
		if o := &x.operations[i]; access[o.id].NeedsKey() {
			x.do(o, o.path, o.body, as("wrong")...).wantStatus(http.StatusTooManyRequests)
		}
	}
	rotate, revoke := x.byName["POST /keys/{name}/rotate"], x.byName["DELETE /keys/{name}"]
	key = as(x.do(rotate, rotate.path, "{}", key...).object(http.StatusOK)["key"].(string))
	x.do(revoke, revoke.path, "", key...).wantStatus(http.StatusNoContent)
}

// logins logs in and out.
func (x *everyStatus) logins(key []string) {
	login, logout := x.byName["POST /login"], x.byName["POST /logout"]
	x.do(login, "/login", `{"key":"x"}`).wantStatus(http.StatusUnauthorized)
	text := strings.TrimPrefix(key[1], "Bearer ")
	in := x.do(login, "/login", `{"key":"`+text+`"}`)
	csrf := in.object(http.StatusOK)["csrf"].(string)
	x.do(logout, "/logout", "", key...).wantStatus(http.StatusBadRequest)
	x.do(logout, "/logout", "", "Cookie", cookieOf(in)).wantStatus(http.StatusForbidden)
	x.do(logout, "/logout", "", "Cookie", cookieOf(in), "Daybook-CSRF", csrf).wantStatus(http.StatusNoContent)
	x.do(x.byName["GET /login/callback"], "/login/callback?code=%FF", "").wantStatus(http.StatusBadRequest)
	for _, name := range []string{"GET /login", "GET /login/callback"} {
		x.do(x.byName[name], x.byName[name].path, "").wantStatus(http.StatusNotFound)
	}
}

// compare compares the statuses that were seen with the description.
func (x *everyStatus) compare() {
	elsewhere := map[string]string{"GET /sweeps/{id} 200": "TestSweep", "GET /stream 101": "TestStream", "GET /stream 503": "TestStreamAtShutdown"}
	for _, o := range []string{"GET /cluster 200", "POST /cluster/transfer 200", "POST /cluster/transfer 404", "POST /cluster/transfer 503", "DELETE /cluster/nodes/{node} 204", "DELETE /cluster/nodes/{node} 404", "DELETE /cluster/nodes/{node} 503"} {
		elsewhere[o] = "TestCluster"
	}
	for _, status := range []string{"POST /login 503", "POST /login 507", "POST /login 500", "POST /logout 503", "POST /logout 507", "POST /logout 500"} {
		elsewhere[status] = "TestLoginsWithoutStorage"
	}
	for _, status := range []string{"/login 303", "/login 503", "/login/callback 200", "/login/callback 401", "/login/callback 429", "/login/callback 500", "/login/callback 503", "/login/callback 507"} {
		elsewhere["GET "+status] = "TestLoginsOfPeople"
	}
	for _, path := range []string{"/start", "/stop", "/quit"} {
		elsewhere["GET "+path+" 405"] = "TestGetSwitchesAreOff"
	}
	// A programming error in a handler that does not call the engine. TestEngineErrors tests the errors of the engine.
	faultless := map[string]bool{"/": true, "/ping": true, "/healthz": true, "/readyz": true, "/version": true, "/metrics": true, "/openapi.yaml": true, "/openapi.json": true, "/docs": true, "/docs/{file}": true, "/quit": true, "/level": true, "/whoami": true, "/runners/{id}": true, "/backup/clients": true, "/cluster": true, "/cluster/transfer": true, "/cluster/nodes/{node}": true}
	for path, item := range describedOf(x.T).doc.Paths.Map() {
		for method, op := range item.Operations() {
			name := method + " " + path
			var described []int
			for status := range op.Responses.Map() {
				n := testkit.Must(strconv.Atoi(status))(x)
				described = append(described, n)
			}
			slices.Sort(described)
			for _, status := range described {
				testkit.Holds(x, x.seen.seen[name][status] || elsewhere[fmt.Sprint(name, " ", status)] != "" || status == 500 && faultless[path],
					name, "status", status, "is documented, and no request got it")
			}
			for status := range maps.Keys(x.seen.seen[name]) {
				testkit.Holds(x, slices.Contains(described, status), name, "status", status, "is not documented")
			}
		}
	}
}

// head sends a head that announces n bytes of a body, but sends no body. It checks and returns the status of the
// answer.
func (r *rig) head(o *tried, n int, want int) int {
	r.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		r.Error(err)
		return 0
	}
	defer c.Close()
	path := o.path
	more := ""
	for i := 0; i+1 < len(o.headers); i += 2 {
		more += o.headers[i] + ": " + strings.Replace(o.headers[i+1], "2", "20", 1) + "\r\n" // an upload needs all of the body
	}
	if _, err := fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n%s\r\n", o.method, path, o.kind, n, more); err != nil {
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
	testkit.Holds(r, err == nil || errors.Is(err, io.ErrUnexpectedEOF), err)
	testkit.Equal(r, resp.StatusCode, want, o.method, path, "with a head only", text)
	return resp.StatusCode
}
