package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// documentFields are the fields of a job document in the order of docs/reference/api.md.
func documentFields(t testing.TB, text string) []string {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	var names []string
	for d.More() {
		name, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			t.Fatal(err)
		}
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
	for _, f := range jobFields {
		names = append(names, f.name)
	}
	if got := fmt.Sprint(names); got != fields {
		t.Errorf("the table has the fields\n%s, documented are\n%s", got, fields)
	}
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
		"full":  string(appendJob(nil, &full, inJSON)),
		"empty": string(appendJob(nil, &job.Job{Status: job.Pending, Progress: -1}, inJSON)),
		"gone":  string(appendGone(nil, full.ID, job.Completed)),
	} {
		if got := fmt.Sprint(documentFields(t, text)); got != fields {
			t.Errorf("%s has the fields\n%s, documented are\n%s", name, got, fields)
		}
	}
	var o map[string]any
	d := json.NewDecoder(bytes.NewReader(appendJob(nil, &full, inJSON)))
	d.UseNumber()
	if err := d.Decode(&o); err != nil {
		t.Fatal(err)
	}
	want(t, o, "job_id", full.ID, "batch_id", full.Batch, "client", "c", "type", "t", "status", "failed", "priority", 9, "payload", "p", "payload_b64", nil,
		"code", "error", "exit_code", 500, "process_exit", -1, "error", full.Error, "step", "s", "progress", "0.999999", "runner_id", full.Runner,
		"claim_id", full.Claim, "run_attempts", 2, "max_attempts", 3, "lease_ms", 4, "run_at", 5, "created_at", 6, "updated_at", 7, "completed_at", 8,
		"deadline_at", 9, "output_addr", "there", "log_addr", "kept", "output", "[1 2]", "output_b64", nil)
	attempts := o["attempts"].([]any)
	want(t, attempts[0].(map[string]any), "at", 1, "runner_id", "a", "code", "error", "exit_code", 500, "error", "no", "why", "reported")
	want(t, attempts[1].(map[string]any), "at", 2, "runner_id", "b", "code", nil, "exit_code", nil, "error", nil, "why", "abandoned")
}

// TestJobsInARow: copying from the previous document gives the same text as encoding the job.
func TestJobsInARow(t *testing.T) {
	exit := int64(3)
	base := job.Job{ID: job.NewID(5, 6, 0), Batch: job.NewID(5, 6, 0), Client: "c", Type: "t", Status: job.Active, Payload: []byte("p"), Progress: -1,
		Attributes: job.Attributes{Kind: job.Text, MaxAttempts: 3, LeaseMs: 4},
		Runner:     "r", Claim: job.NewID(8, 9, 0), RunAttempts: 1, CreatedAt: 6, UpdatedAt: 7, DeadlineAt: 9}
	list := []job.Job{base, base, base}
	list[1].Payload = []byte("other \"p\"")
	list[2].Kind = job.JSON
	for _, change := range []func(*job.Job){
		func(j *job.Job) { j.Batch = job.NewID(1, 1, 0) }, func(j *job.Job) { j.Client = "d" }, func(j *job.Job) { j.Type = "d" },
		func(j *job.Job) { j.Status = job.Pending }, func(j *job.Job) { j.Priority = 5 }, func(j *job.Job) { j.Code = job.Error },
		func(j *job.Job) { j.ExitCode = 5 }, func(j *job.Job) { j.ProcessExit = &exit }, func(j *job.Job) { j.OutputAddr = "a" }, func(j *job.Job) { j.LogAddr = "a" },
		func(j *job.Job) { j.OutputKind, j.Output = job.Text, []byte("o") }, func(j *job.Job) { j.Error = "e" },
		func(j *job.Job) { j.Attempts = []job.Attempt{{At: 1, Why: job.Reported}} }, func(j *job.Job) { j.Step = "s" }, func(j *job.Job) { j.Progress = 5 },
		func(j *job.Job) { j.Runner = "s" }, func(j *job.Job) { j.Claim = job.ID{} }, func(j *job.Job) { j.RunAttempts = 2 }, func(j *job.Job) { j.MaxAttempts = 2 },
		func(j *job.Job) { j.LeaseMs = 2 }, func(j *job.Job) { j.RunAt = 2 }, func(j *job.Job) { j.CreatedAt = 2 }, func(j *job.Job) { j.UpdatedAt = 2 },
		func(j *job.Job) { j.CompletedAt = 2 }, func(j *job.Job) { j.DeadlineAt = 2 }, func(j *job.Job) { j.ID = job.NewID(5, 6, 1) },
	} {
		changed := base
		change(&changed)
		list = append(list, changed, changed, base)
	}
	var documents jobs
	var b []byte
	for i := range list {
		at := len(b)
		b = documents.append(b, &list[i], inJSON)
		if alone := appendJob(nil, &list[i], inJSON); string(b[at:]) != string(alone) {
			t.Errorf("document %d: %s, alone %s", i, b[at:], alone)
		}
	}
}

func TestPlain(t *testing.T) {
	text := []byte(repeat('x', 24))
	for i := range text {
		for c := range 256 {
			text[i] = byte(c)
			plain := c >= ' ' && c < 0x80 && c != '"' && c != '\\'
			if isPlain(text) != plain || isPlain(text[:i+1]) != plain {
				t.Fatalf("byte %#x at %d", c, i)
			}
		}
		text[i] = 'x'
	}
}

func TestProgress(t *testing.T) {
	for millionths, text := range map[int64]string{-1: "null", 0: "0", 1: "0.000001", 100: "0.0001", 250_000: "0.25", 500_000: "0.5", 999_999: "0.999999", 1_000_000: "1"} {
		if got := string(appendProgress(nil, millionths)); got != text {
			t.Errorf("%d: %s, want %s", millionths, got, text)
		}
	}
}

// FuzzContent: for any bytes of a payload, the document is JSON, and the payload can be restored from it.
func FuzzContent(f *testing.F) {
	for _, seed := range []string{"", "plain", "\x00\x1f\x7f\"\\/", "caf\u00e9 \u2028 \U0001f600", "\xff\xfe", "\xed\xa0\x80", "line\nbreak\r"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		for _, kind := range []job.Kind{job.Text, job.Bytes} {
			j := job.Job{Attributes: job.Attributes{Kind: kind}, Payload: payload, Status: job.Pending, Progress: -1, Runner: string(payload), Error: string(payload), Step: string(payload)}
			text := appendJob(nil, &j, inLines)
			if bytes.ContainsAny(text, "\n\r") {
				t.Errorf("a line break in %q", text)
			}
			var o struct {
				Payload    *string `json:"payload"`
				PayloadB64 *[]byte `json:"payload_b64"`
			}
			if err := json.Unmarshal(text, &o); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			if kind == job.Text && utf8.Valid(payload) {
				if o.Payload == nil || *o.Payload != string(payload) || o.PayloadB64 != nil {
					t.Errorf("%q became %q", payload, text)
				}
			} else if o.Payload != nil || o.PayloadB64 == nil || !bytes.Equal(*o.PayloadB64, payload) {
				t.Errorf("%q became %q, want %s", payload, text, base64.StdEncoding.EncodeToString(payload))
			}
		}
	})
}

// FuzzRequests: no bytes make the decoders panic, and each refusal is a problem.
func FuzzRequests(f *testing.F) {
	for _, seed := range []string{`{}`, `{"payload":{"a":[1]},"delay_ms":5}`, `{"runner_id":"r","complete":[{"job_id":"` + unknownID + `","code":"ok"}]}`,
		`{"claim_id":"` + unknownID + `","code":"ok","except":[]}`, `{"job_ids":[null]}`, "{\"outcomes\":[{}]}\n{}",
		"status=active&client=a&type=b&created_after=1&limit=5&after=" + unknownID, "fields=status,output&meta.k=v&runner_id=r"} {
		f.Add([]byte(seed))
	}
	s := &Server{engine: idleParts, web: &web.Server{}}
	var err error
	if s.defaults, err = (Defaults{}).filled(); err != nil {
		f.Fatal(err)
	}
	enough := func(int64) error { return nil }
	check := func(t *testing.T, err error) {
		if p := problemOf(err); err != nil && (p.Status != 400 && p.Status != 413 || p.Code == "internal") {
			t.Errorf("%v", err)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var create createRequest
		err := web.DecodeObject(text, &create)
		if err == nil {
			if _, err = s.group(&create.attributes, 1); err == nil {
				_, _, err = create.payload()
			}
		}
		check(t, err)
		var claim claimRequest
		if err = web.DecodeObject(text, &claim); err == nil {
			if _, _, err = claim.command(); err == nil && !web.Absent(claim.Complete) {
				err = claim.completion(&completion{most: job.MaxOutcomes, reserve: enough})
			}
		}
		check(t, err)
		var complete completeRequest
		if err = web.DecodeObject(text, &complete); err == nil {
			err = complete.completion(&completion{reserve: enough})
		}
		check(t, err)
		var tickle tickleFields
		if err = web.DecodeObject(text, &tickle); err == nil {
			_, err = tickle.command()
		}
		check(t, err)
		check(t, (&completion{reserve: enough}).lines(text))
		for _, r := range (&Server{}).routes() {
			query, err := web.ParseQuery(string(text), r.query)
			check(t, err)
			switch {
			case err != nil:
			case strings.HasSuffix(r.path, "/add"):
				_, _, err = queryAttributes(query)
			case r.path == "/queues":
				_, err = queuesQuery(query)
			case r.path == "/jobs":
				_, _, err = listQuery(query)
			case r.query == "fields":
				_, err = onlyFields(query)
			}
			check(t, err)
		}
	})
}

func BenchmarkClaimDocuments(b *testing.B) {
	payload := []byte(repeat('x', 100))
	list := make([]job.Job, 1000)
	for i := range list {
		list[i] = job.Job{
			ID: job.NewID(1670273606123, 812, i), Batch: job.NewID(1670273606123, 812, 0), Client: "default", Type: "resize", Status: job.Active,
			Attributes: job.Attributes{Priority: 4, Kind: job.Text, MaxAttempts: 3, LeaseMs: 300000},
			Payload:    payload, Progress: -1, Runner: "runner-1", Claim: job.NewID(1670273606123, 813, 0), RunAttempts: 1,
			CreatedAt: 1670273606123, UpdatedAt: 1670273606123, DeadlineAt: 1670273906123,
		}
	}
	out := make([]byte, 0, 1000*jobTextBytes*2)
	b.ReportAllocs()
	for b.Loop() {
		out = out[:0]
		var documents jobs
		for i := range list {
			out = documents.append(out, &list[i], inJSON)
		}
	}
	b.SetBytes(int64(len(out)))
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/job")
}
