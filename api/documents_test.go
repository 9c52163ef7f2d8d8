package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/command"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest/registry"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
)

// TestDocuments compares the exact text of each document that the JSON library encodes.
func TestDocuments(t *testing.T) {
	id := job.NewID(1_700_000_000_000, 7, 3)
	const idText, batchText = `"018bcfe5-6800-7000-8000-000001c00003"`, `"018bcfe5-6800-7000-8000-000001c00000"`
	var some job.Counts
	for i, status := range job.Statuses {
		some[status] = int64(i + 1)
	}
	const someText = `{"deferred":1,"pending":2,"active":3,"completed":4,"failed":5,"cancelled":6}`
	const noneText = `{"deferred":0,"pending":0,"active":0,"completed":0,"failed":0,"cancelled":0}`
	for _, c := range []struct {
		name     string
		document any
		text     string
	}{
		{"queue", documentOfQueue(&document.Queue{Client: "a", Type: "b:c", Paused: true, CreatedAt: 5, Counts: some, PendingSince: 90}, 100),
			`{"client":"a","type":"b:c","paused":true,"created_at":5,"counts":` + someText + `,"oldest_pending_age_ms":10}`},
		{"queue whose pending job is newer than now", documentOfQueue(&document.Queue{Client: "a", Type: "b", PendingSince: 200}, 100),
			`{"client":"a","type":"b","paused":false,"created_at":0,"counts":` + noneText + `,"oldest_pending_age_ms":0}`},
		{"queue without a pending job", documentOfQueue(&document.Queue{Client: "a", Type: "b"}, 100),
			`{"client":"a","type":"b","paused":false,"created_at":0,"counts":` + noneText + `,"oldest_pending_age_ms":null}`},
		{"no queues", pageOfQueues(nil, nil, ageless), `{"queues":[],"next":null}`},
		{"no types", typesDocument{}, `{"types":[],"next":null}`},
		{"types", typesDocument{[]waitingType{{"b", 3}}, web.OrNull("b")}, `{"types":[{"type":"b","waiting":3}],"next":"b"}`},
		{"batch", documentOfBatch(&document.Batch{ID: id.WithLine(0), Status: job.BatchInProgress, CreatedAt: 9, Lines: 40, Counts: some, Jobs: 40, Ended: 30, Since: 1009, EndedBefore: 10}, "", 3009),
			`{"batch_id":` + batchText + `,"status":"in_progress","created_at":9,"ended_at":null,"count":40,"counts":` + someText + `,"purged":19,"failed_job_id":null,"error":null,` +
				`"progress":{"ended":30,"per_second":10,"estimate_ms":1000},"name":null,"client":null,"type":null,"meta":null,"on_failure":null,"chunk_size":null,` +
				`"open":null,"metadata_bytes":null,"retention_ms":null,"snowflake":null,"traceparent":null,"tracestate":null,"baggage":null}`},
		{"batch with attributes", documentOfBatch(&document.Batch{ID: id.WithLine(0), Status: job.BatchFailed, EndedAt: 7, Failed: id, Submission: &document.Submission{
			Submission: job.Submission{Name: "n\"", Meta: "a=x%20y,b:-7", OnFailure: job.CancelRest, ChunkSize: 20, Tracestate: "t"},
			Client:     "c", Type: "t", RetentionMs: 5, MetadataBytes: 3, Snowflake: 1 << 62}}, "no", 9),
			`{"batch_id":` + batchText + `,"status":"failed","created_at":0,"ended_at":7,"count":0,"counts":` + noneText + `,"purged":0,"failed_job_id":` + idText + `,"error":"no",` +
				`"progress":null,"name":"n\"","client":"c","type":"t","meta":{"a":"x y","b":-7},"on_failure":"cancel_rest","chunk_size":20,` +
				`"open":false,"metadata_bytes":3,"retention_ms":5,"snowflake":4611686018427387904,"traceparent":null,"tracestate":"t","baggage":null}`},
		{"session of a runner, whose name is not UTF-8", documentOfSession(&document.Session{ID: id, Runner: "r\"\u00fc\xff<", CreatedAt: 1, UsedAt: 2, ExpiresAt: 3,
			Slots: []document.SlotState{{Slot: 0, Number: 3}, {Slot: 4, Number: 1 << 60}}}),
			`{"session_id":` + idText + `,"runner_id":"r\"` + "\u00fc\ufffd" + `<","created_at":1,"used_at":2,"expires_at":3,"slots":[{"slot":0,"number":3},{"slot":4,"number":1152921504606846976}]}`},
		{"session", documentOfSession(&document.Session{ID: id}),
			`{"session_id":` + idText + `,"runner_id":null,"created_at":0,"used_at":0,"expires_at":0,"slots":[]}`},
		{"sweep of a queue", documentOfSweep(&document.Sweep{ID: id, Op: job.Cancel, Client: "a", Type: "b", Status: job.Failed, Moved: 3, Skipped: 4, CreatedAt: 5, FinishedAt: 6}),
			`{"sweep_id":` + idText + `,"operation":"cancel","batch_id":null,"client":"a","type":"b","status":"failed","moved":3,"skipped":4,"done":true,"created_at":5,"finished_at":6}`},
		{"sweep of a batch", documentOfSweep(&document.Sweep{Op: job.Delete, Batch: id, CreatedAt: 5}),
			`{"sweep_id":null,"operation":"delete","batch_id":` + idText + `,"client":null,"type":null,"status":null,"moved":0,"skipped":0,"done":false,"created_at":5,"finished_at":null}`},
		{"no sweeps", sweepsDocument{}, `{"sweeps":[]}`},
		{"runner", documentOfRunner(&document.Runner{Name: "r\n", Claims: 3, Held: 2, LastSeenAt: 8,
			Open: []document.Claim{{ID: id, Held: 2, CreatedAt: 3, TickledAt: 4, DeadlineAt: 5}, {ID: id}}}, nil),
			`{"runner_id":"r\n","state":null,"end":null,"since":null,"heartbeat_at":null,"held":2,"claims":[{"claim_id":` + idText + `,"held":2,"claimed_at":3,"tickled_at":4,"deadline_at":5},` +
				`{"claim_id":` + idText + `,"held":0,"claimed_at":0,"tickled_at":0,"deadline_at":null}],"claim_count":3,"last_seen_at":8}`},
		{"runner without claims", documentOfRunner(&document.Runner{Name: "r"}, nil),
			`{"runner_id":"r","state":null,"end":null,"since":null,"heartbeat_at":null,"held":0,"claims":[],"claim_count":0,"last_seen_at":0}`},
		{"runner that is alive", documentOfRunner(&document.Runner{Name: "r", LastSeenAt: 9}, &registry.Runner{ID: "r", State: registry.Alive, Since: 0, HeartbeatAt: 8, Info: registry.Info{
			Instance: "i", Name: "n", Addresses: []string{"a"}, Kinds: []string{"exec"}, Types: []string{"t"}, Clients: []string{"c"}, Slots: 3,
			Labels: map[string]string{"b": "2", "a": "1"}, Version: "v", Stats: registry.Stats{CPU: 0.5, Memory: 1 << 30, Running: 2}}}),
			`{"runner_id":"r","state":"ALIVE","end":null,"since":0,"heartbeat_at":8,"instance":"i","name":"n","addresses":["a"],"kinds":["exec"],"types":["t"],"clients":["c"],` +
				`"slots":3,"labels":{"a":"1","b":"2"},"version":"v","stats":{"cpu":0.5,"memory":1073741824,"running":2},"held":0,"claims":[],"claim_count":0,"last_seen_at":9}`},
		{"runner that is lost", documentOfRunner(nil, &registry.Runner{ID: "r", State: registry.Dead, End: registry.Lost, Since: 7, HeartbeatAt: 6}),
			`{"runner_id":"r","state":"DEAD","end":"lost","since":7,"heartbeat_at":6,"instance":"","name":"","addresses":[],"kinds":[],"types":[],"clients":[],` +
				`"slots":0,"labels":{},"version":"","stats":{"cpu":0,"memory":0,"running":0},"held":0,"claims":[],"claim_count":0,"last_seen_at":6}`},
		{"tickle", answer.HeldDocument{Held: 3, Lost: answer.LostJobs(nil)}, `{"held":3,"lost":[]}`},
		{"problem", web.DocumentOfProblem(&web.Problem{Status: 409, Code: "c", Detail: " d\x00 <\" "}),
			`{"type":"about:blank","title":"Conflict","status":409,"code":"c","detail":"d\u0000 <\"","outcome":"not_stored"}`},
		{"problem of a field", web.DocumentOfProblem(&web.Problem{Status: 499, Code: "c", Detail: "d", Field: "f[1].g", Fate: web.Unknown, Members: map[string]any{"lost": answer.LostJobs(nil)}}),
			`{"type":"about:blank","title":"Client Closed Request","status":499,"code":"c","detail":"d","outcome":"unknown","field":"f[1].g","lost":[]}`},
		{"problem of a tickle", web.DocumentOfProblem(&web.Problem{Status: 404, Code: "c", Detail: "d", Members: map[string]any{"lost": answer.LostJobs([]applied.JobResult{{ID: id, Refusal: job.ClaimLost}})}}),
			`{"type":"about:blank","title":"Not Found","status":404,"code":"c","detail":"d","outcome":"not_stored","lost":[{"job_id":` + idText + `,"code":"claim_lost"}]}`},
		{"nothing created", command.CreatedDocument{}, `{"batch_id":null,"count":0,"first_id":null,"last_id":null}`},
		{"created", command.CreatedDocument{BatchHead: command.HeadOfMade(&applied.Made{Batch: id.WithLine(0), Lines: 4}, 3), Results: command.PositionResults(
			[]command.Position{{}, {Err: &web.Problem{Code: "x", Detail: "y", Field: "z"}}, {Err: &web.Problem{Code: "x", Detail: "y"}}, {}},
			&applied.Made{Batch: id.WithLine(0), Existing: []applied.Existing{{Line: 1, Job: id}}})},
			`{"batch_id":` + batchText + `,"count":3,"first_id":` + batchText + `,"last_id":` + idText + `,"results":[{"job_id":` + batchText + `,"existing":false},` +
				`{"job_id":null,"code":"x","detail":"y","field":"z"},{"job_id":null,"code":"x","detail":"y"},{"job_id":` + idText + `,"existing":true}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			testkit.Equal(t, string(testkit.Must(web.EncodeDocument(c.document))(t)), c.text+"\n", c.text)
		})
	}
}

// TestPayloadOfContainerType: a create with a payload that no container can run is refused before the journal, in every
// form. Creates of types with other handlers, or without one, are not checked.
func TestPayloadOfContainerType(t *testing.T) {
	r := start(t)
	for typ, document := range map[string]string{"c": `{"kind":"container"}`, "e": `{"kind":"exec","program":"p"}`} {
		r.do(http.MethodPut, "/handlers/"+typ, strings.NewReader(document), "Content-Type", web.MIMEJSON).object(http.StatusCreated)
	}
	const good = `{"Container":{"Config":{"Image":"busybox","AttachStdout":true,"Hostname":"a1"}},"States":[{"State":"QUEUED","Step":"","Date":"2014-11-23T04:00:00Z"}]}`
	const bad = `{"nonsense":1}`
	quoted := func(s string) string { b := testkit.Must(json.Marshal(s))(t); return string(b) }
	inRuns := func(typ, payload string) string {
		return string(runs.AppendNewRun(runs.AppendCreation(nil, &runs.Creation{Jobs: 1, Runs: 1}), &runs.NewRun{Type: typ, N: 1, Kind: job.JSON, Frame: job.LineFrame, Payloads: []byte(payload + "\n")}))
	}
	type request struct{ path, body, media, says string }
	requests := func(typ, payload string) []request {
		one := `{"type":"` + typ + `","payload":` + payload + `}`
		return []request{
			{"/jobs/create", one, web.MIMEJSON, "nonsense"},
			{"/jobs/create", `{"type":"` + typ + `","payload":` + quoted(payload) + `}`, web.MIMEJSON, "nonsense"},
			{"/jobs/create", "[" + one + "]", web.MIMEJSON, "jobs[0]"},
			{"/jobs/create", one + "\n", web.MIMENDJSON, "line 1"},
			{"/jobs/create", `{"batch":{"name":"b"},"jobs":[` + one + `]}`, web.MIMEJSON, "jobs[0]"},
			{"/jobs/create", inRuns(typ, payload), web.MIMERuns, "job 1"},
			{"/add?jobtype=" + typ, payload, web.MIMEText, "line 1"},
			{"/default/job/" + typ + "/add", payload + "\n" + payload, web.MIMEText, "line 1"},
		}
	}
	for _, q := range append(requests("e", bad), requests("none", bad)...) {
		a := r.do(http.MethodPost, q.path, strings.NewReader(q.body), "Content-Type", q.media)
		testkit.Equal(t, a.status, http.StatusCreated, q.path, q.body, a.body)
	}
	for _, q := range requests("c", good) {
		a := r.do(http.MethodPost, q.path, strings.NewReader(q.body), "Content-Type", q.media)
		testkit.Equal(t, a.status, http.StatusCreated, q.path, q.body, a.body)
	}
	before := r.commands()
	for _, q := range requests("c", bad) {
		p := r.do(http.MethodPost, q.path, strings.NewReader(q.body), "Content-Type", q.media)
		testkit.Holds(t, p.status == http.StatusBadRequest && strings.Contains(p.body, "nonsense") &&
			strings.Contains(p.body, q.says) && strings.Contains(p.body, "handler of kind container"), q.path, q.body, p.status, p.body)
	}
	after := r.commands()
	testkit.Equal(t, after, before, "the journal has", after-before, "commands more")
	for _, body := range []string{`{"type":"c"}`, `{"type":"c","binary_addr":"a"}`, `{"type":"c","payload_b64":"AA=="}`} {
		r.post("/jobs/create", body).wrong("payload")
	}
}
