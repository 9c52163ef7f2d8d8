package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

func TestWatching(t *testing.T) {
	engine := &notReady{}
	r := start(t, func(o *setup) {
		o.Build = Version{Version: "v1.2.3", Commit: "abc"}
		engine.Engine, o.engine = o.engine, engine
	})
	a := r.get("/ping")
	testkit.Holds(t, a.status == http.StatusOK && a.body == "pong" && a.header.Get("Content-Type") == "text/plain", a.status, a.body)
	want(t, r.get("/healthz").object(http.StatusOK), "status", "ok")
	want(t, r.get("/readyz").object(http.StatusOK), "status", "ready")
	want(t, r.get("/version").object(http.StatusOK), "version", "v1.2.3", "commit", "abc", "level", job.Level)
	o := r.get("/stats").object(http.StatusOK)
	for _, name := range []string{"appended", "synced", "applied", "flushed", "lag_commands", "jobs", "clock_offset_ms", "journal", "store"} {
		_, there := o[name]
		testkit.Holds(t, there, "/stats lacks", name)
	}
	for _, c := range []struct {
		err  error
		code string
	}{
		{ingest.ErrNotReady, "not_ready"},
		{fmt.Errorf("%w: disk on fire", ingest.ErrWritesFailed), "writes_failed"},
		{ingest.ErrClosed, "shutting_down"},
		{fmt.Errorf("%w: broken", ingest.ErrApply), "internal"},
		{errors.New("something else"), "not_ready"},
	} {
		engine.why = c.err
		want(t, r.get("/readyz").refused(http.StatusServiceUnavailable, c.code), "detail", c.err.Error())
	}
}

func TestReads(t *testing.T) {
	r := start(t)
	a := r.add("/c/job/t/add", "x\ny\n")
	o := a.object(http.StatusCreated)
	id := o["batch_id"].(string)
	t.Run("job", func(t *testing.T) {
		r.get("/jobs/"+unknownID).refused(http.StatusNotFound, "job_not_found")
		for _, bad := range []string{"x", strings.ReplaceAll(id, "-", ""), id + "0", "00000000-0000-4000-8000-00000000000G"} {
			want(t, r.get("/jobs/"+bad).refused(http.StatusBadRequest, "bad_id"), "field", "id")
		}
		// The server reads either case, and answers have lower case.
		for path, field := range map[string]string{"/jobs/": "job_id", "/batches/": "batch_id"} {
			want(t, r.get(path+strings.ToUpper(id)).object(http.StatusOK), field, id)
		}
		r.get("/jobs?batch_id=" + strings.ToUpper(id)).object(http.StatusOK)
		want(t, r.post("/jobs/complete", `{"outcomes":[{"job_id":"`+strings.ToUpper(unknownID)+`","code":"ok"}]}`).object(http.StatusOK)["results"].([]any)[0].(map[string]any), "job_id", unknownID)
		// A UUID of another system is an unknown id on all routes.
		for _, foreign := range []string{"00000000-0000-4000-8000-000000000000", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6BA7B810-9DAD-11D1-80B4-00C04FD430C8", "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "019ac0de-0000-7123-8000-000000000000"} {
			for path, code := range map[string]string{
				"/jobs/ID": "job", "/jobs/ID/output": "job", "/jobs/ID/log": "job", "/batches/ID": "batch", "/batches/ID/results": "batch", "/handler-versions/ID": "handler", "/claims/ID": "claim", "/sweeps/ID": "sweep",
			} {
				r.get(strings.Replace(path, "ID", foreign, 1)).refused(http.StatusNotFound, code+"_not_found")
			}
			for _, verb := range []string{"cancel", "redrive", "run", "tickle"} {
				r.do(http.MethodPost, "/jobs/"+foreign+"/"+verb, nil).refused(http.StatusNotFound, "job_not_found")
			}
			r.post("/jobs/"+foreign+"/complete", `{"code":"ok"}`).refused(http.StatusNotFound, "job_not_found")
			r.do(http.MethodDelete, "/jobs/"+foreign, nil).refused(http.StatusNotFound, "job_not_found")
		}
		// An id with the seq of a job and another time is not the id of the job.
		parsed := testkit.Must(job.ParseID(id))(t)
		r.get("/jobs/"+job.NewID(parsed.At()+1, uint64(parsed.LowSeq()), 0).String()).refused(http.StatusNotFound, "job_not_found")
		r.get("/jobs/"+parsed.WithLine(2).String()).refused(http.StatusNotFound, "job_not_found")
	})
	t.Run("batch", func(t *testing.T) {
		b := r.get("/batches/" + id).object(http.StatusOK)
		want(t, b, "batch_id", id, "count", 2, "purged", 0)
		want(t, b["counts"].(map[string]any), "pending", 2, "active", 0, "cancelled", 0)
		r.get("/batches/"+unknownID).refused(http.StatusNotFound, "batch_not_found")
		r.get("/batches/x").refused(http.StatusBadRequest, "bad_id")
	})
	t.Run("minimum seq", func(t *testing.T) {
		r.get("/batches/"+id, "Daybook-Min-Seq", a.header.Get("Daybook-Seq")).object(http.StatusOK)
		for _, path := range []string{"/jobs/" + id, "/batches/" + id, "/queues", "/queues/c/t"} {
			for _, bad := range []string{"x", "-1", "", "99999999999999999999"} {
				r.get(path, "Daybook-Min-Seq", bad).wrong("Daybook-Min-Seq")
			}
			r.get(path, "Daybook-Min-Seq", "1", "Daybook-Min-Seq", "1").wrong("Daybook-Min-Seq")
		}
	})
}

func TestQueues(t *testing.T) {
	r := start(t)
	want(t, r.get("/queues").object(http.StatusOK), "queues", "[]", "next", nil)
	for _, path := range []string{"/a/job/x/add", "/a/job/y/add", "/b/job/x/add"} {
		r.add(path, "1\n2\n").object(http.StatusCreated)
	}
	names := func(path string) (list []string, next any) {
		o := r.get(path).object(http.StatusOK)
		for _, q := range o["queues"].([]any) {
			q := q.(map[string]any)
			list = append(list, fmt.Sprintf("%s/%s", q["client"], q["type"]))
		}
		return list, o["next"]
	}
	for _, c := range []struct{ path, list, next string }{
		{"/queues", "[a/x a/y b/x]", "<nil>"},
		{"/queues?limit=2", "[a/x a/y]", "a/y"},
		{"/queues?limit=2&after=a/y", "[b/x]", "<nil>"},
		{"/queues?after=b/x", "[]", "<nil>"},
		{"/queues?client=a", "[a/x a/y]", "<nil>"},
		{"/queues?client=a&limit=1", "[a/x]", "a/x"},
		{"/queues?client=a&limit=1&after=a%2Fx", "[a/y]", "<nil>"},
		{"/queues?client=none&limit=1000", "[]", "<nil>"},
	} {
		list, next := names(c.path)
		testkit.Holds(t, fmt.Sprint(list) == c.list && fmt.Sprint(next) == c.next, c.path, list, "next", next)
	}
	for path, field := range map[string]string{
		"/queues?limit=0": "limit", "/queues?limit=1001": "limit", "/queues?limit=x": "limit", "/queues?limit=1&limit=1": "limit",
		"/queues?after=a": "after", "/queues?after=a/b/c": "after", "/queues?after=/b": "after", "/queues?client=a%20b": "client", "/queues?colour=red": "colour",
		"/queues?%zz": "", "/queues/a!/b": "client", "/queues/a/..": "type",
	} {
		r.get(path).wrong(field)
	}
	t.Run("one", func(t *testing.T) {
		o := r.get("/queues/a/x").object(http.StatusOK)
		want(t, o, "client", "a", "type", "x", "paused", false)
		want(t, o["counts"].(map[string]any), "pending", 2)
		age, err := o["oldest_pending_age_ms"].(json.Number).Int64()
		testkit.Holds(t, err == nil && age >= 0 && age <= 60000, "age", o["oldest_pending_age_ms"])
		r.get("/queues/a/z").refused(http.StatusNotFound, "queue_not_found")
	})
	t.Run("pause", func(t *testing.T) {
		for range 2 {
			want(t, r.do(http.MethodPost, "/queues/a/x/pause", nil).object(http.StatusOK), "paused", true)
		}
		want(t, r.get("/queues/a/x").object(http.StatusOK), "paused", true)
		r.post("/jobs/claim", `{"runner_id":"r","clients":["a"],"types":["x"]}`).wantStatus(http.StatusNoContent)
		a := r.post("/queues/a/x/resume", `{}`)
		want(t, a.object(http.StatusOK), "paused", false)
		testkit.Holds(t, a.header.Get("Daybook-Seq") != "", "no Daybook-Seq")
		r.do(http.MethodPost, "/queues/a/z/pause", nil).refused(http.StatusNotFound, "queue_not_found")
		r.post("/queues/a/x/pause", `{"until":1}`).wrong("until")
		r.do(http.MethodPost, "/queues/a/b!/pause", nil).wrong("type")
	})
	t.Run("without a pending job there is no age", func(t *testing.T) {
		r.post("/jobs/claim", `{"runner_id":"r","clients":["b"],"max":10}`).object(http.StatusOK)
		want(t, r.get("/queues/b/x").object(http.StatusOK), "oldest_pending_age_ms", nil)
	})
}

func TestEngineErrors(t *testing.T) {
	var failure error
	var log bytes.Buffer
	r := start(t, func(o *setup) {
		o.engine = creates{o.engine, func(*job.Create) (ingest.Receipt, error) {
			if failure == nil {
				panic("a broken invariant")
			}
			return ingest.Receipt{}, failure
		}}
		o.Log = zerolog.New(&log)
	})
	for _, c := range []struct {
		err           error
		status        int
		code, outcome string
	}{
		{ingest.ErrOverloaded, 429, "overloaded", "not_stored"},
		{ingest.ErrTooManyQueues, 429, "too_many_queues", "not_stored"},
		{&ingest.TooManyQueues{RetryAfter: 90 * time.Minute}, 429, "too_many_queues", "not_stored"},
		{job.TooManyQueues, 429, "too_many_queues", "not_stored"},
		{ingest.ErrTooManyParked, 429, "too_many_parked_claims", "not_stored"},
		{ingest.ErrTooManyKeys, 429, "too_many_keys", "not_stored"},
		{job.TooManySessions, 429, "too_many_sessions", "not_stored"},
		{job.TooManyHandlers, 429, "too_many_handlers", "not_stored"},
		{fmt.Errorf("propose create: %w: disk", ingest.ErrNotStored), 503, "writes_failed", "not_stored"},
		{fmt.Errorf("%w: %w", ingest.ErrNotStored, syscall.ENOSPC), 507, "disk_full", "not_stored"},
		{fmt.Errorf("%w: %w", ingest.ErrWritesFailed, syscall.ENOSPC), 507, "disk_full", "not_stored"},
		{ingest.ErrDiskFull, 507, "disk_full", "not_stored"},
		{ingest.ErrWritesFailed, 503, "writes_failed", "not_stored"},
		{ingest.ErrUnknown, 503, "writes_failed", "unknown"},
		{ingest.ErrClosed, 503, "shutting_down", "not_stored"},
		{ingest.ErrNotReady, 503, "not_ready", "not_stored"},
		{ingest.ErrStale, 503, "not_ready", "not_stored"},
		{fmt.Errorf("%w: payload 3", ingest.ErrMalformed), 400, "bad_request", "not_stored"},
		{ingest.ErrTooLarge, 413, "body_too_large", "not_stored"},
		{fmt.Errorf("%w: broken", ingest.ErrApply), 500, "internal", "stored"},
		{fmt.Errorf("%w: file x.sst; next step: restore it", store.ErrDamaged), 500, "store_damaged", "unknown"},
		{errors.New("a secret"), 500, "internal", "unknown"},
		{errors.Join(ingest.ErrUnknown, context.Canceled), 499, "client_gone", "unknown"},
		{errors.Join(ingest.ErrNotStored, context.Canceled), 499, "client_gone", "not_stored"},
		{nil, 500, "internal", "unknown"},
	} {
		t.Run(fmt.Sprint(c.err), func(t *testing.T) {
			failure = c.err
			log.Reset()
			a := r.add("/add", "secret payload\n")
			want(t, a.refused(c.status, c.code), "outcome", c.outcome)
			_, full := c.err.(*ingest.TooManyQueues)
			testkit.Holds(t, !full || a.header.Get("Retry-After") == "5400", "Retry-After", a.header.Get("Retry-After"))
			testkit.Holds(t, c.status != 500 || c.outcome != "unknown" || !strings.Contains(a.body, "secret"), "the answer has", a.body)
			testkit.Holds(t, c.err != nil || strings.Contains(log.String(), "a broken invariant"), "the log does not have the panic", log.String())
			calm := c.err == ingest.ErrClosed || c.err == ingest.ErrNotReady
			testkit.Holds(t, calm == strings.Contains(log.String(), `"level":"info"`) || c.status != 503, "log", &log)
			testkit.Holds(t, c.status != 500 || strings.Contains(log.String(), `"level":"error"`), "log", log.String())
			testkit.Lacks(t, log.String(), "secret payload")
		})
	}
	t.Run("after the change was stored", func(t *testing.T) {
		p := refusal.After(ingest.ErrStale)
		testkit.Equal(t, p.Fate, web.Stored, p)
		testkit.Equal(t, p.Code, "not_ready", p)
	})
}

func TestAccessLog(t *testing.T) {
	var log bytes.Buffer
	r := start(t, func(o *setup) { o.Log = zerolog.New(&log).Level(zerolog.InfoLevel) })
	r.stop() // so that nothing else writes to the journal
	log.Reset()
	r = startOn(t, setup{Options: Options{Log: zerolog.New(&log).Level(zerolog.InfoLevel)}, engine: r.engine})
	r.add("/add?client=hidden", "payload\n").object(http.StatusCreated)
	r.get("/queues?client=hidden").object(http.StatusOK)
	r.get("/jobs/x").refused(http.StatusBadRequest, "bad_id")
	r.stop()
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	testkit.MustHold(t, len(lines) == 2 && !strings.Contains(log.String(), "hidden") &&
		!strings.Contains(log.String(), "payload"), "log", log.String())
	var o map[string]any
	testkit.NoError(t, json.Unmarshal([]byte(lines[1]), &o))
	want(t, o, "level", "info", "method", "GET", "route", "/jobs/:id", "path", "/jobs/x", "status", 400, "code", "bad_id", "message", "request")
	for _, name := range []string{"took_ms", "bytes_in", "bytes_out", "remote"} {
		_, there := o[name]
		testkit.Holds(t, there, "the log lacks", name)
	}
}

// TestSecretsAreNotLogged: the id of an upload is in no line of the access log, at any level, nor in the text of an
// error.
func TestSecretsAreNotLogged(t *testing.T) {
	var log bytes.Buffer
	r := start(t, func(o *setup) { o.Log = zerolog.New(&log) })
	path := r.begin(3)
	id := strings.TrimPrefix(path, "/uploads/")
	r.get(path).wantStatus(http.StatusOK)
	r.append(path, 1, "x").refused(http.StatusConflict, "offset_differs")
	r.do(http.MethodPut, path, nil).wantStatus(http.StatusMethodNotAllowed)
	r.get(path + "/more").wantStatus(http.StatusNotFound)
	r.get("//" + path[1:]).wantStatus(http.StatusNotFound)
	r.blobs.fail(fmt.Errorf("%w: write uploads/resumable-%s", blob.ErrUnavailable, id))
	r.get(path).wantStatus(http.StatusServiceUnavailable)
	r.blobs.fail(nil)
	r.do(http.MethodDelete, path, nil).wantStatus(http.StatusNoContent)
	r.get("/filesets/uploads/history").wantStatus(http.StatusNotFound)
	r.stop()
	text := log.String()
	testkit.Lacks(t, text, id, id[1:])
	for _, part := range []string{`"route":"/uploads/:id"`, "resumable-(hidden)", `"path":"/uploads"`, `"path":"/filesets/uploads/history"`} {
		testkit.Contains(t, text, part)
	}
}

func TestQueueyQueueExchange(t *testing.T) {
	// The exact requests and answers in the documentation of queuey-queue.
	r := start(t)
	const binary, input = "68d5b5730b8c5e3a1bd0e5fd2a2ad1bd1f3b3965", "b1d5781111d84f7b3fe45a0852e59758cd7a87e5"
	o := r.post("/jobs/create", `{"binary_addr":"`+binary+`","input_addr":"`+input+`"}`).object(http.StatusCreated)
	want(t, o, "binary_addr", binary, "input_addr", input, "status", "pending", "completed_at", nil, "run_attempts", 0, "runner_id", nil)
	id := o["job_id"].(string)
	want(t, r.get("/jobs/"+id).object(http.StatusOK), "job_id", id, "binary_addr", binary, "created_at", o["created_at"], "updated_at", o["updated_at"])
	const runner = "9c4d5a6e-0d1c-4b1a-8f43-5a1c2f3f9e11"
	want(t, r.post("/jobs/claim", `{"runner_id":"`+runner+`"}`).object(http.StatusOK), "job_id", id, "status", "active", "run_attempts", 1, "runner_id", runner)
	testkit.Equal(t, r.post("/jobs/claim", `{"runner_id":"`+runner+`"}`).status, http.StatusNoContent, "second claim")
	r.do(http.MethodPost, "/jobs/"+unknownID+"/tickle", nil).refused(http.StatusNotFound, "job_not_found")
	want(t, r.do(http.MethodPost, "/jobs/"+id+"/tickle", nil).object(http.StatusOK), "status", "active")
	want(t, r.post("/jobs/"+id+"/complete", `{"status":"completed","output_addr":"`+input+`"}`).object(http.StatusOK), "status", "completed", "output_addr", input)
	r.do(http.MethodPost, "/jobs/"+id+"/tickle", nil).refused(http.StatusBadRequest, "job_not_active")
	r.post("/jobs/"+id+"/complete", `{"status":"failed"}`).refused(http.StatusBadRequest, "job_not_active")
}

// TestPathsOfMiniqHandlers: the paths in miniq's document and ours are the same routes. A handler that is stored in
// miniq's form creates jobs of all types.
func TestPathsOfMiniqHandlers(t *testing.T) {
	r := start(t)
	const body = `{"lang":"node","body":"function handle(p) {}"}`
	for i, paths := range [][3]string{{"/c/handler/add/x/add", "/c/handler/get/x/get", "/c/handler/del/x/del"}, {"/c/handler/x/add", "/c/handler/x/get", "/c/handler/x/delete"}} {
		r.post(paths[0], body).object(http.StatusCreated)
		o := r.get(paths[1]).object(http.StatusOK)
		want(t, o, "client", "c", "type", "x", "version", 1+2*i)
		list, _ := o["handler"].(map[string]any)["chain_types"].([]any)
		testkit.Holds(t, len(list) == 1 && list[0] == "*", o)
		r.do(http.MethodPost, paths[2], nil).wantStatus(http.StatusNoContent)
		r.get(paths[1]).refused(http.StatusNotFound, "handler_not_found")
	}
}
