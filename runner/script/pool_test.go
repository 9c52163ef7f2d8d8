package script

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/sandbox"
	"github.com/daybookq/daybook/runner/task"
)

// echo is a handler that every machine can run.
var echo = handler.Document{Lang: handler.Shell, Source: `handle() { printf %s "$1"; }`}

// held returns the number of idle contexts, and of all contexts.
func (b *bed) held() (idle, places int) { s := b.contexts.State(); return len(s.Idle), s.Places }

// TestMaxContexts: many handlers share few contexts, and the least recently used context ends.
func TestMaxContexts(t *testing.T) {
	b := newBed(t, func(s *Settings) { s.MaxContexts = 2 })
	var executors []task.Executor
	for n := range 5 {
		executors = append(executors, b.executor(fmt.Sprint(n), echo))
	}
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() {
			payload := fmt.Sprint(n)
			testkit.Equal(t, show(run(executors[n%5], text(payload))[0]), "ok text:"+payload, "job", n)
			_, places := b.held()
			testkit.Holds(t, places <= 2, places, "contexts")
		})
	}
	all.Wait()

	run(executors[0], text("a"))
	run(executors[1], text("a"))
	run(executors[0], text("a")) // 1 is the least recently used
	run(executors[2], text("a"))
	var groups []string
	for _, h := range b.contexts.State().Idle {
		groups = append(groups, h.key.group)
	}
	testkit.EqualSlices(t, groups, []string{"0", "2"}, "the contexts of", "are kept")
}

// TestWaitingForAContext: jobs that nobody waits for any more do not wait for a context.
func TestWaitingForAContext(t *testing.T) {
	b := newBed(t, func(s *Settings) { s.MaxContexts = 1 })
	busy := b.executor("1", actors[handler.Shell])
	other := b.executor("2", echo)
	ctx, cancel := context.WithCancelCause(t.Context())
	var all sync.WaitGroup
	all.Go(func() { expect(t, runWith(ctx, busy, text("loop")), "error:…enough") })
	testkit.Eventually(t, "the only context is in use", func() bool { return len(b.contexts.State().Busy) == 1 })
	impatient, leave := context.WithCancel(t.Context())
	all.Go(func() { expect(t, runWith(impatient, other, texts("a", "b")...), "unget", "unget") })
	patient := make(chan struct{})
	all.Go(func() {
		defer close(patient)
		expect(t, run(other, text("c")), "ok text:c")
	})
	testkit.Eventually(t, "two wait", func() bool { return b.contexts.State().Waiting == 2 })
	leave()
	testkit.Eventually(t, "one waits", func() bool { return b.contexts.State().Waiting == 1 })
	cancel(errors.New("enough"))
	<-patient
	all.Wait()
}

// TestDeadWhileIdle: a context whose process ended while it was idle is not used again.
func TestDeadWhileIdle(t *testing.T) {
	b := newBed(t)
	x := b.executor("1", echo)
	for range 3 {
		expect(t, run(x, text("a")), "ok text:a")
		c := b.contexts.State().Idle[0].child
		c.process.Kill()
		<-c.ended
	}
	expect(t, run(x, text("a")), "ok text:a")
}

func TestManyVersions(t *testing.T) {
	b := newBed(t)
	d := echo
	d.EID = "shared"
	for n := range maxHandlers + 10 {
		expect(t, run(b.executor(fmt.Sprint(n), d), text("a")), "ok text:a")
	}
	idle, places := b.held()
	testkit.Holds(t, idle == 1 && places <= 2, idle, "idle contexts", places, "in all")
	testkit.Equal(t, len(b.contexts.State().Idle[0].loaded), 10, "the context", "handlers: it was not replaced when it had", maxHandlers)
}

func TestNothingIsLeft(t *testing.T) {
	descriptors := func() int {
		found, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("this system does not list descriptors")
		}
		return len(found)
	}
	first := newBed(t)
	run(first.executor("0", echo), text("a")) // some descriptors are opened once and stay open
	first.Close()
	before, goroutines := descriptors(), runtime.NumGoroutine()
	for range 5 {
		b := newBed(t)
		x := b.executor("1", echo)
		bad := b.executor("2", handler.Document{Lang: handler.Shell, Source: `handle() {`})
		for range 5 {
			expect(t, run(x, text("a")), "ok text:a")
			expect(t, run(bad, text("a")), "unable:…")
		}
		b.Close()
	}
	testkit.Eventually(t, "all descriptors are closed", func() bool { return descriptors() <= before })
	testkit.Eventually(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= goroutines })
}

func TestEnvironment(t *testing.T) {
	t.Setenv("DAYBOOK_SECRET", "x")
	b := newBed(t)
	x := b.executor("1", handler.Document{Lang: handler.Python, Source: `import os
def handle(p, job):
	open(os.environ["TMPDIR"] + "/file", "w").close()
	return " ".join(sorted(os.environ)) + " " + str(os.environ["HOME"] == os.getcwd() == os.environ["TMPDIR"])`})
	got := show(run(x, text("a"))[0])
	got = strings.ReplaceAll(got, " LC_CTYPE", "") // set by Python
	testkit.Equal(t, got, "ok text:HOME LANG PATH TMPDIR True")
}

// TestScriptsCannotReachOthers: the sandbox keeps a script from everything outside its context.
func TestScriptsCannotReachOthers(t *testing.T) {
	b := newBed(t, func(s *Settings) { s.Dir = outside(t) })
	if slices.ContainsFunc(b.settings.Sandbox.Missing(), func(m string) bool { return strings.Contains(m, "landlock") }) {
		t.Skip("this machine has no landlock")
	}
	x := b.executor("1", handler.Document{Lang: handler.Shell, Source: `handle() { ls "$1" && printf readable; }`})
	expect(t, run(x, texts(b.child.dir, filepath.Dir(b.child.dir))...), "error:…ermission denied", "error:…ermission denied")
	other := text(b.child.dir)
	other.Client = "other"
	expect(t, run(x, other), "error:…ermission denied")
	idle := b.contexts.State().Idle
	dirs := []string{idle[0].child.dir, idle[1].child.dir}
	expect(t, run(x, texts(dirs...)...), "ok text:host.sh…readable", "error:…ermission denied")
}

// outside returns a directory that the sandbox does not open to all programs.
func outside(t *testing.T) string {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil || strings.HasPrefix(home, "/tmp") || strings.HasPrefix(home, "/var/tmp") {
		t.Skipf("no home directory outside of those for temporary files: %q, %v", home, err)
	}
	dir, err := os.MkdirTemp(home, ".daybook-test-")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestRefusals(t *testing.T) {
	testkit.Fails(NewPool(Settings{}))(t)
	box := testkit.Must(sandbox.New(sandbox.Off))(t)
	testkit.Fails(NewPool(Settings{Sandbox: box, Interpreters: map[string]string{"perl": "perl"}}))(t, "perl")
	b := newBed(t, func(s *Settings) {
		s.Interpreters = map[string]string{handler.PHP: "/no/such/php", handler.Node: "true"}
	})
	for name, c := range map[string]struct {
		d    handler.Document
		want string
	}{
		"not a script":           {handler.Document{Kind: handler.Exec, Program: "a"}, "kind is exec"},
		"a wrong document":       {handler.Document{Kind: handler.Script, Lang: handler.Shell}, "source is missing"},
		"no interpreter":         {handler.Document{Kind: handler.Script, Lang: handler.PHP, Source: "x"}, "no php on this machine"},
		"no working interpreter": {handler.Document{Kind: handler.Script, Lang: handler.Node, Source: "x"}, "node does not run on this machine"},
	} {
		_, err := b.Executor(Handler{ID: "1", Type: "t", Document: c.d})
		testkit.Holds(t, err != nil && strings.Contains(err.Error(), c.want), name, err)
	}
	if missing := b.Missing(handler.Langs); !slices.ContainsFunc(missing, func(m string) bool { return strings.Contains(m, "php") }) || b.Check(handler.PHP) == nil || b.Check(handler.Shell) != nil {
		t.Errorf("missing: %q", missing)
	}
}

// TestExposed: without a cache directory scripts still run, and the pool reports that all programs may write its
// directory.
func TestExposed(t *testing.T) {
	box := testkit.Must(theSandbox())(t)
	if !box.Shares(os.TempDir()) {
		t.Skip("this machine has no landlock")
	}
	temporary := t.TempDir()
	file := filepath.Join(temporary, "file")
	testkit.NoError(t, os.WriteFile(file, nil, 0o600))
	elsewhere := outside(t)
	for name, c := range map[string]struct {
		home, cache, in string
		exposed         bool
	}{
		"no HOME":                          {"", "", os.TempDir(), true},
		"a HOME among temporary files":     {temporary, "", temporary, true},
		"a cache that cannot be created":   {temporary, file, os.TempDir(), true},
		"a cache directory that was named": {"", temporary, temporary, true},
		"a HOME like others":               {elsewhere, "", elsewhere, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HOME", c.home)
			t.Setenv("XDG_CACHE_HOME", c.cache)
			b := newBed(t, func(s *Settings) { s.Dir = "" })
			expect(t, run(b.executor("1", handler.Document{Lang: handler.Shell, Source: echo.Source}), text("a")), "ok text:a")
			said := b.Exposed()
			testkit.Holds(t, (said != "") == c.exposed && (!c.exposed || strings.Contains(said, c.in)), "exposed", said)
			missing := b.Missing([]string{handler.Shell})
			testkit.Equal(t, len(missing) > 0, c.exposed, "missing", missing)
		})
	}
}

// TestAnInterpreterIsInstalledLater: a missing interpreter is looked up again, and one that was found is kept.
func TestAnInterpreterIsInstalledLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sh")
	at := slices.IndexFunc(languages, func(l language) bool { return l.name == handler.Shell })
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		shell := kept(func() (*interpreter, error) { looks++; return languages[at].find(path) })
		check := func(want bool, wantLooks int) {
			t.Helper()
			i, err := shell()
			found := err == nil
			testkit.Holds(t, found == want && looks == wantLooks && (!found || i.path == path), i, err, "after", looks, "looks")
		}
		check(false, 1)
		testkit.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755))
		time.Sleep(findAgain - 1)
		check(false, 1)
		time.Sleep(time.Nanosecond)
		check(true, 2)
		testkit.NoError(t, os.Remove(path))
		time.Sleep(2 * findAgain)
		check(true, 2)
	})
}

// TestModes: scripts run in all modes of the sandbox.
func TestModes(t *testing.T) {
	box := testkit.Must(sandbox.New(sandbox.Off))(t)
	for _, lang := range handler.Langs {
		t.Run(lang, func(t *testing.T) {
			b := newBed(t, func(s *Settings) { s.Sandbox = box })
			x := b.executor("1", actors[lang])
			expect(t, run(x, texts("a", "b")...), "ok text:a", "ok text:b")
			expect(t, run(x, texts("c", "kill", "d")...), "ok text:c", "error:its process ended: signal 9…", "unget")
		})
	}
}

// TestAbandonedDirectories: a pool removes the directory of a killed runner, but not of a runner that still runs.
func TestAbandonedDirectories(t *testing.T) {
	parent := t.TempDir()
	in := func(s *Settings) { s.Dir = parent }
	lives := newBed(t, in)
	if lives.dir.lock == nil {
		t.Skip("this system has no locks")
	}
	x := lives.executor("1", echo)
	expect(t, run(x, text("a")), "ok text:a")
	abandoned := filepath.Join(parent, directoryPrefix+"1")
	others := filepath.Join(parent, "others")
	for _, dir := range []string{abandoned, others} {
		testkit.NoError(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o755))
	}
	next := newBed(t, in)
	for path, there := range map[string]bool{abandoned: false, others: true, lives.dir.path: true, next.dir.path: true} {
		_, err := os.Stat(path)
		testkit.Equal(t, err == nil, there, path, err)
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			d, err := newDirectory(parent)
			if err != nil {
				t.Error(err)
				return
			}
			testkit.Check(t, os.Mkdir(filepath.Join(d.path, "a"), 0o700))
			d.remove()
		})
	}
	all.Wait()
	expect(t, run(x, text("b")), "ok text:b")
}

// TestLogIsBounded: a script that prints endlessly does not fill the log.
func TestLogIsBounded(t *testing.T) {
	b := newBed(t)
	x := b.executor("1", handler.Document{Lang: handler.Python, ChainTypes: []string{"next"}, Source: "import sys\ndef handle(p, job):\n\tfor i in range(50_000):\n\t\tprint('out')\n\t\tprint('err', file=sys.stderr)\n\tprint('J: next|a')"})
	expect(t, run(x, text("a")), "ok then next|a")
	x.Close()
	b.Close()
	streams := map[string]int{}
	left := map[string]bool{}
	for _, l := range b.logged() {
		streams[l.Stream]++
		left[l.Stream] = left[l.Stream] || strings.HasSuffix(l.Text, "lines were left out)")
	}
	for _, stream := range []string{"stdout", "stderr"} {
		n := streams[stream]
		testkit.Holds(t, n >= linesPerSecond && n <= 40_000 && left[stream], stream, n, "lines in the log, left out", left[stream])
	}
}

// TestLeftBehind: if something that a job left behind ends the context during the next job, the next job loses nothing:
// it runs again in a new context. A job `wait` waits for that end, but only in a context that has run another job.
func TestLeftBehind(t *testing.T) {
	const (
		node   = `function handle(p) { if (p === 'wait') { return globalThis.left ? new Promise(() => setInterval(() => {}, 1000)) : 'w' } globalThis.left = true; `
		python = "import os, signal, threading, time\nclass state: left = waits = False\ndef handle(p, job):\n\tif p == 'wait':\n\t\tstate.waits = True\n\t\topen(os.environ['HOME'] + '/waits', 'w').close()\n\t\twhile state.left: time.sleep(0.01)\n\t\treturn 'w'\n\tstate.left = True\n\t"
		php    = `function handle($p) { if ($p === 'wait') { touch(getenv('HOME') . '/waits'); while ($GLOBALS['left'] ?? false) usleep(1000); return 'w'; } $GLOBALS['left'] = true; `
		shell  = `handle() { if [ "$1" = wait ]; then touch "$HOME/waits"; if [ -e "$HOME/left" ]; then sleep 60; fi; printf w; return; fi; touch "$HOME/left"; `
	)
	for name, c := range map[string]struct{ lang, source string }{
		"node, a rejection":         {handler.Node, node + `Promise.reject(new Error('left')); return 'k' }`},
		"node, an exception":        {handler.Node, node + `setTimeout(() => { throw new Error('left') }, 5); return 'k' }`},
		"node, an exit":             {handler.Node, node + `setTimeout(() => process.exit(3), 5); return 'k' }`},
		"node, a loop":              {handler.Node, node + `setTimeout(() => { for (;;); }, 5); return 'k' }`},
		"node, a broken connection": {handler.Node, node + `setTimeout(() => require('node:fs').writeSync(3, 'left\n'), 5); return 'k' }`},
		"node, an error of a child": {handler.Node, node + `require('node:child_process').spawn('/none'); return 'k' }`},
		"python, a thread":          {handler.Python, python + "def end():\n\t\twhile not state.waits: time.sleep(0.001)\n\t\tos._exit(3)\n\tthreading.Thread(target=end, daemon=True).start()\n\treturn 'k'"},
		"python, a child":           {handler.Python, python + "os.spawnlp(os.P_NOWAIT, 'sh', 'sh', '-c', f'while [ ! -e $HOME/waits ]; do sleep 0.01; done; kill -9 {os.getpid()}')\n\treturn 'k'"},
		"php, a child":              {handler.PHP, php + `exec('(while [ ! -e $HOME/waits ]; do sleep 0.01; done; kill -9 ' . getmypid() . ') >/dev/null 2>&1 &'); return 'k'; }`},
		"sh, a child":               {handler.Shell, shell + `(while [ ! -e "$HOME/waits" ]; do sleep 0.01; done; kill -9 $$) >/dev/null 2>&1 & printf k; }`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			d := handler.Document{Lang: c.lang, Source: c.source}
			if name == "node, a loop" {
				d.Options = &handler.Options{TimeoutMs: 4000}
			}
			x := b.executor("1", d)
			expect(t, run(x, texts("bad", "wait", "after")...), "ok text:k", "ok text:w", "unget")
			expect(t, run(x, texts("bad")...), "ok text:k")
			expect(t, run(x, texts("wait")...), "ok text:w")
		})
	}
	t.Run("python, an alarm", func(t *testing.T) { // it is cancelled when the job ends
		b := newBed(t)
		x := b.executor("1", handler.Document{Lang: handler.Python, Source: "import signal\ndef handle(p, job):\n\tleft = signal.getitimer(signal.ITIMER_REAL)[0]\n\tsignal.setitimer(signal.ITIMER_REAL, 60)\n\treturn str(left)"})
		expect(t, run(x, texts("a", "b")...), "ok text:0.0", "ok text:0.0")
	})
	t.Run("php, a function", func(t *testing.T) {
		b := newBed(t)
		x := b.executor("1", handler.Document{Lang: handler.PHP, Source: `function handle($p) { function once() {} return $p; }`})
		expect(t, run(x, texts("a", "b", "c")...), "ok text:a", "ok text:b", "unget")
	})
	t.Run("before_each", func(t *testing.T) { // in a context that has ended by then
		b := newBed(t)
		x := b.executor("1", handler.Document{
			Lang: handler.Node, Source: `function handle(p) { if (p === 'bad') globalThis.left = true; return p }`,
			BeforeEach: `function before_each() { if (globalThis.left) process.exit(3) }`,
		})
		expect(t, run(x, texts("bad")...), "ok text:bad")
		expect(t, run(x, texts("a", "b")...), "ok text:a", "ok text:b")
	})
	t.Run("a job that ends its own context", func(t *testing.T) { // runs only once
		for lang, source := range map[string]string{
			handler.Node: `function handle(p) { if (p === 'end') { console.log('ran'); process.exit(3) } return p }`, handler.Python: "import sys\ndef handle(p, job):\n\tif p == 'end':\n\t\tprint('ran')\n\t\tsys.exit(3)\n\treturn p",
			handler.PHP: `function handle($p) { if ($p === 'end') { echo "ran\n"; exit(3); } return $p; }`,
		} {
			t.Run(lang, func(t *testing.T) {
				b := newBed(t)
				x := b.executor("1", handler.Document{Lang: lang, Source: source})
				expect(t, run(x, texts("a", "end", "b")...), "ok text:a", "error:its process ended: exit status 3", "unget")
				n := 0
				for _, l := range b.logged() {
					if l.Text == "ran" {
						n++
					}
				}
				testkit.Equal(t, n, 1, "it ran", "times")
			})
		}
	})
}

// TestLoadedBesideOthers: a handler that cannot be loaded in the shared context of its eid gets a new context. If it
// cannot be loaded there either, it cannot run, and its jobs lose no attempt.
func TestLoadedBesideOthers(t *testing.T) {
	b := newBed(t)
	d := handler.Document{Lang: handler.Node, EID: "e", Before: `const base = 1`, Source: `function handle(p) { return p + base }`}
	one := b.executor("1", d)
	d.Before = `const base = 2`
	two := b.executor("2", d)
	expect(t, run(one, texts("a")...), "ok text:a1")
	expect(t, run(two, texts("a", "b")...), "ok text:a2", "ok text:b2")
	d.Before = `const base = none`
	expect(t, run(b.executor("3", d), texts("a", "b")...), "unable:…none is not defined", "unable:…none is not defined")
}
