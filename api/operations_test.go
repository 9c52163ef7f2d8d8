package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

func (r *rig) delete(path string) reply { r.Helper(); return r.do(http.MethodDelete, path, nil) }

func (r *rig) patch(path, body string) reply {
	r.Helper()
	return r.do(http.MethodPatch, path, strings.NewReader(body), "Content-Type", "application/json")
}

func (r *rig) make(body string) string {
	r.Helper()
	return r.post("/jobs/create", body).object(http.StatusCreated)["job_id"].(string)
}

func TestMoveOne(t *testing.T) {
	r := start(t)
	waiting, deferred, active, ended := r.make(`{"type":"w"}`), r.make(`{"delay_ms":600000}`), r.make(`{"type":"a"}`), r.make(`{"type":"e"}`)
	claim := r.post("/jobs/claim", `{"runner_id":"r","types":["a"]}`).object(http.StatusOK)["claim_id"].(string)
	r.post("/jobs/claim", `{"runner_id":"r","types":["e"]}`).object(http.StatusOK)
	r.post("/jobs/"+ended+"/complete", `{"status":"completed"}`).object(http.StatusOK)

	want(t, r.post("/jobs/"+deferred+"/run", "").object(http.StatusOK), "status", "pending")
	want(t, r.post("/jobs/"+waiting+"/run", "{}").object(http.StatusOK), "status", "pending")
	r.post("/jobs/"+active+"/run", "").refused(http.StatusConflict, "job_active")
	r.post("/jobs/"+ended+"/run", "").refused(http.StatusConflict, "job_ended")
	r.post("/jobs/"+ended+"/cancel", "").refused(http.StatusConflict, "job_ended")
	r.post("/jobs/"+active+"/redrive", "").refused(http.StatusConflict, "job_not_ended")
	r.post("/jobs/"+active+"/cancel", `{"x":1}`).wrong("x")
	for _, verb := range []string{"cancel", "redrive", "run"} {
		r.post("/jobs/"+unknownID+"/"+verb, "").refused(http.StatusNotFound, "job_not_found")
		r.post("/jobs/5/"+verb, "").refused(http.StatusBadRequest, "bad_id")
	}

	o := r.post("/jobs/"+active+"/cancel", "").object(http.StatusOK)
	want(t, o, "status", "cancelled", "why", "cancelled", "claim_id", claim, "code", nil)
	attempts := o["attempts"].([]any)
	testkit.MustEqual(t, len(attempts), 1, attempts)
	want(t, attempts[0].(map[string]any), "why", "cancelled", "runner_id", "r", "code", nil)
	want(t, r.post("/jobs/"+active+"/cancel", "").object(http.StatusOK), "status", "cancelled")
	r.post("/jobs/"+active+"/tickle", `{"claim_id":"`+claim+`"}`).refused(http.StatusConflict, "cancelled")
	r.post("/jobs/"+active+"/complete", `{"claim_id":"`+claim+`","status":"completed"}`).refused(http.StatusConflict, "cancelled")
	r.post("/jobs/"+active+"/complete", `{"status":"completed"}`).refused(http.StatusConflict, "cancelled")
	lost := r.post("/jobs/tickle", `{"claim_id":"`+claim+`"}`).refused(http.StatusConflict, "cancelled")["lost"].([]any)
	want(t, lost[0].(map[string]any), "job_id", active, "code", "cancelled")

	o = r.post("/jobs/"+active+"/redrive", "").object(http.StatusOK)
	want(t, o, "status", "pending", "run_attempts", 0, "redrives", 1, "claim_id", nil, "why", nil)
	r.post("/jobs/"+active+"/complete", `{"claim_id":"`+claim+`","status":"completed"}`).refused(http.StatusConflict, "claim_lost")

	a := r.delete("/jobs/" + active)
	testkit.Holds(t, a.status == http.StatusNoContent && a.header.Get("Daybook-Seq") != "", a.status, a.body)
	r.delete("/jobs/"+active).refused(http.StatusNotFound, "job_not_found")
	r.get("/jobs/"+active).refused(http.StatusNotFound, "job_not_found")

	// A redrive does not change a job whose unique key another unfinished job has now.
	keyed := r.make(`{"type":"k","unique_key":"k"}`)
	r.post("/jobs/"+keyed+"/cancel", "").object(http.StatusOK)
	r.make(`{"type":"k","unique_key":"k"}`)
	r.post("/jobs/"+keyed+"/redrive", "").refused(http.StatusConflict, "key_held")
}

func TestPatch(t *testing.T) {
	r := start(t)
	id := r.make(`{"payload":"late"}`)
	other := r.make(`{"payload":"early","priority":5}`)
	want(t, r.patch("/jobs/"+id, `{"priority":9,"max_attempts":7}`).object(http.StatusOK), "priority", 9, "max_attempts", 7, "status", "pending")
	want(t, r.patch("/jobs/"+other, `{"run_at":253402300799999}`).object(http.StatusOK), "status", "deferred", "run_at", 253402300799999)
	want(t, r.patch("/jobs/"+other, `{"run_at":0}`).object(http.StatusOK), "status", "pending")
	want(t, r.post("/jobs/claim", `{"runner_id":"r"}`).object(http.StatusOK), "job_id", id, "priority", 9, "max_attempts", 7)
	r.patch("/jobs/"+id, `{"priority":1}`).refused(http.StatusConflict, "job_active")
	r.post("/jobs/"+id+"/complete", `{"code":"retry","delay_ms":0}`).object(http.StatusOK)
	r.patch("/jobs/"+id, `{"max_attempts":1}`).refused(http.StatusConflict, "attempts_used")
	want(t, r.patch("/jobs/"+id, `{"max_attempts":2}`).object(http.StatusOK), "max_attempts", 2, "run_attempts", 1)
	r.post("/jobs/"+id+"/cancel", "").object(http.StatusOK)
	r.patch("/jobs/"+id, `{"priority":1}`).refused(http.StatusConflict, "job_ended")
	r.patch("/jobs/"+unknownID, `{"priority":1}`).refused(http.StatusNotFound, "job_not_found")
	for body, field := range map[string]string{`{}`: "", `{"priority":10}`: "priority", `{"priority":-1}`: "priority", `{"run_at":-1}`: "run_at", `{"run_at":253402300800000}`: "run_at",
		`{"max_attempts":0}`: "max_attempts", `{"max_attempts":1001}`: "max_attempts", `{"payload":"x"}`: "payload"} {
		r.patch("/jobs/"+other, body).wrong(field)
	}
}

func TestMoveMany(t *testing.T) {
	r := start(t)
	batch := r.add("/acme/job/x/add", strings.Repeat("x\n", 10)).object(http.StatusCreated)["batch_id"].(string)
	o := r.post("/batches/"+batch+"/cancel", "").object(http.StatusOK)
	want(t, o, "sweep_id", nil, "operation", "cancel", "batch_id", batch, "client", nil, "type", nil, "status", nil, "moved", 10, "skipped", 0, "done", true)
	want(t, r.post("/queues/acme/x/redrive", "").object(http.StatusOK), "moved", 0, "status", "failed", "client", "acme", "type", "x")
	want(t, r.post("/batches/"+batch+"/redrive?status=cancelled", "").object(http.StatusOK), "moved", 10, "status", "cancelled")
	want(t, r.post("/queues/acme/x/cancel?status=pending", "").object(http.StatusOK), "moved", 10)
	want(t, r.delete("/queues/acme/x/jobs?status=pending").object(http.StatusOK), "moved", 0)
	want(t, r.delete("/queues/acme/x/jobs?status=all").object(http.StatusOK), "moved", 10)
	r.delete("/batches/"+batch).refused(http.StatusNotFound, "batch_not_found")
	r.post("/queues/acme/none/cancel", "").refused(http.StatusNotFound, "queue_not_found")
	r.delete("/queues/acme/x/jobs").wrong("status")
	for path, field := range map[string]string{"/queues/acme/x/cancel?status=failed": "status", "/queues/acme/x/redrive?status=pending": "status", "/queues/acme/x/redrive?status=all": "status",
		"/batches/" + batch + "/cancel?x=1": "x", "/batches/" + batch + "/cancel?status=pending&status=active": "status"} {
		r.post(path, "").wrong(field)
	}
	r.get("/sweeps/"+unknownID).refused(http.StatusNotFound, "sweep_not_found")
	r.get("/sweeps?x=1").wrong("x")
	want(t, r.get("/sweeps").object(http.StatusOK), "sweeps", "[]")
}

// TestSweep moves more jobs than one command can move. The answer has the path of the progress.
func TestSweep(t *testing.T) {
	r := start(t)
	const jobs = 3000
	items := make([]string, 1000)
	for i := range items {
		items[i] = fmt.Sprintf(`{"client":"acme","type":"x","priority":%d}`, i%2)
	}
	for range jobs / len(items) {
		r.post("/jobs/create", "["+strings.Join(items, ",")+"]").object(http.StatusCreated)
	}
	a := r.post("/queues/acme/x/cancel", "")
	o := a.object(http.StatusAccepted)
	place := a.header.Get("Location")
	testkit.MustEqual(t, place, "/sweeps/"+o["sweep_id"].(string), "Location of", o)
	want(t, o, "done", false, "operation", "cancel", "finished_at", nil)
	for o["done"] != true {
		o = r.get(place).object(http.StatusOK)
	}
	want(t, o, "moved", jobs, "skipped", 0, "client", "acme", "type", "x", "status", nil, "batch_id", nil)
	testkit.Equal(t, len(r.get("/sweeps").object(http.StatusOK)["sweeps"].([]any)), 1)
	want(t, r.get("/queues/acme/x").object(http.StatusOK)["counts"].(map[string]any), "cancelled", jobs, "pending", 0)
}

func TestSwitches(t *testing.T) {
	quits := make(chan bool, 1)
	r := start(t, func(o *setup) { o.Quit, o.GetSwitches = func() { quits <- true }, true })
	r.add("/add", "a\n")
	want(t, r.get("/stop").object(http.StatusOK), "stopped", true)
	a := r.post("/jobs/claim", `{"runner_id":"r"}`)
	testkit.Equal(t, a.status, http.StatusNoContent, a.body)
	want(t, r.get("/stats").object(http.StatusOK), "stopped", true)
	want(t, r.post("/start", "").object(http.StatusOK), "stopped", false)
	r.post("/jobs/claim", `{"runner_id":"r"}`).object(http.StatusOK)
	for _, path := range []string{"/start", "/stop", "/quit"} {
		for site, status := range map[string]int{"cross-site": 403, "same-site": 403, "none": 200, "same-origin": 200} {
			a := r.get(path, "Sec-Fetch-Site", site)
			testkit.Equal(t, a.status, status, path, "from", site, a.body)
			if path == "/quit" && status == 200 {
				<-quits
			}
		}
		r.do(http.MethodPut, path, nil).refused(http.StatusMethodNotAllowed, "method_not_allowed")
	}
	a = r.post("/quit", "")
	testkit.Holds(t, a.status == http.StatusOK && a.body == "Quit.\n" && <-quits, a.status, a.body)
	for _, name := range []string{"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP"} {
		r.post("/quit", "", name, "127.0.0.1").refused(http.StatusForbidden, "forbidden_peer")
	}
	for _, remote := range []string{"192.0.2.1:5", "[2001:db8::1]:5", "", "localhost:5"} {
		req := httptest.NewRequest(http.MethodPost, "/quit", nil)
		req.Host, req.RemoteAddr = "127.0.0.1", remote
		w := httptest.NewRecorder()
		r.server.Handler().ServeHTTP(patient{w}, req)
		testkit.Holds(t, w.Code == http.StatusForbidden && strings.Contains(w.Body.String(), "forbidden_peer"), "from", remote, w.Code, w.Body)
	}
	start(t).post("/quit", "").refused(http.StatusForbidden, "quit_disabled")
}

// TestGetChangesNothing: without the flag for it, no GET and no HEAD changes anything. This includes requests of a web
// page whose browser does not send Origin or Sec-Fetch-Site.
func TestGetChangesNothing(t *testing.T) {
	r := start(t, func(o *setup) { o.Quit = func() { t.Error("a GET ended the server") } })
	before := r.commands()
	for _, path := range []string{"/start", "/stop", "/quit"} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			if a := r.do(method, path, nil); a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") != "POST" {
				t.Errorf("%s %s: %d, Allow %q", method, path, a.status, a.header.Get("Allow"))
			}
		}
	}
	id := r.post("/jobs/create", `{}`).object(http.StatusCreated)["job_id"].(string)
	document := r.get("/jobs/" + id).body
	created := r.commands()
	testkit.Holds(t, created != before, "a create is not in the journal", before, "commands")
	param := regexp.MustCompile(`:\w+`)
	for _, route := range withHeads(r.server.routes()) {
		if route.method == http.MethodGet || route.method == http.MethodHead {
			r.do(route.method, param.ReplaceAllString(route.path, id), nil)
		}
	}
	testkit.Equal(t, r.get("/jobs/"+id).body, document)
	testkit.Equal(t, r.commands(), created, "commands after a GET")
	want(t, r.get("/stats").object(http.StatusOK), "stopped", false)
}

// TestStatusesOfSweeps: the parameter status has the statuses of the jobs that the operation accepts.
func TestStatusesOfSweeps(t *testing.T) {
	for op, parameter := range map[job.Op]any{job.Cancel: toCancel{}, job.Redrive: toRedrive{}, job.Delete: toDelete{}} {
		var names []string
		for _, status := range op.Takes() {
			names = append(names, status.String())
		}
		if op == job.Delete {
			names = append(names, "all")
		}
		testkit.Equal(t, reflect.TypeOf(parameter).Field(0).Tag.Get("enum"), strings.Join(names, ","), op)
	}
}
