package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/api/joblog"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// TestOutput: the bytes of an output and how the job ended, in every kind.
func TestOutput(t *testing.T) {
	r := start(t)
	for _, c := range []struct{ outcome, kind, body, status, code, exit, addr string }{
		{`"code":"ok","output":"a\nb"`, "text/plain; charset=utf-8", "a\nb", "completed", "ok", "200", ""},
		{`"exit_code":204,"output":{"b":1,  "a":2.0}`, "application/json", `{"b":1,  "a":2.0}`, "completed", "ok", "204", ""},
		{`"code":"failed","output_b64":"AP8="`, "application/octet-stream", "\x00\xff", "failed", "failed", "400", ""},
		{`"code":"ok","output":""`, "text/plain; charset=utf-8", "", "completed", "ok", "200", ""},
		{`"code":"ok","output":"x","output_addr":"s3://a b,c\n"`, "text/plain; charset=utf-8", "x", "completed", "ok", "200", "s3://a%20b%2Cc%0A"},
		{`"code":"ok","output_addr":"s3://a"`, "", "", "completed", "ok", "200", "s3://a"},
		{`"code":"ok"`, "", "", "completed", "ok", "200", ""},
	} {
		r.post("/jobs/create", `{"type":"x"}`).object(http.StatusCreated)
		id, claim := r.claimed("x")
		r.get("/jobs/"+id+"/output").refused(http.StatusConflict, "job_not_ended")
		r.post("/jobs/"+id+"/complete", fmt.Sprintf(`{"claim_id":%q,%s}`, claim, c.outcome)).object(http.StatusOK)
		a := r.get("/jobs/" + id + "/output?wait_ms=1000")
		got := fmt.Sprint(a.header.Get("Content-Type"), a.header.Get(headerStatus), a.header.Get(headerCode), a.header.Get(headerExitCode), a.header.Get(headerOutputAddr))
		status := http.StatusOK
		if c.kind == "" {
			status = http.StatusNoContent
		}
		want := fmt.Sprint(c.kind, c.status, c.code, c.exit, c.addr)
		testkit.Holds(t, a.status == status && got == want && a.body == c.body, c.outcome, a.status, got, a.body, "want", want)
		if tag := a.header.Get("Etag"); tag != "" {
			testkit.Equal(t, r.get("/jobs/"+id+"/output", "If-None-Match", tag).status, http.StatusNotModified, c.outcome, "the same tag")
		}
	}
	r.get("/jobs/"+unknownID+"/output").refused(http.StatusNotFound, "job_not_found")
	r.get("/jobs/"+unknownID+"/output?wait_ms=5").refused(http.StatusNotFound, "job_not_found")
	r.get("/jobs/x/output").refused(http.StatusBadRequest, "bad_id")
	r.get("/jobs/" + unknownID + "/output?wait_ms=60001").wrong("wait_ms")
	r.get("/jobs/" + unknownID + "/output?wait_ms=x").wrong("wait_ms")
	cancelled := r.make(`{}`)
	r.post("/jobs/"+cancelled+"/cancel", "").object(http.StatusOK)
	if a := r.get("/jobs/" + cancelled + "/output"); a.status != http.StatusNoContent || a.header.Get(headerStatus) != "cancelled" || a.header.Get(headerCode) != "" {
		t.Errorf("a cancelled job: %d %v", a.status, a.header)
	}
}

// endsAwaited returns how many requests wait for the end of a job.
func endsAwaited(r *rig) int { return r.engine.(behind).EndsAwaited() }

// TestOutputWaits: a request waits for the end of its job, however the job ends, and for no other job.
func TestOutputWaits(t *testing.T) {
	r := start(t)
	for name, end := range map[string]func(id string){
		"completed": func(id string) {
			r.post("/jobs/"+id+"/complete", `{"code":"ok","output":"done"}`).object(http.StatusOK)
		},
		"retried": func(id string) {
			r.post("/jobs/"+id+"/complete", `{"code":"retry","delay_ms":0}`).object(http.StatusOK)
			_, claim := r.claimed("retried")
			r.post("/jobs/"+id+"/complete", fmt.Sprintf(`{"code":"ok","output":"done","claim_id":%q}`, claim)).object(http.StatusOK)
		},
		"cancelled": func(id string) { r.post("/jobs/"+id+"/cancel", "").object(http.StatusOK) },
		"deleted":   func(id string) { r.do(http.MethodDelete, "/jobs/"+id, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			id, other := r.make(fmt.Sprintf(`{"type":%q}`, name)), r.make(`{"type":"other"}`)
			r.claimed(name)
			got := make(chan reply)
			go func() { got <- r.get("/jobs/" + id + "/output?wait_ms=60000") }()
			r.until("the request waits", func() bool { return endsAwaited(r) == 1 })
			r.post("/jobs/"+other+"/cancel", "").object(http.StatusOK)
			select {
			case a := <-got:
				t.Fatalf("an answer before the end: %d %s", a.status, a.body)
			case <-time.After(20 * time.Millisecond):
			}
			end(id)
			a := <-got
			want := map[string]int{"cancelled": http.StatusNoContent, "deleted": http.StatusNotFound}[name]
			testkit.Holds(t, (want != 0 || a.body == "done") && (want == 0 || a.status == want), a.status, a.body)
			testkit.Equal(t, endsAwaited(r), 0, "requests wait")
		})
	}
	id := r.make(`{}`)
	r.get("/jobs/"+id+"/output?wait_ms=10").refused(http.StatusConflict, "job_not_ended")
	ctx, cancel := context.WithCancel(t.Context())
	req := testkit.Must(http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/jobs/"+id+"/output?wait_ms=60000", nil))(t)
	hungUp := make(chan error)
	go func() { _, err := http.DefaultClient.Do(req); hungUp <- err }()
	r.until("the request waits", func() bool { return endsAwaited(r) == 1 })
	cancel()
	testkit.Holds(t, <-hungUp != nil, "an answer")
	r.until("nobody waits", func() bool { return endsAwaited(r) == 0 })
}

// TestSteps: each change of the step is kept with its time, and shown in etcdq's form.
func TestSteps(t *testing.T) {
	testkit.OneByOne(t)
	r := start(t)
	id := r.make(`{"type":"x","backoff":{"initial_ms":0}}`)
	_, claim := r.claimed("x")
	tickle := func(step string) {
		t.Helper()
		r.post("/jobs/"+id+"/tickle", fmt.Sprintf(`{"claim_id":%q,"step":%q}`, claim, step)).object(http.StatusOK)
	}
	for i := range job.MaxSteps + 2 {
		tickle(fmt.Sprint("step ", i))
		tickle(fmt.Sprint("step ", i)) // not a change
	}
	steps := r.get("/jobs/" + id).object(http.StatusOK)["steps"].([]any)
	testkit.Holds(t, len(steps) == job.MaxSteps && steps[0].(map[string]any)["step"] == "step 2" &&
		steps[job.MaxSteps-1].(map[string]any)["at"] != json.Number("0"), len(steps), "steps", steps)
	r.post("/jobs/"+id+"/complete", fmt.Sprintf(`{"claim_id":%q,"code":"error","error":"no"}`, claim)).object(http.StatusOK)
	_, claim = r.claimed("x")
	tickle("step 51")
	states := func() (o map[string]any, text string) {
		o = r.get("/jobs/" + id + "?view=states").object(http.StatusOK)
		var names []string
		for _, s := range o["States"].([]any) {
			s := s.(map[string]any)
			testkit.Must(time.Parse(time.RFC3339Nano, s["Date"].(string)))(t)
			names = append(names, fmt.Sprint(s["State"], " ", s["Step"]))
		}
		return o, strings.Join(names, "; ")
	}
	o, text := states()
	testkit.Equal(t, strings.Count(text, "STARTED Allocated"), 2, "runs began:", text)
	if !strings.HasPrefix(text, "QUEUED ; STARTED Allocated; STARTED step 3; ") || !strings.HasSuffix(text, "STARTED step 51; QUEUED ; STARTED Allocated; STARTED step 51") || o["Owner"] != "r" || o["Result"] != nil {
		t.Errorf("%v: %s", o, text)
	}
	r.post("/jobs/"+id+"/complete", fmt.Sprintf(`{"claim_id":%q,"code":"ok"}`, claim)).object(http.StatusOK)
	o, text = states()
	testkit.Holds(t, strings.HasSuffix(text, "; FINISHED ") && fmt.Sprint(o["Result"]) == "map[Info: Status:SUCCESS]", o, text)
	r.get("/jobs/" + id + "?view=x").wrong("view")
	r.get("/jobs/" + id + "?view=states&fields=step").wrong("view")
}

// TestOutputOfBlob: if an output is a blob of this server, the answer has the bytes of the blob. This holds for ranges
// too, and after a wait.
func TestOutputOfBlob(t *testing.T) {
	r := start(t)
	const content = "0123456789"
	for _, client := range []string{"", "acme"} {
		query, of := "", ""
		if client != "" {
			query, of = "?client="+client, `"client":"`+client+`",`
		}
		address := r.do(http.MethodPut, "/blobs"+query, strings.NewReader(content)).object(http.StatusCreated)["address"].(string)
		id := r.post("/jobs/create", `{`+of+`"type":"t","payload":1}`).object(http.StatusCreated)["job_id"].(string)
		r.post("/jobs/claim", `{"runner_id":"r"}`).object(http.StatusOK)
		kind, mediaType := "", "application/octet-stream"
		if client != "" {
			kind, mediaType = `,"output_addr_kind":"json"`, "application/json"
		}
		r.post("/jobs/"+id+"/complete", `{"code":"ok","output_addr":"`+address+`"`+kind+`}`).object(http.StatusOK)
		a := r.get("/jobs/" + id + "/output?wait_ms=1000")
		got := a.header.Get("Content-Type")
		testkit.Holds(t, got == mediaType && a.header.Get("X-Content-Type-Options") == "nosniff", "the output has the type", got, a.header)
		testkit.Holds(t, a.status == http.StatusOK && a.body == content && a.header.Get(headerOutputAddr) == address &&
			a.header.Get(headerStatus) == "completed" && a.header.Get("Etag") == `"`+address+`"`, a.status, a.body, a.header)
		testkit.Equal(t, a.header.Get("Cache-Control"), "no-cache", "the output may be cached") // a redrive may give the job another output
		a = r.get("/jobs/"+id+"/output", "Range", "bytes=2-4")
		testkit.Holds(t, a.status == http.StatusPartialContent && a.body == "234" && a.header.Get("Content-Type") == mediaType, a.status, a.body)
		r.get("/jobs/"+id+"/output", "If-None-Match", `"`+address+`"`).wantStatus(http.StatusNotModified)
		r.get("/jobs/"+id+"/output", "Range", "bytes=20-").refused(http.StatusRequestedRangeNotSatisfiable, "bad_range")
	}
	// One client's blobs are invisible to other clients, and a removed blob is not an empty output.
	own := r.do(http.MethodPut, "/blobs?client=acme", strings.NewReader("own")).object(http.StatusCreated)["address"].(string)
	for _, address := range []string{own, "sha256:" + strings.Repeat("0", 64)} {
		id := r.post("/jobs/create", `{"type":"t","client":"other"}`).object(http.StatusCreated)["job_id"].(string)
		r.post("/jobs/claim", `{"runner_id":"r"}`).object(http.StatusOK)
		r.post("/jobs/"+id+"/complete", `{"code":"ok","output_addr":"`+address+`"}`).object(http.StatusOK)
		r.get("/jobs/"+id+"/output").refused(http.StatusNotFound, "blob_not_found")
	}
}

// TestStatesAreTheWholeDocument: etcdq's view shows the requested container and fileset, and after a run the container
// that ran. Other jobs show neither.
func TestStatesAreTheWholeDocument(t *testing.T) {
	testkit.OneByOne(t)
	r := start(t)
	view := func(id string) string {
		t.Helper()
		o := r.get("/jobs/" + id + "?view=states").object(http.StatusOK)
		text := testkit.Must(json.Marshal([]any{o["Container"], o["Fileset"]}))(t)
		return string(text)
	}
	for _, c := range []struct{ payload, output, want, ran string }{
		{`{"Container":{"Config":{"Image":"a"}},"Fileset":{"Input":{"Name":"in","Patterns":["*"]}}}`, `{"image_id":"sha256:1","container_id":"c1"}`,
			`[{"Config":{"Image":"a"}},{"Input":{"Name":"in","Patterns":["*"]}}]`, `[{"Config":{"Image":"a"},"ID":"c1","Image":"sha256:1"},{"Input":{"Name":"in","Patterns":["*"]}}]`},
		{`{"Container":{"Image":"old","Config":{}}}`, `{"image_id":"sha256:1","container_id":"c1"}`, `[{"Config":{},"Image":"old"},null]`, `[{"Config":{},"ID":"c1","Image":"sha256:1"},null]`},
		{`{"Container":{"Config":{}}}`, `"an output"`, `[{"Config":{}},null]`, `[{"Config":{}},null]`},
		{`{"Container":7,"Fileset":[]}`, `null`, `[7,[]]`, `[7,[]]`},
		{`"a text"`, `{"container_id":"c1"}`, `[null,null]`, `[null,null]`},
		{`[1]`, `{}`, `[null,null]`, `[null,null]`},
	} {
		id := r.make(`{"type":"x","payload":` + c.payload + `}`)
		testkit.Equal(t, view(id), c.want, c.payload)
		r.claimed("x")
		r.post("/jobs/"+id+"/complete", `{"code":"ok","output":`+c.output+`}`).object(http.StatusOK)
		testkit.Equal(t, view(id), c.ran, c.payload, "after the run")
	}
}

// print adds to the log of a job.
func (r *rig) print(id, claim string, offset int, text string) reply {
	return r.do(http.MethodPost, fmt.Sprintf("/jobs/%s/log?offset=%d&claim_id=%s", id, offset, claim), strings.NewReader(text), "Content-Type", "text/plain")
}

// TestLog: only the run that holds a job writes its log. The log is kept until the end of the job, and longer if there
// is a blob.
func TestLog(t *testing.T) {
	r := start(t)
	id := r.make(`{"type":"x","backoff":{"initial_ms":0}}`)
	r.get("/jobs/"+id+"/log").refused(http.StatusNotFound, codeNoLog)
	r.print(id, unknownID, 0, "x").refused(http.StatusBadRequest, "job_not_active")
	_, claim := r.claimed("x")
	r.get("/jobs/"+id+"/log").refused(http.StatusNotFound, codeNoLog)
	r.print(id, unknownID, 0, "x").refused(http.StatusConflict, "claim_lost")
	r.print(unknownID, claim, 0, "x").refused(http.StatusNotFound, "job_not_found")
	r.print(id, "x", 0, "x").refused(http.StatusBadRequest, "bad_id")
	r.print(id, claim, -1, "x").wrong("offset")
	r.do(http.MethodPost, "/jobs/"+id+"/log?claim_id="+claim, strings.NewReader("x"), "Content-Type", "text/plain").wrong("offset")
	r.do(http.MethodPost, "/jobs/"+id+"/log?offset=0", strings.NewReader("x"), "Content-Type", "text/plain").wrong("claim_id")
	r.print(id, claim, 0, repeat('x', joblog.MaxBytes+1)).refused(http.StatusRequestEntityTooLarge, web.CodeTooLarge)
	r.get("/jobs/" + id + "/log?follow=1").wrong("follow")

	r.print(id, claim, 0, "one\n").wantStatus(http.StatusNoContent)
	r.print(id, claim, 4, "two\n").wantStatus(http.StatusNoContent)
	a := r.get("/jobs/" + id + "/log")
	testkit.Holds(t, a.status == http.StatusOK && a.body == "one\ntwo\n" &&
		a.header.Get("Content-Type") == "text/plain; charset=utf-8", a.status, a.body, a.header)
	testkit.Equal(t, endsAwaited(r), 1, "wait for the end of the job")

	// A reader follows the log over a second run to its end.
	following := testkit.Must(http.Get(r.url + "/jobs/" + id + "/log?follow=true"))(t)
	defer following.Body.Close()
	lines := bufio.NewReader(following.Body)
	line := func(want string) {
		t.Helper()
		got, err := lines.ReadString('\n')
		testkit.Holds(t, got == want && err == nil, got, err, "want", want)
	}
	line("one\n")
	line("two\n")
	r.print(id, claim, 8, "three\n").wantStatus(http.StatusNoContent)
	line("three\n")
	r.post("/jobs/"+id+"/complete", fmt.Sprintf(`{"claim_id":%q,"code":"error"}`, claim)).object(http.StatusOK)
	r.print(id, claim, 14, "late\n").refused(http.StatusBadRequest, "job_not_active")
	_, again := r.claimed("x")
	r.print(id, claim, 14, "late\n").refused(http.StatusConflict, "claim_lost")
	r.print(id, again, 0, "four\n").wantStatus(http.StatusNoContent)
	line("\n")
	line("[the job runs again]\n")
	line("four\n")
	address := r.put("/blobs?client=default", "the whole log").object(http.StatusCreated)["address"].(string)
	r.print(id, again, 5, "five\n").wantStatus(http.StatusNoContent)
	r.post("/jobs/"+id+"/complete", fmt.Sprintf(`{"claim_id":%q,"code":"ok","log_addr":%q}`, again, address)).object(http.StatusOK)
	rest, err := io.ReadAll(lines)
	testkit.Holds(t, string(rest) == "five\n" && err == nil, rest, err)
	for _, path := range []string{"/log", "/log?follow=true"} {
		a := r.get("/jobs/" + id + path)
		testkit.Holds(t, a.status == http.StatusOK && a.body == "the whole log", a.status, a.body)
	}
	a = r.do(http.MethodHead, "/jobs/"+id+"/log", nil)
	testkit.Holds(t, a.status == http.StatusOK && a.body == "", a.status, a.body)

	// Without a blob, the end of the log is kept for a while.
	id = r.make(`{"type":"y"}`)
	_, claim = r.claimed("y")
	r.print(id, claim, 0, "short").wantStatus(http.StatusNoContent)
	r.post("/jobs/"+id+"/complete", fmt.Sprintf(`{"claim_id":%q,"code":"ok","log_addr":"s3://elsewhere"}`, claim)).object(http.StatusOK)
	a = r.get("/jobs/" + id + "/log?follow=true")
	testkit.Equal(t, a.body, "short", a.status)
	page := r.get("/metrics").body
	for _, line := range []string{"daybook_job_logs 2", "daybook_job_log_readers 0", "daybook_job_logs_dropped_total 0"} {
		testkit.Holds(t, strings.Contains(page, line+"\n"), "the metrics lack", line)
	}
	testkit.Holds(t, regexp.MustCompile(`(?m)^daybook_job_log_appended_bytes_total [1-9]`).MatchString(page), "no bytes of logs were counted")
	silent := r.make(`{"type":"z"}`)
	r.post("/jobs/"+silent+"/cancel", "").object(http.StatusOK)
	r.get("/jobs/"+silent+"/log").refused(http.StatusNotFound, codeNoLog)
	r.get("/jobs/"+silent+"/log?follow=true").refused(http.StatusNotFound, codeNoLog)
}

// TestLogFollowsWaitingJob: a reader waits for the first text of a job that has not begun, and sees the job end without
// text.
func TestLogFollowsWaitingJob(t *testing.T) {
	r := start(t)
	first, second := r.make(`{"type":"x"}`), r.make(`{"type":"y"}`)
	got := map[string]chan reply{first: make(chan reply, 1), second: make(chan reply, 1)}
	for id, to := range got {
		go func() { to <- r.get("/jobs/" + id + "/log?follow=true") }()
	}
	r.until("both wait", func() bool { return r.server.logs.readers.now() == 2 })
	_, claim := r.claimed("x")
	r.print(first, claim, 0, "text").wantStatus(http.StatusNoContent)
	r.post("/jobs/"+first+"/complete", fmt.Sprintf(`{"claim_id":%q,"code":"ok"}`, claim)).object(http.StatusOK)
	r.post("/jobs/"+second+"/cancel", "").object(http.StatusOK)
	a := <-got[first]
	testkit.Holds(t, a.status == http.StatusOK && a.body == "text", a.status, a.body)
	a = <-got[second]
	testkit.Holds(t, a.status == http.StatusOK && a.body == "", a.status, a.body)
	r.until("nobody waits", func() bool { return r.server.logs.readers.now() == 0 })
}
