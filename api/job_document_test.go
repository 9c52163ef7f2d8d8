package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/command"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
)

// documentFields are the fields of a job document in the order of docs/reference/api.md.
func documentFields(t testing.TB, text string) []string {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	testkit.Must(d.Token())(t)
	var names []string
	for d.More() {
		name := testkit.Must(d.Token())(t)
		var value json.RawMessage
		testkit.NoError(t, d.Decode(&value))
		names = append(names, name.(string))
	}
	return names
}

func TestJobDocument(t *testing.T) {
	doc := readDoc(t, "api.md")
	_, doc, _ = strings.Cut(doc, "### `GET /jobs/{id}`\n")
	_, doc, _ = strings.Cut(doc, "\n```json\n")
	doc, _, _ = strings.Cut(doc, "\n```")
	fields := fmt.Sprint(documentFields(t, doc))
	var names []string
	for _, f := range answer.JobFields {
		names = append(names, f.Name)
	}
	testkit.Equal(t, fmt.Sprint(names), fields, "the fields of the table")
	exit := int64(-1)
	full := job.Job{
		ID: job.NewID(5, 6, 7), Batch: job.NewID(5, 6, 0), Client: "c", Type: "t", Status: job.Failed, Payload: []byte("p"),
		Attributes: job.Attributes{Priority: 9, Kind: job.Text, MaxAttempts: 3, LeaseMs: 4, RunAt: 5},
		Code:       job.Error, ExitCode: 500, Error: "err \"or\"\n", Step: "s", Progress: 999_999, Runner: "r\u2028", Claim: job.NewID(8, 9, 0),
		RunAttempts: 2, CreatedAt: 6, UpdatedAt: 7, TickledAt: 7, CompletedAt: 8, DeadlineAt: 9,
		Result: job.Result{ProcessExit: &exit, OutputAddr: "there", LogAddr: "kept", OutputKind: job.JSON, Output: []byte(`[1, 2]`)},
		Attempts: []job.Attempt{
			{At: 1, Runner: "a", Code: job.Error, ExitCode: 500, Error: "no", Why: job.Reported, StartedAt: 4, Claim: job.NewID(4, 5, 0), ProcessExit: &exit, LogAddr: "log"},
			{At: 2, Runner: "b", Why: job.Abandoned},
		},
	}
	for name, text := range map[string]string{
		"full":  string(answer.AppendJob(nil, &full, answer.InJSON)),
		"empty": string(answer.AppendJob(nil, &job.Job{Status: job.Pending, Progress: -1}, answer.InJSON)),
		"gone":  string(answer.AppendGone(nil, full.ID, job.Completed)),
	} {
		testkit.Equal(t, fmt.Sprint(documentFields(t, text)), fields, name, "fields")
	}
	var o map[string]any
	d := json.NewDecoder(bytes.NewReader(answer.AppendJob(nil, &full, answer.InJSON)))
	d.UseNumber()
	testkit.NoError(t, d.Decode(&o))
	want(t, o, "job_id", full.ID, "batch_id", full.Batch, "client", "c", "type", "t", "status", "failed", "priority", 9, "payload", "p", "payload_b64", nil,
		"code", "error", "exit_code", 500, "process_exit", -1, "error", full.Error, "step", "s", "progress", "0.999999", "runner_id", full.Runner,
		"claim_id", full.Claim, "run_attempts", 2, "max_attempts", 3, "lease_ms", 4, "run_at", 5, "created_at", 6, "updated_at", 7, "tickled_at", 7, "completed_at", 8,
		"deadline_at", 9, "output_addr", "there", "log_addr", "kept", "output", "[1 2]", "output_b64", nil)
	attempts := o["attempts"].([]any)
	want(t, attempts[0].(map[string]any), "at", 1, "runner_id", "a", "code", "error", "exit_code", 500, "error", "no", "why", "reported",
		"claim_id", job.NewID(4, 5, 0), "started_at", 4, "process_exit", -1, "log_addr", "log")
	want(t, attempts[1].(map[string]any), "at", 2, "runner_id", "b", "code", nil, "exit_code", nil, "error", nil, "why", "abandoned")
}

// FuzzRequests: no bytes make the decoders panic, and each refusal is a problem.
func FuzzRequests(f *testing.F) {
	for _, seed := range []string{`{}`, `{"payload":{"a":[1]},"delay_ms":5}`, `{"runner_id":"r","complete":[{"job_id":"` + unknownID + `","code":"ok"}]}`,
		`{"claim_id":"` + unknownID + `","code":"ok","except":[]}`, `{"job_ids":[null]}`, "{\"outcomes\":[{}]}\n{}",
		"status=active&client=a&type=b&created_after=1&limit=5&after=" + unknownID, "fields=status,output&meta.k=v&runner_id=r"} {
		f.Add([]byte(seed))
	}
	s := &command.Decoder{CheckClient: (&web.Server{}).CheckClient, Now: idle{}.Now, HandlerFor: idle{}.HandlerFor}
	s.Defaults = testkit.Must((command.Defaults{}).Filled())(f)
	enough := func(int64) error { return nil }
	check := func(t *testing.T, err error) {
		p := refusal.Of(err)
		testkit.Holds(t, err == nil || (p.Status == 400 || p.Status == 413) && p.Code != "internal", err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var create command.CreateRequest
		err := web.DecodeObject(text, &create)
		if err == nil {
			if _, err = s.Group(&create.Attributes, 1); err == nil {
				_, _, err = create.StoredPayload()
			}
		}
		check(t, err)
		var claim command.ClaimRequest
		if err = web.DecodeObject(text, &claim); err == nil {
			if _, _, err = claim.Command(); err == nil && !web.Absent(claim.Complete) {
				err = claim.Completion(&command.Completion{Most: job.MaxOutcomes, Reserve: enough})
			}
		}
		check(t, err)
		var complete command.CompleteRequest
		if err = web.DecodeObject(text, &complete); err == nil {
			err = complete.Completion(&command.Completion{Reserve: enough})
		}
		check(t, err)
		var tickle command.TickleFields
		if err = web.DecodeObject(text, &tickle); err == nil {
			_, err = tickle.Command()
		}
		check(t, err)
		check(t, (&command.Completion{Reserve: enough}).Lines(text))
		for _, r := range unserved().routes() {
			query, err := web.ParseQuery(string(text), r.query)
			check(t, err)
			switch {
			case err != nil:
			case strings.HasSuffix(r.path, "/add"):
				_, _, err = command.QueryAttributes(query)
			case r.path == "/queues":
				_, _, err = (&queuesQuery{After: web.OrNull(string(text))}).after()
			case r.path == "/jobs":
				_, err = (&jobsQuery{Meta: map[string]string{string(text): string(text)}}).filter()
			case slices.ContainsFunc(query, func(p web.Parameter) bool { return p.Key == "fields" }):
				err = new(answer.Selection).UnmarshalText(text)
			}
			check(t, err)
		}
	})
}

// TestManifest: PUT /handlers/{type} takes a manifest in TOML, and stores the same handler as for the equal JSON.
func TestManifest(t *testing.T) {
	r := start(t)
	put := func(kind, text string) reply {
		t.Helper()
		return r.do(http.MethodPut, "/handlers/facts", strings.NewReader(text), "Content-Type", kind)
	}
	address := strings.Repeat("0", 40)
	o := put("application/toml", "name = \"serval-facts\"\nnamespace = \"com.example\"\nversion = \"1\"\nbinary = \""+address+"\"\nrequired_permissions = [\"http:example.com\"]\n").object(http.StatusCreated)
	want(t, o, "kind", "wasi", "type", "facts")
	stored := o["handler"].(map[string]any)
	want(t, stored, "kind", "wasi", "name", "serval-facts", "namespace", "com.example", "version", "1", "binary", address)
	p := stored["required_permissions"].([]any)
	testkit.Holds(t, len(p) == 1 && p[0] == "http:example.com", "the permissions are", p)
	put("application/json", `{"binary":"`+address+`","kind":"wasi","name":"serval-facts","namespace":"com.example","version":"1","required_permissions":["http:example.com"]}`).object(http.StatusOK)
	for _, c := range []struct{ text, field string }{
		{"", "binary"},
		{"binary = \"facts.wasm\"", "binary"},
		{"binary = \"" + address + "\"\nkind = \"wasi\"", "kind"},
		{"binary = \"" + address + "\"\nrequired_permissions = [\"root\"]", "required_permissions"},
		{"binary = \"" + address + "\"\nname = \"a b\"", "name"},
	} {
		want(t, put("application/toml", c.text).refused(http.StatusBadRequest, "bad_request"), "field", c.field)
	}
	for _, text := range []string{"binary = ", `{"kind":"wasi"}`, "binary = 1", strings.Repeat("#", 1<<20+1)} {
		put("application/toml", text).refused(http.StatusBadRequest, "bad_request")
	}
	put("application/yaml", "binary: "+address).refused(http.StatusUnsupportedMediaType, "unsupported_media_type")
}

// TestTraceparentHeader: every form of create gives the header of its request to the jobs that have no traceparent.
func TestTraceparentHeader(t *testing.T) {
	const header, own = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	r := start(t)
	inRuns := func(traceparent string) string {
		one := newRun("x", job.Text, job.LineFrame, "a")
		one.Traceparent = traceparent
		return string(runs.AppendNewRun(runs.AppendCreation(nil, &runs.Creation{Jobs: 1, Runs: 1}), &one))
	}
	for form, c := range map[string]struct{ path, body, contentType, withOwn string }{
		"object":         {"/jobs/create", `{}`, web.MIMEJSON, `{"traceparent":"` + own + `"}`},
		"list":           {"/jobs/create", `[{}]`, web.MIMEJSON, `[{"traceparent":"` + own + `"}]`},
		"lines of JSON":  {"/jobs/create", `{}`, web.MIMENDJSON, `{"traceparent":"` + own + `"}`},
		"runs":           {"/jobs/create", inRuns(""), web.MIMERuns, inRuns(own)},
		"bulk lines":     {"/add", "x\n", web.MIMEText, ""},
		"lines to queue": {"/acme/job/mail/add", "x\n", web.MIMEText, ""},
	} {
		t.Run(form, func(t *testing.T) {
			created := func(path, body, header string) any {
				t.Helper()
				doc := r.do(http.MethodPost, path, strings.NewReader(body), "Content-Type", c.contentType, "traceparent", header).object(http.StatusCreated)
				id := doc["job_id"]
				if id == nil {
					id = doc["first_id"]
				}
				return r.get("/jobs/" + id.(string)).object(http.StatusOK)["traceparent"]
			}
			testkit.Equal(t, created(c.path, c.body, header), header, "the job")
			got := created(c.path, c.body, "00-xyz")
			testkit.Holds(t, got == nil, "with a malformed header the job has", got)
			path, body := c.path, c.withOwn
			if body == "" {
				path, body = c.path+"?traceparent="+own, c.body
			}
			testkit.Equal(t, created(path, body, header), own, "a job with its own traceparent")
		})
	}
	const rest = "-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
	for text, want := range map[string]any{
		"01" + rest: header, "fe" + rest: header, "01" + rest + "-more": header,
		"ff" + rest: nil, "0A" + rest: nil, "1" + rest: nil, "01" + rest + "more": nil, "00" + rest + "-more": nil, "01-short": nil, "": nil, "+1" + rest: nil,
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": nil, "01-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": nil,
	} {
		testkit.Equal(t, r.post("/jobs/create", `{}`, "traceparent", text).object(http.StatusCreated)["traceparent"], want, text, "the job")
	}
}
