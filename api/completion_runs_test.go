package api

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
)

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
		if a.status != http.StatusOK || a.header.Get("Content-Type") != web.MIMERuns || !strings.HasPrefix(a.body, want) || a.header.Get("Daybook-Seq") == "" {
			t.Fatalf("%d %s", a.status, a.body)
		}
		o := r.get("/jobs/" + at(0).String()).object(http.StatusOK)
		testkit.Equal(t, fmt.Sprint(o["output"]), "map[a:1]")
		if o := r.get("/jobs/" + at(1).String()).object(http.StatusOK); fmt.Sprint(o["output"]) != "7" {
			t.Errorf("%v", o["output"])
		}
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
		testkit.Equal(t, again.body, a.body, "the repeat is")
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
			o := complete(bad.body).refused(http.StatusBadRequest, "bad_request")
			testkit.Contains(t, o["detail"].(string), bad.detail)
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
