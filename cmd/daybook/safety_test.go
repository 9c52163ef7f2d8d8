package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cluster"
	"github.com/daybookq/daybook/cmd/daybook/internal/checkpoint"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/input"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/serve"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/filelock"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
)

// TestListenBeyondLoopback: an address that other machines can connect to is refused without TLS and a key, unless --insecure is
// given, which keeps no key from being required.
func TestListenBeyondLoopback(t *testing.T) {
	for listen, exposed := range map[string]bool{
		"127.0.0.1:0": false, "127.8.9.1:80": false, "localhost:1717": false, "[::1]:1": false, "[::ffff:127.0.0.1]:1": false,
		"0.0.0.0:1717": true, ":1717": true, "[::]:1717": true, "192.0.2.7:1717": true, "[2001:db8::7]:1717": true,
	} {
		address, err := config.ListenAddress(listen, true)
		testkit.NoError(t, err)
		testkit.Equal(t, config.IsExposed(address), exposed, listen, "isExposed")
		_, err = config.ListenAddress(listen, false)
		testkit.Holds(t, exposed == errors.Is(err, config.ErrExposed), listen, "without --insecure", err)
	}
	data := filepath.Join(t.TempDir(), "data")
	r := execute(t, "", "serve", "--listen", "0.0.0.0:0", "--data", data, "--init")
	r.ends(t, terminal.ExitUsage, "--insecure", "--tls-cert")
	execute(t, "", "serve", "--listen", "0.0.0.0:0", "--data", data, "--init", "--admin-key-file", data+".key").ends(t, terminal.ExitUsage, "--tls-cert")
	testkit.Fails(os.Stat(data))(t)
	for listen, network := range map[string]string{"0.0.0.0:0": "tcp4", ":0": "tcp", "[::]:0": "tcp", "127.0.0.1:0": "tcp4"} {
		testkit.Equal(t, config.NetworkOf(testkit.Must(config.ListenAddress(listen, true))(t)), network, listen, "listens on")
	}
	for _, listen := range []string{"127.0.0.1", "a b:1", "127.0.0.1:port"} {
		execute(t, "", "serve", "--listen", listen, "--data", data, "--init").ends(t, terminal.ExitUsage, "--listen")
	}
	// An address of TEST-NET-1, which no machine has.
	execute(t, "", "serve", "--insecure", "--listen", "192.0.2.7:0", "--data", data, "--init").ends(t, terminal.ExitListen)
}

// TestServeBeyondLoopback: with TLS, the server needs a key that it has, or that of --admin-key-file, and until it has one it answers
// nobody.
func TestServeBeyondLoopback(t *testing.T) {
	a := testkit.NewAuthority(t)
	cert, key := a.Issue(t, "server")
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	secure := []string{"serve", "--listen", "0.0.0.0:0", "--mdns", "off", "--init", "--data", data, "--tls-cert", cert, "--tls-key", key}
	execute(t, "", secure...).ends(t, terminal.ExitUsage, "has no key", "--admin-key-file", "daybook key create NAME --role admin --data "+data).lacks(t, "listening", "http")
	at := func(s *server, file string, args ...string) []string {
		_, port, err := net.SplitHostPort(strings.TrimPrefix(s.url, "https://"))
		testkit.NoError(t, err)
		args = append(args, "--server", "https://127.0.0.1:"+port, "--tls-ca", a.CA)
		if file != "" {
			args = append(args, "--key-file", file)
		}
		return args
	}
	file := filepath.Join(dir, "admin.key")
	s := launch(t, command(append(secure, "--admin-key-file", file)...))
	ok(t, at(s, "", "ping", "--wait", "1m")...)
	execute(t, "", at(s, "", "queues")...).ends(t, terminal.ExitRefused, "key_required")
	ok(t, at(s, file, "queues")...)
	testkit.Lacks(t, s.log.String(), "--insecure")
	s.end(t, syscall.SIGTERM)

	s = launch(t, command(secure...)) // it has a key
	ok(t, at(s, "", "ping", "--wait", "1m")...)
	ok(t, at(s, file, "queues")...)
	s.end(t, syscall.SIGTERM)
	s = launch(t, command("serve", "--listen", "0.0.0.0:0", "--mdns", "off", "--data", data, "--insecure"))
	url := strings.Replace(s.url, "0.0.0.0", "127.0.0.1", 1)
	ok(t, "ping", "--wait", "1m", "--server", url)
	execute(t, "", "queues", "--server", url).ends(t, terminal.ExitRefused, "key_required")
	testkit.Contains(t, s.log.String(), "--insecure")
}

// TestDataDirectoryThatIsMissing: a directory of --data without a journal may be a disk that is not mounted. It is
// refused unless --init is given.
func TestDataDirectoryThatIsMissing(t *testing.T) {
	dir := t.TempDir()
	missing, empty, unmounted := filepath.Join(dir, "missing"), filepath.Join(dir, "empty"), filepath.Join(dir, "unmounted")
	testkit.NoError(t, os.MkdirAll(empty, 0o755))
	testkit.NoError(t, os.MkdirAll(filepath.Join(unmounted, "journal"), 0o755)) // as if the journal were on a separate disk
	execute(t, "", "check", "--data", unmounted).ends(t, terminal.ExitNoData)
	for _, data := range []string{missing, empty, unmounted} {
		r := execute(t, "", "serve", "--listen", "127.0.0.1:0", "--data", data)
		r.ends(t, terminal.ExitNoData, "--init", data)
	}
	t.Setenv("DAYBOOK_DATA", missing)
	execute(t, "", "serve", "--listen", "127.0.0.1:0").ends(t, terminal.ExitNoData)
	t.Setenv("DAYBOOK_DATA", "")
	list := testkit.Must(os.ReadDir(empty))(t)
	testkit.Holds(t, len(list) == 0, "a refused start left", list)
	testkit.Fails(os.Stat(missing))(t, fs.ErrNotExist)

	// The default directory is created. With --init an existing directory is used as it is.
	t.Chdir(dir)
	s := serving(t, missing)
	s.post(t, "/add", "one\n")
	s.end(t, syscall.SIGTERM)
	s = serving(t, missing)
	testkit.Equal(t, s.pending(t, "default/default"), 1)
	s.end(t, syscall.SIGTERM)

	// A store without its journal is refused, also with --init, and nothing is created in its place.
	testkit.NoError(t, os.Rename(filepath.Join(missing, "journal"), filepath.Join(dir, "journal")))
	execute(t, "", "serve", "--listen", "127.0.0.1:0", "--data", missing, "--init").ends(t, terminal.ExitCorrupt)
	testkit.Fails(os.Stat(filepath.Join(missing, "journal")))(t, fs.ErrNotExist)
}

// TestVariablesOfServe: a variable for serve does not affect the other commands.
func TestVariablesOfServe(t *testing.T) {
	s := serving(t, t.TempDir())
	for name, value := range map[string]string{
		"DAYBOOK_MAX_ATTEMPTS": "50", "DAYBOOK_RETENTION": "1d", "DAYBOOK_CLIENT": "other", "DAYBOOK_SERVER": s.url,
	} {
		t.Setenv(name, value)
	}
	r := execute(t, "x\n", "add")
	testkit.MustHold(t, r.code == terminal.ExitOK && !strings.Contains(r.out, "{"), "exit code", r.code, r.out, r.errs)
	testkit.Contains(t, ok(t, "get", strings.TrimSpace(r.out)), "max_attempts  3\n", "client        default\n")
	execute(t, "", "journal", "give-up", "--data", s.data).ends(t, terminal.ExitUsage, "--last")
}

// TestServerAddress: an address may be host:port. A password in it is sent and never shown.
func TestServerAddress(t *testing.T) {
	var user, password string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ = r.BasicAuth()
		switch r.URL.Path {
		case "/behind/queues", "/queues":
			w.Write([]byte(`{"queues":[],"next":null}`))
		case "/behind/stats", "/stats": // queues reads whether the server is stopped
			w.Write([]byte(`{}`))
		case "/cut/queues":
			w.Header().Set("Content-Length", "9")
		default:
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer s.Close()
	address := strings.TrimPrefix(s.URL, "http://")
	for _, server := range []string{address, s.URL, s.URL + "/", s.URL + "/behind/", "user:secret@" + address, "http://user:secret@" + address + "/behind"} {
		execute(t, "", "queues", "--server", server).ends(t, terminal.ExitOK)
	}
	testkit.Equal(t, user, "user")
	testkit.Equal(t, password, "secret")
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	closed := l.Addr().String()
	l.Close()
	for server, code := range map[string]int{
		"http://user:secret@" + closed: terminal.ExitNoAnswer, "user:secret@" + closed: terminal.ExitNoAnswer, "http://user:secret@" + address + "/other": terminal.ExitNoAnswer,
		"http://user:secret@" + address + "/cut": terminal.ExitNoAnswer, "ftp://user:secret@host": terminal.ExitUsage, "http://user:secret@": terminal.ExitUsage, "http://user:sec%ret@host": terminal.ExitUsage,
		"http://user:secret@host:port": terminal.ExitUsage, "//user:secret@host": terminal.ExitUsage, "http://user:secret@host?x=y": terminal.ExitUsage, "http://user:secret@ho st": terminal.ExitUsage, "": terminal.ExitUsage, "http://": terminal.ExitUsage,
	} {
		for _, verb := range [][]string{{"queues"}, {"stats"}, {"add"}, {"get", "0185a1b2-c3d4-7000-8000-00000c800000"}} {
			r := execute(t, "x\n", append(verb, "--server", server)...)
			r.ends(t, code).lacks(t, "secret", "sec%ret")
		}
		t.Setenv("DAYBOOK_SERVER", server)
		r := execute(t, "", "queues", "--help")
		testkit.Holds(t, !strings.Contains(r.out+r.errs, "secret"), "the help shows", r.out)
		t.Setenv("DAYBOOK_SERVER", "")
	}
}

// TestExitCodes: each kind of failure has its code, and `daybook help exit-codes` lists all codes.
func TestExitCodes(t *testing.T) {
	documented, reached := map[int]bool{}, map[int]bool{terminal.ExitOK: true, terminal.ExitSignal + int(syscall.SIGINT): true, terminal.ExitSignal + int(syscall.SIGHUP): true, terminal.ExitSignal + int(syscall.SIGTERM): true}
	for _, e := range terminal.ExitCodes {
		documented[e.Code] = true
	}
	for _, c := range []struct {
		err  error
		code int
	}{
		{errors.New("something"), terminal.ExitError},
		{terminal.Usage(errors.New("x")), terminal.ExitUsage},
		{ingest.ErrInUse, terminal.ExitDataInUse}, {filelock.ErrLocked, terminal.ExitDataInUse},
		{serve.ErrListen, terminal.ExitListen},
		{&journal.CorruptError{}, terminal.ExitCorrupt}, {journal.ErrForeign, terminal.ExitCorrupt}, {journal.ErrCursor, terminal.ExitCorrupt}, {store.ErrForeignJournal, terminal.ExitCorrupt}, {store.ErrDamaged, terminal.ExitCorrupt},
		{errProblems, terminal.ExitProblems},
		{store.ErrNewerFormat, terminal.ExitFormat}, {store.ErrOlderFormat, terminal.ExitFormat}, {journal.ErrVersion, terminal.ExitFormat},
		{&remote.NoAnswerError{Server: new(config.ServerAddress), Err: errors.New("x")}, terminal.ExitNoAnswer}, {client.ErrUnavailable, terminal.ExitNoAnswer}, {client.ErrUnexpectedAnswer, terminal.ExitNoAnswer},
		{&client.Error{Status: 429, Code: "overloaded", Outcome: "not_stored"}, terminal.ExitRefused}, {&client.Error{Status: 404, Code: "route_not_found"}, terminal.ExitRefused}, {client.ErrTooLarge, terminal.ExitRefused},
		{&client.Error{Status: 404, Code: "job_not_found"}, terminal.ExitNotFound},
		{ingest.ErrNoJournal, terminal.ExitNoData}, {cluster.ErrNoLog, terminal.ExitNoData},
		{client.ErrUnknown, terminal.ExitUnknown}, {&client.Error{Status: 503, Code: "writes_failed", Outcome: "unknown"}, terminal.ExitUnknown},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, terminal.ExitFile}, {&input.Error{Err: errors.New("x")}, terminal.ExitFile}, {syscall.ENOSPC, terminal.ExitFile}, {ingest.ErrDiskFull, terminal.ExitFile},
		{journal.ErrClockAhead, terminal.ExitClock},
		{&checkpoint.InputChangedError{}, terminal.ExitFile}, {&input.FormatError{Line: 1, Err: errors.New("x")}, terminal.ExitFile},
		{outcome("the job x", "failed", ""), terminal.ExitJobFailed}, {outcome("the job x", "cancelled", ""), terminal.ExitJobCancelled}, {errWatchTimeout, terminal.ExitTimeout},
		{errSystem, terminal.ExitSystem}, {client.ErrUndecodable, terminal.ExitUndecodable},
	} {
		err := fmt.Errorf("some context: %w", c.err)
		if got := exitCode(err); got != c.code || !documented[got] {
			t.Errorf("%v (%T): exit code %d, want %d, which must be documented", c.err, c.err, got, c.code)
		}
		reached[c.code] = true
	}
	for code := range documented {
		testkit.Holds(t, reached[code], "no failure has the code", code)
	}
}
