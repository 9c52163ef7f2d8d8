package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/command"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
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
	testkit.Equal(t, fmt.Sprint(names), fields, "the table has the fields documented are")
	exit := int64(-1)
	full := job.Job{
		ID: job.NewID(5, 6, 7), Batch: job.NewID(5, 6, 0), Client: "c", Type: "t", Status: job.Failed, Payload: []byte("p"),
		Attributes: job.Attributes{Priority: 9, Kind: job.Text, MaxAttempts: 3, LeaseMs: 4, RunAt: 5},
		Code:       job.Error, ExitCode: 500, Error: "err \"or\"\n", Step: "s", Progress: 999_999, Runner: "r\u2028", Claim: job.NewID(8, 9, 0),
		RunAttempts: 2, CreatedAt: 6, UpdatedAt: 7, CompletedAt: 8, DeadlineAt: 9,
		Result: job.Result{ProcessExit: &exit, OutputAddr: "there", LogAddr: "kept", OutputKind: job.JSON, Output: []byte(`[1, 2]`)},
		Attempts: []job.Attempt{
			{At: 1, Runner: "a", Code: job.Error, ExitCode: 500, Error: "no", Why: job.Reported},
			{At: 2, Runner: "b", Why: job.Abandoned},
		},
	}
	for name, text := range map[string]string{
		"full":  string(answer.AppendJob(nil, &full, answer.InJSON)),
		"empty": string(answer.AppendJob(nil, &job.Job{Status: job.Pending, Progress: -1}, answer.InJSON)),
		"gone":  string(answer.AppendGone(nil, full.ID, job.Completed)),
	} {
		testkit.Equal(t, fmt.Sprint(documentFields(t, text)), fields, name, "has the fields documented are")
	}
	var o map[string]any
	d := json.NewDecoder(bytes.NewReader(answer.AppendJob(nil, &full, answer.InJSON)))
	d.UseNumber()
	testkit.NoError(t, d.Decode(&o))
	want(t, o, "job_id", full.ID, "batch_id", full.Batch, "client", "c", "type", "t", "status", "failed", "priority", 9, "payload", "p", "payload_b64", nil,
		"code", "error", "exit_code", 500, "process_exit", -1, "error", full.Error, "step", "s", "progress", "0.999999", "runner_id", full.Runner,
		"claim_id", full.Claim, "run_attempts", 2, "max_attempts", 3, "lease_ms", 4, "run_at", 5, "created_at", 6, "updated_at", 7, "completed_at", 8,
		"deadline_at", 9, "output_addr", "there", "log_addr", "kept", "output", "[1 2]", "output_b64", nil)
	attempts := o["attempts"].([]any)
	want(t, attempts[0].(map[string]any), "at", 1, "runner_id", "a", "code", "error", "exit_code", 500, "error", "no", "why", "reported")
	want(t, attempts[1].(map[string]any), "at", 2, "runner_id", "b", "code", nil, "exit_code", nil, "error", nil, "why", "abandoned")
}

// FuzzRequests: no bytes make the decoders panic, and each refusal is a problem.
func FuzzRequests(f *testing.F) {
	for _, seed := range []string{`{}`, `{"payload":{"a":[1]},"delay_ms":5}`, `{"runner_id":"r","complete":[{"job_id":"` + unknownID + `","code":"ok"}]}`,
		`{"claim_id":"` + unknownID + `","code":"ok","except":[]}`, `{"job_ids":[null]}`, "{\"outcomes\":[{}]}\n{}",
		"status=active&client=a&type=b&created_after=1&limit=5&after=" + unknownID, "fields=status,output&meta.k=v&runner_id=r"} {
		f.Add([]byte(seed))
	}
	s := &command.Decoder{CheckClient: (&web.Server{}).CheckClient, Now: idleParts.Now, HandlerFor: idleParts.HandlerFor}
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
		for _, r := range (&Server{}).routes() {
			query, err := web.ParseQuery(string(text), r.query)
			check(t, err)
			switch {
			case err != nil:
			case strings.HasSuffix(r.path, "/add"):
				_, _, err = command.QueryAttributes(query)
			case r.path == "/queues":
				_, _, err = (&queuesQuery{After: web.OrNull(string(text))}).after()
			case r.path == "/jobs":
				_, _, err = listQuery(query)
			case r.query == "fields":
				_, err = onlyFields(query)
			}
			check(t, err)
		}
	})
}
