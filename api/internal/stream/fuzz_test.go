package stream

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/command"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/query"
)

// accepting is an engine that accepts every command, and fails the test if the command could not be read back from the
// journal.
type accepting struct {
	backend.Engine
	t *testing.T
}

var acceptedAt = ingest.Receipt{Seq: 7, At: 1_700_000_000_000}

func (a *accepting) take(cmd job.Command) {
	fields, body := cmd.Encode()
	_, err := job.Decode(cmd.Verb(), fields, body)
	testkit.Check(a.t, err, "a request became", cmd.Verb(), fields, "with", body, "which the journal refuses")
}

func (a *accepting) StartCreate(_ context.Context, c *job.Create) func() (applied.Made, ingest.Receipt, error) {
	a.take(c)
	testkit.Check(a.t, c.CheckPayloads(), "a create whose payloads are not what it says")
	made := applied.Made{Batch: job.NewID(acceptedAt.At, acceptedAt.Seq, 0), Lines: c.Lines(), Group: c.Groups[0]}
	if n := len(c.Unique); n > 0 {
		made.Existing = []applied.Existing{{Line: c.Unique[n-1].Line, Job: job.NewID(1, 2, 3)}}
	}
	return func() (applied.Made, ingest.Receipt, error) { return made, acceptedAt, nil }
}

func (a *accepting) ClaimUntil(_ context.Context, c job.Claim, _ <-chan struct{}, _ func(int64) error) (applied.Claimed, []runs.Run, ingest.Receipt, error) {
	a.take(c)
	return applied.Claimed{}, nil, acceptedAt, nil
}

func (a *accepting) CompleteInOrder(_ context.Context, commands []job.Complete) (all []applied.Ended, _ ingest.Receipt, _ error) {
	for _, c := range commands {
		a.take(c)
		var ended applied.Ended
		for i := range c.Outcomes {
			ended.Results = append(ended.Results, applied.JobResult{ID: c.Outcomes[i].ID, Status: job.Completed})
		}
		all = append(all, ended)
	}
	return all, acceptedAt, nil
}

func (a *accepting) Tickle(_ context.Context, t job.Tickle) (applied.Tickled, ingest.Receipt, error) {
	a.take(t)
	return applied.Tickled{Held: len(t.IDs)}, acceptedAt, nil
}

func (*accepting) Silence(string) uint64 { return 0 }

func (*accepting) CatchUp(context.Context, uint64) error { return nil }

func (*accepting) ClaimDocument(job.ID, query.Parts) (document.Claim, []job.Job, error) {
	return document.Claim{}, nil, job.ClaimNotFound
}

// FuzzStreamRequest carries out any line of a text message, or any binary message. The server must turn it into commands
// that can be read back from the journal, or refuse it with a problem that has a code, and answer one line of JSON with
// its number.
func FuzzStreamRequest(f *testing.F) {
	const id = "018c2b6e-7f00-7000-8000-000000400001"
	for _, line := range []string{
		`{"n":1,"hello":{"runner_id":"r","linger_ms":1000,"jobs":"runs","claims":["` + id + `"]}}`,
		`{"n":2,"subscribe":{"types":["a"],"credit":10,"strategy":{"name":"prefer_distinct","meta_key":"a","underlying":"fair"},"lease_ms":2000,"max":5,"max_bytes":100}}`,
		`{"n":3,"credit":{"subscription":2,"credit":0}}`,
		`{"n":4,"unsubscribe":{"subscription":2}}`,
		`{"n":5,"create":{"type":"resize","payload":{"a":[1,2]},"unique_key":"k","meta":{"a":"b"},"delay_ms":5}}`,
		`{"n":6,"create":[{"payload":"a\nb"},{"payload_b64":"AAA="},{"binary_addr":"x"}],"idempotency_key":"k"}`,
		`{"n":7,"complete":{"job_id":"` + id + `","claim_id":"` + id + `","code":"retry","delay_ms":4,"error":"why"},"session":{"id":"` + id + `","slot":2,"number":9}}`,
		`{"n":8,"complete":{"claim_id":"` + id + `","code":"ok","except":[{"job_id":"` + id + `","code":"failed","output":{"x":1}}]}}`,
		`{"n":9,"complete":{"outcomes":[{"job_id":"` + id + `","exit_code":503}]}}`,
		`{"n":10,"tickle":{"claim_id":"` + id + `","lease_ms":5000}}`,
		`{"n":11,"release":{"job_ids":["` + id + `"],"how":"retry","delay_ms":3}}`,
		`{"n":12}`, `{"n":-1,"hello":{}}`, `[]`, `{"n":1,"n":2}`,
		`{"n":13,"create":[{"payload":"a"},{"run_at":9000000000000}],"batch":false}`,
		"#:request n=14 idempotency_key=a%20b\n#:create v=1 jobs=2 runs=1\n#:run n=2 client=acme priority=7 meta=a=b kind=text frame=line bytes=4\na\nb\n",
		"#:request n=15\n#:create v=1 batch=none jobs=3 runs=2\n#:run n=2 kind=json frame=len bytes=8\n1\n1\n1\n2\n#:run n=1 type=x delay_ms=3\n",
		"#:request n=16 session_id=" + id + " slot=1 number=2\n#:complete v=1 jobs=2 runs=1\n#:run job_id=" + id + " n=2 code=ok\n",
		"#:request n=17\n#:create v=1 jobs=1 runs=1\n#:run n=1 kind=wasi frame=line bytes=4\na b\n",
	} {
		f.Add([]byte(line), false)
		f.Add([]byte(line), true)
	}
	f.Fuzz(func(t *testing.T, line []byte, greeted bool) {
		defaults, err := command.Defaults{}.Filled()
		testkit.NoError(t, err)
		c := newStream(New(Options{
			Engine: &accepting{t: t}, Log: zerolog.Nop(), Draining: t.Context(), Connections: web.DefaultMaxConnections,
			Decode: &command.Decoder{
				Defaults: defaults, CheckClient: func(string) error { return nil }, Now: func() int64 { return acceptedAt.At },
				HandlerFor: func(string, string) (document.Named, bool) { return document.Named{}, false },
			},
			Bulk: web.NewLane("", 1<<30), Control: web.NewLane("", 1<<30), Handouts: web.NewLane("", 1<<30), Changes: web.NewLane("", 1<<30), Waiting: web.NewLane("", 1<<30), Jobs: web.NewLane("", 1<<30),
			Registry: prometheus.NewRegistry(), Requests: web.NewRequestMetrics(prometheus.NewRegistry()),
		}), nil, nil)
		if c.greeted.Store(greeted); greeted {
			c.hello.runner = "r"
		}
		r := &streamRequest{}
		if bytes.HasPrefix(line, []byte("#:")) {
			r, err = binaryRequest(line)
		} else {
			var aliased streamRequest
			err = web.DecodeObject(line, r)
			if other := decodeAliased(line, &aliased); (err == nil) != (other == nil) || err == nil && !reflect.DeepEqual(*r, aliased) {
				t.Errorf("%s is decoded as %+v, %v, and with references as %+v, %v", line, r, err, aliased, other)
			}
		}
		if numbered(r, err) != nil {
			return
		}
		var text []byte
		if err == nil {
			text, err = answerOf(c, r)
		}
		if err != nil {
			p := refusal.Of(err)
			testkit.Holds(t, p.Code != "" && p.Status >= 400 && p.Code != "internal", line, "is refused with", p.Status, p.Code, err)
			text = appendProblem([]byte(`{"n":1`), err)
		}
		testkit.Holds(t, json.Valid(text) && bytes.IndexByte(text, '\n') == len(text)-1, line, "is answered", text)
	})
}

// answerOf carries out a request, except that a subscription sends no jobs.
func answerOf(c *stream, r *streamRequest) ([]byte, error) {
	v, err := verbOf(r)
	if err != nil {
		return nil, err
	}
	finish, err := v.begin(c, r)
	if err != nil {
		return nil, err
	}
	if v.name == "subscribe" {
		finish = nothingToSay
	}
	return finish.answer(nil, *r.N)
}
