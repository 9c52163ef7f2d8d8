package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/query"
)

// rig is a server on a free loopback port, with a real engine in its own directory.
type rig struct {
	*testing.T
	url    string
	dir    string // with the data; empty if the engine is a test double
	engine backend.Engine
	server *Server
	blobs  *testBlobs
	stop   func() // shuts the server down as a signal does; a second call does nothing
}

// setup is the configuration of a server. A test can replace parts by test doubles.
type setup struct {
	Options
	engine      backend.Engine
	blobOptions blob.Options
	rows        func(visit func(key string, value []byte) bool) error // from the store
	filesets    *query.Queries                                        // nil: no filesets
}

// start runs a server until the test ends, and then checks the data.
func start(t *testing.T, change ...func(*setup)) *rig {
	t.Helper()
	return startWith(t, ingest.Options{MetricsQueues: 100}, change...)
}

// startWith is start with options of the engine.
func startWith(t *testing.T, options ingest.Options, change ...func(*setup)) *rig {
	t.Helper()
	dir := t.TempDir()
	options.Dir = dir
	engine := testkit.Must(ingest.Open(options))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		testkit.Check(t, <-ended, "engine")
		problems := testkit.Must(ingest.Check(context.Background(), dir, func(problem string) bool {
			t.Errorf("check: %s", problem)
			return true
		}))(t)
		testkit.Holds(t, problems == 0, "check", problems, "problems")
	})
	o := setup{Options: Options{Log: zerolog.Nop()}, engine: behind{engine, stateOf{engine.Queries()}}, rows: engine.Queries().EachRow, filesets: engine.Queries()}
	for _, f := range change {
		f(&o)
	}
	r := startOn(t, o)
	r.dir = dir
	for r.get("/readyz").status != http.StatusOK {
		if t.Context().Err() != nil {
			t.FailNow()
		}
	}
	return r
}

// startOn runs a server with the given engine.
func startOn(t *testing.T, o setup) *rig {
	t.Helper()
	if o.rows == nil {
		o.rows = func(func(string, []byte) bool) error { return nil }
	}
	blobs := newBlobs(t, o.engine.CatchUp, o.rows, o.blobOptions)
	if scan := blobs.Collector.Scan; o.filesets != nil {
		blobs.Collector.Scan = func(ctx context.Context, of *blob.Store, visit func([]byte) error) error {
			return errors.Join(scan(ctx, of, visit), ScanFilesets(ctx, o.filesets, of, visit))
		}
	}
	o.Blobs = &blobs.Blobs
	s := testkit.Must(newServer(o.Options, o.engine))(t)
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, l, 5*time.Second) }()
	r := &rig{T: t, url: "http://" + l.Addr().String(), engine: o.engine, server: s, blobs: blobs}
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		testkit.Check(t, <-ended, "server")
	}
	t.Cleanup(r.stop)
	return r
}

var recordHead = regexp.MustCompile(`\n#:(\w+) v=`)

// commands returns the number of client commands in the journal. It does not count ticks and marks, which the server
// writes without a request.
func (r *rig) commands() int {
	r.Helper()
	files := testkit.Must(filepath.Glob(filepath.Join(r.dir, "journal", "*", "*")))(r)
	n := 0
	for _, name := range files {
		text := testkit.Must(os.ReadFile(name))(r)
		for _, head := range recordHead.FindAllSubmatch(text, -1) {
			if verb := string(head[1]); verb != "mark" && verb != "tick" {
				n++
			}
		}
	}
	return n
}

// reply is an answer that was read to its end.
type reply struct {
	t      *testing.T
	what   string
	status int
	header http.Header
	body   string
}

// sentBody records the bytes that a request has sent of its body. The transport can still be sending when the answer
// has arrived.
type sentBody struct {
	mu   sync.Mutex
	sent []byte
}

func (s *sentBody) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, p...)
	return len(p), nil
}

func (s *sentBody) bytes() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.sent)
}

// do sends a request. headers are pairs of a name and a value.
func (r *rig) do(method, path string, body io.Reader, headers ...string) reply {
	r.Helper()
	req := testkit.Must(http.NewRequest(method, r.url+path, body))(r)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		} else {
			req.Header.Add(headers[i], headers[i+1])
		}
	}
	var sent sentBody
	if req.Body != nil {
		req.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(req.Body, &sent), req.Body}
	}
	resp, err := http.DefaultClient.Do(req)
	testkit.NoError(r, err, method, path)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	testkit.NoError(r, err, method, path)
	a := reply{r.T, method + " " + path, resp.StatusCode, resp.Header, string(text)}
	testkit.Check(r, describedOf(r.T).holds(req, sent.bytes(), a), method, path, "is not as the API is described")
	return a
}

func (r *rig) get(path string, headers ...string) reply {
	r.Helper()
	return r.do(http.MethodGet, path, nil, headers...)
}

// post sends JSON.
func (r *rig) post(path, body string, headers ...string) reply {
	r.Helper()
	return r.do(http.MethodPost, path, strings.NewReader(body), append([]string{"Content-Type", "application/json"}, headers...)...)
}

// add posts lines.
func (r *rig) add(path, lines string, headers ...string) reply {
	r.Helper()
	return r.do(http.MethodPost, path, strings.NewReader(lines), headers...)
}

// object checks the status of the answer and decodes its JSON object.
func (a reply) object(status int) map[string]any {
	a.t.Helper()
	testkit.MustEqual(a.t, a.status, status, a.what, "status", a.body)
	var o map[string]any
	d := json.NewDecoder(strings.NewReader(a.body))
	d.UseNumber()
	testkit.NoError(a.t, d.Decode(&o), a.what, a.body)
	return o
}

// refused checks that the answer is a problem document with the status and the code, and returns the document.
func (a reply) refused(status int, code string) map[string]any {
	a.t.Helper()
	o := a.object(status)
	testkit.Equal(a.t, a.header.Get("Content-Type"), "application/problem+json", a.what, "Content-Type")
	testkit.Holds(a.t, o["code"] == code && fmt.Sprint(o["status"]) == fmt.Sprint(status) && o["title"] != "" &&
		o["detail"] != "" && o["type"] == "about:blank", a.what, "problem", a.body, "want code", code)
	switch o["outcome"] {
	case "stored", "not_stored", "unknown":
	default:
		a.t.Errorf("%s: outcome %v", a.what, o["outcome"])
	}
	retry := a.header.Get("Retry-After")
	testkit.Equal(a.t, status == 429 || status == 503, retry != "", a.what, "Retry-After", retry, "with status", status)
	return o
}

// wrong checks that the answer is a refusal that names the field.
func (a reply) wrong(field string) map[string]any {
	a.t.Helper()
	o := a.refused(http.StatusBadRequest, "bad_request")
	got, _ := o["field"].(string)
	testkit.Equal(a.t, got, field, a.what, "field", a.body)
	return o
}

// want compares the texts of fields of an object.
func want(t *testing.T, o map[string]any, pairs ...any) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		name := pairs[i].(string)
		got, there := o[name]
		testkit.Holds(t, there && fmt.Sprint(got) == fmt.Sprint(pairs[i+1]), name, "is", got, "want", pairs[i+1])
	}
}

// ids returns the ids of the jobs in the answer to a claim.
func ids(o map[string]any) (list []string) {
	for _, j := range o["jobs"].([]any) {
		list = append(list, j.(map[string]any)["job_id"].(string))
	}
	return list
}

// creates is an engine whose Create is a function of the test.
type creates struct {
	backend.Engine
	make func(*job.Create) (ingest.Receipt, error)
}

func (f creates) Create(_ context.Context, c *job.Create) (applied.Made, ingest.Receipt, error) {
	receipt, err := f.make(c)
	return applied.Made{Batch: job.NewID(receipt.At, receipt.Seq, 0), Lines: c.Lines(), Group: c.Groups[0]}, receipt, err
}

func (f creates) StartCreate(ctx context.Context, c *job.Create) func() (applied.Made, ingest.Receipt, error) {
	return func() (applied.Made, ingest.Receipt, error) { return f.Create(ctx, c) }
}

// noJob is a state in which all jobs have been purged.
type noJob struct{ backend.Engine }

func (noJob) AwaitEnd(job.ID) (*store.JobEnd, error) { return nil, job.NotFound }

func (noJob) JobWithin(job.ID, int64) (job.Job, bool, error) { return job.Job{}, true, job.NotFound }

// notReady is an engine whose Ready returns the error that a test has set.
type notReady struct {
	backend.Engine
	why error
}

func (n *notReady) Ready() error {
	if n.why != nil {
		return n.why
	}
	return n.Engine.Ready()
}

// unknownID is a valid id that no job has.
var unknownID = job.NewID(1, 1<<30, 7).String()

func repeat(b byte, n int) string { return string(bytes.Repeat([]byte{b}, n)) }

// waiting is an engine whose claims wait and never get a job.
type waiting struct{ backend.Engine }

func (waiting) KeysRequired() bool { return false }

func (waiting) KeysKnown() bool { return true }

func (waiting) ClaimAdmitted(ctx context.Context, _ job.Claim, wait time.Duration, _ func(int64) error) (applied.Claimed, []runs.Run, ingest.Receipt, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return applied.Claimed{}, nil, ingest.Receipt{}, nil
	case <-ctx.Done():
		return applied.Claimed{}, nil, ingest.Receipt{}, ctx.Err()
	}
}

// parked is an engine whose claims wait, and whose completions succeed at once.
type parked struct{ *picky }

func (p parked) ClaimAdmitted(ctx context.Context, c job.Claim, wait time.Duration, admit func(int64) error) (applied.Claimed, []runs.Run, ingest.Receipt, error) {
	return waiting{}.ClaimAdmitted(ctx, c, wait, admit)
}

func (p parked) Exchange(_ context.Context, commands []job.Complete, c job.Claim) (*ingest.Exchange, error) {
	return ingest.InTurn(p, commands, c), nil
}
