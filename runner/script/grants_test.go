package script

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/sandbox"
)

// reachers obey the payload: connect PORT, env NAME, read PATH, write PATH. A refused access is an error.
var reachers = map[string]handler.Document{
	handler.Node: {Lang: handler.Node, Source: `
		const fs = require('fs'), net = require('net')
		function handle(payload) {
			const [what, on] = payload.split(' ')
			switch (what) {
			case 'connect': return new Promise((resolve, reject) => {
				const c = net.connect(Number(on), '127.0.0.1', () => { c.destroy(); resolve('connected') })
				c.on('error', reject)
			})
			case 'env': return process.env[on] ?? 'none'
			case 'read': return fs.readFileSync(on, 'utf8')
			case 'write': fs.writeFileSync(on, 'written'); return 'written'
			}
		}`},
	handler.Python: {Lang: handler.Python, Source: `
import os, socket
def handle(payload, job):
	what, on = payload.split(" ")
	if what == "connect":
		socket.create_connection(("127.0.0.1", int(on)), 10).close()
		return "connected"
	if what == "env":
		return os.environ.get(on, "none")
	if what == "read":
		return open(on).read()
	with open(on, "w") as f:
		f.write("written")
	return "written"`},
}

// TestGrants: a handler in the configuration gets exactly the variables, network and files that the configuration
// grants.
func TestGrants(t *testing.T) {
	box := testkit.Must(theSandbox())(t)
	for _, missing := range box.Missing() {
		for _, what := range []string{"no landlock", "no seccomp", "no sandbox"} {
			if strings.Contains(missing, what) {
				t.Skipf("scripts are not restricted here: %s", missing)
			}
		}
	}
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	_, port := testkit.Must2(net.SplitHostPort(l.Addr().String()))(t)
	dir := outside(t)
	file, made := filepath.Join(dir, "file"), filepath.Join(dir, "made")
	testkit.NoError(t, os.WriteFile(file, []byte("here"), 0o600))
	jobs := []string{"connect " + port, "env COLOUR", "read " + file, "write " + made}
	for lang, d := range reachers {
		for name, c := range map[string]struct {
			grants *sandbox.Grants
			want   []string
		}{
			"stored":     {nil, []string{"error:…", "ok text:none", "error:…", "error:…"}},
			"nothing":    {&sandbox.Grants{}, []string{"error:…", "ok text:none", "error:…", "error:…"}},
			"env":        {&sandbox.Grants{Env: map[string]string{"COLOUR": "red"}}, []string{"error:…", "ok text:red", "error:…", "error:…"}},
			"network":    {&sandbox.Grants{Access: sandbox.Access{Network: true}}, []string{"ok text:connected", "ok text:none", "error:…", "error:…"}},
			"read_only":  {&sandbox.Grants{Access: sandbox.Access{ReadOnly: []string{dir}}}, []string{"error:…", "ok text:none", "ok text:here", "error:…"}},
			"read_write": {&sandbox.Grants{Access: sandbox.Access{ReadWrite: []string{dir}}}, []string{"error:…", "ok text:none", "ok text:here", "ok text:written"}},
		} {
			t.Run(lang+"/"+name, func(t *testing.T) {
				expect(t, run(newBed(t).local("1", d, c.grants), texts(jobs...)...), c.want...)
			})
		}
	}
}

// TestGrantsAndContexts: handlers with the same eid share a context only if the configuration grants them the same.
func TestGrantsAndContexts(t *testing.T) {
	for lang, d := range reachers {
		t.Run(lang, func(t *testing.T) {
			b := newBed(t, func(s *Settings) { s.MaxContexts = 10 })
			d.EID = "shared"
			red := func() *sandbox.Grants { return &sandbox.Grants{Env: map[string]string{"COLOUR": "red", "A": "b"}} }
			open := red()
			open.Network = true
			dir := t.TempDir()
			reading, writing := red(), red()
			reading.ReadOnly, writing.ReadWrite = []string{dir}, []string{dir}
			for n, c := range []struct {
				id       string
				grants   *sandbox.Grants
				want     string
				contexts int // idle ones, after the job
			}{
				{"1", red(), "red", 1},
				{"2", red(), "red", 1},
				{"3", &sandbox.Grants{Env: map[string]string{"COLOUR": "blue", "A": "b"}}, "blue", 2},
				{"4", &sandbox.Grants{}, "none", 3},
				{"5", open, "red", 4},
				{"6", reading, "red", 5},
				{"7", writing, "red", 6},
				{"8", nil, "none", 7}, // a stored handler
				{"1", red(), "red", 7},
			} {
				expect(t, run(b.local(c.id, d, c.grants), text("env COLOUR")), "ok text:"+c.want)
				idle, _ := b.held()
				testkit.Equal(t, idle, c.contexts, "after handler", n, "contexts, want")
			}
		})
	}
}

// TestGrantsOverDefaults: configured variables have precedence, and a context can write its own directory even if it
// has another TMPDIR.
func TestGrantsOverDefaults(t *testing.T) {
	b := newBed(t, func(s *Settings) { s.Dir = outside(t) })
	d := handler.Document{Lang: handler.Shell, Source: `handle() { echo >made && printf %s "$HOME $TMPDIR $LANG"; }`}
	x := b.local("1", d, &sandbox.Grants{Env: map[string]string{"HOME": "/h", "TMPDIR": "/tmp", "LANG": "de"}})
	expect(t, run(x, text("a")), "ok text:/h /tmp de")
}

// TestWrongGrants: a grant that no process can have is an error that names the key.
func TestWrongGrants(t *testing.T) {
	b := newBed(t)
	d := echo
	d.Kind = handler.Script
	for key, g := range map[string]sandbox.Grants{
		"env":        {Env: map[string]string{"A=B": "c"}},
		"read_only":  {Access: sandbox.Access{ReadOnly: []string{"etc"}}},
		"read_write": {Access: sandbox.Access{ReadWrite: []string{"/no/such"}}},
	} {
		_, err := b.Executor(Handler{ID: "1", Type: "t", Document: d, Local: &g})
		wrong, ok := errors.AsType[*handler.FieldError](err)
		testkit.Holds(t, ok && wrong.Field == key && strings.HasPrefix(wrong.Text, key+" "), key, err)
	}
}

// TestNoPath: a runner without PATH finds interpreters in the usual directories, and scripts get these as their PATH.
func TestNoPath(t *testing.T) {
	t.Setenv("PATH", "")
	os.Unsetenv("PATH") // Setenv restores it after the test
	b := newBed(t)
	testkit.NoError(t, b.Check(handler.Shell))
	x := b.executor("1", handler.Document{Lang: handler.Shell, Source: `handle() { printf %s "$PATH" | cat; }`})
	got := show(run(x, text("a"))[0])
	for _, dir := range []string{"/usr/local/bin", "/usr/bin", "/bin"} {
		testkit.Holds(t, slices.Contains(filepath.SplitList(strings.TrimPrefix(got, "ok text:")), dir), got, "has no", dir)
	}
	for _, lang := range []string{handler.Node, handler.Python} {
		if _, err := os.Stat("/usr/bin/" + map[string]string{handler.Node: "node", handler.Python: "python3"}[lang]); err != nil {
			t.Logf("not tried: %v", err)
		} else if err := b.Check(lang); err != nil {
			t.Error(err)
		}
	}
}
