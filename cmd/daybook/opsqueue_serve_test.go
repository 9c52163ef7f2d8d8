package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/opsqueue/stockclient"
	"github.com/daybookq/daybook/opsqueue/wire"
)

// opsqueueServer is a daybook opsqueue-serve in a process of its own.
type opsqueueServer struct {
	*exec.Cmd
	t          *testing.T
	port       string // reported through the pipe; "": the start failed
	banner     string // the first line of standard output
	log        *processLog
	ended      chan error
	healthy    time.Duration // from the start until the server was healthy
	violations *stockclient.Violations
	ctx        context.Context
}

// startingOpsqueue starts a server as a program does that inherits the original's command line: with a pipe for the port.
func startingOpsqueue(t *testing.T, change func(*exec.Cmd), args ...string) *opsqueueServer {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	s := &opsqueueServer{
		Cmd: command(t, append([]string{"opsqueue-serve", "--port", "0", "--report-bound-port-pipe", "3"}, args...)...),
		t:   t, log: &processLog{}, ended: make(chan error, 1), violations: &stockclient.Violations{},
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	s.ctx = ctx
	s.ExtraFiles = []*os.File{writer}
	s.Stderr = s.log
	s.Env = append(s.Env, "TMPDIR="+t.TempDir()) // one that is killed leaves its data
	if change != nil {
		change(s.Cmd)
	}
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	t.Cleanup(func() {
		cancel()
		_ = s.Process.Kill() // the process may have ended
		s.ended <- <-s.ended
		for _, v := range s.violations.List() {
			t.Errorf("the server would have broken a client: %s", v)
		}
	})
	s.banner, _ = bufio.NewReader(out).ReadString('\n') // empty if the start fails
	go func() { s.ended <- s.Wait() }()
	reported, err := io.ReadAll(reader) // to the end: the server closes the pipe
	switch {
	case err != nil || len(reported) != 0 && len(reported) != 2:
		t.Fatalf("the pipe has % x, %v", reported, err)
	case len(reported) == 0:
		return s
	}
	s.port = fmt.Sprint(binary.BigEndian.Uint16(reported))
	for {
		resp, err := http.Get("http://" + s.address() + "/ping")
		if err != nil {
			t.Fatalf("%v: %s", err, s.log)
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			s.healthy = time.Since(began)
			return s
		}
	}
}

// runningOpsqueue is startingOpsqueue for a start that must succeed.
func runningOpsqueue(t *testing.T, change func(*exec.Cmd), args ...string) *opsqueueServer {
	t.Helper()
	s := startingOpsqueue(t, change, args...)
	if s.port == "" {
		t.Fatalf("the start failed: %s", s.log)
	}
	return s
}

func (s *opsqueueServer) address() string { return "127.0.0.1:" + s.port }

func (s *opsqueueServer) producer() *stockclient.Producer {
	p := stockclient.NewProducer(s.address(), s.violations)
	s.t.Cleanup(p.Close)
	return p
}

func (s *opsqueueServer) consumer() *stockclient.Consumer {
	c := stockclient.NewConsumer(s.address(), s.violations)
	s.t.Cleanup(c.Close)
	return c
}

// insert creates a submission of n chunks.
func (s *opsqueueServer) insert(n int64) wire.SubmissionID {
	s.t.Helper()
	id, err := s.producer().Insert(s.ctx, wire.InsertSubmission{SeeObjectStorage: &wire.SeeObjectStorage{Prefix: "p", Count: n}}, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

// code waits for the end of the process and returns its exit code.
func (s *opsqueueServer) code() int {
	s.t.Helper()
	select {
	case err := <-s.ended:
		s.ended <- err
	case <-s.ctx.Done():
		s.t.Fatalf("the process has not ended: %s", s.log)
	}
	return s.ProcessState.ExitCode()
}

// runSubmission runs a submission with two consumers.
func runSubmission(ctx context.Context, t *testing.T, p *stockclient.Producer, consumers ...*stockclient.Consumer) {
	t.Helper()
	objects := &stockclient.ObjectStore{}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, len(consumers))
	for _, c := range consumers {
		go func() {
			ended <- c.RunEachChunk(ctx, objects, wire.Strategy{Base: wire.Random}, func(_ wire.ReservedChunk, input []byte) ([]byte, error) {
				return append(input, '!'), nil
			})
		}()
	}
	chunks := make([][]byte, 50)
	for i := range chunks {
		chunks[i] = fmt.Append(nil, i)
	}
	results, err := p.Run(ctx, objects, stockclient.Work{Chunks: chunks})
	if err != nil {
		t.Error(err)
	}
	for i, got := range results {
		if want := fmt.Sprintf("%d!", i); string(got) != want {
			t.Errorf("result %d is %q", i, got)
		}
	}
	cancel()
	for range consumers {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("consumer: %v", err)
		}
	}
}

// temporaries returns the names of the temporary data directories in a folder.
func temporaries(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), temporaryData) {
			names = append(names, e.Name())
		}
	}
	return names
}

// TestOpsqueueServe: a server with a database in memory is healthy soon, runs submissions, and is gone soon after a signal,
// although connections are open. Its data is removed.
func TestOpsqueueServe(t *testing.T) {
	t.Parallel()
	const tries = 3 // another process may take the machine's time in some
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		for _, name := range []string{"file::memory:?cache=shared", ":memory:", "file:tests?mode=memory&cache=shared"} {
			t.Run(fmt.Sprint(signal, " ", name), func(t *testing.T) {
				for try := 1; ; try++ {
					healthy, gone := opsqueueRun(t, signal, name)
					if healthy <= 5*time.Second && gone <= 3*time.Second {
						return
					}
					if try == tries {
						t.Fatalf("in try %d the server was healthy after %s and gone %s after the signal", try, healthy, gone)
					}
				}
			})
		}
	}
}

// opsqueueRun runs one server, and returns how long it took to start and to end.
func opsqueueRun(t *testing.T, signal syscall.Signal, name string) (healthy, gone time.Duration) {
	temporary := t.TempDir()
	s := runningOpsqueue(t, func(cmd *exec.Cmd) {
		// A program that is built with the race detector would sleep for a second when it exits.
		cmd.Env = append(cmd.Env, "TMPDIR="+temporary, "GORACE=atexit_sleep_ms=0")
	}, "--database-filename", name)
	if !strings.Contains(s.banner, "Opsqueue v0.40.1") || !strings.Contains(s.banner, s.port) {
		t.Errorf("the first line is %q", s.banner)
	}
	if found := temporaries(t, temporary); len(found) != 1 {
		t.Errorf("temporary directories: %q", found)
	}
	runSubmission(s.ctx, t, s.producer(), s.consumer(), s.consumer())

	// Open connections: a chunk that is held, a reservation that waits, an HTTP connection that was used and one that
	// stops in the middle of a request.
	s.insert(1)
	holder, waiter := s.consumer(), s.consumer()
	if _, err := holder.Reserve(s.ctx, 1, wire.Strategy{}); err != nil {
		t.Error(err)
	}
	waiting, stopWaiting := context.WithCancel(s.ctx)
	waited := make(chan error, 1)
	go func() {
		_, err := waiter.Reserve(waiting, 1, wire.Strategy{})
		waited <- err
	}()
	if _, err := waiter.Init(s.ctx); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n", "POST /producer/submissions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"} {
		conn, err := net.Dial("tcp", s.address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, text); err != nil {
			t.Error(err)
		}
	}
	began := time.Now()
	if err := s.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	if code := s.code(); code != exitOK {
		t.Errorf("exit code %d: %s", code, s.log)
	}
	gone = time.Since(began)
	if err := <-waited; !errors.Is(err, stockclient.ErrConnection) {
		t.Errorf("the waiting reservation: %v", err)
	}
	stopWaiting()
	if found := temporaries(t, temporary); len(found) > 0 {
		t.Errorf("temporary directories are left: %q", found)
	}
	return s.healthy, gone
}

// TestOpsqueueServeDirectory: the name of a database file is that of a data directory, which a later server goes on with.
func TestOpsqueueServeDirectory(t *testing.T) {
	dir := t.TempDir()
	inDir := func(cmd *exec.Cmd) { cmd.Dir = dir }
	s := runningOpsqueue(t, inDir) // opsqueue.db in the working directory
	if info, err := os.Stat(filepath.Join(dir, "opsqueue.db")); err != nil || !info.IsDir() {
		t.Errorf("opsqueue.db: %v, %v", info, err)
	}
	id := s.insert(3)
	c := s.consumer()
	got, err := c.Reserve(s.ctx, 1, wire.Strategy{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Complete(s.ctx, got[0].Chunk.ID, nil); err != nil {
		t.Error(err)
	}
	inUse := startingOpsqueue(t, inDir)
	if code := inUse.code(); code != exitDataInUse || inUse.port != "" || !strings.Contains(inUse.log.String(), "another directory with --database-filename") {
		t.Errorf("a second server for the same directory: exit code %d, port %q: %s", code, inUse.port, inUse.log)
	}
	if err := s.Process.Kill(); err != nil { // it is not told to stop
		t.Fatal(err)
	}
	s.code()
	s = runningOpsqueue(t, nil, "--database-filename", filepath.Join(dir, "opsqueue.db"))
	c = s.consumer()
	p := s.producer()
	for {
		status, err := p.Status(s.ctx, id)
		if err != nil || status == nil {
			t.Fatalf("status %+v, %v", status, err)
		}
		if status.Completed != nil {
			break
		}
		if status.InProgress == nil || status.InProgress.ChunksTotal != 3 {
			t.Fatalf("status %+v", status)
		}
		// The first completion may have been on its way. Chunks can be completed without a reservation.
		for i := range int64(3) {
			if err := c.Complete(s.ctx, wire.ChunkID{SubmissionID: id, Index: i}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestOpsqueueServeRefusals: starts that fail say why, and close the pipe without a port.
func TestOpsqueueServeRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	database := filepath.Join(dir, "opsqueue.db")
	if err := os.WriteFile(database, []byte("SQLite format 3\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, taken, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"database of the original":   {[]string{"--database-filename", database}, exitError, "is a file, perhaps a database of Opsqueue"},
		"its URI":                    {[]string{"--database-filename", "file:" + database + "?mode=rwc"}, exitError, "is a file, perhaps a database of Opsqueue"},
		"directory below a file":     {[]string{"--database-filename", filepath.Join(database, "x")}, exitFile, "not a directory"},
		"unknown flag":               {[]string{"--verbose"}, 2, "error: unexpected argument '--verbose' found\n"},
		"help":                       {[]string{"--help"}, 2, "error: unexpected argument '--help' found\n"},
		"short help":                 {[]string{"-h"}, 2, "error: unexpected argument '-h' found\n"},
		"argument":                   {[]string{"help"}, 2, "error: unexpected argument 'help' found\n"},
		"duration":                   {[]string{"--reservation-expiration", "soon"}, 2, "error: invalid value 'soon'"},
		"flag of the other commands": {[]string{"--data", dir}, 2, "error: unexpected argument '--data' found\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startingOpsqueue(t, nil, c.args...)
			if code := s.code(); code != c.code || !strings.Contains(s.log.String(), c.want) || s.port != "" || s.banner != "" {
				t.Errorf("exit code %d, port %q, output %q: %s", code, s.port, s.banner, s.log)
			}
			if c.code == 2 && strings.Count(s.log.String(), "\n") != 1 {
				t.Errorf("more than one line: %s", s.log)
			}
		})
	}
	t.Run("port in use", func(t *testing.T) {
		r := execute(t, "", "opsqueue-serve", "--port", taken, "--database-filename", filepath.Join(t.TempDir(), "data"))
		if r.code != exitListen || !strings.Contains(r.errs, "another port with --port") || strings.Contains(r.errs, "--listen") {
			t.Errorf("exit code %d: %s", r.code, r.errs)
		}
	})
	t.Run("version", func(t *testing.T) {
		if r := execute(t, "", "opsqueue-serve", "--version"); r.code != exitOK || r.out != "opsqueue 0.40.1\n" || r.errs != "" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("descriptor that is not open", func(t *testing.T) {
		if r := execute(t, "", "opsqueue-serve", "--report-bound-port-pipe", "987", "--database-filename", ":memory:"); r.code != exitFile || !strings.Contains(r.errs, "987") {
			t.Errorf("%+v", r)
		}
	})
}

// TestOpsqueueServeSettings: flags and variables of the original take effect.
func TestOpsqueueServeSettings(t *testing.T) {
	t.Parallel()
	s := runningOpsqueue(t, func(cmd *exec.Cmd) {
		cmd.Env = append(cmd.Env, "RUST_LOG=warn,opsqueue=debug", "OPSQUEUE_DEBUG_CONNECTIONS=1", "SENTRY_DSN=x", "DAYBOOK_MAX_ATTEMPTS=77")
	}, "--database-filename", ":memory:", "--max-chunk-retries=2", "--heartbeat-interval", "3s", "--max-missable-heartbeats", "5",
		"--reservation-expiration", "100ms", "--max-submission-age", "2 seconds", "--max-submissions-returned", "1", "--max-read-pool-size", "1")
	c, p := s.consumer(), s.producer()
	init, err := c.Init(s.ctx)
	if want := (wire.Init{MaxMissableHeartbeats: 5, HeartbeatInterval: 3 * time.Second, VersionInfo: "v0.40.1", ConnID: "red"}); err != nil || init != want {
		t.Errorf("%+v, %v", init, err)
	}
	id := s.insert(1)
	s.insert(0)
	if _, err := c.Reserve(s.ctx, 1, wire.Strategy{}); err != nil {
		t.Error(err)
	}
	until := func(what string, holds func() bool) {
		t.Helper()
		testkit.Eventually(t, what, holds)
	}
	until("the reservation expires", func() bool { return c.Expired() > 0 })
	status := func() *wire.SubmissionStatus {
		got, err := p.Status(s.ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	again, err := c.Reserve(s.ctx, 1, wire.Strategy{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Fail(s.ctx, again[0].Chunk.ID, "boom"); err != nil {
		t.Error(err)
	}
	until("the submission has failed", func() bool { got := status(); return got == nil || got.Failed != nil })
	until("it is removed", func() bool { return status() == nil })
	s.insert(1)
	if ids, err := p.LookupByMetadata(s.ctx, nil); err != nil || len(ids) != 1 {
		t.Errorf("%v, %v", ids, err)
	}
	s.insert(1)
	if _, err := p.LookupByMetadata(s.ctx, nil); !errors.Is(err, stockclient.TooManyError(1)) {
		t.Error(err)
	}
	if log := s.log.String(); !strings.Contains(log, "SENTRY_DSN") || !strings.Contains(log, `"level":"debug"`) {
		t.Errorf("log: %s", log)
	}

	quiet := runningOpsqueue(t, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "RUST_LOG=off") }, "--database-filename", ":memory:")
	quiet.insert(1)
	if err := quiet.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := quiet.code(); code != exitOK || quiet.log.String() != "" {
		t.Errorf("exit code %d: %s", code, quiet.log)
	}
}

// TestOpsqueueServeAddress: like the original, the server listens on all addresses of IPv4.
func TestOpsqueueServeAddress(t *testing.T) {
	s := runningOpsqueue(t, nil, "--database-filename", ":memory:")
	for _, host := range []string{"127.0.0.1", "127.0.0.2"} {
		resp, err := http.Get("http://" + host + ":" + s.port + "/version")
		if err != nil {
			t.Error(err)
			continue
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(text) != "v0.40.1" {
			t.Errorf("%s: %q, %v", host, text, err)
		}
	}
}

// TestOpsqueueServeAfterKill: the data of a server with a database in memory that was killed is removed by a later one,
// and that of a running server is not.
func TestOpsqueueServeAfterKill(t *testing.T) {
	temporary := t.TempDir()
	in := func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "TMPDIR="+temporary) }
	killed := runningOpsqueue(t, in, "--database-filename", ":memory:")
	left := temporaries(t, temporary)
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed.code()
	running := runningOpsqueue(t, in, "--database-filename", ":memory:")
	both := temporaries(t, temporary)
	if len(left) != 1 || len(both) != 2 {
		t.Fatalf("%q, and then %q", left, both)
	}
	hourAgo := time.Now().Add(-time.Hour)
	for _, name := range both {
		if err := os.Chtimes(filepath.Join(temporary, name), hourAgo, hourAgo); err != nil {
			t.Fatal(err)
		}
	}
	last := runningOpsqueue(t, in, "--database-filename", ":memory:")
	now := temporaries(t, temporary)
	if len(now) != 2 || now[0] == left[0] || now[1] == left[0] {
		t.Errorf("%q, after %q", now, both)
	}
	for _, s := range []*opsqueueServer{running, last} {
		runSubmission(s.ctx, t, s.producer(), s.consumer())
	}
}

// TestOpsqueueData: which names are those of databases in memory.
func TestOpsqueueData(t *testing.T) {
	for name, want := range map[string]string{
		"opsqueue.db": "opsqueue.db", "/var/lib/q.db": "/var/lib/q.db", "file:q.db": "q.db", "file:q.db?cache=shared&mode=rwc": "q.db",
		"file:/var/q.db#x": "/var/q.db", "file:///var/q.db?x": "/var/q.db", "file://localhost/var/q%20q.db": "/var/q q.db", "memory": "memory",
		":memory:": "", "file::memory:": "", "file::memory:?cache=shared": "", "file:name?cache=shared&mode=memory": "", "": "",
	} {
		if path, inMemory := opsqueueData(name); inMemory != (want == "") || !inMemory && path != want {
			t.Errorf("%q: %q, %t, not %q", name, path, inMemory, want)
		}
	}
}
