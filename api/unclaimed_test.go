package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// neverUnclaimed is an engine that notices completions with Unclaimed.
type neverUnclaimed struct {
	completer
	t *testing.T
}

func (n *neverUnclaimed) Complete(ctx context.Context, c job.Complete) (applied.Ended, ingest.Receipt, error) {
	testkit.Holds(n.t, !c.Unclaimed, "a request became", c)
	return n.completer.Complete(ctx, c)
}

func (n *neverUnclaimed) CompleteInOrder(ctx context.Context, commands []job.Complete) ([]applied.Ended, ingest.Receipt, error) {
	for _, c := range commands {
		testkit.Holds(n.t, !c.Unclaimed, "a request became", c)
	}
	return n.completer.CompleteInOrder(ctx, commands)
}

// TestNoRequestCompletesUnclaimedJobs: no request over HTTP or in a stream can end a waiting job.
func TestNoRequestCompletesUnclaimedJobs(t *testing.T) {
	r := start(t, func(o *setup) { o.completer = &neverUnclaimed{o.completer, t} })
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

// TestDocumentsOfUnclaimedRuns: if nobody claimed a run, the documents of its jobs and of its claim match openapi.yaml.
func TestDocumentsOfUnclaimedRuns(t *testing.T) {
	var engine completer
	r := start(t, func(o *setup) { engine = o.completer })
	id := r.post("/jobs/create", `{"payload":"x"}`).object(http.StatusCreated)["job_id"].(string)
	of := testkit.Must(job.ParseID(id))(t)
	end := func(code job.Code) {
		o := job.Outcome{ID: of, Code: code, ExitCode: code.DefaultExitCode(), Error: "no luck"}
		ended, _ := testkit.Must2(engine.Complete(t.Context(), job.Complete{Unclaimed: true, Outcomes: []job.Outcome{o}}))(t)
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
	testkit.Equal(t, r.listed("?claim_id="+o["claim_id"].(string)), "0", "the jobs of the claim are lines")
	want(t, r.get("/runners").object(http.StatusOK), "runners", "[]")
}
