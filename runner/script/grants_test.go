package script

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/sandbox"
	"github.com/daybookq/daybook/runner/task"
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
			t.Run(lang+"/"+name, func(t *testing.T) { expect(t, run(newBed(t).local("1", d, c.grants), texts(jobs...)...), c.want...) })
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

// fake replaces a language's host by shell commands.
func (b *bed) fake(commands string) task.Executor {
	b.t.Helper()
	need(b.t, b.Pool, handler.Shell)
	l := languages[0]
	l.argv = func(program, host string) []string { return []string{program, "-c", commands} }
	b.interpreters[l.name] = func() (*interpreter, error) { return &interpreter{language: l, path: "/bin/sh"}, nil }
	return testkit.Must(b.Executor(Handler{ID: commands, Type: "work", Document: handler.Document{
		Kind: handler.Script, Lang: l.name, Source: "x", Options: &handler.Options{TimeoutMs: 2000, OutputBytes: 256 << 10},
	}}))(b.t)
}

// TestViolations: if a host breaks the protocol, the first job without an answer runs again alone. If its host breaks
// the protocol again, the job is an error. All later jobs are given back.
func TestViolations(t *testing.T) {
	const load = `read -r m <&3; echo '{"loaded":1}' >&3; `
	// The first job is answered unless it is alone. Then it is the job that the previous context left unanswered.
	const job = load + `read -r m <&3; case $m in '{"batch":1,'*) ;; *) read -r m <&3; echo '{"job":0,"code":"ok"}' >&3 ;; esac; `
	const protocol, notLoaded = "error:its process broke the protocol…", "unable:its process broke the protocol…"
	for name, c := range map[string]struct {
		commands string
		want     [3]string
	}{
		"garbage instead of loaded":     {`echo garbage >&3; sleep 60`, [3]string{notLoaded, notLoaded, notLoaded}},
		"an answer instead of loaded":   {`echo '{"job":0,"code":"ok"}' >&3; sleep 60`, [3]string{notLoaded, notLoaded, notLoaded}},
		"another handler is loaded":     {`echo '{"loaded":7}' >&3; sleep 60`, [3]string{notLoaded, notLoaded, notLoaded}},
		"a long line instead of loaded": {`head -c 3000000 /dev/zero | tr '\0' a >&3; echo >&3; sleep 60`, [3]string{notLoaded, notLoaded, notLoaded}},
		"nothing instead of loaded":     {`sleep 60`, [3]string{"unable:loading the handler took longer…", "unable:loading…", "unable:loading…"}},
		"the end instead of loaded":     {`exit 7`, [3]string{"unable:its process ended: exit status 7", "unable:its process ended: exit status 7", "unable:its process ended: exit status 7"}},
		"garbage":                       {load + `echo garbage >&3; sleep 60`, [3]string{protocol, "unget", "unget"}},
		"garbage after an answer":       {job + `echo '{"job":' >&3; sleep 60`, [3]string{"ok", protocol, "unget"}},
		"two answers":                   {job + `echo '{"job":0,"code":"ok"}' >&3; sleep 60`, [3]string{"ok", "ok", "unget"}},
		"an answer to no job":           {job + `echo '{"job":7,"code":"ok"}' >&3; sleep 60`, [3]string{"ok", protocol, "unget"}},
		"a negative job":                {job + `echo '{"job":-1,"code":"ok"}' >&3; sleep 60`, [3]string{"ok", protocol, "unget"}},
		"two kinds at once":             {job + `echo '{"job":1,"done":true}' >&3; sleep 60`, [3]string{"ok", protocol, "unget"}},
		"two outputs":                   {job + `echo '{"job":1,"code":"ok","output":"a","output_b64":"YQ=="}' >&3; sleep 60`, [3]string{"ok", protocol, "unget"}},
		"loaded again":                  {job + `echo '{"loaded":1}' >&3; sleep 60`, [3]string{"ok", protocol, "unget"}},
		"an empty line":                 {job + `echo >&3; sleep 60`, [3]string{"ok", protocol, "unget"}},
		"done too early":                {job + `echo '{"done":true}' >&3; sleep 60`, [3]string{"ok", protocol, "unget"}},
		"begun too late":                {job + `echo '{"begun":true}' >&3; sleep 60`, [3]string{"ok", protocol, "unget"}},
		"an unknown code":               {job + `echo '{"job":1,"code":"well"}' >&3; echo '{"job":2,"code":"ok"}' >&3; echo '{"done":true}' >&3; sleep 60`, [3]string{"ok", "error:…unknown code", "ok"}},
		"no code":                       {job + `echo '{"job":1}' >&3; sleep 60`, [3]string{"ok", "error:…unknown code", "error:…did not answer job 0"}},
		"half a line":                   {job + `printf '{"job":1,"co' >&3; exit 5`, [3]string{"ok", "error:its process ended: exit status 5", "unget"}},
		"half a line for ever":          {job + `while :; do printf x >&3; sleep 0.1; done`, [3]string{"ok", "error:…timeout_ms", "unget"}},
		"a closed connection":           {job + `exec 3>&-; sleep 60`, [3]string{"ok", "error:…", "unget"}},
		"more answers than jobs":        {job + `for i in 1 2 3; do echo '{"job":'$i',"code":"ok"}' >&3; done; sleep 60`, [3]string{"ok", "ok", "ok"}},
		"no done":                       {job + `for i in 1 2; do echo '{"job":'$i',"code":"ok"}' >&3; done; sleep 60`, [3]string{"ok", "ok", "ok"}},
		"a long answer":                 {job + `head -c 9000000 /dev/zero | tr '\0' a >&3; echo >&3; echo '{"job":2,"code":"ok"}' >&3; echo '{"done":true}' >&3; sleep 60`, [3]string{"ok", "failed:the output…", "ok"}},
		"endless prints":                {job + `while :; do echo '{"prints":"abc"}'; done >&3`, [3]string{"ok", "error:…timeout_ms", "unget"}},
		"an endless line of prints":     {job + `p=$(head -c 100000 /dev/zero | tr '\0' x); while :; do echo "{\"prints\":\"$p\"}"; done >&3`, [3]string{"ok", "error:…timeout_ms", "unget"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			expect(t, run(b.fake(c.commands), texts("a", "b", "c")...), c.want[:]...)
			idle, _ := b.held()
			testkit.Equal(t, name == "an unknown code" || name == "a long answer", idle == 1, idle, "contexts were kept")
		})
	}
}

// TestNeverReads: a host that reads nothing cannot block the runner, however much there is to send.
func TestNeverReads(t *testing.T) {
	const load = `read -r m <&3; echo '{"loaded":1}' >&3; `
	large := strings.Repeat("x", 3<<20)
	t.Run("and does nothing", func(t *testing.T) {
		expect(t, run(newBed(t).fake(load+`sleep 60`), texts(large, large, "c")...), "error:…timeout_ms", "unget", "unget")
	})
	t.Run("and answers", func(t *testing.T) {
		b := newBed(t)
		x := b.fake(load + `for i in 0 1 2; do echo '{"job":'$i',"code":"ok"}' >&3; done; echo '{"done":true}' >&3; sleep 60`)
		expect(t, run(x, texts(large, large, "c")...), "ok", "ok", "ok")
	})
	t.Run("and answers batch after batch", func(t *testing.T) {
		b := newBed(t)
		x := b.fake(load + `while :; do echo '{"job":0,"code":"ok"}
{"done":true}'; sleep 0.01; done >&3`)
		for range 8 {
			for _, end := range run(x, text(large[:60_000])) {
				s := show(end)
				testkit.Holds(t, s == "ok" || strings.HasPrefix(s, "error:"), s)
			}
		}
	})
}

func document(t *testing.T, name string) string {
	t.Helper()
	text := testkit.Must(os.ReadFile("../../docs/reference/" + name))(t)
	return string(text)
}

// TestExamplesOfHandlers: the examples in docs/reference/handlers.md return the results that the page states.
func TestExamplesOfHandlers(t *testing.T) {
	found := regexp.MustCompile("(?s)```\\w+\n(?://|#) lang: (\\w+)\n(.*?)```").FindAllStringSubmatch(document(t, "handlers.md"), -1)
	testkit.MustEqual(t, len(found), len(handler.Langs), "examples")
	for _, example := range found {
		t.Run(example[1], func(t *testing.T) {
			x := newBed(t).executor("1", handler.Document{Lang: example[1], Source: example[2], ChainTypes: []string{"mail"}})
			output := "ok text:HELLO"
			if example[1] == handler.Shell {
				output += "\n"
			}
			expect(t, run(x, texts("hello", "")...), output+" then mail|hello is done", "failed:there is nothing to do")
		})
	}
}

// TestExampleOfTheProtocol: the host of node sends the messages in docs/reference/script-protocol.md.
func TestExampleOfTheProtocol(t *testing.T) {
	_, example, _ := strings.Cut(document(t, "script-protocol.md"), "```text\n")
	example, _, _ = strings.Cut(example, "```")
	b := newBed(t)
	need(t, b.Pool, handler.Node)
	i := testkit.Must(b.interpreters[handler.Node]())(t)
	c := testkit.Must(startChild(&b.child, i, &sandbox.Grants{}, sandbox.Limits{}, func(string, string) {}))(t)
	defer c.close()
	c.begin(context.Background(), time.Minute)
	for line := range strings.Lines(example) {
		text := strings.TrimSpace(line[1:])
		if line[0] == '>' {
			testkit.NoError(t, c.write([]byte(text+"\n")))
			continue
		}
		got, err := c.lines.Next(1 << 20)
		testkit.MustHold(t, err == nil && string(got) == text, string(got), err, "the document says", text)
	}
}
