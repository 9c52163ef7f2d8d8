package wasi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/task"
)

// TestLimitsOfTheRunner: the runner's limits lower the limits of stored handlers, but not of handlers in its
// configuration.
func TestLimitsOfTheRunner(t *testing.T) {
	f := newFixture(t, func(s *Settings) { s.MemoryBytes = 64 << 20 })
	binary := f.blobs.add("", guestFile(t, "kit"))
	asks := handler.Options{MemoryBytes: 160 << 20, TimeoutMs: 60_000}
	stored, local := f.executor(Handler{Binary: binary, Options: asks}), f.executor(Handler{Binary: binary, Options: asks, Local: true})
	for _, c := range []struct {
		of          task.Executor
		least, most int
	}{{stored, 40, 64}, {local, 100, 160}} {
		e := f.text(c.of, "hog")
		got := testkit.Must(strconv.Atoi(string(e.Output)))(t)
		testkit.Holds(t, got >= c.least && got <= c.most, show(e), "want", c.least, "to", c.most, "MiB")
	}
	e := f.text(f.handler("large", handler.Options{MemoryBytes: 1 << 30}), "")
	testkit.Equal(t, e.Code, "ok", show(e)) // 64 MiB at the start, which is the limit

	f = newFixture(t, func(s *Settings) { s.MemoryBytes = 32 << 20 })
	for _, name := range []string{"large", "largeexport"} { // another runner may allow it, whatever its default is
		wantEnd(t, f.text(f.handler(name, handler.Options{MemoryBytes: 1 << 30}), ""), "error", "cannot run here", "this runner allows")
		wantEnd(t, f.text(f.handler(name, handler.Options{MemoryBytes: 32 << 20}), ""), "unable", "cannot run: ", "33554432")
	}

	f = newFixture(t, func(s *Settings) { s.Timeout = 500 * time.Millisecond })
	binary = f.blobs.add("", guestFile(t, "kit"))
	stored = f.executor(Handler{Binary: binary, Options: asks})
	wantEnd(t, f.text(stored, "busy"), "error", "the time-out that this runner allows, 500 ms")
	wantEnd(t, f.text(f.executor(Handler{Binary: binary}), "busy"), "error", "this runner allows") // the default is longer
	lower := handler.Options{TimeoutMs: 300}
	wantEnd(t, f.text(f.executor(Handler{Binary: binary, Options: lower}), "busy"), "error", "options.timeout_ms, 300 ms")
}

// TestSettings: NewPool refuses limits that make no sense.
func TestSettings(t *testing.T) {
	s := testkit.Must(box())(t)
	for name, set := range map[string]func(*Settings){
		"no sandbox":       func(s *Settings) { s.Sandbox = nil },
		"too little":       func(s *Settings) { s.MemoryBytes = handler.MinMemoryBytes - 1 },
		"negative memory":  func(s *Settings) { s.MemoryBytes = -1 },
		"too much":         func(s *Settings) { s.MemoryBytes = MaxMemoryBytes + 1 },
		"short":            func(s *Settings) { s.Timeout = time.Millisecond },
		"negative timeout": func(s *Settings) { s.Timeout = -time.Second },
		"negative cache":   func(s *Settings) { s.CacheBytes = -1 },
	} {
		settings := Settings{Sandbox: s, Dir: t.TempDir()}
		set(&settings)
		if p, err := NewPool(settings); err == nil {
			p.Close()
			t.Errorf("%s: accepted", name)
		}
	}
	p, err := NewPool(Settings{Sandbox: s, Dir: t.TempDir(), MemoryBytes: handler.MinMemoryBytes, Timeout: handler.MinTimeoutMs * time.Millisecond})
	testkit.NoError(t, err)
	p.Close()
}

// TestEntry: the guest runs the default export, which has the empty name, or _start if there is none.
func TestEntry(t *testing.T) {
	f := newFixture(t, nil)
	wantEnd(t, f.text(f.handler("default", handler.Options{}), ""), "error", "exit status 5")
	wantEnd(t, f.text(f.handler("baddefault", handler.Options{}), ""), "unable", "the exported function with the empty name must have no parameters and no results; it has [] and [i32]")
}

// TestFailedCompilations: a module that takes too long to compile is not compiled again for each job.
func TestFailedCompilations(t *testing.T) {
	f := newFixture(t, func(s *Settings) { s.Dir = t.TempDir() })
	f.compileTimeout = time.Nanosecond
	x := f.handler("tiny", handler.Options{})
	wantEnd(t, f.text(x, "a"), "error", "took longer than 1ns to compile")
	f.compileTimeout = compileTimeout
	for range 3 {
		wantEnd(t, f.text(x, "a"), "error", "took longer than 1ns to compile", "The runner does not compile the module again in the next 5s")
	}
	s := f.Stats()
	testkit.Holds(t, s.Compilations["failed"] == 1 && s.Compilations["ok"] == 0, s.Compilations)
	f.reportsMu.Lock()
	for _, failure := range f.failures {
		failure.at = failure.at.Add(-leastFailed)
	}
	f.reportsMu.Unlock()
	wantOK(t, f.text(x, "a"), "A")
	s = f.Stats()
	testkit.Holds(t, s.Compilations["ok"] == 1 && len(f.failures) == 0, s.Compilations, len(f.failures), "failures are left")
}

// TestFailuresAreBounded: failures expire, their number is bounded, and failures of the machine are not recorded for the
// module.
func TestFailuresAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pool{failures: map[string]*compileFailure{}}
		slow := errors.New("slow")
		lasts := func() time.Duration {
			for n := time.Duration(0); ; n += time.Second {
				if p.lastFailure("a") == nil {
					return n
				}
				time.Sleep(time.Second)
			}
		}
		for _, c := range []struct{ took, want time.Duration }{
			{time.Millisecond, leastFailed}, {time.Millisecond, 2 * leastFailed}, {10 * time.Second, 200 * time.Second}, {time.Second, 400 * time.Second},
			{2 * time.Minute, 40 * time.Minute}, {2 * time.Minute, mostFailed}, {2 * time.Minute, mostFailed},
		} {
			p.failed("a", slow, c.took)
			testkit.Failed(t, p.lastFailure("a"), slow)
			testkit.Equal(t, lasts(), c.want, "a failure after", c.took, "lasts")
		}
		for _, err := range []error{&machineError{slow}, errDamaged, errStopped} {
			p.failed("b", err, time.Minute)
		}
		testkit.Check(t, p.lastFailure("b"), "an error of the machine counts as one of the module")
		for i := range 2*maxFailures + 10 {
			p.failed(strconv.Itoa(i), slow, 0)
		}
		n := len(p.failures)
		testkit.Holds(t, n <= maxFailures, n, "failures are remembered")
	})
}

// TestTurns: a request that waits for its turn uses none of the guest's time, and gets an answer.
func TestTurns(t *testing.T) {
	f := newFixture(t, func(s *Settings) { s.Grants = []string{"http:*"} })
	x := f.handler("serval", handler.Options{TimeoutMs: 2000}, "http:*")
	wantOK(t, f.text(x, "add\n"), "42")
	for range maxRequests {
		f.requests.turns <- struct{}{}
	}
	began := time.Now()
	e := f.text(x, "http\n"+`{"url":"http://localhost:1/"}`)
	if took := time.Since(began); e.Code != "ok" || !strings.Contains(string(e.Output), "none of them ended within 2s; the request was not sent") || took < 2*time.Second {
		t.Errorf("after %v: %s", took, show(e))
	}
	ended := begin(t.Context(), x, &client.Job{Client: "c", Payload: []byte("http\n" + `{"url":"http://localhost:1/"}`)})
	f.waitBusy(t)
	<-f.requests.turns
	e = <-ended
	testkit.Holds(t, e.Code == "ok" && strings.Contains(string(e.Output), "loopback address"), show(e))
	testkit.Equal(t, len(f.requests.turns), maxRequests-1, "turns are taken, want")
}

// TestMachine: if the runner's machine lacks something, the job does not fail.
func TestMachine(t *testing.T) {
	var log lockedBuffer
	dir := t.TempDir()
	f := newFixture(t, func(s *Settings) { s.Dir, s.Log = dir, slog.New(slog.NewTextHandler(&log, nil)) })
	testkit.NoError(t, os.RemoveAll(filepath.Join(dir, temporary)))
	f.firstPause = 200 * time.Millisecond
	x := f.handler("tiny", handler.Options{})
	began := time.Now()
	for range 2 {
		e := f.text(x, "a")
		testkit.Holds(t, e.Unget, "the run ended with", show(e), "want unget")
	}
	if took := time.Since(began); took < 3*f.firstPause { // twice as long the second time
		t.Errorf("a job was returned two times within %v", took)
	}
	testkit.Equal(t, strings.Count(log.String(), "the job goes back to its queue"), 1, "lines in the log", log.String())
	testkit.Equal(t, f.Stats().Returned, 2, "jobs were returned")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.firstPause = time.Hour
	f.giveBack(ctx, "2", errors.New("nobody waits")) // returns at once
	testkit.NoError(t, os.Mkdir(filepath.Join(dir, temporary), 0o700))
	wantOK(t, f.text(x, "a"), "A")
}

// TestStats: runs, kills and compilations are counted.
func TestStats(t *testing.T) {
	f := newFixture(t, func(s *Settings) { s.Dir = t.TempDir() })
	kit := f.handler("kit", handler.Options{})
	wantOK(t, f.text(kit, "echo\na"), "a")
	f.text(kit, "exit 1")
	f.text(kit, "trap")
	f.text(f.handler("kit", handler.Options{TimeoutMs: 300}), "busy")
	f.text(f.executor(Handler{Binary: f.blobs.add("", []byte("#!/bin/sh\n"))}), "")
	f.text(f.handler("nolink", handler.Options{}), "")
	s := f.Stats()
	for name, n := range map[string]int64{"ok": 1, "exit": 1, "trap": 1, "timeout": 1, "refused": 1, "ended": 0, "machine": 0} {
		testkit.Equal(t, s.Runs[name], n, "runs ended with", name)
	}
	testkit.Holds(t, s.Kills["timeout"] == 1 && s.Kills["stopped"] == 0 && s.Compilations["ok"] == 2 &&
		s.Compilations["refused"] == 1, "kills", s.Kills, "compilations", s.Compilations)
	testkit.Holds(t, len(s.Runs) == len(runEnds) && len(s.Kills) == len(killReasons) &&
		len(s.Compilations) == len(compilationEnds), s.Runs, s.Kills, s.Compilations, "a name is none of those that are documented")
	testkit.Holds(t, s.Time >= 300*time.Millisecond && s.Compiling > 0 && s.CacheBytes >= 1000 && s.Busy == 0 && s.Idle == 1, s)
}

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu   sync.Mutex
	held bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held.String()
}

// TestTooLarge: a blob that is too large for a module is fetched only once.
func TestTooLarge(t *testing.T) {
	f := newFixture(t, func(s *Settings) { s.Dir = t.TempDir() })
	binary := f.blobs.add("c", []byte("never read"))
	f.blobs.fail = func(context.Context, string) (io.ReadCloser, error) { return zeros("", MaxModuleBytes+1), nil }
	x := f.executor(Handler{})
	gets := f.blobs.gets
	for range 3 {
		wantEnd(t, f.run(x, &client.Job{Client: "c", BinaryAddr: binary}), "failed", "binary_addr: blob "+binary, "more than 128 MiB, the maximum for a module")
	}
	testkit.Equal(t, f.blobs.gets-gets, 1, "it was fetched", "times")
	files := cacheFiles(t, f.cache.dir)
	testkit.Equal(t, len(files), 0, "left over", files)
}

// TestClock: a paused clock does not count, and cannot be paused for ever.
func TestClock(t *testing.T) {
	const timeout = 10 * time.Second
	for name, c := range map[string]struct {
		use  func(c *clock)
		ends time.Duration // 0: it does not end
	}{
		"nothing": {func(*clock) {}, timeout},
		"stop":    {func(c *clock) { time.Sleep(time.Second); c.stop() }, 0},
		"pause":   {func(c *clock) { time.Sleep(time.Second); c.pause(); time.Sleep(5 * time.Second); c.resume() }, timeout + 5*time.Second},
		"two pauses": {func(c *clock) {
			c.pause()
			time.Sleep(2 * time.Second)
			c.resume()
			c.pause()
			time.Sleep(time.Second)
			c.resume()
		}, timeout + 3*time.Second},
		"long pause":  {func(c *clock) { c.pause(); time.Sleep(20 * time.Second); c.resume() }, timeout + 20*time.Second},
		"stop paused": {func(c *clock) { c.pause(); c.stop(); c.resume() }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ended atomic.Int64
				began := time.Now()
				run := newClock(timeout, func() { ended.Store(int64(time.Since(began))) })
				c.use(run)
				time.Sleep(time.Minute)
				testkit.Equal(t, time.Duration(ended.Load()), c.ends, "it ended after")
				testkit.Holds(t, run.stop() != (c.ends > 0), "stop reports the opposite")
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		run := newClock(timeout, func() {})
		defer run.stop()
		for _, want := range []time.Duration{timeout, 6 * time.Second, 2 * time.Second, 0} {
			testkit.Equal(t, run.pause(), want, "it may be paused for")
			time.Sleep(4 * time.Second)
			run.resume()
		}
	})
}
