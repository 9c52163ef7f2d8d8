package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/rs/zerolog"
	"github.com/tidwall/wal"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/journal"
)

// TestScenarios runs the scripts of testdata/scenarios. A script has requests to a whole server with a fake clock, and
// the answers that they must get. testdata/scenarios/README.md describes the format. The flag -rewrite replaces the
// answers in the scripts.
func TestScenarios(t *testing.T) {
	testkit.OneByOne(t)
	files := testkit.Must(filepath.Glob("../testdata/scenarios/*.txt"))(t)
	testkit.MustHold(t, len(files) != 0, "no scenarios")
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				s := &scenario{t: t, dir: dir, began: time.Now(), names: map[string]string{}, waiting: map[string]chan string{}, free: 1 << 40}
				s.up()
				datadriven.RunTest(t, file, s.step)
				s.down(true)
				problems := testkit.Must(ingest.Check(context.Background(), dir, func(problem string) bool {
					t.Errorf("check: %s", problem)
					return true
				}))(t)
				testkit.Holds(t, problems == 0, "check", problems, "problems")
			})
		})
	}
}

// scenario is a server that a script uses.
type scenario struct {
	t       *testing.T
	dir     string
	began   time.Time
	naming  sync.Mutex        // guards names and ids
	names   map[string]string // name of each id
	ids     []string          // in the order of appearance
	waiting map[string]chan string

	engine *ingest.Engine
	blobs  *blob.Store
	server *Server
	cancel context.CancelFunc
	ended  chan error
	quit   bool

	disk   sync.Mutex
	free   uint64       // free bytes of the disk
	broken error        // the error of every write of the journal
	slow   atomic.Int64 // nanoseconds that each sync of the journal takes
	ahead  atomic.Int64 // nanoseconds by which the wall clock was set forward
}

func (s *scenario) failure() error {
	s.disk.Lock()
	defer s.disk.Unlock()
	return s.broken
}

// up starts the server with the data in the directory.
func (s *scenario) up() {
	engine := testkit.Must(ingest.Open(ingest.Options{
		Dir: s.dir,
		// The journal stamps commands with the time of the synctest bubble.
		Journal: journal.Options{Wall: func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }, Hooks: journal.Hooks{
			Sync:     func(l *wal.Log) error { time.Sleep(time.Duration(s.slow.Load())); return cmp.Or(s.failure(), l.Sync()) },
			SyncFile: func(f *os.File) error { return cmp.Or(s.failure(), f.Sync()) },
		}},
		Space: func(string) (free, total uint64, err error) {
			s.disk.Lock()
			defer s.disk.Unlock()
			return s.free, 1 << 40, nil
		},
	}))(s.t)
	s.engine = engine
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	s.ended = make(chan error, 1)
	go func() { s.ended <- engine.Run(ctx) }()
	blobs := testkit.Must(blob.OpenDir(context.Background(), filepath.Join(s.dir, "blobs"), blob.Options{ReserveBytes: 1}))(s.t)
	s.blobs = blobs
	open := func() (*blob.Store, error) { return blobs, nil }
	collector := &blob.Collector{Store: open, Log: slog.New(slog.DiscardHandler), Scan: func(ctx context.Context, of *blob.Store, visit func([]byte) error) error {
		return errors.Join(scanOf(engine.CatchUp, engine.Queries().EachRow)(ctx, of, visit), ScanFilesets(ctx, engine.Queries(), of, visit))
	}}
	s.server = testkit.Must(New(Options{Engine: engine, Blobs: &Blobs{Store: open, Collector: collector}, Log: zerolog.Nop(), Quit: func() { s.quit = true }}))(s.t)
	for engine.Ready() != nil {
		time.Sleep(time.Millisecond)
	}
	synctest.Wait()
}

// down stops the server.
func (s *scenario) down(clean bool) {
	s.server.web.Drain()
	testkit.NoError(s.t, s.blobs.Close())
	s.cancel()
	err := <-s.ended
	testkit.MustHold(s.t, err == nil || !clean, err)
}

// pass lets as much time of the synctest bubble pass as the step says.
func pass(t *testing.T, d *datadriven.TestData) {
	for _, arg := range d.CmdArgs {
		length, err := time.ParseDuration(arg.Key)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		time.Sleep(length)
		synctest.Wait()
	}
}

// step carries out one step of a script, and returns its output.
func (s *scenario) step(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "request":
		return <-s.request(d)
	case "async":
		s.waiting[d.CmdArgs[0].Key] = s.request(d)
		synctest.Wait()
		return ""
	case "await":
		select {
		case answer := <-s.waiting[d.CmdArgs[0].Key]:
			return answer
		case <-time.After(time.Hour):
			return "still waiting\n"
		}
	case "sleep":
		pass(t, d)
		return ""
	case "restart": // after this time
		s.down(true)
		pass(t, d)
		s.up()
		return ""
	case "disk":
		s.disk.Lock()
		switch d.CmdArgs[0].Key {
		case "full":
			s.free = 0
		case "fails":
			s.broken = syscall.EIO
		case "ok":
			s.free, s.broken = 1<<40, nil
		}
		s.disk.Unlock()
		time.Sleep(10 * time.Second) // the server checks the disk from time to time
		synctest.Wait()
		return ""
	}
	d.Fatalf(t, "unknown step %q", d.Cmd)
	return ""
}

// request sends the request of a step. The first line of the step has the method and the path. Lines with headers
// follow, and the other lines are the body. The arguments of the step are the headers of the answer that the transcript
// shows, and, after a minus sign, the fields that it does not show.
func (s *scenario) request(d *datadriven.TestData) chan string {
	input := s.withIDs(d.Input)
	first, rest, _ := strings.Cut(input, "\n")
	method, path, _ := strings.Cut(first, " ")
	header := http.Header{}
	for {
		line, after, _ := strings.Cut(rest, "\n")
		name, value, ok := strings.Cut(line, ": ")
		if !ok || !headerName.MatchString(name) {
			break
		}
		header.Add(name, value)
		rest = after
	}
	body := strings.TrimPrefix(rest, "\n")
	if header.Get("Content-Type") == web.MIMERuns {
		body += "\n" // the format of scripts removes it
	}
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Host, req.RemoteAddr, req.Header = "127.0.0.1:1717", "127.0.0.1:5", header
	if host := header.Get("Host"); host != "" {
		req.Host = host
	}
	if body != "" && header.Get("Content-Type") == "" {
		header.Set("Content-Type", web.MIMEJSON)
	}
	if body == "" {
		req.Body, req.ContentLength = http.NoBody, 0
	}
	answer := make(chan string, 1)
	step := *d // datadriven reuses *d while the request waits
	go func() {
		w := httptest.NewRecorder()
		s.server.Handler().ServeHTTP(patient{w}, req)
		answer <- s.shown(&step, req, []byte(body), w)
	}()
	return answer
}

var headerName = regexp.MustCompile(`^[A-Za-z-]+$`)

// shown returns an answer in the format of a transcript: its status, the headers that the step names, and its body.
// Names replace ids, and times are relative to the start of the script.
func (s *scenario) shown(d *datadriven.TestData, req *http.Request, sent []byte, w *httptest.ResponseRecorder) string {
	a := reply{s.t, req.Method + " " + req.URL.Path, w.Code, w.Header(), w.Body.String()}
	testkit.Check(s.t, describedOf(s.t).holds(req, sent, a), d.Pos, a.what, "is not as the API is described")
	var out bytes.Buffer
	fmt.Fprintf(&out, "%d\n", w.Code)
	names := []string{"Location", "Retry-After", "Allow", web.HeaderReplayed}
	var hidden []string
	for _, arg := range d.CmdArgs {
		if field, ok := strings.CutPrefix(arg.Key, "-"); ok {
			hidden = append(hidden, field)
		} else {
			names = append(names, arg.Key)
		}
	}
	for _, name := range names {
		if value := w.Header().Get(name); value != "" {
			fmt.Fprintf(&out, "%s: %s\n", name, s.withNames(value))
		}
	}
	for text := bytes.TrimSpace(w.Body.Bytes()); len(text) > 0; {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte("\n"))
		fmt.Fprintln(&out, s.line(line, hidden))
	}
	return out.String()
}

// line formats one line of a body. It leaves out the hidden fields of a JSON object, and fields that have their value
// in quiet.
func (s *scenario) line(text []byte, hidden []string) string {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return timeInRuns.ReplaceAllStringFunc(s.withNames(string(text)), func(field string) string {
			name, value, _ := strings.Cut(field, "=")
			ms := testkit.Must(strconv.ParseInt(value, 10, 64))(s.t)
			return name + "=" + s.moment(ms)
		})
	}
	if object, ok := v.(map[string]any); ok {
		maps.DeleteFunc(object, func(name string, _ any) bool { return slices.Contains(hidden, name) })
	}
	return s.value("", v)
}

// timeInRuns matches a time in a line of runs.
var timeInRuns = regexp.MustCompile(`\b[a-z]+_at=[0-9]{12,15}\b`)

// quiet has the fields of a job that a transcript leaves out if they have these values.
var quiet = map[string]string{"client": `"default"`, "type": `"default"`, "priority": "4", "max_attempts": "3", "lease_ms": "300000", "redrives": "0", "run_attempts": "0",
	"attempts": "[]", "meta": "{}", "title": "*", "batch_id": "*", "updated_at": "*", "detail": "*"}

// value formats a JSON value as one line. The id is the first field. The remaining fields are in alphabetical order.
func (s *scenario) value(name string, v any) string {
	switch v := v.(type) {
	case map[string]any:
		_, isJob := v["run_attempts"]
		_, isProblem := v["outcome"]
		_, isBatch := v["failed_job_id"]
		var fields []string
		for key := range v {
			fields = append(fields, key)
		}
		slices.SortFunc(fields, func(a, b string) int {
			if (a == "job_id") != (b == "job_id") {
				return map[bool]int{true: -1, false: 1}[a == "job_id"]
			}
			return strings.Compare(a, b)
		})
		var shown []string
		for _, key := range fields {
			text := s.value(key, v[key])
			if isBatch && (v[key] == nil || key == "snowflake") || (isJob || isProblem) && (v[key] == nil || quiet[key] == "*" || quiet[key] == text || isProblem && (key == "type" || key == "status")) {
				continue
			}
			shown = append(shown, key+":"+text)
		}
		return "{" + strings.Join(shown, " ") + "}"
	case []any:
		var shown []string
		for _, item := range v {
			shown = append(shown, s.value("", item))
		}
		return "[" + strings.Join(shown, " ") + "]"
	case json.Number:
		if strings.HasSuffix(name, "_age_ms") { // it depends on the millisecond
			return "…"
		}
		n, err := strconv.ParseInt(string(v), 10, 64)
		if err == nil && (strings.HasSuffix(name, "_at") || slices.Contains([]string{"at", "since", "alive_since"}, name)) && n > 1e11 || err == nil && n == s.began.UnixMilli() {
			return s.moment(n)
		}
		return string(v)
	case string:
		text := testkit.Must(json.Marshal(s.withNames(v)))(s.t)
		return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(text))
	}
	text := testkit.Must(json.Marshal(v))(s.t)
	return string(text)
}

// moment formats a time in seconds since the start of the script. The work of the server takes no time on the fake
// clock. Only its timers can be some milliseconds late, so moment rounds to tenths of a second.
func (s *scenario) moment(ms int64) string {
	const grain = 100
	since := ms - s.began.UnixMilli()
	since = (since + grain/2) / grain * grain
	return fmt.Sprintf("t+%gs", float64(since)/1000)
}

var idText = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}|\bu[0-9a-f]{32}\b`)

// withNames replaces ids by names, which are numbered in the order in which the ids appear.
func (s *scenario) withNames(text string) string {
	s.naming.Lock() // simultaneous requests call it at the same time
	defer s.naming.Unlock()
	return idText.ReplaceAllStringFunc(text, func(id string) string {
		if s.names[id] == "" {
			s.ids = append(s.ids, id)
			s.names[id] = fmt.Sprintf("<id%d>", len(s.ids))
		}
		return s.names[id]
	})
}

// withIDs replaces names by ids, and t+… by times.
func (s *scenario) withIDs(text string) string {
	s.naming.Lock()
	defer s.naming.Unlock()
	text = regexp.MustCompile(`<id(\d+)>`).ReplaceAllStringFunc(text, func(name string) string {
		n := testkit.Must(strconv.Atoi(name[3 : len(name)-1]))(s.t)
		testkit.MustHold(s.t, n >= 1 && n <= len(s.ids), name, "names no id that was shown")
		return s.ids[n-1]
	})
	return regexp.MustCompile(`<t\+(\w+)>`).ReplaceAllStringFunc(text, func(moment string) string {
		length := testkit.Must(time.ParseDuration(moment[3 : len(moment)-1]))(s.t)
		return strconv.FormatInt(s.began.Add(length).UnixMilli(), 10)
	})
}

// TestScenariosShowEveryCode: each code that docs/reference/errors.md lists is in a transcript, unless a script cannot
// cause it.
func TestScenariosShowEveryCode(t *testing.T) {
	exempt := map[string]string{
		"client_gone": "nobody reads the answer",
		"no_blobs":    "the script's server keeps blobs: TestEveryDocumentedStatus", "blob_quota": "the script's server has no quota: TestBlobLimits",
		"blobs_unavailable": "the script's server has no bucket: TestEveryDocumentedStatus, and TestServeS3 of cmd/daybook", "blob_damaged": "a script cannot damage files: TestDamagedBlob", "blob_verifying": "a blob of gigabytes: TestVerifyingBlob", "collecting_blobs": "a collection of few blobs ends at once: TestEveryDocumentedStatus", "internal": "it would be a fault of the server", "store_damaged": "the corruption tests damage stores",
		"no_cluster": "a node is needed: TestCluster", "node_not_found": "the same", "quorum_lost": "the same",
		"backup_running": "two requests at once: TestOneBackupAtATime",
		"upload_busy":    "two requests at once: TestUploadConnections", "too_many_uploads": "a thousand uploads: TestUploadRefusals", "too_many_blob_clients": "ten thousand clients: TestClientDirectories of package blob",
		"too_many_queues": "a million queues", "too_many_parked_claims": "a hundred thousand claims", "too_many_keys": "ten million keys", "too_many_sessions": "a million sessions: TestTooManySessions", "too_many_handlers": "ten thousand handlers: the model test of the store has few", "too_many_filesets": "a million filesets: the model test of the store has few", "too_many_access_keys": "a hundred thousand keys: the same",
		"key_required": "the texts of keys are random: TestKeys", "key_refused": "the same", "role_missing": "the same", "out_of_scope": "the same", "key_exists": "the same", "runner_prefix_taken": "the same", "admin_key_first": "the same", "key_not_found": "the same", "rate_limited": "keys are needed: TestRightKeyAmongWrongOnes, TestRates", "too_many_quotas": "ten thousand quotas: the model test of the store has few",
		"login_ended": "the texts of logins are random: TestLogins", "csrf_required": "the same", "too_many_logins": "ten thousand logins: the model test of the store has few", "login_not_found": "two tabs that log out at once: a logout answers it with success",
		"token_refused": "the script's server has no issuers: TestTokens", "no_rule": "the same", "issuer_unavailable": "the same", "login_failed": "the same: TestLoginsOfPeople", "no_issuer": "a browser opens it: TestEveryDocumentedStatus",
		"too_many_runners": "ten thousand runners: the tests of the registry have them",
		"too_many_hops":    "a hundred jobs, one after the other: TestHops",
		"too_many_sweeps":  "a hundred sweeps at once: TestSweepsAreBounded", "overloaded": "a lag of many megabytes: the ingest tests have it",
		"body_too_slow": "a connection is needed: TestSlowBody", "length_required": "a connection is needed: TestFraming", "payload_too_large": "megabytes of transcript: TestCreateLimits", "body_too_large": "the same: TestBodyLimit",
		"shutting_down": "a stop ends the script's server", "not_ready": "a script begins when the server is ready: the system tests",
		"quit_disabled": "the script's server ends by request: TestSwitches", "claim_id_required": "the script's server does not require it: TestRequireClaimID", "forbidden_peer": "a script is on this machine: TestSwitches",
	}
	var all strings.Builder
	files := testkit.Must(filepath.Glob("../testdata/scenarios/*.txt"))(t)
	for _, file := range files {
		all.WriteString(readDoc(t, "../../testdata/scenarios/"+filepath.Base(file)))
	}
	for code := range codes() {
		shown := strings.Contains(all.String(), `code:"`+code+`"`)
		testkit.Holds(t, shown != (exempt[code] != ""), "code", code, "shown", shown, "exempt because", exempt[code])
	}
	if len(files) == 0 {
		t.Error(errors.New("no scenarios"))
	}
}
