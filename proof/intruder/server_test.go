package intruder

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/api"
	"github.com/daybookq/daybook/api/oidc"
	"github.com/daybookq/daybook/api/oidc/oidctest"
	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
)

// server is a server on loopback, with the keys of an admin and of three tenants, and with things of the victim.
type server struct {
	*testing.T
	url    string
	dir    string       // with the journal
	blobs  string       // the directory of the blobs
	ahead  atomic.Int64 // how far journal time is ahead of real time, ms
	quits  atomic.Int64 // requests to quit that got in
	things map[string]string
	fills  int               // how often fill was called
	keys   map[string]string // texts of keys, by name
	logins map[string]browser

	issuers          *oidc.Issuers
	issuer, stranger *oidctest.Issuer // the server accepts the tokens of issuer; stranger has other keys of the same names
	byToken          bool             // as returns tokens of the boss and the victim
}

// The marks are in payloads, outputs, errors, handlers and blobs of the victim. Each is the value of a field "secret" of JSON.
const (
	payloadMark = "MARK-OF-A-PAYLOAD"
	outputMark  = "MARK-OF-AN-OUTPUT"
	errorMark   = "MARK-OF-AN-ERROR"
	otherMark   = "MARK-OF-OTHER-CONTENT"
	quotaMark   = "987654321987" // bytes of the quota
)

// start runs a server until the test ends.
func start(t *testing.T) *server {
	t.Helper()
	s := &server{T: t, dir: t.TempDir(), blobs: filepath.Join(t.TempDir(), "blobs"), things: map[string]string{}, keys: map[string]string{}, logins: map[string]browser{}}
	// Runners send no heartbeats here, however long the tests take.
	engine := testkit.Must(ingest.Open(ingest.Options{Dir: s.dir, MetricsQueues: 100, RunnerHeartbeat: time.Hour, Journal: journal.Options{Clock: func() int64 { return time.Now().UnixMilli() + s.ahead.Load() }}}))(t)
	working, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(working) }()
	t.Cleanup(func() { stop(); testkit.Check(t, <-ended, "engine") })
	blobs := testkit.Must(blob.OpenDir(t.Context(), s.blobs, blob.Options{}))(t)
	t.Cleanup(func() { testkit.Check(t, blobs.Close()) })
	of := func() (*blob.Store, error) { return blobs, nil }
	s.issuer, s.stranger = oidctest.New(t), oidctest.New(t)
	s.stranger.AddKey("two")
	s.issuers = testkit.Must(oidc.New([]oidc.Issuer{issuerOf(s.issuer)}, slog.New(slog.DiscardHandler), nil))(t) // nothing runs them: they know their keys
	there := testkit.Must(api.New(api.Options{
		Engine: engine, Log: zerolog.Nop(), GetSwitches: true, Issuers: s.issuers, Quit: func() { s.quits.Add(1) },
		Blobs: &api.Blobs{Store: of, Collector: &blob.Collector{Store: of, Log: slog.New(slog.DiscardHandler), Scan: func(context.Context, *blob.Store, func([]byte) error) error { return nil }}},
	}))(t)
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	serving, drain := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- there.Run(serving, l, 5*time.Second) }()
	t.Cleanup(func() { drain(); testkit.Check(t, <-served, "server") })
	s.url = "http://" + l.Addr().String()
	testkit.Eventually(t, "the server is ready", func() bool { return engine.Ready() == nil })

	s.newKey("boss", `"roles":["admin"]`)
	const tenant = `"roles":["operator","producer","worker"],`
	s.newKey("victim", tenant+`"clients":["victim"]`)
	s.newKey("neighbor", tenant+`"clients":["neighbor"]`)
	s.newKey("typed", tenant+`"clients":["victim"],"types":["plain"]`)
	s.fill()
	return s
}

// answer is the answer to a request.
type answer struct {
	status int
	header http.Header
	body   string
}

// send sends a request. The values of headers are added, so that one can be given twice; Host replaces the usual one.
func (s *server) send(method, path, body string, headers ...string) answer {
	s.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	r := testkit.Must(http.NewRequestWithContext(s.Context(), method, s.url+path, in))(s)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Add(headers[i], headers[i+1])
	}
	resp := testkit.Must(http.DefaultClient.Do(r))(s)
	defer resp.Body.Close()
	text := testkit.Must(io.ReadAll(resp.Body))(s)
	return answer{resp.StatusCode, resp.Header, string(text)}
}

// code returns the code of a refusal.
func (a answer) code() string {
	var doc struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal([]byte(a.body), &doc) // an answer without a document has no code
	return doc.Code
}

// as returns the header with a key of the server, or with a token in its place.
func (s *server) as(name string) []string {
	if s.byToken && (name == "boss" || name == "victim") {
		return bearing(s.token(name, nil))
	}
	return bearing(s.keys[name])
}

// unix returns the time of the server, in seconds.
func (s *server) unix() int64 { return (time.Now().UnixMilli() + s.ahead.Load()) / 1000 }

// newKey creates a key.
func (s *server) newKey(name, limits string) {
	s.Helper()
	by := s.as("boss")
	if s.keys["boss"] == "" { // a server with issuers is never open
		by = bearing(s.token("boss", nil))
	}
	s.keys[name] = s.must("POST", "/keys", `{"name":"`+name+`",`+limits+`}`, by...)["key"].(string)
}

// must sends a request that succeeds, with a JSON document unless the headers have another type, and returns the document of
// the answer.
func (s *server) must(method, path, body string, headers ...string) (doc map[string]any) {
	s.Helper()
	if body != "" && !slices.Contains(headers, "Content-Type") {
		headers = append(slices.Clone(headers), "Content-Type", "application/json")
	}
	a := s.send(method, path, body, headers...)
	testkit.MustHold(s, a.status < 300, method, path, a.status, a.body)
	if strings.HasPrefix(a.body, "{") {
		testkit.NoError(s, json.Unmarshal([]byte(a.body), &doc))
	}
	if place := a.header.Get("Location"); place != "" && doc == nil {
		doc = map[string]any{"location": place}
	}
	return doc
}

// fill gives the victim one of each thing, and things gets their ids and names.
func (s *server) fill() {
	s.Helper()
	v := s.as("victim")
	_ = s.send("DELETE", "/runners/victim:1?instance="+s.things["instance"], "", v...) // the instance before may have ended already
	s.fills++
	create := func(more string) string {
		return s.must("POST", "/jobs/create", `{"client":"victim","type":"sealed","payload":{"secret":"`+payloadMark+`"},"max_attempts":1`+more+`}`, v...)["job_id"].(string)
	}
	active := func() (id, claim string) {
		id = create("")
		for claimed := ""; claimed != id; {
			o := s.must("POST", "/jobs/claim", `{"runner_id":"victim:1","types":["sealed"],"max":1,"strategy":"newest","lease_ms":3600000}`, v...)
			claim, claimed = o["claim_id"].(string), o["jobs"].([]any)[0].(map[string]any)["job_id"].(string)
		}
		return id, claim
	}
	t := map[string]string{"client": "victim", "type": "sealed", "runner": "victim:1", "fileset": "sealed", "key": "victim", "node": "1"}
	t["active"], t["claim"] = active()
	t["done"], _ = active()
	s.must("POST", "/jobs/"+t["done"]+"/complete", `{"code":"ok","output":{"secret":"`+outputMark+`"}}`, v...)
	t["failed"], _ = active()
	s.must("POST", "/jobs/"+t["failed"]+"/complete", `{"code":"failed","error":"`+errorMark+`"}`, v...)
	t["waiting"] = create(`,"run_at":4102444800000`)
	t["batch"] = s.must("POST", "/jobs/create", `{"batch":{"client":"victim","type":"sealed","open":true,"metadata":"`+payloadMark+`"},"jobs":[{"payload":{"secret":"`+payloadMark+`"}}]}`, v...)["batch_id"].(string)
	s.must("PUT", "/limits/victim", `{"bytes":`+quotaMark+`}`, s.as("boss")...)
	t["session"] = s.must("POST", "/sessions", `{"runner_id":"victim:1"}`, v...)["session_id"].(string)
	t["instance"] = fmt.Sprint("i", s.fills)
	s.must("POST", "/runners/victim:1", `{"instance":"`+t["instance"]+`"}`, v...)
	t["version"] = s.must("PUT", "/handlers/sealed?client=victim", `{"kind":"script","lang":"node","source":"`+otherMark+`"}`, v...)["handler_id"].(string)
	s.must("PUT", "/filesets/sealed?client=victim", tarOf(s, "a", otherMark), append(v, "Content-Type", "application/x-tar")...)
	t["address"] = s.must("PUT", "/blobs?client=victim", otherMark, append(v, "Content-Type", "application/octet-stream")...)["address"].(string)
	begun := s.must("POST", "/uploads?client=victim", "", append(v, "Upload-Length", "20", "Tus-Resumable", "1.0.0")...)["location"].(string)
	t["upload"], _, _ = strings.Cut(strings.TrimPrefix(begun, "/uploads/"), "?")
	s.must("POST", "/jobs/"+t["active"]+"/log?offset=0&claim_id="+t["claim"], otherMark, append(v, "Content-Type", "text/plain")...)
	if t["sweep"] = s.things["sweep"]; t["sweep"] == "" {
		many := "[" + strings.Repeat(`{"client":"victim","type":"swept","priority":1},{"client":"victim","type":"swept"},`, 499) + `{"client":"victim","type":"swept"}]`
		for range 3 {
			s.must("POST", "/jobs/create", many, v...)
		}
		t["sweep"] = s.must("POST", "/queues/victim/swept/cancel", "", v...)["sweep_id"].(string)
		testkit.Eventually(s, "the sweep has ended", func() bool { return s.must("GET", "/sweeps/"+t["sweep"], "", v...)["done"] == true })
		s.must("DELETE", "/queues/victim/swept/jobs?status=all", "", v...)
		testkit.Eventually(s, "the jobs of the sweep are deleted", func() bool {
			list := s.must("GET", "/jobs?type=swept", "", v...)
			return list["next"] == nil && len(list["jobs"].([]any)) == 0
		})
	}
	s.things = t
}

// fillIn puts values into a text that has their names in braces.
func fillIn(text string, values map[string]string) string {
	var pairs []string
	for name, value := range values {
		pairs = append(pairs, "{"+name+"}", value)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

func tarOf(t testing.TB, name, content string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	testkit.NoError(t, w.WriteHeader(&tar.Header{Name: name, Size: int64(len(content)), Mode: 0o644}))
	testkit.Must(io.WriteString(w, content))(t)
	testkit.NoError(t, w.Close())
	return b.String()
}

var recordHead = regexp.MustCompile(`\n#:(\w+) v=`)

// state returns what a request can change: the commands in the journal without those that the server writes on its own, and the
// documents.
func (s *server) state() string {
	s.Helper()
	var b strings.Builder
	verbs := map[string]int{}
	for _, name := range testkit.Must(filepath.Glob(filepath.Join(s.dir, "journal", "*", "*")))(s) {
		for _, head := range recordHead.FindAllSubmatch(testkit.Must(os.ReadFile(name))(s), -1) {
			if verb := string(head[1]); verb != "mark" && verb != "tick" {
				verbs[verb]++
			}
		}
	}
	testkit.MustHold(s, len(verbs) > 3, "the journal has no commands", verbs)
	for _, verb := range slices.Sorted(maps.Keys(verbs)) {
		fmt.Fprintln(&b, "commands", verb, verbs[verb])
	}
	return b.String() + s.documents()
}

// ages matches the values in documents that change with time, and nothing else.
var ages = regexp.MustCompile(`"(oldest_pending_age_ms|seq|last_used_at)":(\d+|null)|"progress":{"ended":[^}]*}`)

// documents returns the documents that an admin sees, the blobs and uploads, the log of a running job, and the requests to quit.
func (s *server) documents() string {
	s.Helper()
	var b strings.Builder
	for _, path := range []string{
		"/jobs?limit=1000", "/batches?limit=1000", "/queues", "/runners", "/sweeps", "/handlers", "/handlers/sealed/history?client=victim", "/filesets", "/filesets/sealed/history?client=victim", "/keys", "/limits",
		"/sessions/" + s.things["session"], "/claims/" + s.things["claim"], "/jobs/" + s.things["active"] + "/log", "/batches/" + s.things["batch"], "/level",
	} {
		a := s.send("GET", path, "", s.as("boss")...)
		testkit.Holds(s, !strings.Contains(a.body, `"next":"`), path, "has more pages", a.body)
		fmt.Fprintln(&b, path, a.status, strings.ReplaceAll(ages.ReplaceAllString(a.body, ``), `},{"`, "},\n{"))
	}
	testkit.NoError(s, filepath.WalkDir(s.blobs, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				fmt.Fprintln(&b, path, info.Size())
			}
		}
		return err
	}))
	fmt.Fprintln(&b, "stopped", s.must("GET", "/stats", "", s.as("boss")...)["stopped"], "quits", s.quits.Load())
	return b.String()
}

// same fails the test if the state or the documents are not what they were before.
func same(t testing.TB, now, before string, context ...any) {
	t.Helper()
	was := strings.Split(before, "\n")
	for line := range strings.Lines(now) {
		if now != before && !slices.Contains(was, strings.TrimSuffix(line, "\n")) {
			t.Errorf("%v changed the state: %s", context, line)
			return
		}
	}
	testkit.Equal(t, now, before, context)
}

// unknownID is the id of nothing.
var unknownID = job.NewID(1670273606123, 1<<30, 0).String()
