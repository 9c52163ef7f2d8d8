package script

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/sandbox"
	"github.com/daybookq/daybook/runner/task"
)

// actors obey the payload, so that tests can end processes in many ways. before counts contexts and jobs.
var actors = map[string]handler.Document{
	handler.Node: {
		Lang: handler.Node, Before: `var jobs = 0, kept`,
		Source: `function handle(p) {
			jobs++
			const [what, rest] = p.split(' ')
			switch (what) {
			case 'count': return String(jobs)
			case 'exit': console.log('last words'); console.error('goodbye'); process.exit(3)
			case 'kill': process.kill(process.pid, 'SIGKILL'); for (;;);
			case 'loop': for (;;);
			case 'allocate': kept = Buffer.alloc(300 << 20, 1); for (;;);
			case 'keep': kept = Buffer.alloc(300 << 20, 1); return 'kept'
			case 'fork': require('node:child_process').spawn('sh', ['-c', 'exec setsid sleep ' + rest], { detached: true, stdio: 'ignore' }); return 'forked'
			}
			return p
		}`,
	},
	handler.Python: {
		Lang: handler.Python, Before: "class state: jobs = 0",
		Source: `
import os, signal, subprocess, sys
def handle(p, job):
	state.jobs += 1
	what, _, rest = p.partition(" ")
	if what == "count": return str(state.jobs)
	if what == "exit":
		print("last words")
		print("goodbye", file=sys.stderr)
		sys.exit(3)
	if what == "kill": os.kill(os.getpid(), signal.SIGKILL)
	if what == "loop":
		while True: pass
	if what == "allocate":
		state.kept = b"1" * (300 << 20)
		while True: pass
	if what == "keep": state.kept = b"1" * (300 << 20)
	if what == "fork":
		subprocess.Popen(["sh", "-c", "exec setsid sleep " + rest], start_new_session=True)
		return "forked"
	return p`,
	},
	handler.PHP: {
		Lang: handler.PHP, Before: `$jobs = 0; $kept = null;`,
		Source: `
			function handle($p) {
				global $jobs, $kept;
				$jobs++;
				[$what, $rest] = explode(' ', "$p ");
				switch ($what) {
				case 'count': return (string)$jobs;
				case 'exit': echo "last words\n"; fwrite(STDERR, "goodbye\n"); exit(3);
				case 'kill': proc_close(proc_open(['sh', '-c', 'kill -9 $PPID'], [], $pipes)); sleep(60);
				case 'loop': for (;;);
				case 'allocate': $kept = str_repeat('1', 300 << 20); for (;;);
				case 'keep': $kept = str_repeat('1', 300 << 20); return 'kept';
				case 'fork': exec("setsid sleep $rest >/dev/null 2>&1 &"); return 'forked';
				}
				return $p;
			}`,
	},
	handler.Shell: {
		Lang: handler.Shell,
		Source: `handle() {
			case $1 in
			'kill') kill -9 $$; sleep 60 ;;
			loop) while :; do :; done ;;
			fork*) setsid sleep "${1#fork }" >/dev/null 2>&1 & printf forked ;;
			*) printf %s "$1" ;;
			esac
		}`,
	},
}

// eachActor runs a test with the actor of each language, or of the given languages.
func eachActor(t *testing.T, langs []string, f func(t *testing.T, b *bed, d handler.Document)) {
	for _, lang := range langs {
		t.Run(lang, func(t *testing.T) {
			b := newBed(t)
			need(t, b.Pool, lang)
			f(t, b, actors[lang])
		})
	}
}

// withGlobals are the languages in which jobs see changes that earlier jobs made.
var withGlobals = []string{handler.Node, handler.Python, handler.PHP}

func expect(t *testing.T, got []task.End, want ...string) {
	t.Helper()
	testkit.MustEqual(t, len(got), len(want), "ends, not")
	for n := range want {
		s := show(got[n])
		testkit.Holds(t, matches(s, want[n]), "job", n, s, "not", want[n])
	}
}

func TestContextsAreUsedAgain(t *testing.T) {
	eachActor(t, withGlobals, func(t *testing.T, b *bed, d handler.Document) {
		x := b.executor("1", d)
		expect(t, run(x, texts("count", "count")...), "ok text:1", "ok text:2")
		expect(t, run(x, texts("count")...), "ok text:3")
	})
}

func TestContextsBelongToOneClient(t *testing.T) {
	eachActor(t, withGlobals, func(t *testing.T, b *bed, d handler.Document) {
		d.EID = "shared"
		x := b.executor("1", d)
		of := func(client string) *client.Job {
			j := text("count")
			j.Client = client
			return j
		}
		expect(t, run(x, of("acme"), of("other"), of("acme"), of("other"), of("other")), "ok text:1", "ok text:1", "ok text:2", "ok text:2", "ok text:3")
		expect(t, run(x, of("third")), "ok text:1")
	})
}

func TestContextsBelongToOneHandlerOrEID(t *testing.T) {
	eachActor(t, withGlobals, func(t *testing.T, b *bed, d handler.Document) {
		one, two := b.executor("1", d), b.executor("2", d)
		expect(t, run(one, texts("count")...), "ok text:1")
		expect(t, run(two, texts("count")...), "ok text:1")
		d.EID = "1" // not the id of any handler
		first := b.executor("3", d)
		d.Source = map[string]string{
			handler.Node:   `function handle() { return 'second ' + ++jobs }`,
			handler.Python: `def handle(p, job): state.jobs += 1; return f"second {state.jobs}"`,
			handler.PHP:    `function handle() { global $jobs; $jobs++; return "second $jobs"; }`,
		}[d.Lang]
		second := b.executor("4", d)
		expect(t, run(first, texts("count")...), "ok text:1")
		expect(t, run(second, texts("count")...), "ok text:second 2")
		expect(t, run(first, texts("count")...), "ok text:3")
		first.Close()
		expect(t, run(second, texts("count")...), "ok text:second 4")
		second.Close()
		one.Close()
		two.Close()
		testkit.Eventually(t, "no context is left", func() bool { return b.contexts.State().Places == 0 })
	})
}

func TestBeforeAndHooks(t *testing.T) {
	documents := map[string]handler.Document{
		handler.Node: {
			Before:     `var log = ['before']; new Promise((r) => setTimeout(r, 5)).then(() => log.push('later'))`,
			BeforeEach: `async function beforeEach(jobs) { await null; log.push('each ' + jobs.map((j) => j.payload)) }`,
			Source:     `function handle(p) { log.push(p); return log.join() }`,
			AfterEach:  `const after_each = (jobs) => { log.push('after ' + jobs.length) }`,
		},
		handler.Python: {
			Before:     "log = ['before']\nlog.append('later')",
			BeforeEach: `def before_each(jobs): log.append("each " + ",".join(j.payload for j in jobs))`,
			Source:     "def handle(p, job):\n\tlog.append(p)\n\treturn ','.join(log)",
			AfterEach:  `def after_each(jobs): log.append(f"after {len(jobs)}")`,
		},
		handler.PHP: {
			Before:     `<?php $log = ['before']; function say($text) { global $log; $log[] = $text; } say('later');`,
			BeforeEach: `function before_each($jobs) { say('each ' . implode(',', array_map(fn($j) => $j->payload, $jobs))); }`,
			Source:     `<?php class Own { function handle() { return 'own'; } } function handle($p) { global $log; (new Own)->handle(); say($p); return implode(',', $log); }`,
			AfterEach:  `function after_each($jobs) { say('after ' . count($jobs)); }`,
		},
		handler.Shell: {
			Before:     "log=before\nsay() { log=\"$log,$1\"; }\nsay later",
			BeforeEach: `before_each() { say "each $1"; }`,
			Source:     `handle() { printf %s "$log,$1"; }`,
			AfterEach:  `after_each() { say "after $1"; }`,
		},
	}
	for lang, d := range documents {
		t.Run(lang, func(t *testing.T) {
			b := newBed(t)
			d.Lang = lang
			x := b.executor("1", d)
			if lang == handler.Shell { // its jobs run in forks of the context
				expect(t, run(x, texts("a", "b")...), "ok text:before,later,each 2,a", "ok text:before,later,each 2,b")
				expect(t, run(x, texts("c")...), "ok text:before,later,each 2,after 2,each 1,c")
				return
			}
			expect(t, run(x, texts("a", "b")...), "ok text:before,later,each a,b,a", "ok text:before,later,each a,b,a,b")
			expect(t, run(x, texts("c")...), "ok text:before,later,each a,b,a,b,after 2,each c,c")
		})
	}
}

func TestMaxRuns(t *testing.T) {
	eachActor(t, withGlobals, func(t *testing.T, b *bed, d handler.Document) {
		d.Options = &handler.Options{MaxRuns: 3}
		x := b.executor("1", d)
		expect(t, run(x, texts("count", "count", "count", "count", "count")...), "ok text:1", "ok text:2", "ok text:3", "ok text:1", "ok text:2")
		expect(t, run(x, texts("count", "count")...), "ok text:3", "ok text:1")
	})
}

func TestIdleContextsEnd(t *testing.T) {
	eachActor(t, handler.Langs, func(t *testing.T, b *bed, d handler.Document) {
		d.Options = &handler.Options{IdleMs: handler.MinIdleMs}
		expect(t, run(b.executor("1", d), texts("a")...), "ok text:a")
		testkit.Eventually(t, "the context ends", func() bool { return b.contexts.State().Places == 0 })
		left, err := filepath.Glob(filepath.Join(b.child.dir, "*"))
		testkit.Holds(t, err == nil && len(left) == 0, "left over", left, err)
	})
}

// hundred returns 100 jobs with the payload what at one place, and their ends: jobs before that place end ok, and jobs
// after it are given back.
func hundred(what, end string) (jobs []*client.Job, want []string) {
	const at = 40
	for n := range 100 {
		payload := fmt.Sprintf("p%d", n)
		switch {
		case n < at:
			want = append(want, "ok text:"+payload)
		case n == at:
			payload = what
			want = append(want, end)
		default:
			want = append(want, "unget")
		}
		jobs = append(jobs, text(payload))
	}
	return jobs, want
}

func TestDeathInABatch(t *testing.T) {
	eachActor(t, withGlobals, func(t *testing.T, b *bed, d handler.Document) {
		x := b.executor("1", d)
		for _, death := range []struct{ what, end string }{
			{"exit", "error:its process ended: exit status 3…goodbye"},
			{"kill", "error:its process ended: signal 9…killed"},
		} {
			jobs, want := hundred(death.what, death.end)
			expect(t, run(x, jobs...), want...)
		}
		expect(t, run(x, texts("a")...), "ok text:a")
		if !slices.ContainsFunc(b.logged(), func(l Line) bool { return l.Text == "last words" && l.Job == "job-40" && l.Stream == "stdout" }) {
			t.Error("what the job printed before it ended the process is not in the log")
		}
	})
	eachActor(t, []string{handler.Shell}, func(t *testing.T, b *bed, d handler.Document) {
		x := b.executor("1", d)
		jobs, want := hundred("kill", "error:its process ended: signal 9…killed")
		expect(t, run(x, jobs...), want...)
		expect(t, run(x, texts("a")...), "ok text:a")
	})
}

func TestTimeout(t *testing.T) {
	eachActor(t, handler.Langs, func(t *testing.T, b *bed, d handler.Document) {
		x := b.executor("1", d)
		d.Options = &handler.Options{TimeoutMs: 4000}
		hasty := b.executor("2", d)
		expect(t, run(x, texts("a")...), "ok text:a")
		expect(t, run(hasty, texts("a", "b", "loop", "c")...), "ok text:a", "ok text:b", "error:…timeout_ms, 4000 ms", "unget")
		expect(t, run(hasty, texts("c")...), "ok text:c")
	})
}

// TestCancelled: an answer ends its task immediately, and the end of a task's context ends the process.
func TestCancelled(t *testing.T) {
	eachActor(t, handler.Langs, func(t *testing.T, b *bed, d handler.Document) {
		x := b.executor("1", d)
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		ends := make([]task.End, 4)
		var tasks []*task.Task
		for n, payload := range []string{"a", "loop", "b", "c"} {
			j := text(payload)
			j.ID, j.Client = payload, "acme"
			its := t.Context()
			if n == 1 {
				its = ctx
			}
			tasks = append(tasks, task.New(its, j, func(e task.End) {
				if ends[n] = e; n == 0 {
					cancel(fmt.Errorf("the job was cancelled"))
				}
			}))
		}
		x.Run(tasks)
		expect(t, ends, "ok text:a", "error:…the job was cancelled", "unget", "unget")
		expect(t, runWith(ctx, x, texts("a")...), "unget")
		expect(t, run(x, texts("a")...), "ok text:a")
	})
}

func TestMemory(t *testing.T) {
	if sandbox.ResidentBytes(os.Getpid()) == 0 {
		t.Skip("this system does not say how much memory a process has")
	}
	eachActor(t, withGlobals, func(t *testing.T, b *bed, d handler.Document) {
		d.Options = &handler.Options{MemoryBytes: 250 << 20}
		x := b.executor("1", d)
		ends := run(x, texts("a", "allocate", "b")...)
		expect(t, ends, "ok text:a", "error:…its process ", "unget")
		if why := ends[1].Error; !strings.Contains(why, "memory_bytes allows 262144000") && !strings.Contains(why, "signal 9") { // with a cgroup, the kernel kills it first
			t.Errorf("the error does not name the limit: %s", why)
		}
		run(x, texts("keep")...) // the context may end before the runner sees its memory
		expect(t, run(x, texts("count")...), "ok text:1")
	})
}

// processes returns the processes that have an argument.
func processes(t *testing.T, argument string) (pids []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(all) == 0 {
		t.Skip("this system has no /proc")
	}
	for _, path := range all {
		line, _ := os.ReadFile(path)
		if slices.Contains(strings.Split(string(bytes.TrimRight(line, "\x00")), "\x00"), argument) {
			pids = append(pids, path)
		}
	}
	return pids
}

func TestGrandchildrenEnd(t *testing.T) {
	eachActor(t, handler.Langs, func(t *testing.T, b *bed, d handler.Document) {
		x := b.executor("1", d)
		unique := fmt.Sprintf("%d.%d", 100_000+os.Getpid(), len(d.Source))
		expect(t, run(x, text("fork "+unique)), "ok text:forked")
		testkit.Eventually(t, "the grandchild runs", func() bool { return len(processes(t, unique)) > 0 })
		testkit.Check(t, b.Close())
		left := processes(t, unique)
		testkit.Holds(t, len(left) == 0, "left over", left)
	})
}

func TestErrorsAtStart(t *testing.T) {
	broken := map[string]string{handler.Node: `function handle( {`, handler.Python: `def handle(:`, handler.PHP: `function handle( {`, handler.Shell: `handle() {`}
	throws := map[string]string{handler.Node: `nosuch()`, handler.Python: `nosuch()`, handler.PHP: `nosuch();`, handler.Shell: `nosuch`}
	empty := map[string]string{handler.Node: `1`, handler.Python: `1`, handler.PHP: `1;`, handler.Shell: `:`}
	exits := map[string]string{handler.Node: `process.exit(3)`, handler.Python: `raise SystemExit(3)`, handler.PHP: `exit(3);`, handler.Shell: `exit 3`}
	failing := map[string]string{
		handler.Node: `function before_each() { nosuch() }`, handler.Python: `def before_each(jobs): nosuch()`, handler.PHP: `function before_each() { nosuch(); }`,
		handler.Shell: `before_each() { nosuch; }`,
	}
	for _, lang := range handler.Langs {
		t.Run(lang, func(t *testing.T) {
			b := newBed(t)
			need(t, b.Pool, lang)
			good := actors[lang].Source
			for name, c := range map[string]struct {
				d    handler.Document
				want string
			}{
				"syntax of the source":       {handler.Document{Source: broken[lang]}, "unable:…"},
				"syntax of before":           {handler.Document{Source: good, Before: broken[lang]}, "unable:…"},
				"syntax of before_each":      {handler.Document{Source: good, BeforeEach: broken[lang]}, "unable:…"},
				"exception in before":        {handler.Document{Source: good, Before: throws[lang]}, "unable:…nosuch"},
				"end in before":              {handler.Document{Source: good, Before: exits[lang]}, "unable:its process ended: exit status 3…"},
				"exception in before_each":   {handler.Document{Source: good, BeforeEach: failing[lang]}, "error:…nosuch"},
				"no function in the source":  {handler.Document{Source: empty[lang]}, "unable:…no function handle"},
				"no function in before_each": {handler.Document{Source: good, BeforeEach: empty[lang]}, "unable:…before_each"},
			} {
				t.Run(name, func(t *testing.T) {
					c.d.Lang = lang
					if lang == handler.Shell && name == "no function in before_each" { // the shell notices only when it is called
						c.want = "error:…before_each"
					}
					x := b.executor(name, c.d)
					ends := run(x, texts("a", "b")...)
					expect(t, ends, c.want, c.want)
					s := show(ends[0])
					testkit.Holds(t, s != "error:" && s != "unable:", "the error has no text")
					t.Logf("%.300s", show(ends[0]))
				})
			}
		})
	}
}

// TestFailuresAreNotHot: a handler that cannot be started is not started again for each claim.
func TestFailuresAreNotHot(t *testing.T) {
	b := newBed(t)
	starts := filepath.Join(t.TempDir(), "starts")
	os.WriteFile(starts, nil, 0o666)
	access := sandbox.Access{ReadWrite: []string{filepath.Dir(starts)}}
	x := b.local("1", handler.Document{Lang: handler.Shell, Source: "handle() { :; }", Before: "echo >>" + starts + "; exit 9"}, &sandbox.Grants{Access: access})
	for range 3000 {
		expect(t, run(x, text("a")), "unable:…exit status 9")
	}
	n := testkit.Must(os.ReadFile(starts))(t)
	testkit.Holds(t, len(n) != 0 && len(n) <= 20, "it was started", len(n), "times")
}

func TestFailuresEnd(t *testing.T) {
	b := newBed(t)
	repaired := filepath.Join(t.TempDir(), "repaired")
	access := sandbox.Access{ReadOnly: []string{filepath.Dir(repaired)}}
	x := b.local("1", handler.Document{Lang: handler.Shell, Source: "handle() { printf x; }", Before: "test -e " + repaired}, &sandbox.Grants{Access: access})
	expect(t, run(x, text("a")), "unable:…before ended with status 1")
	os.WriteFile(repaired, nil, 0o666)
	testkit.Eventually(t, "the handler is started again", func() bool { return show(run(x, text("a"))[0]) == "ok text:x" })
}

func TestAfterEachFails(t *testing.T) {
	sources := map[string]string{handler.Node: `function after_each() { nosuch() }`, handler.Python: `def after_each(jobs): nosuch()`, handler.PHP: `function after_each() { nosuch(); }`, handler.Shell: `after_each() { nosuch; }`}
	eachActor(t, handler.Langs, func(t *testing.T, b *bed, d handler.Document) {
		d.AfterEach = sources[d.Lang]
		expect(t, run(b.executor("1", d), texts("a", "b")...), "ok text:a", "ok text:b")
		testkit.Holds(t, slices.ContainsFunc(b.logged(), func(l Line) bool { return l.Stream == "runner" && strings.Contains(l.Text, "nosuch") }),
			"the error of after_each is not in the log")
		idle, _ := b.held()
		testkit.Equal(t, idle, 0, "the context was kept")
	})
}

// TestLog: each printed line is logged with the job that printed it.
func TestLog(t *testing.T) {
	b := newBed(t)
	x := b.executor("1", handler.Document{Lang: handler.Python, Source: "import sys, os\ndef handle(p, job):\n\tprint(p)\n\tprint('to stderr', file=sys.stderr)\n\tos.write(1, b'past the host\\n')\n\tprint('x' * 100_000)"})
	run(x, texts("first", "second")...)
	x.Close()
	testkit.Eventually(t, "all is in the log", func() bool {
		lines := b.logged()
		has := func(want Line) bool {
			want.Lang, want.Client, want.Type = handler.Python, "acme", "work"
			return slices.Contains(lines, want)
		}
		return has(Line{Job: "job-0", Stream: "stdout", Text: "first"}) && has(Line{Job: "job-1", Stream: "stdout", Text: "second"}) &&
			has(Line{Stream: "stderr", Text: "to stderr"}) && has(Line{Stream: "stdout", Text: "past the host"}) &&
			has(Line{Job: "job-1", Stream: "stdout", Text: strings.Repeat("x", maxLogBytes)})
	})
}

// TestLogOfLoading: a line that a handler prints while it loads is logged with its type, even in a context that has run
// another handler.
func TestLogOfLoading(t *testing.T) {
	b := newBed(t)
	need(t, b.Pool, handler.Shell)
	const before, noHandle = "echo loading >&2", "true" // so that no batch runs and sets the type
	for _, h := range []Handler{
		{ID: "1", Type: "first", Document: handler.Document{Before: before, Source: noHandle}},
		{ID: "2", Type: "second", Document: handler.Document{Source: `handle() { printf x; }`, EID: "e"}},
		{ID: "3", Type: "third", Document: handler.Document{Before: before, Source: noHandle, EID: "e"}},
	} {
		h.Document.Kind, h.Document.Lang = handler.Script, handler.Shell
		run(testkit.Must(b.Executor(h))(t), text("a"))
		if h.Type != "second" {
			want := Line{Lang: handler.Shell, Client: "acme", Type: h.Type, Stream: "stderr", Text: "loading"}
			testkit.Eventually(t, h.Type+" is in the log", func() bool { return slices.Contains(b.logged(), want) })
		}
	}
}
