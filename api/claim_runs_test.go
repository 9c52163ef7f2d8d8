package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/web"
	goclient "github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
)

// decodeRuns decodes an answer in runs.
func decodeRuns(text []byte) (c runs.Claim, list []runs.Run, err error) {
	d := runs.NewDecoder(text)
	if d.Is("results") {
		r, err := d.Results()
		for i := 0; i < r.Runs && err == nil; i++ {
			_, err = d.Result()
		}
		if err != nil || !d.Is("claim") {
			return c, nil, errors.Join(err, d.End())
		}
	}
	c, err = d.Claim()
	for i := 0; i < c.Runs && err == nil; i++ {
		var r runs.Run
		r, err = d.Run(&c)
		list = append(list, r)
	}
	return c, list, errors.Join(err, d.End())
}

// claimedInRuns decodes the answer to a claim in runs.
func claimedInRuns(t *testing.T, a reply) (runs.Claim, []runs.Run) {
	t.Helper()
	c, list, err := decodeRuns([]byte(a.body))
	testkit.MustHold(t, a.status == http.StatusOK && a.header.Get("Content-Type") == web.MIMERuns &&
		err == nil, a.status, a.header.Get("Content-Type"), a.body, err)
	return c, list
}

// sameDocuments compares jobs in runs with the documents that the server shows of their claim.
func sameDocuments(t *testing.T, r *rig, c *runs.Claim, list []runs.Run) {
	t.Helper()
	docs := testkit.Must(runs.Documents(list))(t)
	var shown struct {
		Jobs []map[string]any `json:"jobs"`
	}
	a := r.get("/claims/" + c.ID.String())
	err := json.Unmarshal([]byte(a.body), &shown)
	testkit.MustHold(t, err == nil && len(shown.Jobs) == len(docs), len(docs), "jobs in runs", len(shown.Jobs), "shown", err)
	for i := range docs {
		var got map[string]any
		testkit.NoError(t, json.Unmarshal(answer.AppendJob(nil, &docs[i], answer.InJSON), &got))
		testkit.DeepEqual(t, got, shown.Jobs[i], "in runs")
	}
}

// mixedJobs creates jobs of all kinds, some of which have run before, and returns how many.
func mixedJobs(r *rig) (n int) {
	for _, body := range []string{
		`{"payload":"one"}`, `{"payload":"two\nlines","priority":0}`, `{"payload":"","max_attempts":9}`, `{}`, `{"payload":{"a":[1, 2]}}`, `{"payload_b64":"AAEC/w=="}`,
		`{"binary_addr":"s3://a b","input_addr":"c=d,%"}`, `{"binary_addr":"x"}`, `{"payload":"x","unique_key":"order 7"}`, `{"payload":"x","meta":{"colour":"deep red","a":""}}`,
		`{"payload":"x","lease_ms":300000,"timeout_ms":2000,"expires_at":4000000000000}`, `{"payload":"x","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`,
		`{"payload":"x","run_at":1}`,
		`[{"payload":"a"},{"payload":"b\nc","unique_key":"k"},{},{"payload":5},{"payload":6,"unique_key":"l"},{"payload":7}]`,
	} {
		r.post("/jobs/create", body).object(http.StatusCreated)
	}
	r.add("/add", "not \xff UTF-8\nplain\n").object(http.StatusCreated)
	again := r.post("/jobs/claim", `{"runner_id":"r","max":6}`).object(http.StatusOK)["jobs"].([]any)
	id := func(i int) string { return again[i].(map[string]any)["job_id"].(string) }
	r.post("/jobs/"+id(0)+"/complete", `{"code":"error","error":"it\nbroke: käse","delay_ms":0}`).object(http.StatusOK)
	r.post("/jobs/"+id(1)+"/complete", `{"code":"retry","exit_code":101,"delay_ms":0}`).object(http.StatusOK)
	for i := 2; i < 6; i++ {
		r.post("/jobs/"+id(i)+"/release", `{"how":"unget"}`).object(http.StatusOK)
	}
	deferred := func() int { return len(r.get("/jobs?status=deferred").object(http.StatusOK)["jobs"].([]any)) }
	for deferred() > 0 {
	}
	return len(r.get("/jobs?status=pending&limit=1000").object(http.StatusOK)["jobs"].([]any))
}

// TestRunsOfCreators: the jobs of a run have one creator, which the run names.
func TestRunsOfCreators(t *testing.T) {
	r := start(t)
	admin := r.newKey("", "boss", "admin")
	for _, name := range []string{"one", "two"} {
		key := r.newKey(admin, name, "producer")
		for range 2 {
			r.post("/jobs/create", `[{"payload":"a"},{"payload":"b"},{"payload":"c"}]`, as(key)...).object(http.StatusCreated)
		}
	}
	c, list := claimedInRuns(t, r.post("/jobs/claim", `{"runner_id":"r","max":100}`, append(as(admin), "Accept", web.MIMERuns)...))
	testkit.MustHold(t, c.Jobs == 12 && len(list) == 4, c, len(list), "runs")
	for i, by := range []string{"one", "one", "two", "two"} {
		testkit.Equal(t, list[i].First.By, by, i)
	}
	docs := testkit.Must(runs.Documents(list))(t)
	testkit.Equal(t, docs[2].By+" "+docs[11].By, "one two")
}

// TestClaimInRuns: a claim in runs contains everything that the documents of its jobs contain.
func TestClaimInRuns(t *testing.T) {
	r := start(t)
	claim := func(body string) reply {
		return r.post("/jobs/claim", body, "Accept", web.MIMERuns+", "+web.MIMENDJSON)
	}
	a := claim(`{"runner_id":"r","max":5}`)
	testkit.Holds(t, a.status == http.StatusNoContent && a.body == "", "nothing there", a.status, a.body)
	r.add("/acme/job/resize/add", strings.Repeat("0123456789\n", 100)).object(http.StatusCreated)
	a = claim(`{"runner_id":"runner 1","max":100}`)
	testkit.Holds(t, len(a.body) <= 100*10+100*2+200+200, len(a.body), "bytes for a run of 100 jobs", a.body)
	c, list := claimedInRuns(t, a)
	testkit.Holds(t, c.Runner == "runner 1" && c.Jobs == 100 && len(list) == 1, c, len(list), "runs")
	sameDocuments(t, r, &c, list)

	n := mixedJobs(r)
	const whole = `{"runner_id":"r","max":1000,"lease_ms":5000}`
	first := r.post("/jobs/claim", whole, "Accept", web.MIMERuns, "Idempotency-Key", "k")
	c, list = claimedInRuns(t, first)
	testkit.Equal(t, c.Jobs, n, "jobs")
	sameDocuments(t, r, &c, list)
	// A tickle changes the documents.
	r.post("/jobs/"+list[0].First.ID.String()+"/tickle", `{"lease_ms":9000,"step":"half","progress":0.5}`).object(http.StatusOK)
	repeated := r.post("/jobs/claim", whole, "Accept", web.MIMERuns, "Idempotency-Key", "k")
	testkit.Equal(t, repeated.header.Get("Idempotency-Replayed"), "true", "the repeat was carried out")
	c, list = claimedInRuns(t, repeated)
	testkit.Equal(t, c.Jobs, n, "jobs in the repeat")
	sameDocuments(t, r, &c, list)
}

// TestClaimFormsInRuns: every form of claim can be answered in runs.
func TestClaimFormsInRuns(t *testing.T) {
	r := start(t)
	claim := func(body string) reply { return r.post("/jobs/claim", body, "Accept", web.MIMERuns) }
	r.add("/add", "a\nb\nc\nd\n").object(http.StatusCreated)
	one, list := claimedInRuns(t, claim(`{"runner_id":"r"}`))
	testkit.MustEqual(t, one.Jobs, 1, one, list)
	testkit.Equal(t, string(list[0].Parts[0]), "a\n", one, list)
	a := claim(`{"runner_id":"r","max":2,"complete":{"claim_id":"` + one.ID.String() + `","status":"completed"}}`)
	testkit.Holds(t, strings.HasPrefix(a.body, "#:results v=1 ended=1 jobs=0 runs=0\n#:claim v=1 claim_id="), a.body)
	two, list := claimedInRuns(t, a)
	a = claim(`{"runner_id":"r","max":2,"complete":[{"job_id":"` + list[0].First.ID.String() + `","code":"ok"},{"job_id":"` + list[0].ID(1).String() + `","code":"ok","claim_id":"` + one.ID.String() + `"}]}`)
	want := fmt.Sprintf("#:results v=1 jobs=2 runs=2\n#:run job_id=%s n=1 status=completed\n#:run job_id=%s n=1 code=claim_lost detail=", list[0].First.ID, list[0].ID(1))
	testkit.Holds(t, strings.HasPrefix(a.body, want), a.body, "want", want)
	claimedInRuns(t, a)
	a = claim(`{"runner_id":"r","max":2,"complete":{"claim_id":"` + unknownID + `","status":"completed"}}`)
	testkit.Holds(t, strings.HasPrefix(a.body, "#:results v=1 ended=0 jobs=0 runs=0 code=claim_lost detail=") &&
		strings.HasSuffix(a.body, "\n#:claim v=1 jobs=0 runs=0\n"), a.body)
	claimedInRuns(t, a)
	testkit.Equal(t, two.Jobs, 2, two)
	o := r.post("/jobs/claim?fields=payload", `{"runner_id":"r"}`, "Accept", web.MIMERuns).refused(http.StatusBadRequest, "bad_request")
	testkit.Equal(t, o["field"], "fields", o)
	for accept, kind := range map[string]string{
		web.MIMERuns + ";q=1, " + web.MIMEJSON: web.MIMERuns, web.MIMEJSON + ", " + web.MIMERuns: web.MIMEClaim, web.MIMENDJSON + ", " + web.MIMERuns: web.MIMENDJSON, "*/*": web.MIMEClaim, "text/html": web.MIMEClaim,
	} {
		r.add("/add", "a\n").object(http.StatusCreated)
		got := r.post("/jobs/claim", `{"runner_id":"r","max":1}`, "Accept", accept).header.Get("Content-Type")
		testkit.Holds(t, got == kind, "Accept", accept, "is answered in", got, "want", kind)
	}
}

// TestClaimedFields: the answer to a claim of several jobs leaves out fields that are null, and has the fields that the
// request selects.
func TestClaimedFields(t *testing.T) {
	r := start(t)
	for _, c := range []struct{ name, path, body, accept, want string }{
		{"one", "?fields=payload,output", `{"runner_id":"r"}`, "", `{"job_id":"ID","payload":"a","output":null}` + "\n"},
		{"many", "?fields=output,payload", `{"runner_id":"r","max":2}`, "", `"jobs":[{"job_id":"ID","payload":"a"}]}` + "\n"},
		{"no payload", "?fields=run_attempts,error", `{"runner_id":"r","max":2}`, "", `"jobs":[{"job_id":"ID","run_attempts":1}]}` + "\n"},
		{"only ids", "?fields=job_id", `{"runner_id":"r","max":2}`, "", `"jobs":[{"job_id":"ID"}]}` + "\n"},
		{"lines", "?fields=client,payload,why,type", `{"runner_id":"r","max":2}`, web.MIMENDJSON, "}\n" + `{"job_id":"ID","client":"default","type":"default","payload":"a"}` + "\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := r.add("/add", "a\n").object(http.StatusCreated)["first_id"].(string)
			a := r.post("/jobs/claim"+c.path, c.body, "Accept", c.accept)
			got := strings.ReplaceAll(a.body, id, "ID")
			testkit.Holds(t, strings.HasSuffix(got, c.want), got, "does not end in", c.want)
		})
	}
	r.add("/add", "a\n").object(http.StatusCreated)
	a := r.post("/jobs/claim", `{"runner_id":"r","max":2}`)
	testkit.Holds(t, !strings.Contains(a.body, "null") && strings.Contains(a.body, `"payload":"a","attempts":[],"runner_id":"r"`), a.body)
	for _, query := range []string{"?fields=nonsense", "?fields=payload,payload", "?fields=", "?field=payload"} {
		r.post("/jobs/claim"+query, `{"runner_id":"r"}`).refused(http.StatusBadRequest, "bad_request")
	}
}

// accepts sends requests with another Accept header.
type accepts string

func (a accepts) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Accept", string(a))
	return http.DefaultTransport.RoundTrip(req)
}

// TestGoClientReadsRuns: the Go client reads the same jobs in runs as in JSON and NDJSON.
func TestGoClientReadsRuns(t *testing.T) {
	r := start(t)
	n := mixedJobs(r)
	var first *goclient.Claim
	for _, accept := range []string{web.MIMERuns, web.MIMENDJSON, web.MIMEJSON} {
		c := goclient.New(r.url, goclient.Options{HTTP: &http.Client{Transport: accepts(accept)}})
		claim := testkit.Must(c.Claim(t.Context(), goclient.ClaimRequest{RunnerID: "r", Max: 1000, LeaseMs: 5000, Key: "k"}))(t)
		if first == nil {
			first = claim
		}
		testkit.MustHold(t, claim.ID == first.ID && claim.LeaseMs == first.LeaseMs &&
			len(claim.Jobs) == n, accept, "claim", claim.ID, "of", len(claim.Jobs), "jobs, want", first.ID, "of", n)
		for i, j := range claim.Jobs {
			want := *first.Jobs[i]
			if j.Kind == goclient.JSON { // NDJSON has no newlines within a value
				want.Payload = bytes.ReplaceAll(want.Payload, []byte("\n"), []byte(" "))
			}
			if len(j.Payload)+len(want.Payload) == 0 {
				j.Payload, want.Payload = nil, nil
			}
			testkit.DeepEqual(t, *j, want, accept, "job", i)
		}
	}
}

// outcomesInRuns writes a body in runs.
func outcomesInRuns(c runs.Completion, list ...runs.OutcomeRun) string {
	c.Runs = len(list)
	for i := range list {
		c.Jobs += list[i].N
	}
	b := runs.AppendCompletion(nil, &c)
	for i := range list {
		b = runs.AppendOutcomeRun(b, &c, &list[i])
	}
	return string(b)
}

func outcomeOf(first job.ID, code job.Code) job.Outcome {
	return job.Outcome{ID: first, Code: code, ExitCode: code.DefaultExitCode(), DelayMs: -1}
}

func TestCompletionInRuns(t *testing.T) {
	testkit.OneByOne(t)
	r := start(t)
	complete := func(body string, headers ...string) reply {
		return r.do(http.MethodPost, "/jobs/complete", strings.NewReader(body), append([]string{"Content-Type", web.MIMERuns}, headers...)...)
	}
	claim := func(max int) (runs.Claim, []runs.Run) {
		return claimedInRuns(t, r.post("/jobs/claim", fmt.Sprintf(`{"runner_id":"r","max":%d}`, max), "Accept", web.MIMERuns))
	}
	r.add("/add", strings.Repeat("x\n", 100)).object(http.StatusCreated)
	c, list := claim(10)
	first := list[0].First.ID
	at := func(i int) job.ID { return first.WithLine(first.Line() + i) }

	t.Run("outputs and a refusal", func(t *testing.T) {
		outputs := outcomeOf(first, job.OK)
		outputs.OutputKind = job.JSON
		body := outcomesInRuns(runs.Completion{Claim: c.ID, Runner: "r"},
			runs.OutcomeRun{Claim: c.ID, Runner: "r", Outcome: outputs, N: 2, Frame: job.LenFrame, Outputs: []byte("8\n{\"a\":\n1}\n1\n7\n")},
			runs.OutcomeRun{Claim: c.ID, Runner: "r", Outcome: outcomeOf(at(2), job.Fail), N: 2},
			runs.OutcomeRun{Claim: c.ID, Runner: "r", Outcome: outcomeOf(at(50), job.OK), N: 3},
		)
		a := complete(body, "Accept", web.MIMERuns)
		want := fmt.Sprintf("#:results v=1 jobs=7 runs=3\n#:run job_id=%s n=2 status=completed\n#:run job_id=%s n=2 status=failed\n#:run job_id=%s n=3 code=claim_lost detail=", at(0), at(2), at(50))
		testkit.MustHold(t, a.status == http.StatusOK && a.header.Get("Content-Type") == web.MIMERuns &&
			strings.HasPrefix(a.body, want) && a.header.Get("Daybook-Seq") != "", a.status, a.body)
		testkit.Equal(t, fmt.Sprint(r.get("/jobs/" + at(0).String()).object(http.StatusOK)["output"]), "map[a:1]")
		testkit.Equal(t, fmt.Sprint(r.get("/jobs/" + at(1).String()).object(http.StatusOK)["output"]), "7")
		again := complete(body).object(http.StatusOK) // in JSON: how many were accepted, and the refused ones
		refused, _ := again["refused"].([]any)
		if fmt.Sprint(again["accepted"]) != "4" || len(again) != 2 || len(refused) != 3 || refused[0].(map[string]any)["job_id"] != at(50).String() || refused[0].(map[string]any)["code"] != "claim_lost" {
			t.Errorf("the repeat is answered %v", again)
		}
	})
	t.Run("all", func(t *testing.T) {
		all := job.Outcome{Code: job.Retry, ExitCode: 101, DelayMs: 0, Error: "later"}
		body := outcomesInRuns(runs.Completion{Claim: c.ID, All: &all}, runs.OutcomeRun{Claim: c.ID, Outcome: outcomeOf(at(4), job.OK), N: 1})
		a := complete(body, "Accept", web.MIMERuns, "Idempotency-Key", "k")
		want := fmt.Sprintf("#:results v=1 ended=5 jobs=1 runs=1\n#:run job_id=%s n=1 status=completed\n", at(4))
		testkit.MustHold(t, a.status == http.StatusOK && a.body == want, a.status, a.body, "want", want)
		again := complete(body, "Accept", web.MIMERuns, "Idempotency-Key", "k")
		testkit.Equal(t, again.body, a.body, "the repeat")
		testkit.Equal(t, again.header.Get("Idempotency-Replayed"), "true", "the repeat is answered", again.body)
		complete(body+"\n", "Idempotency-Key", "k").refused(http.StatusBadRequest, "bad_request")
		lost := outcomesInRuns(runs.Completion{Claim: job.NewID(1, 1<<30, 0), All: &all})
		complete(lost, "Accept", web.MIMERuns).refused(http.StatusConflict, "claim_lost")
	})
	t.Run("answers in other forms", func(t *testing.T) {
		c, list := claim(3)
		first := list[0].First.ID
		lines := fmt.Sprintf(`{"job_id":"%s","code":"ok","claim_id":"%s"}`, first, c.ID)
		a := r.do(http.MethodPost, "/jobs/complete", strings.NewReader(lines), "Content-Type", web.MIMENDJSON, "Accept", web.MIMERuns)
		testkit.Holds(t, strings.HasPrefix(a.body, "#:results v=1 jobs=1 runs=1\n"), a.body)
		a = r.post("/jobs/complete", `{"claim_id":"`+c.ID.String()+`","status":"completed"}`, "Accept", web.MIMERuns)
		testkit.Holds(t, a.body == "#:results v=1 ended=3 jobs=0 runs=0\n" || a.body == "#:results v=1 ended=2 jobs=0 runs=0\n", a.body)
	})
	text := outcomeOf(first, job.OK)
	text.OutputKind = job.Text
	value := text
	value.OutputKind = job.JSON
	long := outcomeOf(job.ID{}, job.OK)
	long.OutputKind, long.Output = job.Text, bytes.Repeat([]byte{'x'}, job.MaxForAllBytes+1)
	all := outcomeOf(job.ID{}, job.OK)
	some := runs.Completion{Claim: c.ID}
	for _, bad := range []struct{ name, body, detail string }{
		{"another section", "#:claim v=1 jobs=0 runs=0\n", "is not a line #:complete"},
		{"empty", "#:complete v=1 jobs=0 runs=0\n", "no outcome"},
		{"cut off", outcomesInRuns(some, runs.OutcomeRun{Claim: c.ID, Outcome: text, N: 1, Frame: job.LineFrame, Outputs: []byte("x\n")})[:120], "run 1, whose head line is at byte"},
		{"text that is not UTF-8", outcomesInRuns(some, runs.OutcomeRun{Claim: c.ID, Outcome: text, N: 2, Frame: job.LineFrame, Outputs: []byte("x\n\xff\n")}), "run 1: job " + at(1).String() + ": the output with kind=text is not valid UTF-8"},
		{"JSON that is none", outcomesInRuns(some, runs.OutcomeRun{Claim: c.ID, Outcome: value, N: 1, Frame: job.LineFrame, Outputs: []byte("{\n")}), "is not a JSON value"},
		{"a JSON string", outcomesInRuns(some, runs.OutcomeRun{Claim: c.ID, Outcome: value, N: 1, Frame: job.LineFrame, Outputs: []byte("\"x\"\n")}), "must not be a string"},
		{"a long output", outcomesInRuns(some, runs.OutcomeRun{Claim: c.ID, Outcome: text, N: 1, Frame: job.LineFrame, Outputs: append(bytes.Repeat([]byte{'x'}, job.MaxOutputBytes+1), '\n')}), "the maximum is 4194304"},
		{"a long output for all", outcomesInRuns(runs.Completion{Claim: c.ID, All: &long}), "the maximum is 8192"},
		{"exceptions of another claim", outcomesInRuns(runs.Completion{Claim: c.ID, All: &all}, runs.OutcomeRun{Claim: first, Outcome: outcomeOf(first, job.OK), N: 1}), "must have the claim_id"},
		{"too many exceptions", outcomesInRuns(runs.Completion{Claim: c.ID, All: &all}, runs.OutcomeRun{Claim: c.ID, Outcome: outcomeOf(first, job.OK), N: job.MaxClaimJobs + 1}), "too many jobs"},
		{"too many outcomes", outcomesInRuns(some, runs.OutcomeRun{Claim: c.ID, Outcome: outcomeOf(first, job.OK), N: job.MaxRunOutcomes + 1}), "is not in 0 … 10000"},
	} {
		t.Run(bad.name, func(t *testing.T) {
			testkit.Contains(t, complete(bad.body).refused(http.StatusBadRequest, "bad_request")["detail"].(string), bad.detail)
		})
	}
	t.Run("at the limit", func(t *testing.T) {
		a := complete(outcomesInRuns(some, runs.OutcomeRun{Claim: c.ID, Outcome: outcomeOf(job.NewID(1, 1<<30, 0), job.OK), N: job.MaxRunOutcomes}), "Accept", web.MIMERuns)
		if !strings.Contains(a.body, fmt.Sprintf(" n=%d code=job_not_found ", job.MaxRunOutcomes)) {
			t.Errorf("%d %.300s", a.status, a.body)
		}
	})
	t.Run("not for claims", func(t *testing.T) {
		r.do(http.MethodPost, "/jobs/claim", strings.NewReader("#:complete v=1 jobs=0 runs=0\n"), "Content-Type", web.MIMERuns).refused(http.StatusUnsupportedMediaType, "unsupported_media_type")
	})
}
