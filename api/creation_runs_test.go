package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/api/internal/stream"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
)

// jobsInRuns writes a body with new jobs.
func jobsInRuns(noBatch bool, list ...runs.NewRun) string {
	c := runs.Creation{NoBatch: noBatch, Runs: len(list)}
	for i := range list {
		c.Jobs += list[i].N
	}
	b := runs.AppendCreation(nil, &c)
	for i := range list {
		b = runs.AppendNewRun(b, &list[i])
	}
	return string(b)
}

// newRun returns a run of jobs with these payloads.
func newRun(typ string, kind job.Kind, frame job.Frame, payloads ...string) runs.NewRun {
	r := runs.NewRun{N: len(payloads), Type: typ, Kind: kind, Frame: frame}
	for _, p := range payloads {
		r.Payloads = frame.Append(r.Payloads, []byte(p))
	}
	return r
}

// shownAs has the fields of a job's document that its run sets.
type shownAs struct {
	typ    string
	fields []any
}

// everyKind returns runs of all kinds and framings, and the documents that their jobs must have.
func everyKind(late int64) (list []runs.NewRun, want []shownAs) {
	full := newRun("all", job.JSON, job.LineFrame, `{"a":[1, 2]}`)
	full.Client, full.Meta, full.Traceparent = "acme", "k=v", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	full.Numbers = []runs.Number{
		{Key: "run_at", Value: late}, {Key: "priority", Value: 7}, {Key: "max_attempts", Value: 9}, {Key: "backoff_initial_ms", Value: 5},
		{Key: "lease_ms", Value: 7000}, {Key: "expires_at", Value: late + 5}, {Key: "timeout_ms", Value: 8000},
	}
	list = []runs.NewRun{
		newRun("text", job.Text, job.LineFrame, "a", "", "c"),
		newRun("text", job.Text, job.LenFrame, "two\nlines"),
		newRun("bytes", job.Bytes, job.LenFrame, "\x00\xff\n"),
		{N: 2, Type: "nothing"},
		full,
		newRun("wasi", job.WASI, job.LineFrame, "bin%20ary in"),
	}
	return list, []shownAs{
		{"text", []any{"payload", "a"}}, {"text", []any{"payload", ""}}, {"text", []any{"payload", "c"}}, {"text", []any{"payload", "two\nlines"}},
		{"bytes", []any{"payload_b64", "AP8K"}},
		{"nothing", []any{"payload", nil}}, {"nothing", []any{"payload", nil}},
		{"all", []any{"client", "acme", "payload", map[string]any{"a": []any{1, 2}}, "status", "deferred", "run_at", late, "priority", 7.0,
			"max_attempts", 9.0, "lease_ms", 7000.0, "expires_at", late + 5, "timeout_ms", 8000.0, "meta", map[string]any{"k": "v"}}},
		{"wasi", []any{"binary_addr", "bin ary", "input_addr", "in"}},
	}
}

// wantJobs compares the jobs in the answer to a create with the expected documents.
func (r *rig) wantJobs(doc map[string]any, list []shownAs, batched bool) {
	r.Helper()
	want(r.T, doc, "count", float64(len(list)))
	first := testkit.Must(job.ParseID(doc["first_id"].(string)))(r)
	testkit.MustHold(r, doc["last_id"] == first.WithLine(first.Line()+len(list)-1).String(), doc)
	for i, shown := range list {
		o := r.get("/jobs/" + first.WithLine(first.Line()+i).String()).object(http.StatusOK)
		want(r.T, o, append([]any{"type", shown.typ}, shown.fields...)...)
		testkit.Holds(r, (o["batch_id"] != nil) == batched && (doc["batch_id"] != nil) == batched, "job", i, doc, "has the batch", o["batch_id"])
	}
}

func TestCreationInRuns(t *testing.T) {
	r := start(t)
	create := func(body string, headers ...string) reply {
		return r.do(http.MethodPost, "/jobs/create", strings.NewReader(body), append([]string{"Content-Type", web.MIMERuns}, headers...)...)
	}
	late := time.Now().Add(time.Hour).UnixMilli()
	list, shown := everyKind(late)
	r.wantJobs(create(jobsInRuns(false, list...)).object(http.StatusCreated), shown, true)
	single := create(jobsInRuns(true, list...)).object(http.StatusCreated)
	r.wantJobs(single, shown, false)
	at := single["run_at"].([]any)
	testkit.Holds(t, len(at) == len(shown) && fmt.Sprint(at) == fmt.Sprintf("[0 0 0 0 0 0 0 %d 0]", late), "run_at", at)
	o := create(jobsInRuns(true, list[0])).object(http.StatusCreated)
	testkit.Holds(t, o["run_at"] == nil, "no job is deferred", o)
	once := create(jobsInRuns(false, list...), "Idempotency-Key", "k").object(http.StatusCreated)
	want(t, create(jobsInRuns(false, list...), "Idempotency-Key", "k").object(http.StatusCreated), "batch_id", once["batch_id"])

	change := func(f func(*runs.NewRun)) string {
		x := newRun("t", job.Text, job.LineFrame, "x")
		f(&x)
		return jobsInRuns(false, newRun("t", job.Text, job.LineFrame, "x"), x)
	}
	number := func(key string, value int64) string {
		return change(func(x *runs.NewRun) { x.Numbers = []runs.Number{{Key: key, Value: value}} })
	}
	content := func(kind job.Kind, payload string) string {
		return jobsInRuns(false, newRun("t", kind, job.LineFrame, "0"), newRun("t", kind, job.LineFrame, payload))
	}
	var many []runs.NewRun
	for i := range job.MaxGroups + 1 {
		many = append(many, runs.NewRun{N: 1, Type: fmt.Sprint("t", i%2)})
	}
	for name, x := range map[string]struct{ body, field, detail string }{
		"malformed": {"#:create v=1 jobs=1\n", "", "field runs is missing"},
		"cut off":   {jobsInRuns(false, list...)[:60], "", "not a creation in runs"},
		"type":      {change(func(x *runs.NewRun) { x.Type = "a b" }), "type", "run 2"},
		"client":    {change(func(x *runs.NewRun) { x.Client = "jobs" }), "client", "run 2"},
		"priority":  {number("priority", 10), "priority", "run 2"},
		"lease":     {number("lease_ms", 1), "lease_ms", "run 2"},
		"backoff":   {number("backoff_factor_milli", 1), "backoff.factor_milli", "run 2"},
		"both times": {change(func(x *runs.NewRun) {
			x.Numbers = []runs.Number{{Key: "run_at", Value: 1}, {Key: "delay_ms", Value: 1}}
		}), "delay_ms", "run 2"},
		"text":          {content(job.Text, "\xff"), "payload", "job 1 of run 2: the payload with kind=text is not valid UTF-8"},
		"JSON":          {content(job.JSON, "{"), "payload", "job 1 of run 2: the payload with kind=json is not a JSON value"},
		"a JSON string": {content(job.JSON, `"x"`), "payload", "must not be a string"},
		"addresses":     {jobsInRuns(false, newRun("t", job.WASI, job.LineFrame, "a b c")), "payload", "job 1 of run 1"},
		"long payload":  {jobsInRuns(false, newRun("t", job.Text, job.LineFrame, strings.Repeat("x", job.MaxPayloadBytes+1))), "payload", "the maximum is"},
		"many runs":     {jobsInRuns(false, many...), "runs", "the maximum is 1000"},
	} {
		a := create(x.body)
		if x.field == "payload" && strings.Contains(x.detail, "maximum") {
			testkit.Equal(t, a.status, http.StatusRequestEntityTooLarge, name, a.body)
			continue
		}
		p := a.refused(http.StatusBadRequest, "bad_request")
		field, _ := p["field"].(string)
		testkit.Holds(t, field == x.field && strings.Contains(p["detail"].(string), x.detail), name, p)
	}
	create(jobsInRuns(true, list...), "Idempotency-Key", "k2").refused(http.StatusBadRequest, "bad_request")
}

// TestCreationInRunsAmplified: a run creates any number of jobs from a few bytes. Even so, neither the answer nor the
// record is much longer than the request.
func TestCreationInRunsAmplified(t *testing.T) {
	testkit.OneByOne(t)
	r := start(t)
	create := func(noBatch bool, list ...runs.NewRun) reply {
		return r.do(http.MethodPost, "/jobs/create", strings.NewReader(jobsInRuns(noBatch, list...)), "Content-Type", web.MIMERuns)
	}
	later := func(n int) runs.NewRun {
		return runs.NewRun{N: n, NewAttributes: runs.NewAttributes{Numbers: []runs.Number{{Key: "delay_ms", Value: 3_600_000}}}}
	}
	at := create(true, later(job.MaxRunJobs)).object(http.StatusCreated)["run_at"].([]any)
	testkit.Equal(t, len(at), job.MaxRunJobs, "times")
	want(t, create(true, later(job.MaxRunJobs+1)).refused(http.StatusBadRequest, "bad_request"), "field", "batch")
	want(t, create(false, later(job.MaxLines)).object(http.StatusCreated), "count", job.MaxLines)

	one := newRun("t", job.Text, job.LenFrame, "a\nb")
	made := create(false, runs.NewRun{N: job.MaxRunJobs}, one).object(http.StatusCreated)
	want(t, r.get("/jobs/"+made["last_id"].(string)).object(http.StatusOK), "payload", "a\nb")
	want(t, create(false, runs.NewRun{N: job.MaxRunJobs + 1}, one).refused(http.StatusBadRequest, "bad_request"), "field", "jobs")

	lines := func(n int) runs.NewRun {
		return runs.NewRun{N: n, Kind: job.Text, Frame: job.LineFrame, Payloads: []byte(strings.Repeat("\n", n))}
	}
	most := (web.MaxBodyBytes - len("3\na\nb\n")) / len("0\n\n")
	create(false, lines(most), one).object(http.StatusCreated)
	create(false, lines(most+1), one).refused(http.StatusRequestEntityTooLarge, "body_too_large")
	full := runs.NewRun{N: 2 << 20, Kind: job.Text, Frame: job.LineFrame, Payloads: []byte(strings.Repeat("\n", 2<<20))}
	want(t, create(false, full).object(http.StatusCreated), "count", full.N)

	c := r.open()
	want(t, c.refusal(c.sendRuns(jobsInRuns(true, later(job.MaxRunJobs+1))), "bad_request"), "field", "batch")
	want(t, c.refusal(c.send("create", "[{}"+strings.Repeat(",{}", job.MaxRunJobs)+"]", `,"batch":false`), "bad_request"), "field", "batch")
}

// binary sends a binary message.
func (c *streamClient) binary(text string) {
	c.Helper()
	testkit.NoError(c, c.conn.Write(c.Context(), websocket.MessageBinary, []byte(text)))
}

// sendRuns sends a request in runs and returns its number.
func (c *streamClient) sendRuns(body string, more ...string) int {
	c.Helper()
	c.n++
	c.binary(fmt.Sprintf("#:request n=%d%s\n%s", c.n, strings.Join(more, ""), body))
	return c.n
}

// TestStreamInRuns: a binary message carries the same runs as POST /jobs/create and POST /jobs/complete.
func TestStreamInRuns(t *testing.T) {
	testkit.OneByOne(t)
	r := start(t)
	c := r.open()
	late := time.Now().Add(time.Hour).UnixMilli()
	list, shown := everyKind(late)
	r.wantJobs(c.ok(c.sendRuns(jobsInRuns(false, list...))), shown, true)
	o := c.answer(c.sendRuns(jobsInRuns(true, list...)))
	testkit.Holds(t, o["seq"] != nil, "a create has no seq", o)
	r.wantJobs(o["ok"].(map[string]any), shown, false)

	// Requests that wait together share a record, and each gets the ids of its jobs.
	var numbers []int
	for i := range 50 {
		if i%2 == 0 {
			numbers = append(numbers, c.sendRuns(jobsInRuns(true, newRun("many", job.Text, job.LineFrame, slices.Repeat([]string{fmt.Sprint(i)}, 1+i%7)...))))
		} else {
			numbers = append(numbers, c.send("create", fmt.Sprintf(`[{"type":"many","payload":"%d"},{"type":"many","payload":"%[1]d"}]`, i), `,"batch":false`))
		}
	}
	before := ""
	for i, n := range numbers {
		doc, count := c.ok(n), 2
		if i%2 == 0 {
			count = 1 + i%7
		}
		r.wantJobs(doc, slices.Repeat([]shownAs{{"many", []any{"payload", fmt.Sprint(i)}}}, count), false)
		first := doc["first_id"].(string)
		testkit.Holds(t, first > before, "create", i, "has the id", first, "and the one before", before)
		before = doc["last_id"].(string)
	}
	deferred := c.ok(c.send("create", fmt.Sprintf(`[{},{"run_at":%d}]`, late), `,"batch":false`))
	at := deferred["run_at"].([]any)
	testkit.Holds(t, len(at) == 2 && at[0] == 0.0 && at[1] == float64(late), "run_at", at)

	held, jobs := claimedInRuns(t, r.post("/jobs/claim", `{"runner_id":"r","types":["many"],"max":10}`, "Accept", web.MIMERuns))
	outcome := outcomeOf(jobs[0].First.ID, job.OK)
	outcome.OutputKind = job.Text
	ended := c.ok(c.sendRuns(outcomesInRuns(runs.Completion{Claim: held.ID, Runner: "r"},
		runs.OutcomeRun{Claim: held.ID, Runner: "r", Outcome: outcome, N: 1, Frame: job.LenFrame, Outputs: []byte("3\na\nb\n")})))
	want(t, ended, "accepted", 1.0)
	refused, ok := ended["refused"].([]any)
	testkit.Holds(t, ok && len(refused) == 0, "refused", ended)
	want(t, r.get("/jobs/"+outcome.ID.String()).object(http.StatusOK), "output", "a\nb")
	all := outcomeOf(job.ID{}, job.Fail)
	ended = c.ok(c.sendRuns(outcomesInRuns(runs.Completion{Claim: held.ID, Runner: "r", All: &all})))
	want(t, ended, "ended", float64(held.Jobs-1))
	want(t, ended, "accepted", 0.0)

	// The answer names only the refused outcomes.
	unknown := outcomeOf(job.NewID(1, 1<<30, 0), job.OK)
	many := c.ok(c.sendRuns(outcomesInRuns(runs.Completion{Claim: held.ID, Runner: "r"}, runs.OutcomeRun{Claim: held.ID, Runner: "r", Outcome: unknown, N: 2},
		runs.OutcomeRun{Claim: held.ID, Runner: "r", Outcome: outcome, N: 1, Frame: job.LenFrame, Outputs: []byte("3\na\nb\n")})))
	want(t, many, "accepted", 1.0)
	refused = many["refused"].([]any)
	testkit.MustHold(t, len(refused) == 2 && many["results"] == nil, many)
	want(t, refused[1].(map[string]any), "job_id", unknown.ID.WithLine(1).String())
	want(t, refused[1].(map[string]any), "code", "job_not_found")

	// Requests can be repeated, also over HTTP.
	body := jobsInRuns(false, list[0])
	keyed := c.ok(c.sendRuns(body, " idempotency_key=a%20b"))
	want(t, c.ok(c.sendRuns(body, " idempotency_key=a%20b")), "batch_id", keyed["batch_id"])
	over := r.do(http.MethodPost, "/jobs/create", strings.NewReader(body), "Content-Type", web.MIMERuns, "Idempotency-Key", "a b").object(http.StatusCreated)
	want(t, over, "batch_id", keyed["batch_id"])
	session := r.post("/sessions", `{}`).object(201)["session_id"].(string)
	numbered := c.ok(c.sendRuns(body, " session_id="+session, " slot=3", " number=7"))
	want(t, c.ok(c.sendRuns(body, " session_id="+session, " slot=3", " number=7")), "batch_id", numbered["batch_id"])

	for _, x := range []struct{ body, more, code, field string }{
		{jobsInRuns(true, list[0]), " idempotency_key=k", "bad_request", "batch"},
		{body, " idempotency_key=%zz", "bad_request", "idempotency_key"},
		{body, " session_id=x", "bad_id", "session.id"},
		{body, " slot=1", "bad_request", "session.id"},
		{body, " slot=a", "bad_request", "slot"},
		{body, " x=1", "bad_request", "x"},
		{body, " " + strings.Repeat("x", stream.MaxRequestHead), "bad_request", ""},
		{"", "", "bad_request", ""},
		{"#:claim v=1 jobs=0 runs=0\n", "", "bad_request", ""},
		{body + "x", "", "bad_request", ""},
		{outcomesInRuns(runs.Completion{Claim: held.ID, Runner: "r"}, runs.OutcomeRun{Claim: held.ID, Runner: "r", Outcome: outcomeOf(outcome.ID, job.OK), N: 1001}), "", "bad_request", "jobs"},
	} {
		p := c.refusal(c.sendRuns(x.body, x.more), x.code)
		field, _ := p["field"].(string)
		testkit.Equal(t, field, x.field, x.more, "field", p["detail"])
	}
	for _, x := range []struct{ verb, body, more string }{
		{"create", `{}`, `,"batch":false`}, {"create", `[{}]`, `,"batch":false,"idempotency_key":"k"`}, {"create", `[{"unique_key":"k"}]`, `,"batch":false`},
		{"tickle", `{}`, `,"batch":false`},
	} {
		want(t, c.refusal(c.send(x.verb, x.body, x.more), "bad_request"), "field", "batch")
	}
	for _, text := range []string{"", "#:request", "#:request \n", "#:request slot=1\n" + body, "#:request n=-1\n" + body, "#:request n=1 n=2\n" + body, "#:request n=01\n" + body, "#:request n=9007199254740992\n" + body, body} {
		c := r.open()
		c.binary(text)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		_, _, err := c.conn.Read(ctx)
		cancel()
		testkit.Equal(t, websocket.CloseStatus(err), websocket.StatusPolicyViolation, text, err)
	}
}
