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
	if a.status != http.StatusOK || a.header.Get("Content-Type") != web.MIMERuns || err != nil {
		t.Fatalf("%d %s %s, %v", a.status, a.header.Get("Content-Type"), a.body, err)
	}
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
		testkit.DeepEqual(t, got, shown.Jobs[i], "in runs shown")
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

// TestClaimInRuns: a claim in runs contains everything that the documents of its jobs contain.
func TestClaimInRuns(t *testing.T) {
	r := start(t)
	claim := func(body string) reply {
		return r.post("/jobs/claim", body, "Accept", web.MIMERuns+", "+web.MIMENDJSON)
	}
	if a := claim(`{"runner_id":"r","max":5}`); a.status != http.StatusNoContent || a.body != "" {
		t.Errorf("nothing there: %d %s", a.status, a.body)
	}
	r.add("/acme/job/resize/add", strings.Repeat("0123456789\n", 100)).object(http.StatusCreated)
	a := claim(`{"runner_id":"runner 1","max":100}`)
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
	if !strings.HasPrefix(a.body, want) {
		t.Errorf("%s\nwant\n%s", a.body, want)
	}
	claimedInRuns(t, a)
	a = claim(`{"runner_id":"r","max":2,"complete":{"claim_id":"` + unknownID + `","status":"completed"}}`)
	if !strings.HasPrefix(a.body, "#:results v=1 ended=0 jobs=0 runs=0 code=claim_lost detail=") || !strings.HasSuffix(a.body, "\n#:claim v=1 jobs=0 runs=0\n") {
		t.Error(a.body)
	}
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
			if got := strings.ReplaceAll(a.body, id, "ID"); !strings.HasSuffix(got, c.want) {
				t.Errorf("%s\ndoes not end in\n%s", got, c.want)
			}
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
		if claim.ID != first.ID || claim.LeaseMs != first.LeaseMs || len(claim.Jobs) != n {
			t.Fatalf("%s: claim %s of %d jobs, want %s of %d", accept, claim.ID, len(claim.Jobs), first.ID, n)
		}
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
