package api

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/ingest/registry"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/query"
)

// picky is an engine with its queries. It fails the test if it gets a command that could not be read back from the
// journal.
type picky struct {
	t       *testing.T
	created *job.Create // the last create
}

func (s *picky) take(cmd job.Command) {
	fields, body := cmd.Encode()
	_, err := job.Decode(cmd.Verb(), fields, body)
	testkit.Check(s.t, err, "a request became", cmd.Verb(), fields, "with", body, "which the journal refuses")
}

func (s *picky) Snapshot() (*ingest.Snapshot, error) { return nil, ingest.ErrBackupRunning }

func (s *picky) StartCreate(ctx context.Context, c *job.Create) func() (applied.Made, ingest.Receipt, error) {
	return func() (applied.Made, ingest.Receipt, error) { return s.Create(ctx, c) }
}

var fuzzReceipt = ingest.Receipt{Seq: 7, At: 1_700_000_000_000}

func (s *picky) Create(_ context.Context, c *job.Create) (applied.Made, ingest.Receipt, error) {
	s.take(c)
	testkit.Check(s.t, c.CheckPayloads(), "a create whose payloads are not what it says")
	s.created = c
	made := applied.Made{Batch: job.NewID(fuzzReceipt.At, fuzzReceipt.Seq, 0), Lines: c.Lines(), Group: c.Groups[0]}
	if n := len(c.Unique); n > 0 {
		made.Existing = []applied.Existing{{Line: c.Unique[n-1].Line, Job: job.NewID(1, 2, 3)}}
	}
	return made, fuzzReceipt, nil
}

func (s *picky) Move(_ context.Context, m job.Move) (applied.Moved, ingest.Receipt, error) {
	s.take(m)
	return applied.Moved{Status: job.Pending}, fuzzReceipt, nil
}

func (s *picky) MoveAll(_ context.Context, m job.Move) (applied.Swept, ingest.Receipt, error) {
	s.take(m)
	return applied.Swept{Moved: 3}, fuzzReceipt, nil
}

func (s *picky) Patch(_ context.Context, p job.Patch) (applied.Moved, ingest.Receipt, error) {
	s.take(p)
	return applied.Moved{Status: job.Pending}, fuzzReceipt, nil
}

func (s *picky) Switch(_ context.Context, w job.Switch) (applied.Switched, ingest.Receipt, error) {
	s.take(w)
	return applied.Switched{Stopped: w.Stopped}, fuzzReceipt, nil
}

func (s *picky) RaiseLevel(context.Context) (int, ingest.Receipt, error) { return 1, fuzzReceipt, nil }
func (s *picky) Level() (level, newest int)                              { return 1, 1 }

func (s *picky) PutDocument(_ context.Context, p job.PutDocument) (applied.DocumentChanged, ingest.Receipt, error) {
	s.take(p)
	return applied.DocumentChanged{Document: document.Named{ID: job.NewID(1, 2, 0), Client: p.Client, Name: p.Name, Version: 1, Summary: p.Summary, Digest: p.Digest, Newest: true, By: p.By}}, fuzzReceipt, nil
}

func (s *picky) DeleteDocument(_ context.Context, d job.DeleteDocument) (applied.DocumentChanged, ingest.Receipt, error) {
	s.take(d)
	return applied.DocumentChanged{}, fuzzReceipt, nil
}

func (s *picky) Heartbeat(_ context.Context, id string, info registry.Info, _ bool) (int64, time.Duration, error) {
	testkit.Check(s.t, errors.Join(job.CheckName("id", id), info.Check()), "heartbeat", id, "with", info)
	return fuzzReceipt.At, registry.DefaultHeartbeat, nil
}

func (s *picky) Goodbye(_ context.Context, id, instance string) error {
	testkit.Holds(s.t, job.CheckName("id", id) == nil && instance != "", "goodbye of", id, instance)
	return nil
}

func (s *picky) Registered(_ context.Context, id string) (registry.Runner, bool, error) {
	return registry.Runner{ID: id, State: registry.Alive}, true, nil
}

func (s *picky) AllRegistered(_ context.Context, after string, limit int) ([]registry.Runner, bool, error) {
	return []registry.Runner{{ID: after + "1", State: registry.Dead, End: registry.Lost}}, true, nil
}

func (s *picky) Runner(id string) (document.Runner, error) { return document.Runner{Name: id}, nil }

func (s *picky) Cluster() (job.ClusterStatus, bool) { return job.ClusterStatus{}, false }

func (s *picky) DescribeCluster(context.Context) (job.ClusterStatus, error) {
	return job.ClusterStatus{Cluster: "c1", Node: "n1", Role: "leader", Term: 3, Leader: "n1", Nodes: []job.MemberStatus{{Node: "n1", Address: "a", Role: "voter", Leads: true}}}, nil
}

func (s *picky) RemoveNode(_ context.Context, node string) error {
	testkit.Check(s.t, job.CheckName("node", node))
	return nil
}

func (s *picky) TransferLeadership(_ context.Context, node string) error {
	if node != "" {
		testkit.Check(s.t, job.CheckName("node", node))
	}
	return nil
}

func (s *picky) Sweep(id job.ID) (document.Sweep, error) {
	return document.Sweep{ID: id, Op: job.Cancel, Client: "c", Type: "t"}, nil
}

func (s *picky) JobInScope(*job.Scope, job.ID) (bool, error)            { return true, nil }
func (s *picky) BatchInScope(*job.Scope, job.ID) (bool, error)          { return true, nil }
func (s *picky) ClaimInScope(*job.Scope, job.ID) (bool, error)          { return true, nil }
func (s *picky) SweepInScope(*job.Scope, *document.Sweep) (bool, error) { return true, nil }
func (s *picky) SessionInScope(*job.Actor, job.ID) (bool, bool, error)  { return true, true, nil }

func (s *picky) Audit(query.AuditFilter) ([]document.Audited, error) {
	return []document.Audited{{Seq: 1, At: 2, By: "boss", Verb: "pause", Fields: "client=a type=%25", Refusal: job.QueueNotFound}, {Seq: 2, At: 2, Verb: "stop", Fields: "a=%2"}}, nil
}

func (s *picky) Sweeps() ([]document.Sweep, error) { return make([]document.Sweep, 2), nil }

func (s *picky) OpenSession(_ context.Context, o job.OpenSession) (document.Session, ingest.Receipt, error) {
	s.take(o)
	return document.Session{ID: job.NewID(fuzzReceipt.At, fuzzReceipt.Seq, 0), Runner: o.Runner}, fuzzReceipt, nil
}

func (s *picky) EndSession(_ context.Context, e job.EndSession) (ingest.Receipt, error) {
	s.take(e)
	return fuzzReceipt, nil
}

// emptyManifest is the manifest of all filesets of a picky.
const emptyManifest = `{"format":1,"files":[]}`

// pickyDocument is the newest version of each named document of a picky.
func pickyDocument(kind job.DocumentKind, client, name string, version int) document.Named {
	d := document.Named{ID: job.NewID(1, 2, 0), Client: client, Name: name, Version: max(version, 1), Digest: sha256Of(emptyManifest), Summary: "exec"}
	if kind == job.FilesetDocument {
		d.Summary = job.FilesetSummary(0, 0)
	}
	return d
}

func (s *picky) Key(string) *job.Key { return nil }

func (s *picky) KeysRequired() bool { return false }

func (s *picky) KeysKnown() bool { return true }

func (s *picky) SharingRunners(*job.Key) string { return "" }

func (s *picky) OwnersOfKeys() int { return 0 }

func (s *picky) Login([]byte) *job.Login { return nil }

func (s *picky) LoginsOf(string, int64) (own, ended []*job.Login) { return nil, nil }

func (s *picky) ClientUse(string) (job.Quota, error) {
	return job.Quota{Queues: 1}, nil
}

func (s *picky) HandlerFor(client, typ string) (document.Named, bool) {
	return pickyDocument(job.HandlerDocument, "", typ, 1), true
}

func (s *picky) Document(kind job.DocumentKind, client, name string, version int) (document.Named, []byte, error) {
	text := []byte(`{"kind":"exec"}`)
	if kind == job.KeyDocument {
		key := job.Key{Roles: job.RolesOf(job.RoleAdmin), Generation: 1, Sum: job.KeySum{1}}
		text = key.Document()
	}
	return pickyDocument(kind, client, name, version), text, nil
}

func (s *picky) DocumentByID(kind job.DocumentKind, id job.ID) (document.Named, []byte, error) {
	return pickyDocument(kind, "", "t", 1), []byte(`{"kind":"exec"}`), nil
}

func (s *picky) DocumentHistory(kind job.DocumentKind, client, name string) ([]document.Named, error) {
	return []document.Named{{ID: job.NewID(1, 3, 0), Client: client, Name: name, Version: 2, Deleted: true}, pickyDocument(kind, client, name, 1)}, nil
}

func (s *picky) Documents(_ *job.Scope, kind job.DocumentKind, _, _ string, limit int) ([]document.Named, bool, error) {
	return []document.Named{pickyDocument(kind, "", "n", 1)}, limit == 1, nil
}

func (s *picky) SessionDocument(id job.ID) (document.Session, error) {
	return document.Session{ID: id, Slots: make([]document.SlotState, 2)}, nil
}

func (s *picky) Silence(string) uint64 { return 0 }

func (s *picky) WhenLost(func(string) <-chan struct{}) {}

func (s *picky) ClaimUntil(ctx context.Context, c job.Claim, _ <-chan struct{}, admit func(int64) error) (applied.Claimed, []runs.Run, ingest.Receipt, error) {
	return s.ClaimAdmitted(ctx, c, 0, admit)
}

func (s *picky) ClaimAdmitted(_ context.Context, c job.Claim, wait time.Duration, admit func(int64) error) (applied.Claimed, []runs.Run, ingest.Receipt, error) {
	s.take(c)
	if err := admit(1); err != nil {
		return applied.Claimed{}, nil, ingest.Receipt{}, err
	}
	testkit.Holds(s.t, wait >= 0 && wait <= job.MaxWaitMs*time.Millisecond, "a claim waits", wait)
	id := job.NewID(fuzzReceipt.At, fuzzReceipt.Seq, 0)
	doc := job.Job{ID: id, Batch: id, Claim: id, Client: "c", Type: "t", Runner: c.Runner, Status: job.Active, Attributes: job.Attributes{Kind: job.Text, MaxAttempts: 3}, Payload: []byte("p"), Progress: -1}
	return applied.Claimed{Claim: id, LeaseMs: 1000, Runs: []applied.Run{{Batch: 7}}}, runs.Of([]job.Job{doc}), fuzzReceipt, nil
}

func (s *picky) Exchange(_ context.Context, commands []job.Complete, c job.Claim) (*ingest.Exchange, error) {
	return ingest.InTurn(s, commands, c), nil
}

func (s *picky) Tickle(_ context.Context, t job.Tickle) (applied.Tickled, ingest.Receipt, error) {
	s.take(t)
	return applied.Tickled{Held: len(t.IDs)}, fuzzReceipt, nil
}

func (s *picky) Complete(_ context.Context, c job.Complete) (ended applied.Ended, _ ingest.Receipt, _ error) {
	s.take(c)
	for i := range c.Outcomes {
		ended.Results = append(ended.Results, applied.JobResult{ID: c.Outcomes[i].ID, Status: job.Completed})
	}
	return ended, fuzzReceipt, nil
}

func (s *picky) CompleteInOrder(ctx context.Context, commands []job.Complete) (all []applied.Ended, _ ingest.Receipt, _ error) {
	for _, c := range commands {
		ended, _, err := s.Complete(ctx, c)
		if err != nil {
			return all, fuzzReceipt, err
		}
		all = append(all, ended)
	}
	return all, fuzzReceipt, nil
}

func (s *picky) Pause(_ context.Context, p job.Pause) (applied.Paused, ingest.Receipt, error) {
	s.take(p)
	return applied.Paused{}, fuzzReceipt, nil
}

func (s *picky) DeleteQueue(_ context.Context, d job.DeleteQueue) (applied.QueueDeleted, ingest.Receipt, error) {
	s.take(d)
	return applied.QueueDeleted{}, fuzzReceipt, nil
}

func (s *picky) AwaitEnd(job.ID) (*store.JobEnd, error) { return nil, job.NotFound }

func (s *picky) JobWithin(id job.ID, _ int64) (job.Job, bool, error) {
	return job.Job{ID: id, Batch: id, Client: "c", Type: "t", Status: job.Pending, Attributes: job.Attributes{Kind: job.Text}, Progress: -1}, true, nil
}

func (s *picky) Batch(id job.ID) (document.Batch, error) {
	return document.Batch{ID: id, Lines: 1, Jobs: 1, Status: job.BatchInProgress, Submission: &document.Submission{
		Submission: job.Submission{Open: true, Meta: "k=v,n:1"}, Client: "c", Type: "t", RetentionMs: 1}}, nil
}

func (s *picky) LineOf(id job.ID) (job.ID, int64, error) {
	return id.WithLine(0), int64(id.Line()), nil
}
func (s *picky) BatchMetadata(job.ID) ([]byte, error) { return []byte("metadata"), nil }

func (s *picky) Batches(f query.BatchFilter) (docs []document.Batch, next query.BatchPlace, err error) {
	testkit.Holds(s.t, f.Limit >= 1 && f.Limit <= job.MaxPage, "a page of", f.Limit, "batches")
	b, err := s.Batch(job.NewID(1, 2, 0))
	return []document.Batch{b}, query.BatchPlace{ID: b.ID, Name: f.NamePrefix}, err
}

func (s *picky) AwaitBatch(job.ID) (*store.JobEnd, error) { return nil, job.BatchNotFound }

func (s *picky) Results(id job.ID, from int64, limit int, room int64) (query.Results, error) {
	testkit.Holds(s.t, from >= 0 && limit >= 1 && limit <= job.MaxPage && room >= 1, "results from", from, limit, "at most in", room, "bytes")
	return query.Results{Next: from, End: true}, nil
}

func (s *picky) ChangeBatch(_ context.Context, c job.ChangeBatch) (applied.BatchChanged, ingest.Receipt, error) {
	s.take(c)
	return applied.BatchChanged{Status: job.BatchInProgress}, fuzzReceipt, nil
}

func (s *picky) Queue(client, typ string) (document.Queue, error) {
	return document.Queue{Client: client, Type: typ}, nil
}

func (s *picky) Queues(_ *job.Scope, _, _, _ string, limit int) ([]document.Queue, bool, error) {
	testkit.Holds(s.t, limit >= 1 && limit <= job.MaxPage, "a page of", limit, "queues")
	return nil, false, nil
}

func (s *picky) CatchUp(context.Context, uint64) error { return nil }

func (s *picky) Now() int64                                   { return fuzzReceipt.At }
func (s *picky) Stats() ingest.Stats                          { return ingest.Stats{} }
func (s *picky) Ready() error                                 { return nil }
func (s *picky) QueueRows() int                               { return 0 }
func (s *picky) CommandTimes() map[string]ingest.CommandTimes { return nil }
func (s *picky) QueueFigures() []store.QueueFigures           { return nil }
func (*picky) AcceptTime(context.Context) (int64, error)      { return 0, nil }
func (*picky) ClockOffset() time.Duration                     { return 0 }

// FuzzRoutes sends any query, any two path parameters and any body with any content type to any route. It takes the
// routes from the table, so it includes new ones. The server must turn each request into a command that can be read
// back from the journal, or refuse it with a problem that has a code.
func FuzzRoutes(f *testing.F) {
	testkit.OneByOne(f)
	types := []string{web.MIMEJSON, web.MIMENDJSON, web.MIMEText, "application/json; charset=utf-8", "", "application/x-www-form-urlencoded", web.MIMERuns}
	const id = "018c2b6e-7f00-7000-8000-000000400001"
	for n := range unserved().routes() {
		for i, body := range []string{
			"", "{}", "first\nsecond\n", `{"payload":{"a":1},"client":"acme","type":"resize","delay_ms":5,"priority":9}`,
			`{"runner_id":"r1","max":3,"types":["resize"],"wait_ms":10}`, `{"claim_id":"` + id + `","status":"completed","output":{"x":1}}`,
			`{"job_ids":["` + id + `"],"lease_ms":5000}`, `{"outcomes":[{"job_id":"` + id + `","code":"retry","delay_ms":1,"error":"why"}]}`,
			`{"job_id":"` + id + `","code":"ok"}` + "\n" + `{"job_id":"` + id + `","code":"failed","exit_code":404}` + "\n",
		} {
			f.Add(uint8(n), uint8(i), false, "", id, "resize", "", []byte(body))
		}
		f.Add(uint8(n), uint8(2), true, "client=a&jobtype=b&priority=3&lease_ms=2000&max_attempts=4&delay_ms=7&limit=5&after=a/b", "acme", "resize", "", []byte("a\n\n\nb"))
		f.Add(uint8(n), uint8(2), false, "skip_lines=1&strip_cr=true", "acme", "re%3Asize", "", []byte("head\r\na\r\n\r\nb\r\r\nc"))
		f.Add(uint8(n), uint8(0), false, "status=failed", id, "resize", "results=each", []byte(`[{"unique_key":"k","meta":{"a":"b"}},{"payload":"two\nlines","priority":99},{}]`))
		f.Add(uint8(n), uint8(0), false, "status=failed&batch_id="+id, id, "resize", "", []byte{})
		f.Add(uint8(n), uint8(1), false, "status=all", id, "resize", "results=each", []byte(`{"expires_at":5,"timeout_ms":1000}`+"\n\nnot json\n"))
		f.Add(uint8(n), uint8(0), false, "meta.a=b&expires_at=9&timeout_ms=1000", "acme", "resize", "k", []byte(`{"runner_id":"r","strategy":{"name":"prefer_distinct","meta_key":"a","underlying":{"name":"fair"}},"priority":3}`))
	}
	for n := range uint8(20) {
		f.Add(n, uint8(0), false, "", id, "", unknownID+"|255|7", []byte(`{"runner_id":"r","max":2,"complete":[{"job_id":"`+id+`","code":"ok"}]}`))
		f.Add(n, uint8(0), false, "", id, "", unknownID+"|0|1", []byte(`{"status":"failed"}`))
	}
	for n := range uint8(20) {
		const answerInRuns, bodyInRuns = 64, 6
		f.Add(n, uint8(answerInRuns+bodyInRuns), false, "", id, "", "", []byte("#:complete v=1 claim_id="+id+" jobs=2 runs=1\n#:run job_id="+id+" n=2 code=ok kind=text frame=line bytes=4\na\nb\n"))
		f.Add(n, uint8(bodyInRuns), false, "", id, "", "", []byte("#:create v=1 jobs=3 runs=2\n#:run n=2 client=acme priority=7 kind=json frame=len bytes=8\n1\n1\n1\n2\n#:run n=1 type=x delay_ms=3\n"))
		f.Add(n, uint8(answerInRuns+bodyInRuns), false, "", id, "", "k", []byte("#:complete v=1 claim_id="+id+" jobs=0 runs=0 code=retry delay_ms=5\n"))
		f.Add(n, uint8(answerInRuns+bodyInRuns), false, "fields=payload", id, "", "", []byte(`{"runner_id":"r","max":2,"complete":[{"job_id":"`+id+`","code":"ok"}]}`))
	}
	for n := range uint8(3) { // for the routes of creates: gzip that is complete, doubled, truncated or invalid
		gz := "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x4a\x54\x48\xe2\x02\x04\x00\x00\xff\xff"
		for _, body := range []string{gz, gz + gz, gz[:9], "not gzip\n"} {
			f.Add(n, uint8(130), true, "", "acme", "resize", "", []byte(body))
		}
	}
	blobs := newBlobs(f, (&picky{}).CatchUp, func(func(string, []byte) bool) error { return nil }, blob.Options{ReserveBytes: 1})
	of := testkit.Must(blobs.Store())(f)
	testkit.Must(of.Put(f.Context(), "", strings.NewReader(emptyManifest), blob.Ref{}))(f)
	f.Fuzz(func(t *testing.T, route, contentType uint8, zipped bool, query, first, second, key string, body []byte) {
		engine := &picky{t: t}
		s, err := newServer(Options{Blobs: &blobs.Blobs, Quit: func() {}, GetSwitches: true, Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.ErrorLevel)}, engine)
		testkit.NoError(t, err)
		routes := append(withHeads(s.routes()), s.getSwitches()...)
		r := routes[int(route)%len(routes)]
		path := r.path
		for _, value := range []string{first, second} {
			if at := strings.Index(path, ":"); at >= 0 {
				end := at + len(strings.SplitN(path[at:], "/", 2)[0])
				path = path[:at] + url.PathEscape(value) + path[end:]
			}
		}
		sent := body
		raw := contentType >= 128 // the header says gzip, but the body is not
		if raw {
			zipped = true
		} else if zipped {
			var b bytes.Buffer
			w := gzip.NewWriter(&b)
			w.Write(body) // cannot fail: it writes to memory
			w.Close()
			sent = b.Bytes()
		}
		target, err := url.ParseRequestURI(path)
		if err != nil {
			return // it is not a valid request
		}
		target.RawQuery = query
		req := &http.Request{
			Method: r.method, URL: target, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Host: "127.0.0.1", RemoteAddr: "127.0.0.1:5",
			Header: http.Header{}, Body: http.NoBody, RequestURI: target.RequestURI(),
		}
		if r.method != http.MethodGet {
			if number := strings.Split(key, "|"); len(number) == 3 {
				req.Header.Set(web.HeaderSession, number[0])
				req.Header.Set(web.HeaderSlot, number[1])
				req.Header.Set(web.HeaderNumber, number[2])
			} else if len(key) > 0 {
				req.Header.Set("Idempotency-Key", key)
				req.Header.Set("Prefer", key)
				req.Header.Set("Traceparent", key)
			}
			req.Body, req.ContentLength = readCloser{bytes.NewReader(sent)}, int64(len(sent))
			req.Header.Set("Content-Type", types[int(contentType%64)%len(types)])
			if contentType&64 != 0 {
				req.Header.Set("Accept", web.MIMERuns)
			}
			if zipped {
				req.Header.Set("Content-Encoding", "gzip")
			}
		}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(patient{w}, req.WithContext(t.Context()))
		if w.Header().Get("Content-Type") == web.MIMERuns {
			_, _, err := decodeRuns(w.Body.Bytes())
			testkit.Check(t, err, r.method, path, "?", query, "with", body, "is answered", w.Body)
		}
		switch {
		case w.Code >= 500:
			t.Errorf("%s %s?%s with %q: %d %s", r.method, path, query, body, w.Code, w.Body)
		case w.Code >= 400:
			var p struct{ Code, Detail string }
			testkit.Holds(t, json.Unmarshal(w.Body.Bytes(), &p) == nil && p.Code != "",
				r.method, path, "?", query, "with", body, w.Code, "without a code", w.Body)
		}
		if c := engine.created; c != nil && !raw && strings.HasSuffix(r.path, "/add") {
			values := target.Query()
			skip, err := strconv.Atoi(cmp.Or(values.Get("skip_lines"), "0"))
			testkit.Check(t, err, query, "was taken")
			kept := keptLines(body, skip, values.Get("strip_cr") == "true")
			testkit.Equal(t, string(c.Payloads), kept, "the lines", body, query)
			testkit.Holds(t, w.Code == http.StatusCreated && c.Lines() == strings.Count(kept, "\n"), body, w.Code, c.Lines(), "jobs")
		}
	})
}

// patient is a response writer that supports deadlines, as a connection's response writer does.
type patient struct{ *httptest.ResponseRecorder }

func (patient) SetReadDeadline(time.Time) error  { return nil }
func (patient) SetWriteDeadline(time.Time) error { return nil }

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }

// keptLines returns the lines that a bulk post keeps: only \n ends a line, and empty lines are ignored.
func keptLines(body []byte, skip int, stripCR bool) string {
	var kept strings.Builder
	for i, line := range strings.Split(string(body), "\n") {
		if i < skip {
			continue
		}
		if stripCR {
			line = strings.TrimSuffix(line, "\r")
		}
		if line != "" {
			fmt.Fprintln(&kept, line)
		}
	}
	return kept.String()
}
