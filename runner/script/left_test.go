package script

import (
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
)

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
