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
func (b *bed) held() (idle, places int) {
	s := b.contexts.State()
	return len(s.Idle), s.Places
}

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
	testkit.Eventually(t, "the only context is in use", func() bool {
		return len(b.contexts.State().Busy) == 1
	})
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
		x := b.executor(fmt.Sprint(n), d)
		expect(t, run(x, text("a")), "ok text:a")
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
			x := b.executor("1", handler.Document{Lang: handler.Shell, Source: echo.Source})
			expect(t, run(x, text("a")), "ok text:a")
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
		shell := kept(func() (*interpreter, error) {
			looks++
			return languages[at].find(path)
		})
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
