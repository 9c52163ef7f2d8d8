package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/cmd/daybook/internal/bench"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// If this is set, the test binary is the daybook command. So signals and exit codes are tested with a real process.
const asCommand = "DAYBOOK_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Unsetenv(asCommand)
		bench.OwnProgram = func(args ...string) (*exec.Cmd, error) { return command(args...), nil }
		main()
	}
	os.Exit(runTests(m))
}

// runTests runs the tests without the contexts of the user.
func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "daybook-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	os.Setenv("XDG_CONFIG_HOME", dir)
	return m.Run()
}

// command returns this program as the daybook command.
func command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	return cmd
}

// result is the result of a command line.
type result struct {
	code            int
	out, errs, line string
}

// ends reports a command line that ends with another exit code, or whose standard error lacks one of the texts.
func (r result) ends(t testing.TB, code int, texts ...string) result {
	t.Helper()
	testkit.Equal(t, r.code, code, "daybook", r.line, "exit code", r.errs)
	testkit.Contains(t, r.errs, texts...)
	return r
}

// prints reports a command line whose output lacks one of the texts.
func (r result) prints(t testing.TB, texts ...string) result {
	t.Helper()
	testkit.Contains(t, r.out, texts...)
	return r
}

// lacks reports a command line that shows one of the texts anywhere.
func (r result) lacks(t testing.TB, texts ...string) {
	t.Helper()
	testkit.Lacks(t, r.out+r.errs, texts...)
}

func execute(t *testing.T, in string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(args, strings.NewReader(in), &out, &errs)
	return result{code, out.String(), errs.String(), strings.Join(args, " ")}
}

// ok runs a command line that must succeed, and returns its output.
func ok(t *testing.T, args ...string) string {
	t.Helper()
	r := execute(t, "", args...)
	testkit.MustEqual(t, r.code, terminal.ExitOK, "daybook", args, "exit code", r.errs)
	return r.out
}

// parsed decodes a JSON document.
func parsed[T any](t testing.TB, text string) (doc T) {
	t.Helper()
	testkit.NoError(t, json.Unmarshal([]byte(text), &doc), text)
	return doc
}

// processLog is the standard error of a process. It may be read while the process runs.
type processLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *processLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *processLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// server is a daybook serve in a separate process.
type server struct {
	*exec.Cmd
	url, data string
	log       *processLog
	ended     chan error
}

func serving(t *testing.T, data string, args ...string) *server {
	t.Helper()
	return servingAs(t, data, func(cmd *exec.Cmd) *exec.Cmd { return cmd }, args...)
}

// launch starts a server. The test ends if the server does not print its address.
func launch(t *testing.T, cmd *exec.Cmd) *server {
	t.Helper()
	s := &server{Cmd: cmd, log: &processLog{}, ended: make(chan error, 1)}
	s.Stderr = s.log
	out := testkit.Must(s.StdoutPipe())(t)
	testkit.NoError(t, s.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	go func() { s.ended <- s.Wait() }()
	t.Cleanup(func() {
		_ = s.Process.Kill() // the process may have ended
		s.ended <- <-s.ended
	})
	testkit.NoError(t, err, s.log)
	s.url = strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
	return s
}

// servingAs is serving with a command that the test changes first.
func servingAs(t *testing.T, data string, change func(*exec.Cmd) *exec.Cmd, args ...string) *server {
	t.Helper()
	s := launch(t, change(command(append([]string{"serve", "--listen", "127.0.0.1:0", "--data", data, "--init"}, args...)...)))
	s.data = data
	for {
		resp, err := http.Get(s.url + "/readyz")
		testkit.NoError(t, err, s.log)
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return s
		}
	}
}

// end sends a signal and returns the exit code, or -1 after a kill.
func (s *server) end(t *testing.T, signal syscall.Signal) int {
	t.Helper()
	testkit.NoError(t, s.Process.Signal(signal))
	err := <-s.ended
	s.ended <- err
	return s.ProcessState.ExitCode()
}

func (s *server) post(t *testing.T, path, body string) string {
	t.Helper()
	resp := testkit.Must(http.Post(s.url+path, "application/json", strings.NewReader(body)))(t)
	defer resp.Body.Close()
	text := testkit.Must(io.ReadAll(resp.Body))(t)
	testkit.MustHold(t, resp.StatusCode < 300, path, text)
	return string(text)
}

func TestServe(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	s := serving(t, data, "--max-attempts", "7", "--abandoned-age", "60s", "--retention", "30d", "--allow-host", "queue.example")
	testkit.Equal(t, "http://"+strings.TrimSpace(string(testkit.Must(os.ReadFile(filepath.Join(data, "address")))(t))), s.url)
	j := parsed[struct {
		ID          string `json:"job_id"`
		MaxAttempts int    `json:"max_attempts"`
		LeaseMs     int64  `json:"lease_ms"`
	}](t, s.post(t, "/jobs/create", `{"payload":"hello"}`))
	testkit.Equal(t, j.MaxAttempts, 7)
	testkit.Equal(t, j.LeaseMs, 60000)

	t.Run("data directory in use", func(t *testing.T) {
		for _, args := range [][]string{
			{"serve", "--listen", "127.0.0.1:0", "--data", data}, {"check", "--data", data}, {"rebuild", "--data", data},
			{"journal", "dump", "--data", data}, {"journal", "verify", "--data", data},
		} {
			execute(t, "", args...).ends(t, terminal.ExitDataInUse)
		}
	})
	t.Run("port in use", func(t *testing.T) {
		r := execute(t, "", "serve", "--listen", strings.TrimPrefix(s.url, "http://"), "--data", t.TempDir(), "--init")
		r.ends(t, terminal.ExitListen)
	})
	t.Run("get", func(t *testing.T) {
		text := ok(t, "get", "--server", s.url, j.ID)
		testkit.Contains(t, text, "job_id        "+j.ID, "payload       hello", "status        pending")
		testkit.Lacks(t, text, "null")
		o := parsed[map[string]any](t, ok(t, "get", "--json", "--server", s.url, j.ID))
		testkit.Holds(t, o["job_id"] == j.ID, o)
		batch := parsed[struct {
			ID string `json:"batch_id"`
		}](t, s.post(t, "/add", "one\n"))
		testkit.Contains(t, ok(t, "get", "--batch", "--server", s.url, batch.ID), "count       1")
		execute(t, "", "get", "--server", s.url, "nonsense").ends(t, terminal.ExitUsage)
		execute(t, "", "get", "--server", s.url, job.NewID(1, 1<<30, 0).String()).ends(t, terminal.ExitNotFound, "job_not_found")
	})
	t.Run("queues", func(t *testing.T) {
		s.post(t, "/queues/default/default/pause", "")
		lines := strings.Split(ok(t, "queues", "--server", s.url), "\n")
		f := strings.Fields(lines[1])
		testkit.Holds(t, len(f) == 10 && fmt.Sprint(f[:4]) == "[default default 0 2]" && f[9] == "paused", lines)
		var q struct{ Client string }
		testkit.NoError(t, json.Unmarshal([]byte(ok(t, "queues", "--json", "--server", s.url, "--client", "default")), &q))
		testkit.Equal(t, q.Client, "default")
		testkit.Equal(t, ok(t, "queues", "--server", s.url, "--client", "none"), "client none has no queues\n")
		r := execute(t, "", "queues", "delete", "default", "default", "--server", s.url)
		testkit.Holds(t, r.code != terminal.ExitOK && strings.Contains(r.errs, "queue_not_empty"), "exit code", r.code, r.errs)
	})
	t.Run("stats", func(t *testing.T) {
		testkit.Contains(t, ok(t, "stats", "--server", s.url), "state          ready", "pending        2")
		o := parsed[ingest.Stats](t, ok(t, "stats", "--json", "--server", s.url))
		testkit.Holds(t, o.Ready, o)
		t.Setenv("DAYBOOK_SERVER", s.url)
		testkit.Contains(t, ok(t, "stats"), "ready")
	})

	t.Run("level", func(t *testing.T) {
		for _, c := range []struct {
			args []string
			want string
		}{
			{[]string{"level"}, fmt.Sprintf("level %d, the newest that the server knows\n", job.Level)},
			{[]string{"level", "--json"}, fmt.Sprintf("{\"level\":%d,\"newest\":%d}\n", job.Level, job.Level)},
			{[]string{"level", "raise"}, fmt.Sprintf("level %d\n", job.Level)},
		} {
			testkit.Equal(t, ok(t, append(c.args, "--server", s.url)...), c.want, c.args)
		}
	})

	t.Run("clock", func(t *testing.T) {
		for _, args := range [][]string{{"clock", "--server", s.url}, {"clock", "--accept", "--server", s.url}} {
			text := ok(t, args...)
			testkit.Holds(t, strings.HasPrefix(text, "the server's time is "), args, text)
		}
	})

	testkit.Equal(t, s.end(t, syscall.SIGTERM), terminal.ExitOK, "exit code")
	testkit.Fails(os.Stat(filepath.Join(data, "address")))(t, os.ErrNotExist)

	t.Run("check", func(t *testing.T) {
		text := ok(t, "check", "--data", data)
		testkit.Holds(t, strings.HasPrefix(text, "ok"), text)
		testkit.Equal(t, ok(t, "check", "--json", "--data", data), `{"problems":0}`+"\n")
	})
	t.Run("journal", func(t *testing.T) {
		testkit.Contains(t, ok(t, "journal", "dump", "--data", data), "#:create v=1", "\nhello\n#:end crc=")
		text := ok(t, "journal", "dump", "--bodies=false", "--data", data)
		testkit.Holds(t, !strings.Contains(text, "hello") && strings.Contains(text, "#:create"), text)
		d := json.NewDecoder(strings.NewReader(ok(t, "journal", "dump", "--json", "--from", "2", "--to", "4", "--data", data)))
		var seqs []uint64
		for d.More() {
			var r struct{ Seq uint64 }
			testkit.NoError(t, d.Decode(&r))
			seqs = append(seqs, r.Seq)
		}
		testkit.Equal(t, fmt.Sprint(seqs), "[2 3 4]")
		testkit.Contains(t, ok(t, "journal", "verify", "--data", data), "a start would  accept")
		o := parsed[map[string]any](t, ok(t, "journal", "verify", "--json", "--data", data))
		testkit.Holds(t, o["damage"] == nil, o)
	})
	t.Run("rebuild from a base that does not exist", func(t *testing.T) {
		left := filepath.Join(data, "store.rebuild")
		testkit.NoError(t, os.CopyFS(left, os.DirFS(filepath.Join(data, "store"))))
		defer os.RemoveAll(left)
		for base, reason := range map[string]string{
			filepath.Join(data, "stor"): "does not exist", t.TempDir(): "is not the directory of a store", filepath.Join(data, "journal"): "is not the directory of a store",
			left: "is what a rebuild that did not finish has left",
		} {
			r := execute(t, "", "rebuild", "--data", data, "--base", base)
			r.ends(t, terminal.ExitFile, base+" "+reason+"; stores that exist: "+filepath.Join(data, "store")+"\n")
		}
	})
	t.Run("rebuild from a base", func(t *testing.T) {
		base := filepath.Join(t.TempDir(), "backup [1]*", "store")
		testkit.NoError(t, os.CopyFS(base, os.DirFS(filepath.Join(data, "store"))))
		ok(t, "rebuild", "--data", data, "--base", base)
		ok(t, "check", "--data", data)
	})
	t.Run("rebuild", func(t *testing.T) {
		testkit.Contains(t, ok(t, "rebuild", "--data", data), "the old store is kept in")
		ok(t, "check", "--data", data)
		o := parsed[map[string]any](t, ok(t, "rebuild", "--json", "--data", data, "--base", filepath.Join(data, "store")))
		testkit.Equal(t, o["commands"], 0.0, o)
	})
	t.Run("acknowledged jobs are there after a kill", func(t *testing.T) {
		s := serving(t, data)
		batch := parsed[struct {
			First string `json:"first_id"`
		}](t, s.post(t, "/add", "one\ntwo\n"))
		testkit.Equal(t, s.end(t, syscall.SIGKILL), -1, "exit code")
		s = serving(t, data)
		testkit.Contains(t, ok(t, "get", "--server", s.url, batch.First), "one")
		testkit.Equal(t, s.end(t, syscall.SIGINT), terminal.ExitOK, "exit code")
	})
	t.Run("damage", func(t *testing.T) {
		damage(t, filepath.Join(data, "journal"), []byte("hello"))
		for _, args := range [][]string{{"journal", "verify", "--data", data}, {"journal", "dump", "--data", data}, {"rebuild", "--data", data}} {
			r := execute(t, "", args...)
			r.ends(t, terminal.ExitCorrupt, "offset")
		}
		execute(t, "", "journal", "give-up", "--data", data).ends(t, terminal.ExitUsage)
		testkit.Contains(t, ok(t, "journal", "give-up", "--data", data, "--last", "1"), "given-up-")
		ok(t, "rebuild", "--data", data)
		ok(t, "check", "--data", data)
	})
}

// damage changes the first occurrence of text in the files below dir.
func damage(t *testing.T, dir string, text []byte) {
	t.Helper()
	done := false
	testkit.NoError(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || done {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if at := bytes.Index(content, text); at >= 0 {
			content[at] ^= 1
			done = true
			return os.WriteFile(path, content, 0o644)
		}
		return nil
	}))
	testkit.MustHold(t, done, "nothing was damaged")
}

// stopsBusy sends SIGTERM to a server with a request in progress, whose body of four bytes has not arrived yet. It returns
// the connection of the request when the server no longer listens.
func (s *server) stopsBusy(t *testing.T) (c net.Conn, in *bufio.Reader) {
	t.Helper()
	address := strings.TrimPrefix(s.url, "http://")
	c = testkit.Must(net.Dial("tcp", address))(t)
	t.Cleanup(func() { c.Close() })
	testkit.Must(io.WriteString(c, "POST /add HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"))(t)
	in = bufio.NewReader(c)
	testkit.Contains(t, testkit.Must(in.ReadString('\n'))(t), "100 Continue")
	testkit.Must(in.ReadString('\n'))(t)
	testkit.NoError(t, s.Process.Signal(syscall.SIGTERM))
	for {
		other, err := net.Dial("tcp", address)
		if err != nil {
			return c, in
		}
		other.Close()
	}
}

func TestStopDrains(t *testing.T) {
	s := serving(t, t.TempDir())
	c, in := s.stopsBusy(t)
	testkit.Must(io.WriteString(c, "one\n"))(t)
	resp := testkit.Must(http.ReadResponse(in, nil))(t)
	testkit.MustEqual(t, resp.StatusCode, http.StatusCreated)
	resp.Body.Close()
	err := <-s.ended
	s.ended <- err
	testkit.Equal(t, s.ProcessState.ExitCode(), terminal.ExitOK, "exit code")
}

// TestReaderOfTheLogGoesAway: the server continues when nobody reads its log any more.
func TestReaderOfTheLogGoesAway(t *testing.T) {
	r, w := testkit.Must2(os.Pipe())(t)
	cmd := command("serve", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--init")
	cmd.Stderr = w
	out := testkit.Must(cmd.StdoutPipe())(t)
	testkit.NoError(t, cmd.Start())
	w.Close()
	defer func() {
		_ = cmd.Process.Kill() // the process may have ended
		_ = cmd.Wait()         // with the kill as its error
	}()
	line := testkit.Must(bufio.NewReader(out).ReadString('\n'))(t)
	r.Close()
	for range 3 { // each request is logged
		resp := testkit.Must(http.Get(strings.TrimSpace(strings.TrimPrefix(line, "listening on ")) + "/jobs/nonsense"))(t)
		resp.Body.Close()
	}
}

// TestClosedTerminal: a server whose terminal is closed stops as after SIGTERM.
func TestClosedTerminal(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("SIGHUP is ignored, as under nohup, and servers leave it so")
	}
	dir := t.TempDir()
	s := serving(t, dir)
	testkit.NoError(t, s.Process.Signal(syscall.SIGHUP))
	err := <-s.ended
	s.ended <- err
	testkit.Check(t, err, s.log)
	testkit.Fails(os.Stat(filepath.Join(dir, "address")))(t, fs.ErrNotExist)
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	s := serving(t, t.TempDir(), "--drain", "1h")
	s.stopsBusy(t)
	again := time.NewTicker(100 * time.Millisecond) // several signals for each wish
	defer again.Stop()
	for running := true; running; { // signals that arrive soon after the first are part of it
		select {
		case err := <-s.ended:
			s.ended <- err
			running = false
		case <-again.C:
			_ = s.Process.Signal(syscall.SIGTERM) // the process may have ended
		}
	}
	testkit.Equal(t, s.ProcessState.ExitCode(), terminal.ExitSignal+int(syscall.SIGTERM), "exit code")
}
