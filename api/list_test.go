package api

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/query"
)

func (s *picky) List(f query.Filter) ([]job.Job, query.JobPlace, error) {
	testkit.Holds(s.t, f.Limit >= 1 && f.Limit <= job.MaxPage && f.CreatedAfter >= 0 && f.CreatedBefore >= 0 &&
		f.Status != job.Purged, "a list of", f)
	return []job.Job{{Status: job.Pending, Client: f.Client, Type: f.Type, Runner: f.Runner, Progress: -1}}, f.After, nil
}

func (s *picky) ClaimDocument(id job.ID, _ query.Parts) (document.Claim, []job.Job, error) {
	return document.Claim{ID: id}, []job.Job{{ID: id, Status: job.Active}}, nil
}

func (s *picky) Runners(after string, limit int) ([]document.Runner, bool, error) {
	testkit.Holds(s.t, limit >= 1 && limit <= job.MaxPage && len(after) <= job.MaxRunnerBytes, "a page of", limit, "runners after", after)
	return []document.Runner{{Name: after + "r"}}, true, nil
}

func (s *picky) WaitingTypes(_ *job.Scope, _, _ string, limit int) ([]document.WaitingType, bool, error) {
	testkit.Holds(s.t, limit >= 1 && limit <= job.MaxPage, "a page of", limit, "types")
	return []document.WaitingType{{Type: "x", Waiting: 3}}, true, nil
}

// listed returns the lines of the ids of a page, and next.
func (r *rig) listed(query string) string {
	r.Helper()
	o := r.get("/jobs" + query).object(http.StatusOK)
	var lines []string
	for _, id := range ids(o) {
		parsed := testkit.Must(job.ParseID(id))(r)
		lines = append(lines, fmt.Sprint(parsed.Line()))
	}
	text := strings.Join(lines, " ")
	if next, ok := o["next"].(string); ok {
		parsed := testkit.Must(job.ParseID(next))(r)
		text += fmt.Sprint(" next ", parsed.Line())
	}
	return text
}

func TestList(t *testing.T) {
	r := start(t)
	want(t, r.get("/jobs").object(http.StatusOK), "jobs", "[]", "next", nil)
	batch := r.add("/a/job/x/add", "0\n1\n2\n3\n4\n5\n").object(http.StatusCreated)
	first := testkit.Must(job.ParseID(batch["first_id"].(string)))(t)
	claim := r.post("/jobs/claim", `{"runner_id":"r\u00e9","max":3}`).object(http.StatusOK)["claim_id"].(string)
	r.post("/jobs/"+first.String()+"/complete", `{"code":"ok","output":"done"}`).object(http.StatusOK)
	for query, want := range map[string]string{
		"": "0 1 2 3 4 5", "?limit=1000": "0 1 2 3 4 5", "?limit=4": "0 1 2 3 next 3", "?limit=6": "0 1 2 3 4 5",
		"?after=" + first.WithLine(3).String(): "4 5", "?limit=1&after=" + first.String(): "1 next 1",
		"?status=pending": "3 4 5", "?status=completed": "0", "?status=active": "1 2", "?status=failed": "", "?status=active&limit=1": "1 next 1",
		"?client=a": "0 1 2 3 4 5", "?client=b": "", "?client=a&type=x&status=pending": "3 4 5", "?type=x": "0 1 2 3 4 5", "?type=y": "",
		"?runner_id=r%C3%A9": "0 1 2", "?runner_id=r%C3%A9&status=active": "1 2", "?runner_id=s": "",
		"?claim_id=" + claim: "0 1 2", "?claim_id=" + claim + "&status=completed": "0", "?claim_id=" + unknownID: "",
		"?batch_id=" + batch["batch_id"].(string): "0 1 2 3 4 5", "?status=completed&batch_id=" + batch["batch_id"].(string): "0", "?batch_id=" + unknownID: "",
		fmt.Sprint("?created_after=", first.At()): "0 1 2 3 4 5", fmt.Sprint("?created_after=", first.At()+1): "",
		fmt.Sprint("?created_before=", first.At()): "", fmt.Sprint("?created_before=", first.At()+1): "0 1 2 3 4 5",
		"?meta.colour=red": "",
	} {
		testkit.Equal(t, r.listed(query), want, "GET /jobs", query)
	}
	for query, field := range map[string]string{
		"limit=0": "limit", "limit=1001": "limit", "limit=x": "limit", "limit=": "limit", "limit=+1": "limit", "limit=1&limit=2": "limit",
		"status=purged": "status", "status=": "status", "status=Pending": "status", "client=": "client", "client=a%20b": "client", "type=..": "type",
		"client=" + repeat('a', 129): "client", "runner_id=": "runner_id", "runner_id=" + repeat('a', 129): "runner_id", "runner_id=%ff": "runner_id",
		"created_after=-1": "created_after", "created_after=253402300800000": "created_after", "created_before=0": "created_before", "created_before=1.5": "created_before",
		"fields=": "fields", "fields=job_id,": "fields", "fields=colour": "fields", "fields=status,status": "fields", "fields=Status": "fields",
		"meta.=x": "meta.", "meta.a%20b=x": "meta.a b", "meta.k=" + repeat('v', 257): "meta.k", "meta=x": "meta", "colour=red": "colour", "%zz": "",
	} {
		r.get("/jobs?" + query).wrong(field)
	}
	r.get("/jobs?limit=1000&created_after=253402300799999&created_before=253402300799999&client=" + repeat('a', 128) + "&runner_id=" + repeat('r', 128)).object(http.StatusOK)
	for _, field := range []string{"after", "claim_id", "batch_id"} {
		want(t, r.get("/jobs?"+field+"=x").refused(http.StatusBadRequest, "bad_id"), "field", field)
	}
	r.get("/jobs", "Daybook-Min-Seq", "x").wrong("Daybook-Min-Seq")
}

func TestListPagesOfPayloads(t *testing.T) {
	testkit.OneByOne(t)
	r := start(t)
	for range 5 {
		r.add("/add", repeat('x', 3<<20)+"\n").object(http.StatusCreated)
	}
	o := r.get("/jobs").object(http.StatusOK)
	n := len(o["jobs"].([]any))
	testkit.Holds(t, n == 2 && o["next"] != nil, "a page of", n, "jobs of 3 MiB, next", o["next"])
	o = r.get("/jobs?fields=status").object(http.StatusOK)
	n = len(o["jobs"].([]any))
	testkit.Holds(t, n == 5 && o["next"] == nil, "without payloads a page of", n, "next", o["next"])
}

func TestFields(t *testing.T) {
	r := start(t)
	id := r.post("/jobs/create", `{"payload":{"a":1},"type":"x"}`).object(http.StatusCreated)["job_id"].(string)
	claim := r.post("/jobs/claim", `{"runner_id":"r","max":1}`).object(http.StatusOK)["claim_id"].(string)
	for path, want := range map[string]string{
		"/jobs/" + id + "?fields=type,payload,job_id": `{"job_id":"` + id + `","type":"x","payload":{"a":1}}` + "\n",
		"/jobs/" + id + "?fields=payload_b64,status":  `{"job_id":"` + id + `","status":"active","payload_b64":null}` + "\n",
		"/jobs?fields=job_id":                         `{"jobs":[{"job_id":"` + id + `"}],"next":null}` + "\n",
		"/jobs?fields=error,run_attempts":             `{"jobs":[{"job_id":"` + id + `","error":null,"run_attempts":1}],"next":null}` + "\n",
	} {
		got := r.get(path)
		testkit.Holds(t, got.status == http.StatusOK && got.body == want, path, got.status, got.body, "want", want)
	}
	got := r.get("/claims/" + claim + "?fields=type")
	testkit.Holds(t, strings.HasSuffix(got.body, `"held":1,"jobs":[{"job_id":"`+id+`","type":"x"}]}`+"\n"), "claim", got.body)
	var all []string
	for _, f := range answer.JobFields {
		all = append(all, f.Name)
	}
	whole := r.get("/jobs/" + id).body
	testkit.Equal(t, r.get("/jobs/"+id+"?fields="+strings.Join(all, ",")).body, whole, "all fields")
	slices.Reverse(all)
	testkit.Equal(t, r.get("/jobs/"+id+"?fields="+strings.Join(all, ",")).body, whole, "in the order of the request")
	for _, path := range []string{"/jobs/" + id, "/claims/" + claim} {
		r.get(path + "?fields=status,colour").wrong("fields")
		r.get(path + "?limit=1").wrong("limit")
		r.get(path + "?fields=status&fields=type").wrong("fields")
	}
}

// TestPartsOfFields: a list does not read the parts of the store that no selected field needs.
func TestPartsOfFields(t *testing.T) {
	r := start(t)
	r.post("/jobs/create", `{"payload":"p","max_attempts":2}`).object(http.StatusCreated)
	id := r.post("/jobs/claim", `{"runner_id":"r"}`).object(http.StatusOK)["job_id"].(string)
	r.post("/jobs/"+id+"/complete", `{"code":"retry","error":"no","delay_ms":0}`).object(http.StatusOK)
	r.post("/jobs/claim", `{"runner_id":"r"}`).object(http.StatusOK)
	r.post("/jobs/"+id+"/tickle", `{"step":"s","progress":0.5}`).object(http.StatusOK)
	r.post("/jobs/"+id+"/complete", `{"code":"failed","output":[1],"output_addr":"there","log_addr":"kept","process_exit":3,"error":"never"}`).object(http.StatusOK)
	whole := r.get("/jobs/" + id).object(http.StatusOK)
	for _, f := range answer.JobFields {
		o := r.get("/jobs?fields=" + f.Name).object(http.StatusOK)["jobs"].([]any)[0].(map[string]any)
		want(t, o, f.Name, whole[f.Name])
	}
}

func TestRunnersAndClaims(t *testing.T) {
	r := start(t)
	want(t, r.get("/runners").object(http.StatusOK), "runners", "[]", "next", nil)
	r.add("/add?lease_ms=60000", "0\n1\n2\n3\n4\n5\n").object(http.StatusCreated)
	claimed := map[string]string{}
	for _, name := range []string{"a", "b", "long", "a"} {
		claimed[name] = r.post("/jobs/claim", `{"runner_id":"`+name+`","max":1}`).object(http.StatusOK)["claim_id"].(string)
	}
	page := func(query string) (names []string, next any, list []any) {
		o := r.get("/runners" + query).object(http.StatusOK)
		for _, one := range o["runners"].([]any) {
			names = append(names, one.(map[string]any)["runner_id"].(string))
		}
		return names, o["next"], o["runners"].([]any)
	}
	for query, want := range map[string]string{"": "[a b long] <nil>", "?limit=2": "[a b] b", "?limit=2&after=b": "[long] <nil>", "?after=zzzzzz": "[] <nil>", "?after=aa": "[long] <nil>"} {
		names, next, _ := page(query)
		testkit.Equal(t, fmt.Sprint(names, " ", next), want, "/runners", query)
	}
	_, _, list := page("")
	a := list[0].(map[string]any)
	claims := a["claims"].([]any)
	want(t, a, "held", 2, "claim_count", 2)
	testkit.MustEqual(t, len(claims), 2, a)
	newest := claims[0].(map[string]any)
	want(t, newest, "claim_id", claimed["a"], "held", 1, "tickled_at", newest["claimed_at"])
	want(t, a, "last_seen_at", newest["claimed_at"])
	for query, field := range map[string]string{"limit=0": "limit", "limit=1001": "limit", "after=": "after", "after=" + repeat('r', 129): "after", "client=a": "client"} {
		r.get("/runners?" + query).wrong(field)
	}

	id := claimed["long"]
	o := r.get("/claims/" + id).object(http.StatusOK)
	want(t, o, "claim_id", id, "runner_id", "long", "lease_ms", 60000, "handed_out", 1, "held", 1, "tickled_at", o["created_at"])
	held := o["jobs"].([]any)[0].(map[string]any)
	want(t, held, "status", "active", "claim_id", id, "deadline_at", o["deadline_at"], "payload", "2")
	r.post("/jobs/complete", `{"claim_id":"`+id+`","code":"ok"}`).object(http.StatusOK)
	want(t, r.get("/claims/"+id).object(http.StatusOK), "held", 0, "jobs", "[]", "deadline_at", nil, "handed_out", 1)
	names, _, _ := page("")
	testkit.Equal(t, fmt.Sprint(names), "[a b]", "runners that hold something")
	r.post("/jobs/"+held["job_id"].(string)+"/release", `{"how":"unget"}`).refused(http.StatusBadRequest, "job_not_active")
	r.get("/claims/"+unknownID).refused(http.StatusNotFound, "claim_not_found")
	r.get("/claims/x").refused(http.StatusBadRequest, "bad_id")
}

func TestWaitingTypes(t *testing.T) {
	r := start(t)
	want(t, r.get("/queues?waiting=true").object(http.StatusOK), "types", "[]", "next", nil)
	for _, path := range []string{"/a/job/x/add", "/b/job/x/add", "/b/job/y/add", "/c/job/z/add"} {
		r.add(path, "1\n2\n").object(http.StatusCreated)
	}
	r.do(http.MethodPost, "/queues/c/z/pause", nil).object(http.StatusOK)
	r.post("/jobs/claim", `{"runner_id":"r","clients":["a"]}`).object(http.StatusOK)
	for query, want := range map[string]string{
		"": `{"types":[{"type":"x","waiting":3},{"type":"y","waiting":2}],"next":null}`, "&client=a": `{"types":[{"type":"x","waiting":1}],"next":null}`,
		"&limit=1": `{"types":[{"type":"x","waiting":3}],"next":"x"}`, "&limit=1&after=x": `{"types":[{"type":"y","waiting":2}],"next":null}`,
		"&client=none": `{"types":[],"next":null}`,
	} {
		got := r.get("/queues?waiting=true" + query)
		testkit.Holds(t, strings.TrimSpace(got.body) == want, query, got.body, "want", want)
	}
	o := r.get("/queues?waiting=false").object(http.StatusOK)
	testkit.Equal(t, len(o["queues"].([]any)), 4, o)
	for query, field := range map[string]string{"waiting=1": "waiting", "waiting=": "waiting", "waiting=true&after=a/b": "after", "waiting=true&limit=1001": "limit"} {
		r.get("/queues?" + query).wrong(field)
	}
}

func TestETags(t *testing.T) {
	r := start(t)
	batch := r.add("/a/job/x/add", "1\n"+repeat('2', 2000)+"\n").object(http.StatusCreated)
	id := batch["first_id"].(string)
	paths := []string{"/jobs/" + id, "/jobs/" + batch["last_id"].(string), "/batches/" + batch["batch_id"].(string), "/queues/a/x", "/queues", "/queues?waiting=true"}
	tags := map[string]string{}
	for _, path := range paths {
		a := r.get(path)
		tag := a.header.Get("ETag")
		tags[path] = tag
		testkit.Holds(t, a.status == http.StatusOK && strings.HasPrefix(tag, `W/"`) &&
			a.header.Get("Cache-Control") == "no-cache", path, a.status, "with the tag", tag)
		testkit.Equal(t, r.get(path, "Accept-Encoding", "identity").header.Get("ETag"), tag, path, "the tag")
		for _, header := range []string{tag, strings.TrimPrefix(tag, "W/"), `"x", ` + tag, `W/"y",` + tag + `,"z"`, "*"} {
			b := r.get(path, "If-None-Match", header)
			testkit.Holds(t, b.status == http.StatusNotModified && b.body == "" && b.header.Get("ETag") == tag &&
				b.header.Get("Content-Length") == "", path, "with", header, b.status, b.body, b.header)
		}
		for _, header := range []string{`"x"`, "", `W/""`, strings.Trim(tag, `W/"`)} {
			r.get(path, "If-None-Match", header).wantStatus(http.StatusOK)
		}
	}
	a, b := r.get(paths[0]+"?fields=status"), tags[paths[0]]
	testkit.Holds(t, a.header.Get("ETag") != b, "some fields have the tag of all")
	r.post("/jobs/claim", `{"runner_id":"r"}`).object(http.StatusOK)
	for i, path := range paths {
		status := r.get(path, "If-None-Match", tags[path]).status
		testkit.Equal(t, status == http.StatusOK, i != 1, path, "after a change:", status)
	}
	r.get("/jobs/"+unknownID, "If-None-Match", "*").refused(http.StatusNotFound, "job_not_found")
}

// encoded sends a request without a transport that decompresses the answer.
func (r *rig) encoded(method, path, body, accept string) (status int, header http.Header, text []byte) {
	r.Helper()
	req := testkit.Must(http.NewRequest(method, r.url+path, strings.NewReader(body)))(r)
	req.Header.Set("Accept-Encoding", accept)
	req.Header.Set("Content-Type", web.MIMEJSON)
	res := testkit.Must(http.DefaultTransport.RoundTrip(req))(r)
	defer res.Body.Close()
	text = testkit.Must(io.ReadAll(res.Body))(r)
	return res.StatusCode, res.Header, text
}

func TestCompression(t *testing.T) {
	var log strings.Builder
	r := start(t, func(o *setup) { o.Log = zerolog.New(&log) })
	// The documents of these payloads have 1023 and 1024 bytes.
	bare := len(r.post("/jobs/create", `{"payload":"x"}`).body) - 1
	var paths []string
	for _, size := range []int{web.MinCompressedBytes - 1, web.MinCompressedBytes, 50_000} {
		o := r.post("/jobs/create", `{"payload":"`+repeat('x', size-bare)+`"}`).object(http.StatusCreated)
		paths = append(paths, "/jobs/"+o["job_id"].(string))
	}
	for i, path := range paths {
		_, _, plain := r.encoded(http.MethodGet, path, "", "identity")
		_, header, text := r.encoded(http.MethodGet, path, "", "gzip")
		zipped := header.Get("Content-Encoding") == "gzip"
		testkit.Holds(t, zipped == (i > 0) && header.Get("Vary") == "Accept-Encoding" &&
			strings.HasPrefix(header.Get("ETag"), "W/"), len(plain), "bytes", header)
		if !zipped {
			testkit.Holds(t, string(text) == string(plain) &&
				header.Get("Content-Length") == fmt.Sprint(len(plain)), len(plain), "bytes became", len(text), header)
			continue
		}
		z := testkit.Must(gzip.NewReader(strings.NewReader(string(text))))(t)
		again := testkit.Must(io.ReadAll(z))(t)
		testkit.Holds(t, string(again) == string(plain) && len(text) < len(plain), len(plain), "bytes became", len(text), "and", len(again), "again")
	}
	for name, accept := range map[string]string{"nothing": "", "not gzip": "br, zstd", "never gzip": "gzip;q=0"} {
		_, header, _ := r.encoded(http.MethodGet, paths[2], "", accept)
		testkit.Equal(t, header.Get("Content-Encoding"), "", name, "accepted:", header)
	}
	status, header, _ := r.encoded(http.MethodGet, "/jobs/x", "", "gzip")
	testkit.Holds(t, status == http.StatusBadRequest && header.Get("Content-Type") == "application/problem+json", "a refusal", status, header)
	_, header, text := r.encoded(http.MethodGet, "/metrics", "", "gzip")
	testkit.Equal(t, header.Get("Content-Encoding"), "gzip", "metrics", header)
	page := testkit.Must(io.ReadAll(testkit.Must(gzip.NewReader(bytes.NewReader(text)))(t)))(t)
	testkit.Holds(t, bytes.HasPrefix(page, []byte("# HELP")), "metrics are compressed twice")
	status, header, _ = r.encoded(http.MethodPost, "/jobs/claim", `{"runner_id":"r","max":10}`, "gzip")
	testkit.Holds(t, status == http.StatusOK && header.Get("Content-Encoding") == "" && header.Get("Content-Length") != "", "a claim", status, header)
	_, _, sent := r.encoded(http.MethodGet, "/jobs", "", "gzip")
	r.stop()
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	var last map[string]any
	testkit.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &last))
	want(t, last, "route", "/jobs", "status", 200, "bytes_out", len(sent))
}

// panicking is a state whose List panics until calm is set.
type panicking struct {
	backend.Engine
	calm atomic.Bool
}

func (e *panicking) List(f query.Filter) ([]job.Job, query.JobPlace, error) {
	if !e.calm.Load() {
		panic("list")
	}
	return e.Engine.List(f)
}

func (e *panicking) ClaimDocument(job.ID, query.Parts) (document.Claim, []job.Job, error) {
	panic("claim")
}

// TestAPanicKeepsNoTurn: after as many panics as there are turns, lists are still served.
func TestAPanicKeepsNoTurn(t *testing.T) {
	state := &panicking{}
	r := start(t, func(o *setup) { state.Engine, o.engine = o.engine, state })
	for range 2 * cap(r.server.pages) {
		client := http.Client{Timeout: 30 * time.Second}
		for _, path := range []string{"/jobs", "/claims/" + unknownID} {
			resp, err := client.Get(r.url + path)
			testkit.NoError(t, err, path)
			resp.Body.Close()
			testkit.Equal(t, resp.StatusCode, http.StatusInternalServerError, path)
		}
		func() {
			defer func() { recover() }()
			p := web.NewPieces(echo.New().NewContext(httptest.NewRequest("GET", "/", nil), nil), web.MIMEJSON, &web.Share{Lane: r.server.documents}, r.server.pages)
			t.Error("no panic", answer.AppendJobPieces(p, make([]job.Job, 1), "", "", func([]byte, *answer.Jobs, *job.Job) []byte { panic("document") }))
		}()
	}
	testkit.Equal(t, len(r.server.pages), 0, "turns are taken")
	state.calm.Store(true)
	r.get("/jobs").object(http.StatusOK)
	testkit.Equal(t, r.server.documents.Used(), 0, "bytes are held")
}
