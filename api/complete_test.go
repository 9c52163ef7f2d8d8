package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// one creates a job, claims it, and returns its document.
func (r *rig) one() map[string]any {
	r.Helper()
	r.post("/jobs/create", `{"client":"one","payload":"x"}`).object(http.StatusCreated)
	return r.post("/jobs/claim", `{"runner_id":"r1","clients":["one"]}`).object(http.StatusOK)
}

func TestComplete(t *testing.T) {
	testkit.OneByOne(t)
	r := start(t)
	for _, c := range []struct {
		name, body string
		fields     []any
	}{
		{"completed", `{"status":"completed","output_addr":"there"}`, []any{"status", "completed", "code", "ok", "exit_code", 200, "output_addr", "there", "output", nil}},
		{"kind of an address", `{"code":"ok","output_addr":"there","output_addr_kind":"json"}`, []any{"output_addr", "there", "output_addr_kind", "json", "output", nil, "output_b64", nil}},
		{"log", `{"status":"failed","log_addr":"kept"}`, []any{"status", "failed", "log_addr", "kept", "output_addr", nil}},
		{"failed", `{"status":"failed","error":"it broke","process_exit":-9}`, []any{"status", "failed", "code", "failed", "exit_code", 400, "error", "it broke", "process_exit", -9}},
		{"by code", `{"code":"ok","output":"text"}`, []any{"status", "completed", "output", "text", "output_b64", nil}},
		{"by exit code", `{"exit_code":299,"output":{"a": 1}}`, []any{"status", "completed", "code", "ok", "exit_code", 299, "output", "map[a:1]"}},
		{"all three", `{"status":"failed","code":"failed","exit_code":404,"output_b64":"AA=="}`, []any{"exit_code", 404, "output_b64", "AA==", "output", nil}},
		{"retry", `{"code":"retry","delay_ms":3600000}`, []any{"status", "deferred", "code", "retry", "exit_code", 100}},
		{"error at once", `{"code":"error","delay_ms":0,"error":"again"}`, []any{"status", "pending", "code", "error", "exit_code", 500}},
		{"error by exit code", `{"exit_code":599,"delay_ms":3600000}`, []any{"status", "deferred", "code", "error", "exit_code", 599}},
		{"empty output", `{"code":"ok","output":""}`, []any{"output", ""}},
		{"nulls", `{"code":"ok","output":null,"error":null,"claim_id":null,"runner_id":null,"delay_ms":null}`, []any{"status", "completed", "output", nil}},
		{"largest", `{"code":"failed","error":"` + repeat(' ', job.MaxErrorBytes) + `","output":"` + repeat('o', job.MaxOutputBytes) + `","output_addr":"` + repeat('a', 4096) + `","log_addr":"` + repeat('a', 4096) + `","process_exit":4294967295}`,
			[]any{"status", "failed", "process_exit", 4294967295}},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := r.one()
			a := r.post("/jobs/"+j["job_id"].(string)+"/complete", c.body)
			want(t, a.object(http.StatusOK), c.fields...)
			testkit.Holds(t, a.header.Get("Daybook-Seq") != "", "no Daybook-Seq")
			testkit.Equal(t, r.get("/jobs/"+j["job_id"].(string)).body, a.body)
			r.post("/jobs/claim", `{"runner_id":"sweep","max":1000}`) // the next claim finds none of these
		})
	}
	t.Run("history", func(t *testing.T) {
		j := r.one()
		o := r.post("/jobs/"+j["job_id"].(string)+"/complete", `{"code":"error","error":"again","delay_ms":0}`).object(http.StatusOK)
		attempts := o["attempts"].([]any)
		testkit.MustEqual(t, len(attempts), 1)
		want(t, attempts[0].(map[string]any), "runner_id", "r1", "code", "error", "exit_code", 500, "error", "again", "why", "reported")
		r.post("/jobs/claim", `{"runner_id":"sweep","max":1000}`)
	})
	t.Run("fences", func(t *testing.T) {
		j := r.one()
		path := "/jobs/" + j["job_id"].(string) + "/complete"
		r.post(path, `{"code":"ok","claim_id":"`+unknownID+`"}`).refused(http.StatusConflict, "claim_lost")
		r.post(path, `{"code":"ok","runner_id":"r2"}`).refused(http.StatusConflict, "runner_differs")
		fenced := fmt.Sprintf(`{"code":"ok","claim_id":%q,"runner_id":"r1"}`, j["claim_id"])
		first := r.post(path, fenced)
		want(t, first.object(http.StatusOK), "status", "completed")
		again := r.post(path, fenced)
		testkit.Holds(t, again.body == first.body && again.status == http.StatusOK, "repeated", again.status, again.body)
		r.post(path, fmt.Sprintf(`{"code":"failed","claim_id":%q}`, j["claim_id"])).refused(http.StatusConflict, "outcome_differs")
		r.post(path, `{"code":"ok"}`).refused(http.StatusBadRequest, "job_not_active")
		r.post("/jobs/"+unknownID+"/complete", `{"code":"ok"}`).refused(http.StatusNotFound, "job_not_found")
		o := r.post("/jobs/nonsense/complete", `{"code":"ok"}`).refused(http.StatusBadRequest, "bad_id")
		want(t, o, "field", "id")
		o = r.post(path, `{"code":"ok","claim_id":"nonsense"}`).refused(http.StatusBadRequest, "bad_id")
		want(t, o, "field", "claim_id")
	})
	for _, c := range []struct{ name, body, field string }{
		{"empty", ``, ""},
		{"no outcome", `{}`, "code"},
		{"only an output", `{"output":"x"}`, "code"},
		{"status", `{"status":"done"}`, "status"},
		{"status active", `{"status":"active"}`, "status"},
		{"code", `{"code":"fine"}`, "code"},
		{"code unget", `{"code":"unget"}`, "code"},
		{"code damaged", `{"code":"damaged"}`, "code"},
		{"code in capitals", `{"code":"OK"}`, "code"},
		{"exit code of no class", `{"exit_code":300}`, "exit_code"},
		{"exit code 0", `{"exit_code":0}`, "exit_code"},
		{"exit code negative", `{"exit_code":-200}`, "exit_code"},
		{"exit code above", `{"exit_code":600}`, "exit_code"},
		{"exit code absurd", `{"exit_code":4294967496}`, "exit_code"},
		{"exit code of another class", `{"code":"ok","exit_code":404}`, "exit_code"},
		{"status and code", `{"status":"completed","code":"failed"}`, "code"},
		{"status and retry", `{"status":"failed","code":"error"}`, "code"},
		{"status and exit code", `{"status":"completed","exit_code":500}`, "exit_code"},
		{"delay with ok", `{"code":"ok","delay_ms":1}`, "delay_ms"},
		{"delay below", `{"code":"retry","delay_ms":-1}`, "delay_ms"},
		{"delay above", fmt.Sprintf(`{"code":"retry","delay_ms":%d}`, job.MaxDelayMs+1), "delay_ms"},
		{"process exit below", `{"code":"ok","process_exit":-2147483649}`, "process_exit"},
		{"process exit above", `{"code":"ok","process_exit":4294967296}`, "process_exit"},
		{"output address", `{"code":"ok","output_addr":"` + repeat('a', 4097) + `"}`, "output_addr"},
		{"kind without address", `{"code":"ok","output_addr_kind":"json"}`, "output_addr_kind"},
		{"kind of an empty address", `{"code":"ok","output_addr":"","output_addr_kind":"json"}`, "output_addr_kind"},
		{"kind of nothing", `{"code":"ok","output_addr":"a","output_addr_kind":"nothing"}`, "output_addr_kind"},
		{"kind wasi", `{"code":"ok","output_addr":"a","output_addr_kind":"wasi"}`, "output_addr_kind"},
		{"unknown kind", `{"code":"ok","output_addr":"a","output_addr_kind":"html"}`, "output_addr_kind"},
		{"log address", `{"code":"ok","log_addr":"` + repeat('a', 4097) + `"}`, "log_addr"},
		{"error", `{"code":"error","error":"` + repeat('e', job.MaxErrorBytes+1) + `"}`, "error"},
		{"output", `{"code":"ok","output":"` + repeat('o', job.MaxOutputBytes+1) + `"}`, "output"},
		{"both outputs", `{"code":"ok","output":"a","output_b64":"YQ=="}`, "output"},
		{"runner empty", `{"code":"ok","runner_id":""}`, "runner_id"},
		{"runner long", `{"code":"ok","runner_id":"` + repeat('r', 129) + `"}`, "runner_id"},
		{"job_id", `{"code":"ok","job_id":"` + unknownID + `"}`, "job_id"},
	} {
		t.Run(c.name, func(t *testing.T) { r.post("/jobs/"+unknownID+"/complete", c.body).wrong(c.field) })
	}
}

func TestCompleteMany(t *testing.T) {
	testkit.OneByOne(t)
	r := start(t)
	held := func(n int) map[string]any {
		r.add("/many/job/x/add", strings.Repeat("x\n", n)).object(http.StatusCreated)
		return r.post("/jobs/claim", fmt.Sprintf(`{"runner_id":"r","max":%d,"clients":["many"]}`, n)).object(http.StatusOK)
	}
	t.Run("a whole claim", func(t *testing.T) {
		claim := held(5)
		list := ids(claim)
		body := fmt.Sprintf(`{"claim_id":%q,"runner_id":"r","status":"completed","except":[{"job_id":%q,"code":"failed","error":"no"},{"job_id":%q,"code":"retry","delay_ms":0}]}`,
			claim["claim_id"], list[1], list[3])
		a := r.post("/jobs/complete", body)
		o := a.object(http.StatusOK)
		want(t, o, "ended", 3)
		results := o["results"].([]any)
		want(t, results[0].(map[string]any), "job_id", list[1], "status", "failed")
		want(t, results[1].(map[string]any), "job_id", list[3], "status", "pending")
		again := r.post("/jobs/complete", fmt.Sprintf(`{"claim_id":%q,"status":"completed"}`, claim["claim_id"]))
		want(t, again.object(http.StatusOK), "ended", 3, "results", "[]")
		r.post("/jobs/complete", fmt.Sprintf(`{"claim_id":%q,"runner_id":"s","status":"completed"}`, claim["claim_id"])).refused(http.StatusConflict, "runner_differs")
		r.post("/jobs/complete", `{"claim_id":"`+unknownID+`","status":"completed"}`).refused(http.StatusConflict, "claim_lost")
		r.post("/jobs/claim", `{"runner_id":"sweep","max":1000}`)
	})
	t.Run("a list", func(t *testing.T) {
		claim := held(2)
		list := ids(claim)
		o := r.post("/jobs/complete", fmt.Sprintf(`{"claim_id":%q,"outcomes":[{"job_id":%q,"code":"ok"},{"job_id":%q,"code":"ok","claim_id":%q},{"job_id":%q,"code":"ok"}]}`,
			claim["claim_id"], list[0], list[1], unknownID, unknownID)).object(http.StatusOK)
		results := o["results"].([]any)
		want(t, results[0].(map[string]any), "job_id", list[0], "status", "completed")
		want(t, results[1].(map[string]any), "job_id", list[1], "status", nil, "code", "claim_lost")
		want(t, results[2].(map[string]any), "job_id", unknownID, "status", nil, "code", "job_not_found")
		_, there := o["ended"]
		testkit.Holds(t, !there, "a list has no outcome for all")
		want(t, r.post("/jobs/complete", `{"outcomes":[]}`).object(http.StatusOK), "results", "[]")
	})
	t.Run("NDJSON", func(t *testing.T) {
		claim := held(3)
		list := ids(claim)
		send := func(lines ...string) reply {
			return r.do(http.MethodPost, "/jobs/complete", strings.NewReader(strings.Join(lines, "\n")), "Content-Type", "application/x-ndjson")
		}
		line := func(i int) string {
			return fmt.Sprintf(`{"job_id":%q,"code":"ok","claim_id":%q,"runner_id":"r"}`, list[i], claim["claim_id"])
		}
		o := send(line(0), "", `{"job_id":"`+list[1]+`","code":"fine"}`).wrong("code")
		detail := o["detail"].(string)
		testkit.Holds(t, strings.HasPrefix(detail, "line 3: "), "detail", detail)
		send(line(0), "not JSON").wrong("")
		send(line(0), `{"code":"ok"}`).wrong("job_id")
		want(t, r.get("/jobs/"+list[0]).object(http.StatusOK), "status", "active") // a malformed line applies nothing
		a := send(line(0), "", `{"job_id":"`+unknownID+`","code":"ok"}`+"\r", line(2), "")
		got := strings.Split(strings.TrimSuffix(a.body, "\n"), "\n")
		testkit.MustHold(t, a.status == http.StatusOK && a.header.Get("Content-Type") == "application/x-ndjson" && len(got) == 3, a.status, a.body)
		for i, text := range []string{
			fmt.Sprintf(`{"job_id":%q,"status":"completed"}`, list[0]),
			fmt.Sprintf(`{"job_id":%q,"status":null,"code":"job_not_found","detail":%q}`, unknownID, job.NotFound.Error()),
			fmt.Sprintf(`{"job_id":%q,"status":"completed"}`, list[2]),
		} {
			testkit.Equal(t, got[i], text, "line", i)
		}
	})
	t.Run("more than one command holds", func(t *testing.T) {
		var b strings.Builder
		var list []string
		for range 3 {
			claim := held(1000)
			for _, id := range ids(claim) {
				list = append(list, id)
				fmt.Fprintf(&b, `{"job_id":%q,"code":"ok"}`+"\n", id)
			}
		}
		a := r.do(http.MethodPost, "/jobs/complete", strings.NewReader(b.String()), "Content-Type", "application/x-ndjson")
		d := json.NewDecoder(strings.NewReader(a.body))
		for i, id := range list {
			var o map[string]any
			testkit.NoError(t, d.Decode(&o), "result", i)
			testkit.MustHold(t, o["job_id"] == id && o["status"] == "completed", "result", i, o)
		}
	})
	t.Run("the largest output for all", func(t *testing.T) {
		claim := held(2)
		o := r.post("/jobs/complete", fmt.Sprintf(`{"claim_id":%q,"code":"ok","output":%q}`, claim["claim_id"], repeat('o', job.MaxForAllBytes))).object(http.StatusOK)
		testkit.Equal(t, fmt.Sprint(o["ended"]), "2", "answered", o)
	})
	t.Run("texts that take thrice their room in the journal", func(t *testing.T) {
		claim := held(40)
		var items []string
		for _, id := range ids(claim) {
			items = append(items, fmt.Sprintf(`{"job_id":%q,"code":"failed","error":%q}`, id, repeat(' ', job.MaxErrorBytes)))
		}
		o := r.post("/jobs/complete", fmt.Sprintf(`{"claim_id":%q,"code":"ok","except":[%s]}`, claim["claim_id"], strings.Join(items, ","))).object(http.StatusOK)
		results := o["results"].([]any)
		testkit.Holds(t, len(results) == 40 && fmt.Sprint(o["ended"]) == "0", len(results), "results", o["ended"], "ended")
	})
	for _, c := range []struct{ name, body, field string }{
		{"nothing", `{}`, "outcomes"},
		{"only a claim", `{"claim_id":"` + unknownID + `"}`, "outcomes"},
		{"all without a claim", `{"code":"ok"}`, "claim_id"},
		{"all and a list", `{"code":"ok","outcomes":[]}`, "outcomes"},
		{"large output for all", `{"claim_id":"` + unknownID + `","code":"ok","output":"` + repeat('o', job.MaxForAllBytes+1) + `"}`, "output"},
		{"except and a list", `{"except":[],"outcomes":[]}`, "outcomes"},
		{"an output and a list", `{"output":1,"outcomes":[]}`, "outcomes"},
		{"except without job", `{"claim_id":"` + unknownID + `","code":"ok","except":[{"code":"ok"}]}`, "except[0].job_id"},
		{"except without outcome", `{"claim_id":"` + unknownID + `","code":"ok","except":[{"job_id":"` + unknownID + `"}]}`, "except[0].code"},
		{"except with a fence", `{"claim_id":"` + unknownID + `","code":"ok","except":[{"job_id":"` + unknownID + `","code":"ok","claim_id":null}]}`, "except[0].claim_id"},
		{"too many excepted", `{"claim_id":"` + unknownID + `","code":"ok","except":` + outcomes(1001) + `}`, "except"},
		{"outcome of the wrong type", `{"outcomes":[5]}`, "outcomes[0]"},
		{"outcome null", `{"outcomes":[null]}`, "outcomes[0].job_id"},
		{"bad runner in an outcome", `{"outcomes":[{"job_id":"` + unknownID + `","code":"ok","runner_id":""}]}`, "outcomes[0].runner_id"},
	} {
		t.Run(c.name, func(t *testing.T) { r.post("/jobs/complete", c.body).wrong(c.field) })
	}
	t.Run("bad id in a list", func(t *testing.T) {
		o := r.post("/jobs/complete", `{"outcomes":[{"job_id":"x","code":"ok"}]}`).refused(http.StatusBadRequest, "bad_id")
		want(t, o, "field", "outcomes[0].job_id")
	})
}

// breaks is an engine whose second Complete fails.
type breaks struct{ backend.Engine }

func (b *breaks) CompleteInOrder(ctx context.Context, commands []job.Complete) ([]applied.Ended, ingest.Receipt, error) {
	ended, receipt, err := b.Engine.CompleteInOrder(ctx, commands[:1])
	return ended, receipt, errors.Join(err, ingest.ErrNotStored)
}

func TestCompleteBreaksInTheMiddle(t *testing.T) {
	r := start(t, func(o *setup) { o.engine = &breaks{o.engine} })
	item := `{"job_id":"` + unknownID + `","code":"ok"}`
	o := r.post("/jobs/complete", `{"outcomes":[`+item+strings.Repeat(","+item, 1000)+`]}`).refused(http.StatusServiceUnavailable, "writes_failed")
	want(t, o, "outcome", "unknown")
	testkit.Holds(t, strings.Contains(o["detail"].(string), "first 1000"), "detail", o["detail"])
}

func TestRelease(t *testing.T) {
	r := start(t)
	path := func(j map[string]any) string { return "/jobs/" + j["job_id"].(string) + "/release" }
	j := r.one()
	want(t, r.post(path(j), `{"how":"unget"}`).object(http.StatusOK), "status", "pending", "run_attempts", 0, "code", nil, "runner_id", nil)
	j = r.post("/jobs/claim", `{"runner_id":"r"}`).object(http.StatusOK)
	r.post(path(j), `{"how":"unget","runner_id":"s"}`).refused(http.StatusConflict, "runner_differs")
	want(t, r.post(path(j), fmt.Sprintf(`{"how":"retry","delay_ms":0,"claim_id":%q}`, j["claim_id"])).object(http.StatusOK), "status", "pending", "run_attempts", 1, "code", "retry")
	j = r.post("/jobs/claim", `{"runner_id":"r"}`).object(http.StatusOK)
	want(t, r.post(path(j), `{"how":"archive"}`).object(http.StatusOK), "status", "completed", "code", "ok", "exit_code", 200)
	r.post(path(j), `{"how":"archive"}`).refused(http.StatusBadRequest, "job_not_active")
	r.post("/jobs/"+unknownID+"/release", `{"how":"unget"}`).refused(http.StatusNotFound, "job_not_found")
	for body, field := range map[string]string{
		`{}`: "how", `{"how":"drop"}`: "how", `{"how":"unget","delay_ms":1}`: "delay_ms", `{"how":"archive","delay_ms":1}`: "delay_ms",
		`{"how":"retry","delay_ms":-1}`: "delay_ms", `{"how":"retry","code":"ok"}`: "code",
	} {
		r.post(path(j), body).wrong(field)
	}
}

func TestJobGoneWithItsOutcome(t *testing.T) {
	r := start(t, func(o *setup) { o.engine = noJob{o.engine} })
	r.post("/jobs/create", `{"retention_ms":0}`).object(http.StatusCreated)
	j := r.post("/jobs/claim", `{"runner_id":"r"}`).object(http.StatusOK)
	o := r.post("/jobs/"+j["job_id"].(string)+"/complete", `{"code":"ok"}`).object(http.StatusOK)
	want(t, o, "job_id", j["job_id"], "status", "completed", "client", nil)
	for name := range j {
		_, there := o[name]
		testkit.Holds(t, there, name, "is missing")
	}
}

// TestRepeatOfACompletionWhoseJobIsGone: the answer to the completion of a job that is not kept was lost. The repeat
// gets this answer, in every form of the request.
func TestRepeatOfACompletionWhoseJobIsGone(t *testing.T) {
	r := start(t)
	r.post("/jobs/create", `[{"retention_ms":0},{"retention_ms":0}]`).object(http.StatusCreated)
	claimed := r.post("/jobs/claim", `{"runner_id":"r","max":2}`).object(http.StatusOK)
	claim := fmt.Sprint(claimed["claim_id"])
	var ids []string
	for _, j := range claimed["jobs"].([]any) {
		ids = append(ids, j.(map[string]any)["job_id"].(string))
	}
	first := "/jobs/" + ids[0] + "/complete"
	body := fmt.Sprintf(`{"code":"ok","claim_id":%q,"runner_id":"r"}`, claim)
	answer := r.post(first, body).object(http.StatusOK)
	both := fmt.Sprintf(`{"claim_id":%q,"outcomes":[{"job_id":%q,"code":"ok"},{"job_id":%q,"code":"failed"}]}`, claim, ids[0], ids[1])
	results := r.post("/jobs/complete", both).object(http.StatusOK)
	r.get("/jobs/"+ids[0]).refused(http.StatusNotFound, "job_not_found")

	testkit.Equal(t, fmt.Sprint(r.post(first, body).object(http.StatusOK)), fmt.Sprint(answer), "one", answer)
	testkit.Equal(t, fmt.Sprint(r.post("/jobs/complete", both).object(http.StatusOK)), fmt.Sprint(results), "several", results)
	all := fmt.Sprintf(`{"claim_id":%q,"code":"ok","except":[{"job_id":%q,"code":"failed"}]}`, claim, ids[1])
	want(t, r.post("/jobs/complete", all).object(http.StatusOK), "ended", 1)
	r.post(first, fmt.Sprintf(`{"code":"failed","claim_id":%q}`, claim)).refused(http.StatusConflict, "outcome_differs")
	r.post(first, fmt.Sprintf(`{"code":"ok","claim_id":%q,"runner_id":"s"}`, claim)).refused(http.StatusConflict, "runner_differs")
	r.post(first, `{"code":"ok"}`).refused(http.StatusNotFound, "job_not_found")
	r.post("/jobs/complete", fmt.Sprintf(`{"claim_id":%q,"code":"error"}`, claim)).refused(http.StatusConflict, "claim_lost")
}

func TestTickle(t *testing.T) {
	r := start(t)
	j := r.one()
	path := "/jobs/" + j["job_id"].(string) + "/tickle"
	t.Run("one", func(t *testing.T) {
		want(t, r.do(http.MethodPost, path, nil).object(http.StatusOK), "status", "active")
		want(t, r.post(path, `{}`).object(http.StatusOK), "status", "active")
		o := r.post(path, fmt.Sprintf(`{"claim_id":%q,"runner_id":"r1","lease_ms":5000,"step":"two","progress":0.25}`, j["claim_id"])).object(http.StatusOK)
		want(t, o, "step", "two", "progress", "0.25", "lease_ms", 5000)
		r.post(path, `{"claim_id":"`+unknownID+`"}`).refused(http.StatusConflict, "claim_lost")
		r.post(path, `{"runner_id":"r2"}`).refused(http.StatusConflict, "runner_differs")
		r.post("/jobs/"+unknownID+"/tickle", ``).refused(http.StatusNotFound, "job_not_found")
		r.do(http.MethodPost, "/jobs/x/tickle", nil).refused(http.StatusBadRequest, "bad_id")
		pending := r.post("/jobs/create", `{"client":"p"}`).object(http.StatusCreated)["job_id"].(string)
		r.do(http.MethodPost, "/jobs/"+pending+"/tickle", nil).refused(http.StatusBadRequest, "job_not_active")
		r.post("/jobs/"+pending+"/tickle", fmt.Sprintf(`{"claim_id":%q}`, j["claim_id"])).refused(http.StatusConflict, "claim_lost")
	})
	t.Run("many", func(t *testing.T) {
		id := j["job_id"].(string)
		for _, body := range []string{fmt.Sprintf(`{"claim_id":%q}`, j["claim_id"]), `{"runner_id":"r1"}`, fmt.Sprintf(`{"claim_id":%q,"runner_id":"r1"}`, j["claim_id"]),
			fmt.Sprintf(`{"job_ids":[%q],"claim_id":%q,"step":"three","progress":1}`, id, j["claim_id"])} {
			want(t, r.post("/jobs/tickle", body).object(http.StatusOK), "held", 1, "lost", "[]")
		}
		want(t, r.get("/jobs/"+id).object(http.StatusOK), "step", "three", "progress", 1)
		o := r.post("/jobs/tickle", fmt.Sprintf(`{"job_ids":[%q,%q]}`, id, unknownID)).object(http.StatusOK)
		want(t, o, "held", 1)
		want(t, o["lost"].([]any)[0].(map[string]any), "job_id", unknownID, "code", "job_not_found")
		o = r.post("/jobs/tickle", `{"job_ids":["`+unknownID+`"]}`).refused(http.StatusConflict, "claim_lost")
		want(t, o["lost"].([]any)[0].(map[string]any), "job_id", unknownID, "code", "job_not_found")
		o = r.post("/jobs/tickle", `{"claim_id":"`+unknownID+`"}`).refused(http.StatusConflict, "claim_lost")
		want(t, o, "lost", "[]")
		r.post("/jobs/tickle", fmt.Sprintf(`{"claim_id":%q,"runner_id":"r2"}`, j["claim_id"])).refused(http.StatusConflict, "runner_differs")
	})
	t.Run("longest list", func(t *testing.T) {
		list := func(n int) string {
			return `{"job_ids":["` + unknownID + `"` + strings.Repeat(`,"`+unknownID+`"`, n-1) + `]}`
		}
		r.post("/jobs/tickle", list(1000)).refused(http.StatusConflict, "claim_lost")
		r.post("/jobs/tickle", list(1001)).wrong("job_ids")
	})
	for _, c := range []struct{ name, body, field string }{
		{"no selector", `{}`, "job_ids"},
		{"empty list", `{"job_ids":[]}`, "job_ids"},
		{"step of a claim", `{"claim_id":"` + unknownID + `","step":"x"}`, "step"},
		{"progress of a runner", `{"runner_id":"r","progress":0.5}`, "progress"},
		{"step long", `{"job_ids":["` + unknownID + `"],"step":"` + repeat('s', 1025) + `"}`, "step"},
		{"progress below", `{"job_ids":["` + unknownID + `"],"progress":-0.1}`, "progress"},
		{"progress above", `{"job_ids":["` + unknownID + `"],"progress":1.1}`, "progress"},
		{"progress absurd", `{"job_ids":["` + unknownID + `"],"progress":1e999}`, "progress"},
		{"progress of the wrong type", `{"job_ids":["` + unknownID + `"],"progress":"half"}`, "progress"},
		{"lease below", `{"runner_id":"r","lease_ms":999}`, "lease_ms"},
		{"lease above", `{"runner_id":"r","lease_ms":86400001}`, "lease_ms"},
		{"unknown", `{"runner":"r"}`, "runner"},
	} {
		t.Run(c.name, func(t *testing.T) { r.post("/jobs/tickle", c.body).wrong(c.field) })
	}
	t.Run("bad id", func(t *testing.T) {
		o := r.post("/jobs/tickle", `{"job_ids":["`+unknownID+`","x"]}`).refused(http.StatusBadRequest, "bad_id")
		want(t, o, "field", "job_ids[1]")
		o = r.post("/jobs/tickle", `{"job_ids":[null]}`).refused(http.StatusBadRequest, "bad_id")
		want(t, o, "field", "job_ids[0]")
	})
	t.Run("step at the limit", func(t *testing.T) {
		want(t, r.post(path, `{"step":"`+repeat('s', 1024)+`","progress":0}`).object(http.StatusOK), "progress", 0)
	})
}

// TestExceptionsComeBeforeTheOutcomeForAll: a completion has several commands, and the last one has the outcome for
// all. The journal's disk is slow, and the commands before are long. The last command must not be applied before them.
func TestExceptionsComeBeforeTheOutcomeForAll(t *testing.T) {
	onOwnClock(t, func(t *testing.T, s *scenario) {
		const jobs = 130
		s.send(t, "POST", "/add", strings.Repeat("x\n", jobs)).object(http.StatusCreated)
		claim := s.send(t, "POST", "/jobs/claim", fmt.Sprintf(`{"runner_id":"r","max":%d}`, jobs)).object(http.StatusOK)
		var except []string
		for i, id := range ids(claim)[:127] {
			long := job.MaxErrorBytes
			if i == 126 { // a short outcome that does not fit into the third command
				long = 45 << 10
			}
			except = append(except, fmt.Sprintf(`{"job_id":%q,"code":"failed","error":%q}`, id, repeat('e', long)))
		}
		s.slow.Store(int64(time.Second))
		o := s.send(t, "POST", "/jobs/complete", fmt.Sprintf(`{"claim_id":%q,"code":"ok","except":[%s]}`, claim["claim_id"], strings.Join(except, ","))).object(http.StatusOK)
		s.slow.Store(0)
		want(t, o, "ended", jobs-len(except))
		for i, r := range o["results"].([]any) {
			result := r.(map[string]any)
			testkit.MustEqual(t, result["status"], "failed", "exception", i, result)
		}
	})
}

// neverUnclaimed is an engine that notices completions with Unclaimed.
type neverUnclaimed struct {
	backend.Engine
	t *testing.T
}

func (n *neverUnclaimed) Complete(ctx context.Context, c job.Complete) (applied.Ended, ingest.Receipt, error) {
	testkit.Holds(n.t, !c.Unclaimed, "a request became", c)
	return n.Engine.Complete(ctx, c)
}

func (n *neverUnclaimed) CompleteInOrder(ctx context.Context, commands []job.Complete) ([]applied.Ended, ingest.Receipt, error) {
	for _, c := range commands {
		testkit.Holds(n.t, !c.Unclaimed, "a request became", c)
	}
	return n.Engine.CompleteInOrder(ctx, commands)
}

// TestNoRequestCompletesUnclaimedJobs: no request over HTTP or in a stream can end a waiting job.
func TestNoRequestCompletesUnclaimedJobs(t *testing.T) {
	r := start(t, func(o *setup) { o.engine = &neverUnclaimed{o.engine, t} })
	id := r.post("/jobs/create", `{"payload":"x"}`).object(http.StatusCreated)["job_id"].(string)
	one := fmt.Sprintf(`{"job_id":%q,"code":"ok"}`, id)
	with := fmt.Sprintf(`{"job_id":%q,"code":"ok","unclaimed":true}`, id)
	r.post("/jobs/"+id+"/complete", `{"code":"ok"}`).refused(http.StatusBadRequest, "job_not_active")
	r.post("/jobs/"+id+"/complete", `{"code":"ok","unclaimed":true}`).refused(http.StatusBadRequest, "bad_request")
	r.post("/jobs/"+id+"/complete?unclaimed=true", `{"code":"ok"}`).refused(http.StatusBadRequest, "bad_request")
	r.post("/jobs/complete", `{"outcomes":[`+with+`]}`).refused(http.StatusBadRequest, "bad_request")
	r.post("/jobs/complete", `{"unclaimed":true,"outcomes":[`+one+`]}`).refused(http.StatusBadRequest, "bad_request")
	r.do(http.MethodPost, "/jobs/complete", strings.NewReader(with+"\n"), "Content-Type", "application/x-ndjson").refused(http.StatusBadRequest, "bad_request")
	for _, head := range []string{"#:complete v=1 unclaimed=true jobs=1 runs=1\n#:run job_id=%s n=1 code=ok\n", "#:complete v=1 jobs=1 runs=1\n#:run job_id=%s n=1 code=ok unclaimed=true\n"} {
		r.do(http.MethodPost, "/jobs/complete", strings.NewReader(fmt.Sprintf(head, id)), "Content-Type", web.MIMERuns).refused(http.StatusBadRequest, "bad_request")
	}
	r.post("/jobs/claim", `{"runner_id":"r","clients":["none"],"complete":[`+with+`]}`).refused(http.StatusBadRequest, "bad_request")
	c := r.open()
	c.send("hello", `{"runner_id":"r"}`)
	c.refusal(c.send("complete", with), "bad_request")
	want(t, r.get("/jobs/"+id).object(http.StatusOK), "status", "pending", "run_attempts", 0)
}

// TestDocumentsOfUnclaimedRuns: if nobody claimed a run, the documents of its jobs and of its claim match the description.
func TestDocumentsOfUnclaimedRuns(t *testing.T) {
	r := start(t)
	id := r.post("/jobs/create", `{"payload":"x"}`).object(http.StatusCreated)["job_id"].(string)
	of := testkit.Must(job.ParseID(id))(t)
	end := func(code job.Code) {
		o := job.Outcome{ID: of, Code: code, ExitCode: code.DefaultExitCode(), Error: "no luck"}
		ended, _ := testkit.Must2(r.engine.Complete(t.Context(), job.Complete{Unclaimed: true, Outcomes: []job.Outcome{o}}))(t)
		testkit.MustEqual(t, ended.Results[0].Refusal, job.Granted, ended)
	}
	end(job.Error)
	o := r.get("/jobs/" + id).object(http.StatusOK)
	want(t, o, "status", "pending", "run_attempts", 1, "runner_id", nil, "claim_id", nil, "error", "no luck")
	want(t, o["attempts"].([]any)[0].(map[string]any), "runner_id", nil, "error", "no luck", "why", "reported")
	end(job.Fail)
	o = r.get("/jobs/" + id).object(http.StatusOK)
	want(t, o, "status", "failed", "run_attempts", 2, "runner_id", nil, "why", "reported")
	claim := r.get("/claims/" + o["claim_id"].(string)).object(http.StatusOK)
	want(t, claim, "claim_id", o["claim_id"], "runner_id", nil, "handed_out", 1, "held", 0, "deadline_at", nil)
	testkit.Equal(t, r.listed("?claim_id="+o["claim_id"].(string)), "0", "lines of the claim")
	want(t, r.get("/runners").object(http.StatusOK), "runners", "[]")
}

// TestOtherShards: the id of a job, its batch or its claim, with the bits of another shard, is not found.
func TestOtherShards(t *testing.T) {
	r := start(t)
	r.add("/default/job/t/add", "a\n").object(http.StatusCreated)
	other := func(id string) string { return id[:15] + "001" + id[18:] }
	job, claim := r.claimed("t")
	batch := r.get("/jobs/" + job).object(http.StatusOK)["batch_id"].(string)
	r.get("/jobs/"+other(job)).refused(http.StatusNotFound, "job_not_found")
	r.get("/batches/"+other(batch)).refused(http.StatusNotFound, "batch_not_found")
	r.post("/jobs/"+other(job)+"/complete", `{"code":"ok"}`).refused(http.StatusNotFound, "job_not_found")
	r.post("/jobs/"+other(job)+"/cancel", ``).refused(http.StatusNotFound, "job_not_found")
	r.post("/jobs/complete", `{"claim_id":"`+other(claim)+`","status":"completed"}`).refused(http.StatusConflict, "claim_lost")
	r.post("/jobs/"+job+"/complete", `{"code":"ok","claim_id":"`+other(claim)+`"}`).refused(http.StatusConflict, "claim_lost")
	r.post("/jobs/"+job+"/complete", `{"code":"ok","claim_id":"`+claim+`"}`).object(http.StatusOK)
}

// TestAttemptsNameTheirLogs: each run that did not succeed names its claim, when it began, the exit status of its process and its log,
// in the job's document. A claim of the job does not.
func TestAttemptsNameTheirLogs(t *testing.T) {
	r := start(t)
	id := r.post("/jobs/create", `{"payload":"x","max_attempts":5}`).object(http.StatusCreated)["job_id"].(string)
	var claims []any
	for run := 1; run <= 3; run++ {
		claimed := r.post("/jobs/claim", `{"runner_id":"r"}`).object(http.StatusOK)
		claims = append(claims, claimed["claim_id"])
		if of := claimed["attempts"].([]any); run > 1 {
			want(t, of[0].(map[string]any), "runner_id", "r", "claim_id", nil, "started_at", nil, "process_exit", nil, "log_addr", nil)
		}
		if run < 3 {
			r.post("/jobs/"+id+"/complete", fmt.Sprintf(`{"claim_id":%q,"code":"retry","delay_ms":0,"process_exit":%d,"log_addr":"log %d"}`, claims[run-1], -run, run)).object(http.StatusOK)
		}
	}
	r.post("/jobs/"+id+"/cancel", "").object(http.StatusOK)
	o := r.get("/jobs/" + id).object(http.StatusOK)
	attempts := o["attempts"].([]any)
	testkit.MustHold(t, len(attempts) == 3, attempts)
	for i, a := range attempts[:2] {
		a := a.(map[string]any)
		want(t, a, "claim_id", claims[i], "process_exit", -i-1, "log_addr", fmt.Sprint("log ", i+1), "why", "reported")
		testkit.Holds(t, fmt.Sprint(a["started_at"]) <= fmt.Sprint(a["at"]) && a["started_at"] != nil, a)
	}
	want(t, attempts[2].(map[string]any), "claim_id", claims[2], "process_exit", nil, "log_addr", nil, "why", "cancelled")
}
