package script

import (
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/task"
)

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
		b := newBed(t)
		expect(t, run(b.fake(load+`sleep 60`), texts(large, large, "c")...), "error:…timeout_ms", "unget", "unget")
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
