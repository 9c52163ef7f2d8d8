package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/web"
	goclient "github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store"
)

// randomOutcome returns an outcome of a job as JSON.
func randomOutcome(random *rand.Rand, id string) string {
	o := map[string]any{"job_id": id, "code": "ok"}
	switch random.IntN(12) {
	case 0:
		o["code"], o["error"] = "failed", []string{"no", "käse = \"50%\",\nsecond line"}[random.IntN(2)]
	case 1:
		o["exit_code"] = 201
	case 2:
		o["process_exit"] = random.IntN(2)
	case 3:
		o["output_addr"], o["output_addr_kind"], o["log_addr"] = "s3://a b/c,d", "json", "sha256:e=f"
	}
	outputs := []any{"plain", "plain too", "", "two\nlines", "käse \u2028 \"quoted\" \\", json.RawMessage("{\"a\":\n [1,\r\n 2]}"), json.RawMessage("17"), json.RawMessage("false")}
	switch random.IntN(5) {
	case 0:
	case 1:
		o["output_b64"] = []byte{0, '\n', 255, byte(random.IntN(4))}
	case 2:
		o["output"] = outputs[random.IntN(len(outputs))]
	default: // a run
		o["output"] = outputs[random.IntN(2)]
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b) // json.Marshal would compact the values
	e.SetEscapeHTML(false)
	if raw, ok := o["output"].(json.RawMessage); ok {
		o["output"] = "RAW"
		if err := e.Encode(o); err != nil {
			panic(err)
		}
		return strings.Replace(b.String(), `"RAW"`, string(raw), 1)
	}
	if err := e.Encode(o); err != nil {
		panic(err)
	}
	return b.String()
}

// randomBatch creates a batch of several parts. Some positions have made no job, some jobs are deleted or cancelled,
// and most are completed in several requests. Chance decides whether all have ended.
func randomBatch(r *rig, random *rand.Rand) (id string) {
	id = r.post("/jobs/create", `{"batch":{"open":true,"type":"t","meta":{"user":7}}}`).object(http.StatusCreated)["batch_id"].(string)
	for part := range 1 + random.IntN(3) {
		var jobs []string
		for i := range 1 + random.IntN(40) {
			switch j := `{"payload":"x"}`; random.IntN(12) {
			case 0:
				jobs = append(jobs, `{"unique_key":"the only one"}`)
			case 1:
				jobs = append(jobs, fmt.Sprintf(`{"meta":{"user":"%d"}}`, part+i%2))
			default:
				jobs = append(jobs, j)
			}
		}
		a := r.post("/batches/"+id+"/jobs", "["+strings.Join(jobs, ",")+"]")
		testkit.MustEqual(r, a.status, http.StatusCreated, a.body)
	}
	r.post("/batches/"+id+"/close", "{}").object(http.StatusOK)
	whole := random.IntN(2) == 0
	for range 3 {
		a := r.post("/jobs/claim", fmt.Sprintf(`{"runner_id":"r","types":["t"],"max":%d}`, 1+random.IntN(60)))
		if a.status == http.StatusNoContent {
			break
		}
		claimed := a.object(http.StatusOK)
		var outcomes []string
		for _, jobID := range ids(claimed) {
			if random.IntN(15) == 0 {
				move := []string{"/cancel", ""}[random.IntN(2)]
				a := r.do(map[string]string{"/cancel": http.MethodPost, "": http.MethodDelete}[move], "/jobs/"+jobID+move, nil)
				testkit.MustHold(r, a.status < 300, a.what, a.status, a.body)
			} else {
				outcomes = append(outcomes, randomOutcome(random, jobID))
			}
		}
		if len(outcomes) > 0 {
			r.post("/jobs/complete", fmt.Sprintf(`{"claim_id":%q,"outcomes":[%s]}`, claimed["claim_id"], strings.Join(outcomes, ","))).object(http.StatusOK)
		}
	}
	if whole {
		r.post("/batches/"+id+"/cancel", "{}")
		for fmt.Sprint(r.get("/batches/" + id + "?wait_ms=10000").object(http.StatusOK)["status"]) == "in_progress" {
		}
	}
	return id
}

// linesOfRuns writes results in runs as the equal lines of NDJSON.
func linesOfRuns(text io.Reader) (head runs.Batch, lines string, n int, err error) {
	from := runs.NewBatchReader(text)
	if head, err = from.Head(); err != nil {
		return head, "", 0, err
	}
	var b []byte
	for {
		run, more, err := from.Next()
		if err != nil {
			return head, "", n, err
		}
		if !more {
			break
		}
		n++
		err = run.Each(func(i int, output []byte) error {
			j := run.First
			j.ID, j.Output = run.ID(i), output
			b = answer.AppendFields(fmt.Appendf(b, `{"line":%d,"job_id":"%s"`, run.Line+int64(i), j.ID), resultFields, &j, answer.InLines)
			b = append(b, "}\n"...)
			return nil
		})
		if err != nil {
			return head, "", n, err
		}
	}
	end := from.End()
	return head, string(fmt.Appendf(b, `{"next":%d,"end":%t,"status":"%s"}`+"\n", end.Next, end.End, end.Status)), n, nil
}

// TestResultsInRuns: the results of a batch in runs equal the results in NDJSON, where each line is one value.
func TestResultsInRuns(t *testing.T) {
	testkit.OneByOne(t)
	r := start(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	results, ended := 0, 0
	for range 12 {
		id := randomBatch(r, random)
		count := r.get("/batches/" + id).object(http.StatusOK)["count"].(json.Number)
		n := testkit.Must(count.Int64())(t)
		for range 6 {
			query := ""
			if from := random.Int64N(2*n + 3); from <= n+2 {
				query = fmt.Sprintf("?from=%d", from)
			}
			if limit := random.Int64N(3*n + 3); limit > 0 && limit <= n+2 {
				query += strings.Replace("?&", map[bool]string{true: "&", false: "?"}[query == ""], "", 1) + fmt.Sprintf("limit=%d", limit)
			}
			path := "/batches/" + id + "/results" + query
			lines, inRuns := r.get(path), r.get(path, "Accept", web.MIMERuns)
			if lines.status != http.StatusOK || lines.header.Get("Content-Type") != web.MIMENDJSON || inRuns.status != http.StatusOK || inRuns.header.Get("Content-Type") != web.MIMERuns {
				t.Fatalf("%s: %d %q, %d %q: %s", path, lines.status, lines.header.Get("Content-Type"), inRuns.status, inRuns.header.Get("Content-Type"), inRuns.body)
			}
			head, got, _, err := linesOfRuns(strings.NewReader(inRuns.body))
			testkit.MustHold(t, err == nil && head.ID.String() == id, path, head, err, "in", inRuns.body)
			testkit.MustEqual(t, got, lines.body, path, "in runs is", inRuns.body, "as lines")
			for line := range strings.Lines(lines.body) {
				results++
				testkit.MustHold(t, json.Valid([]byte(line)), path, "the line", line, "is not a value")
			}
			ended += strings.Count(lines.body, `"end":true`)
		}
		sameInEachForm(t, r, id)
	}
	testkit.Holds(t, results >= 500 && ended != 0, "only", results, "lines", ended, "ends")
}

// sameInEachForm: the Go client reads the same results in both forms.
func sameInEachForm(t *testing.T, r *rig, id string) {
	t.Helper()
	var first []goclient.BatchResult
	for _, accept := range []string{web.MIMENDJSON, web.MIMERuns} {
		var list []goclient.BatchResult
		c := goclient.New(r.url, goclient.Options{HTTP: &http.Client{Transport: accepts(accept)}})
		for result, err := range c.Results(t.Context(), id, goclient.ResultsQuery{}) {
			testkit.NoError(t, err)
			if result.OutputKind == goclient.JSON { // NDJSON has no newlines within a value
				result.Output = []byte(strings.NewReplacer("\n", " ", "\r", " ").Replace(string(result.Output)))
			}
			if len(result.Output) == 0 {
				result.Output = nil
			}
			list = append(list, result)
		}
		if accept == web.MIMENDJSON {
			first = list
		} else if !reflect.DeepEqual(list, first) {
			t.Errorf("in runs: %+v\nwant %+v", list, first)
		}
	}
}

// TestFormsOfResults: the Accept header selects the form; runs have the documented overhead and are not compressed.
func TestFormsOfResults(t *testing.T) {
	testkit.OneByOne(t)
	r := start(t)
	id := r.add("/add", strings.Repeat("x\n", 2500)).object(http.StatusCreated)["batch_id"].(string)
	for range 3 {
		r.post("/jobs/claim", `{"runner_id":"r","max":1000}`)
	}
	first := testkit.Must(job.ParseID(id))(t)
	body := fmt.Sprintf("#:complete v=1 runner_id=r jobs=2500 runs=1\n#:run job_id=%s n=2500 code=ok kind=text frame=line bytes=%d\n%s", first, 2500*11, strings.Repeat("0123456789\n", 2500))
	a := r.do(http.MethodPost, "/jobs/complete", strings.NewReader(body), "Content-Type", web.MIMERuns)
	testkit.MustEqual(t, a.status, http.StatusOK, a.body)
	path := "/batches/" + id + "/results"
	for accept, kind := range map[string]string{
		"": web.MIMENDJSON, "*/*": web.MIMENDJSON, web.MIMERuns: web.MIMERuns, web.MIMERuns + ";q=1, " + web.MIMENDJSON: web.MIMERuns, web.MIMENDJSON + ", " + web.MIMERuns: web.MIMENDJSON, web.MIMEJSON + ", " + web.MIMERuns: web.MIMENDJSON,
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			a := r.do(method, path, nil, "Accept", accept, "Accept-Encoding", "gzip")
			testkit.Holds(t, a.status == http.StatusOK && a.header.Get("Content-Type") == kind,
				method, "with Accept", accept, "is answered with", a.status, "in", a.header.Get("Content-Type"), "want", kind)
			testkit.Holds(t, method != http.MethodHead || a.body == "", "HEAD has the body", a.body)
			got, want := a.header.Get("Content-Encoding"), map[bool]string{true: "gzip"}[kind == web.MIMENDJSON]
			testkit.Holds(t, method != http.MethodGet || got == want, "with Accept", accept, "the answer has Content-Encoding", got, "want", want)
		}
	}
	a = r.get(path, "Accept", web.MIMERuns)
	_, lines, n, err := linesOfRuns(strings.NewReader(a.body))
	testkit.NoError(t, err)
	testkit.MustEqual(t, strings.Count(lines, "\n"), 2501, "lines in", n, "runs")
	most := 2500*12 + 200*(n+1)
	testkit.Holds(t, len(a.body) <= most && n <= 4, len(a.body), "bytes for 2,500 outputs of 10 bytes in", n, "runs, at most", most)
	for _, c := range []struct{ path, field string }{{path + "?from=-1", "from"}, {path + "?limit=0", "limit"}, {path + "?follow=1", "follow"}} {
		r.get(c.path, "Accept", web.MIMERuns).wrong(c.field)
	}
	r.get("/batches/"+unknownID+"/results?follow=true", "Accept", web.MIMERuns).refused(http.StatusNotFound, "batch_not_found")
}

// TestFollowInRuns: with follow, each run arrives as soon as its jobs have ended, and a server that stops leaves an
// answer without an end line.
func TestFollowInRuns(t *testing.T) {
	r := start(t)
	id := r.post("/jobs/create", `{"batch":{"open":true,"type":"t"}}`).object(http.StatusCreated)["batch_id"].(string)
	follow := func() (*runs.BatchReader, io.Closer) {
		t.Helper()
		req := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/batches/"+id+"/results?follow=true", nil))(t)
		req.Header.Set("Accept", web.MIMERuns)
		res := testkit.Must(http.DefaultClient.Do(req))(t)
		testkit.MustHold(t, res.StatusCode == http.StatusOK && !res.Uncompressed, res)
		from := runs.NewBatchReader(bufio.NewReader(res.Body))
		head, err := from.Head()
		testkit.MustHold(t, err == nil && head.ID.String() == id && head.From == 0, head, err) // it arrives before any job has ended
		return from, res.Body
	}
	run := func(from *runs.BatchReader, line int64, n int, outputs string) {
		t.Helper()
		got, more, err := from.Next()
		testkit.MustHold(t, err == nil && more && got.Line == line && got.N == n && string(got.Outputs) == outputs,
			"run", got, more, err, "want line", line, n, "jobs", outputs)
	}
	complete := func(n int) {
		t.Helper()
		o := r.post("/jobs/claim", fmt.Sprintf(`{"runner_id":"r","max":%d}`, n)).object(http.StatusOK)
		r.post("/jobs/complete", fmt.Sprintf(`{"claim_id":%q,"status":"completed","output":"done"}`, o["claim_id"])).object(http.StatusOK)
	}
	from, body := follow()
	defer body.Close()
	r.post("/batches/"+id+"/jobs", `[{},{},{}]`).object(http.StatusCreated)
	complete(2)
	run(from, 0, 2, "done\ndone\n")
	complete(1)
	run(from, 2, 1, "done\n")
	deleted := r.post("/batches/"+id+"/jobs", `[{},{}]`).object(http.StatusCreated)["first_id"].(string)
	a := r.do(http.MethodDelete, "/jobs/"+deleted, nil)
	testkit.MustEqual(t, a.status, http.StatusNoContent, a.body)
	complete(1)
	run(from, 4, 1, "done\n") // line 3 is a gap
	cut, cutBody := follow()
	defer cutBody.Close()
	run(cut, 0, 2, "done\ndone\n")
	run(cut, 2, 1, "done\n")
	run(cut, 4, 1, "done\n")
	r.post("/batches/"+id+"/close", "{}").object(http.StatusOK)
	for _, from := range []*runs.BatchReader{from, cut} {
		_, more, err := from.Next()
		testkit.Holds(t, !more && err == nil && from.End().End && from.End().Next == 5, more, err, from.End())
	}
	id = r.post("/jobs/create", `{"batch":{"open":true,"type":"t"}}`).object(http.StatusCreated)["batch_id"].(string)
	from, body = follow()
	defer body.Close()
	r.post("/batches/"+id+"/jobs", `{}`).object(http.StatusCreated)
	complete(1)
	run(from, 0, 1, "done\n")
	r.stop()
	_, more, err := from.Next()
	testkit.Holds(t, !more && err != nil && !errors.Is(err, io.EOF), "after the stop", more, err)
}

// TestFollowWithGoClient: in each form, the Go client yields a result before the next job ends.
func TestFollowWithGoClient(t *testing.T) {
	for _, accept := range []string{web.MIMENDJSON, web.MIMERuns} {
		t.Run(accept, func(t *testing.T) {
			r := start(t)
			id := r.post("/jobs/create", `{"batch":{"type":"t"},"jobs":[{},{},{}]}`).object(http.StatusCreated)["batch_id"].(string)
			c := goclient.New(r.url, goclient.Options{HTTP: &http.Client{Transport: accepts(accept)}})
			next, stop := iter.Pull2(c.Results(t.Context(), id, goclient.ResultsQuery{Follow: true}))
			defer stop()
			for line := range int64(3) {
				o := r.post("/jobs/claim", `{"runner_id":"r","max":1}`).object(http.StatusOK)
				r.post("/jobs/complete", fmt.Sprintf(`{"claim_id":%q,"status":"completed","output":"done"}`, o["claim_id"])).object(http.StatusOK)
				got, err, ok := next()
				testkit.MustHold(t, ok && err == nil && got.Line == line && string(got.Output) == "done", got, err, ok)
			}
			got, err, ok := next()
			testkit.Holds(t, !ok, "after the end", got, err)
		})
	}
}

// beforeAwait calls a function once, before the first call to AwaitEnd.
type beforeAwait struct {
	backend.Engine
	once sync.Once
	call func(id job.ID)
}

func (b *beforeAwait) AwaitEnd(id job.ID) (*store.JobEnd, error) {
	b.once.Do(func() { b.call(id) })
	return b.Engine.AwaitEnd(id)
}

// TestFollowGoesOnAfterDeletedJob: a job is deleted after a request that follows results has seen that the job has not
// ended, and before the request begins to wait for its end. The request then waits for the next job.
func TestFollowGoesOnAfterDeletedJob(t *testing.T) {
	before := &beforeAwait{}
	r := start(t, func(o *setup) { before.Engine = o.engine; o.engine = before })
	move := func(op job.Op, id job.ID) {
		moved, _ := testkit.Must2(r.engine.Move(context.Background(), job.Move{Op: op, Job: id}))(t)
		testkit.Equal(t, moved.Refusal, job.Granted, op, "of", id, moved)
	}
	before.call = func(first job.ID) { move(job.Delete, first) }
	id := r.post("/jobs/create", `{"batch":{"open":true},"jobs":[{},{}]}`).object(http.StatusCreated)["batch_id"].(string)
	first := testkit.Must(job.ParseID(id))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req := testkit.Must(http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/batches/"+id+"/results?follow=true", nil))(t)
	res := testkit.Must(http.DefaultClient.Do(req))(t) // the header arrives when the request waits
	defer res.Body.Close()
	move(job.Cancel, first.WithLine(1))
	line, err := bufio.NewReader(res.Body).ReadString('\n')
	want := fmt.Sprintf(`{"line":1,"job_id":"%s","status":"cancelled"`, first.WithLine(1))
	testkit.Holds(t, err == nil && len(line) >= len(want) && line[:len(want)] == want, line, err, "want", want)
}
