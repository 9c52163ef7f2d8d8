package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/cmd/daybook/internal/checkpoint"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
)

// payloads returns the payloads of all jobs of a type, sorted: texts as they are, JSON values as JSON.
func payloads(t *testing.T, server, typ string) []string {
	t.Helper()
	var list []string
	for line := range strings.Lines(ok(t, "jobs", "--server", server, "--type", typ, "--json", "--limit", "0")) {
		j := parsed[struct {
			Payload json.RawMessage `json:"payload"`
		}](t, line)
		var text string
		if json.Unmarshal(j.Payload, &text) != nil {
			text = string(j.Payload)
		}
		list = append(list, text)
	}
	slices.Sort(list)
	return list
}

func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	testkit.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestAddFormats: add and submit read the same formats. A wrong line stores nothing of its body, and leaves no batch that
// looks complete.
func TestAddFormats(t *testing.T) {
	s := serving(t, t.TempDir())
	for name, c := range map[string]struct {
		in   string
		args []string
		want []string
	}{
		"ndjson": {"\ufeff{\"a\":1}\r\n\n  [2] \n\"text\"\n3", []string{"--format", "ndjson"}, []string{"3", "[2]", "text", `{"a":1}`}},
		"csv": {
			"\ufeffid,name\r\n1,\"a,\"\"b\"\"\nc\"\r\n\r\n2,\u00e9\n", []string{"--format", "csv"},
			[]string{`{"id":"1","name":"a,\"b\"\nc"}`, `{"id":"2","name":"é"}`},
		},
		"delimiter":  {"id;name\n1;a,b\n", []string{"--format", "csv", "--delimiter", ";"}, []string{`{"id":"1","name":"a,b"}`}},
		"tab":        {"# made by hand\nid\tname\n1\ta\n", []string{"--format", "csv", "--delimiter", "tab", "--skip-lines", "1"}, []string{`{"id":"1","name":"a"}`}},
		"lines":      {"\ufeffa\nb\r\n", []string{"--strip-cr"}, []string{"b", "\ufeffa"}},
		"one column": {"a;b\n1\n", []string{"--format", "csv", "--delimiter", ","}, []string{`{"a;b":"1"}`}},
		"only names": {"id,name\n", []string{"--format", "csv"}, nil},
		"header":     {"id,name\r\n# more\r\n1,a\r\n\r\n2,b\r\n", []string{"--skip-lines", "2", "--strip-cr"}, []string{"1,a", "2,b"}},
		"skipped":    {"one line", []string{"--skip-lines", "5"}, nil},
		"empty":      {"", []string{"--format", "csv"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, verb := range []string{"add", "submit"} {
				typ := verb + strings.ReplaceAll(name, " ", "-")
				r := execute(t, "", append([]string{verb, "--server", s.url, "--type", typ, written(t, "in", c.in)}, c.args...)...)
				testkit.Holds(t, r.code == terminal.ExitOK && strings.Contains(r.errs, "the input has no lines") == (c.want == nil), r)
				testkit.EqualSlices(t, payloads(t, s.url, typ), c.want, verb)
			}
		})
	}
	for name, c := range map[string]struct{ in, format, want string }{
		"too few fields":      {"a,b\n1,2\n\"x\ny\"\n", "csv", "line 3: the row has 1 field, and the header row has 2"},
		"too many fields":     {"a,b\n1,2,3\n", "csv", "line 2: the row has 3 fields, and the header row has 2"},
		"quote not closed":    {"a,b\n1,\"2\n", "csv", "a quoted field must end"},
		"bare quote":          {"a,b\n1,2\"\n", "csv", "line 2: column 4: a field with a quote must be quoted"},
		"no UTF-8":            {"a,b\n1,\xff\n", "csv", `line 2: the field "b" is not UTF-8`},
		"two equal names":     {"a,a\n1,2\n", "csv", `line 1: two columns of the header row have the name "a"`},
		"a column w/o a name": {"a,\n1,2\n", "csv", "line 1: column 2 of the header row has no name"},
		"no JSON":             {"1\n\n{\"a\":}\n", "ndjson", "line 3: it is not a JSON value: invalid character '}' at start of value after 5 bytes"},
		"half a value":        {"{\"a\":\n", "ndjson", "line 1: it is not a JSON value: it ends too early"},
		"two equal members":   {"{\"a\":1,\"a\":2}\n", "ndjson", `line 1: it is not a JSON value: the object has two members with the name "a"`},
		"another delimiter":   {"a;b\n1;2\n", "csv", `line 1: the header row has one column, "a;b": give --delimiter ';' if`},
		"tabs":                {"a\tb\n1\t2\n", "csv", "give --delimiter 'tab' if"},
		"two values":          {"1 2\n", "ndjson", "line 1: there is more than one JSON value"},
		"an open object":      {"1},{\"priority\":9\n", "ndjson", "line 1: there is more than one JSON value"},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, "", "add", "--server", s.url, "--type", "wrong", "--format", c.format, written(t, "in", c.in))
			r.ends(t, terminal.ExitFile, c.want).lacks(t, "To store only")
			execute(t, "", "add", "--dry-run", "--type", "wrong", "--format", c.format, written(t, "in", c.in)).ends(t, terminal.ExitFile, c.want)
		})
	}
	got := payloads(t, s.url, "wrong")
	testkit.Holds(t, len(got) == 0, "inputs that are one body and have an error have stored", got)
	t.Run("a row without an end is not read into memory", func(t *testing.T) {
		in, err := os.Open("/dev/zero")
		if err != nil {
			t.Skip(err)
		}
		defer in.Close()
		var out, errs bytes.Buffer
		quote := strings.NewReader("a\n\"")
		testkit.Equal(t, run([]string{"add", "--dry-run", "--format", "csv"}, &joined{quote, in}, &out, &errs), terminal.ExitFile, "exit code")
		testkit.Contains(t, errs.String(), "a row has more than 16777216 bytes")
	})
	t.Run("attributes", func(t *testing.T) {
		for _, format := range []string{"lines", "ndjson"} {
			r := execute(t, "1\n", "add", "--server", s.url, "--type", "attributes", "--format", format, "--meta", "user=42", "--on-complete", "next", "--timeout", "5m", "--json")
			b := parsed[struct {
				FirstID string `json:"first_id"`
			}](t, r.out)
			testkit.Contains(t, ok(t, "get", "--server", s.url, b.FirstID), `{"user":"42"}`, `"type":"next"`, "timeout_ms    300000")
		}
	})
	t.Run("wrong use", func(t *testing.T) {
		for _, args := range [][]string{
			{"--format", "xml"}, {"--delimiter", ";"}, {"--format", "csv", "--delimiter", ";;"}, {"--format", "csv", "--delimiter", "\n"}, {"--format", "csv", "--strip-cr"},
			{"--key", "a", "--resume", "b"}, {"--dry-run", "--resume", "b"}, {"--unknown", "skip"}, {"--resume", "b", "--unknown", "x"}, {"--meta", "a"}, {"--on-complete", "a b"},
		} {
			execute(t, "", append([]string{"add", "--server", s.url}, args...)...).ends(t, terminal.ExitUsage)
		}
	})
}

// joined is a reader of two inputs. The second may block.
type joined struct {
	first  *strings.Reader
	second *os.File
}

func (j *joined) Read(p []byte) (int, error) {
	if j.first.Len() > 0 {
		return j.first.Read(p)
	}
	n, err := j.second.Read(p)
	for i := range p[:n] {
		p[i] = 'x'
	}
	return n, err
}

func TestAddDryRun(t *testing.T) {
	var in strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&in, "%0100d\n", i)
	}
	path := written(t, "in", in.String())
	if text := ok(t, "add", "--dry-run", "--type", "x", path, "--server", "http://127.0.0.1:1"); !strings.HasPrefix(text, "would add 30000 jobs to default/x: 2.89MiB in 3 batches\n"+strings.Repeat("0", 100)+"\n") || strings.Count(text, "\n") != 4 {
		t.Error(text)
	}
	var doc struct {
		Jobs    int      `json:"would_add"`
		Batches int      `json:"batches"`
		First   []string `json:"first_payloads"`
	}
	err := json.Unmarshal([]byte(ok(t, "add", "--dry-run", "--json", "--format", "ndjson", written(t, "in", "[1]\n[2]\n"))), &doc)
	testkit.Holds(t, err == nil && doc.Jobs == 2 && doc.Batches == 1 && slices.Equal(doc.First, []string{"[1]", "[2]"}), doc, err)
}

// stateOf returns the lines of a state file.
func stateOf(t *testing.T, path string) (lines []checkpoint.Line) {
	t.Helper()
	text := testkit.Must(os.ReadFile(path))(t)
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		l := parsed[checkpoint.Line](t, line)
		if i > 0 {
			lines = append(lines, l)
		}
	}
	return lines
}

func TestAddResume(t *testing.T) {
	s := serving(t, t.TempDir())
	t.Run("a finished one adds nothing", func(t *testing.T) {
		state, in := filepath.Join(t.TempDir(), "state"), written(t, "in", "a\nb\n")
		args := []string{"add", "--server", s.url, "--type", "done", "--resume", state, in}
		first := ok(t, args...)
		if again := execute(t, "", args...); again.code != terminal.ExitOK || again.out != first || !strings.Contains(again.errs, "everything is stored") {
			t.Errorf("%+v, want %q", again, first)
		}
		for _, text := range []string{"a\nB\n", "a\nb\nc\n", "a\n", "", "a\nb"} {
			testkit.NoError(t, os.WriteFile(in, []byte(text), 0o600))
			r := execute(t, "", args...)
			testkit.Equal(t, r.code, terminal.ExitFile, text, r.errs)
			testkit.Holds(t, strings.Contains(r.errs, in+" has changed") || strings.Contains(r.errs, "the input has changed"), text, r.errs)
			testkit.Equal(t, r.out, "", text, "more than the error")
			testkit.Lacks(t, r.errs, "everything is stored", "same command")
		}
		testkit.EqualSlices(t, payloads(t, s.url, "done"), []string{"a", "b"})
		testkit.Equal(t, testkit.Must(os.Stat(state))(t).Mode().Perm(), 0o600)
	})
	t.Run("other flags, servers and files are refused", func(t *testing.T) {
		state, in := filepath.Join(t.TempDir(), "state"), written(t, "in", "[1]\n")
		base := []string{"add", "--resume", state, in}
		ok(t, append(base, "--server", s.url, "--type", "flags", "--format", "ndjson")...)
		for want, args := range map[string][]string{
			"--type":       {"--server", s.url, "--type", "other", "--format", "ndjson"},
			"--format":     {"--server", s.url, "--type", "flags"},
			"--skip-lines": {"--server", s.url, "--type", "flags", "--format", "ndjson", "--skip-lines", "1"},
			"attributes":   {"--server", s.url, "--type", "flags", "--format", "ndjson", "--meta", "a=b"},
		} {
			execute(t, "", append(base, args...)...).ends(t, terminal.ExitUsage, want)
		}
		other := serving(t, t.TempDir())
		r := execute(t, "", append(base, "--server", other.url, "--type", "flags", "--format", "ndjson")...)
		testkit.Holds(t, r.code != terminal.ExitOK && strings.Contains(r.errs, "another server"), "exit code", r.code, r.errs)
		for _, text := range []string{"important\n", "important", "{}\n"} {
			file := written(t, "precious", text)
			execute(t, "", "add", "--server", s.url, "--resume", file, in).ends(t, terminal.ExitUsage)
			testkit.Equal(t, string(testkit.Must(os.ReadFile(file))(t)), text, "a file that is no state file was overwritten")
		}
	})
	t.Run("a wrong row is corrected", func(t *testing.T) {
		var b strings.Builder
		b.WriteString("n,pad\n")
		for i := range 20_000 {
			fmt.Fprintf(&b, "%d,%0100d\n", i, 0)
		}
		rows := b.String()
		state, in := filepath.Join(t.TempDir(), "state"), written(t, "in.csv", rows+"wrong\n20001,x\n")
		args := []string{"add", "--server", s.url, "--type", "corrected", "--format", "csv", "--resume", state, in}
		execute(t, "", args...).ends(t, terminal.ExitFile, "line 20002: the row has 1 field", "run the same command again")
		n := s.pending(t, "default/corrected")
		testkit.Holds(t, n != 0 && n != 20_002, n, "jobs")
		testkit.NoError(t, os.WriteFile(in, []byte(rows+"20000,x\n20001,x\n"), 0o600))
		ok(t, args...)
		testkit.Equal(t, s.pending(t, "default/corrected"), 20_002)
	})
	t.Run("a torn last line is left out", func(t *testing.T) {
		for _, torn := range []string{"", `{"daybook_add":`, `{"daybook`} {
			state := written(t, "state", torn)
			ok(t, "add", "--server", s.url, "--type", "torn", "--resume", state, written(t, "in", "a\n"))
		}
		testkit.Equal(t, s.pending(t, "default/torn"), 3)
		state, in := filepath.Join(t.TempDir(), "state"), written(t, "in", "a\n")
		ok(t, "add", "--server", s.url, "--type", "torn", "--resume", state, in)
		text := testkit.Must(os.ReadFile(state))(t)
		testkit.NoError(t, os.WriteFile(state, text[:len(text)-20], 0o600)) // cuts off the line which records that everything is stored
		ok(t, "add", "--server", s.url, "--type", "torn", "--resume", state, in)
		testkit.Equal(t, s.pending(t, "default/torn"), 4)
		lines := stateOf(t, state)
		testkit.Equal(t, lines[len(lines)-1].Event, "done", lines)
	})
}

// TestAddAfterADay: the server has forgotten the keys. Stored bodies are not stored again. Bodies that were sent
// without an answer are an error, until the user decides about them.
func TestAddAfterADay(t *testing.T) {
	s := serving(t, t.TempDir())
	var in strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&in, "%0100d\n", i)
	}
	path, aside := written(t, "in", in.String()), filepath.Join(t.TempDir(), "state")
	ok(t, "add", "--server", s.url, "--type", "first", "--resume", aside, path)
	text := testkit.Must(os.ReadFile(aside))(t)
	// The file as a kill would have left it two days ago: without the answer to the last body, and with another key,
	// because a server that has forgotten the key knows nothing of it.
	old := func(typ string) string {
		var b strings.Builder
		for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			var o map[string]any
			d := json.NewDecoder(strings.NewReader(line))
			d.UseNumber()
			testkit.NoError(t, d.Decode(&o))
			if i == 0 {
				o["key"], o["type"] = "FORGOTTEN-"+typ, typ
			} else {
				at := testkit.Must(o["at"].(json.Number).Int64())(t)
				o["at"] = at - (48 * time.Hour).Milliseconds()
			}
			offset, _ := o["offset"].(json.Number)
			if o["event"] == "done" || o["event"] == "stored" && offset != "0" {
				continue
			}
			line := testkit.Must(json.Marshal(o))(t)
			b.Write(append(line, '\n'))
		}
		return written(t, "state", b.String())
	}
	firstBody := stateOf(t, aside)[0].Bytes
	stored := int64(strings.Count(in.String()[:firstBody], "\n"))
	state := old("repeat")
	args := []string{"add", "--server", s.url, "--type", "repeat", "--resume", state, path}
	execute(t, "", args...).ends(t, terminal.ExitUnknown, fmt.Sprintf("bytes %d to ", firstBody), "--unknown")
	ok(t, append(args, "--unknown", "repeat")...)
	testkit.Equal(t, s.pending(t, "default/repeat"), 30_000-stored)
	for _, l := range stateOf(t, state)[1:] {
		testkit.Holds(t, l.Event != "done" || l.At >= time.Now().Add(-time.Hour).UnixMilli(), l)
	}
	state = old("skip")
	ok(t, "add", "--server", s.url, "--type", "skip", "--resume", state, path, "--unknown", "skip")
	testkit.Lacks(t, ok(t, "queues", "--server", s.url), "skip")
}

// TestAddKilled kills add and the server at random points, again and again. Each line is stored once.
func TestAddKilled(t *testing.T) {
	t.Parallel()
	const lines = 60_000
	for _, format := range []string{"lines", "csv"} {
		t.Run(format, func(t *testing.T) {
			data := t.TempDir()
			var in strings.Builder
			if format == "csv" {
				in.WriteString("n,pad\n")
			}
			for i := range lines {
				if format == "csv" {
					fmt.Fprintf(&in, "%d,\"%0100d\n\"\n", i, 0)
				} else {
					fmt.Fprintf(&in, "%d %0100d\n", i, 0)
				}
			}
			path, state := written(t, "in", in.String()), filepath.Join(t.TempDir(), "state")
			s := serving(t, data)
			kills, ended := 0, false
			for try := 0; !ended; try++ {
				testkit.MustHold(t, try != 60, "add does not end")
				slow := slowed(t, s.url)
				// Kill after some requests, and sometimes in the middle of one.
				at := int64(1 + rand.IntN(4))
				if try > 12 {
					at = 1 << 40
				}
				slow.hold.Store(at)
				cmd := command("add", "--server", slow.url, "--type", "killed", "--format", format, "--in-flight", "3", "--resume", state, path)
				var errs bytes.Buffer
				cmd.Stderr = &errs
				testkit.NoError(t, cmd.Start())
				done := make(chan error, 1)
				go func() { done <- cmd.Wait() }()
				for running := true; running; {
					select {
					case err := <-done:
						running = false
						ended = err == nil
						testkit.MustHold(t, ended || try <= 12, err, &errs)
					default:
						if slow.passed.Load() < at {
							time.Sleep(200 * time.Microsecond) // real time: until enough bytes have passed, or the process has ended
							continue
						}
						running = false
						kills++
						if rand.IntN(2) == 0 {
							s.end(t, syscall.SIGKILL)
						}
						_ = cmd.Process.Kill() // the process may have ended
						<-done
					}
				}
				close(slow.goOn)
				slow.Close()
				select {
				case err := <-s.ended:
					s.ended <- err
					s = serving(t, data)
				default:
				}
			}
			testkit.Holds(t, kills >= 2, "only", kills, "kills")
			t.Logf("%d kills", kills)
			testkit.Equal(t, s.pending(t, "default/killed"), lines)
			got := payloads(t, s.url, "killed")
			for i := 1; i < len(got); i++ {
				if got[i] == got[i-1] {
					t.Fatalf("stored twice: %.40s", got[i])
				}
			}
			testkit.Equal(t, len(got), lines)
		})
	}
}

// slowServer passes requests on to a server. passed counts the bodies that have arrived, and those that were answered.
// From number hold on, bodies wait for goOn before they are passed on or before they are answered; 0: none waits.
type slowServer struct {
	*httptest.Server
	url          string
	passed, hold atomic.Int64
	goOn         chan struct{}
}

func slowed(t *testing.T, target string) *slowServer {
	t.Helper()
	to := testkit.Must(url.Parse(target))(t)
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) {
		panic(http.ErrAbortHandler) // the answer is lost
	}
	s := &slowServer{goOn: make(chan struct{})}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isBody := r.Method == http.MethodPost
		n := int64(0)
		if isBody {
			n = s.passed.Add(1)
		}
		held := s.hold.Load() > 0 && n >= s.hold.Load()
		if held && n%2 == 0 {
			<-s.goOn
		}
		r.Host = to.Host
		proxy.ServeHTTP(w, r)
		if held {
			<-s.goOn
		}
		if isBody {
			s.passed.Add(1)
		}
	}))
	s.url = s.URL
	t.Cleanup(s.Close)
	return s
}
