package wasi

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
)

// TestOutcomes: each kind of end of a run becomes the right outcome.
func TestOutcomes(t *testing.T) {
	f := newFixture(t, nil)
	kit := f.handler("kit", handler.Options{TimeoutMs: 60_000})
	t.Run("echo", func(t *testing.T) { wantOK(t, f.text(kit, "echo\nhello"), "hello") })
	t.Run("no input", func(t *testing.T) {
		e := f.text(kit, "")
		wantEnd(t, e, "error", "unknown:")
		testkit.Holds(t, e.ProcessExit != nil && *e.ProcessExit == 2, show(e))
	})
	t.Run("bytes", func(t *testing.T) {
		e := f.text(kit, "echo\n\xff\x00")
		wantOK(t, e, "\xff\x00")
		testkit.Equal(t, e.OutputKind, client.Bytes, "the output")
	})
	t.Run("payload longer than a part", func(t *testing.T) {
		text := strings.Repeat("0123456789abcdef", 15_000)
		wantOK(t, f.text(kit, "echo\n"+text), text)
		wantOK(t, f.text(kit, "echo\n"+text[:60_000]), text[:60_000])
	})
	t.Run("input that the guest does not read", func(t *testing.T) {
		wantOK(t, f.text(kit, "exit 0\n"+strings.Repeat("x", 200_000)), "Hello, world!\n")
		wantOK(t, f.text(kit, "echo\nnext"), "next")
	})
	t.Run("exit 1", func(t *testing.T) {
		e := f.text(kit, "exit 1")
		wantEnd(t, e, "error", "Goodbye, world!")
		testkit.Holds(t, e.ProcessExit != nil && *e.ProcessExit == 1, show(e))
	})
	t.Run("trap", func(t *testing.T) {
		e := f.text(kit, "trap")
		wantEnd(t, e, "error", "unreachable")
		testkit.Holds(t, e.ProcessExit == nil, show(e))
	})
	t.Run("no arguments, environment and files", func(t *testing.T) {
		// If the guest has arguments, C libraries count the program's name as the first.
		wantOK(t, f.text(kit, "environment"), "0 arguments, 0 variables, /: no, /etc/passwd: no\n")
	})
	t.Run("clock and random numbers", func(t *testing.T) {
		before := time.Now().Unix()
		e := f.text(kit, "clock")
		words := strings.Fields(string(e.Output))
		testkit.MustHold(t, len(words) == 2 && words[1] == "random" && words[0] >= time.Unix(before, 0).Format("0"), show(e))
		at := testkit.Must(time.Parse("2006", "2020"))(t)
		testkit.Holds(t, words[0] >= "1577836800" && at.Unix() == 1577836800, "the clock of the guest is", words[0])
	})
	t.Run("no _start", func(t *testing.T) { wantOK(t, f.text(f.handler("nostart", handler.Options{}), "x"), "") })
	t.Run("memory.grow fails", func(t *testing.T) {
		wantEnd(t, f.text(f.handler("grows", handler.Options{MemoryBytes: 32 << 20}), ""), "error", "exit status 7")
	})
	t.Run("memory hog", func(t *testing.T) {
		e := f.text(f.handler("kit", handler.Options{MemoryBytes: 64 << 20}), "hog")
		testkit.Holds(t, e.Code == "ok" && len(e.Output) == 2 && string(e.Output) >= "50" && string(e.Output) <= "64", show(e))
		wantOK(t, f.text(kit, "echo\nafter"), "after")
	})
	for _, c := range []struct{ name, guest, text string }{
		{"_start with a parameter", "badstart", "_start must have no parameters and no results; it has [i32] and []"},
		{"missing function of WASI", "nolink", "no_such_function"},
		{"more memory at the start than allowed", "large", "more memory at its start than the 33554432 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantEnd(t, f.text(f.handler(c.guest, handler.Options{MemoryBytes: 32 << 20}), ""), "unable", c.text)
		})
	}
	t.Run("garbage", func(t *testing.T) {
		for text, want := range map[string]string{
			"": "the file is empty", "#!/bin/sh\n": "it is not a module of WebAssembly, but a script", "\x00asm\x0d\x00\x01\x00": "a component of WebAssembly", "\x00asm\x01\x00\x00\x00garbage": "section",
		} {
			x := f.executor(Handler{Binary: f.blobs.add("", []byte(text))})
			wantEnd(t, f.text(x, ""), "unable", "binary sha256:", "cannot run", want)
		}
	})
	t.Run("no such blob", func(t *testing.T) {
		wantEnd(t, f.text(f.executor(Handler{Binary: strings.Repeat("0", 64)}), ""), "unable", "binary: there is no blob 0000")
	})
}

// TestEnded: a guest that does not end is stopped at the time-out, whatever it waits for. Other guests run at the same
// time.
func TestEnded(t *testing.T) {
	f := newFixture(t, nil)
	f.text(f.handler("kit", handler.Options{}), "echo\n") // compiles the module
	kit := f.handler("kit", handler.Options{TimeoutMs: 300})
	patient := f.handler("kit", handler.Options{}) // for guests that end, even on a busy machine
	blocked := f.blobs.add("c", []byte("never read"))
	for _, c := range []struct{ name, payload, text string }{
		{"busy", "busy", "options.timeout_ms, 300 ms"},
		{"asleep", "asleep", "options.timeout_ms, 300 ms"},
		{"stderr of a busy guest", "says and is busy", "last words"},
		{"blocked stdin", "", "options.timeout_ms, 300 ms"},
		{"polls stdin", "", "options.timeout_ms, 300 ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := &client.Job{ID: "1", Client: "c", Type: "t", Kind: client.Text, Payload: []byte(c.payload)}
			if c.payload == "" {
				j.InputAddr = blocked
				command := map[string]string{"blocked stdin": "echo\n", "polls stdin": "polls\n"}[c.name]
				f.blobs.fail = opens(newEndless(command + strings.Repeat("x", 1<<16)))
				defer func() { f.blobs.fail = nil }()
			}
			began := time.Now()
			wantEnd(t, f.run(kit, j), "error", c.text)
			if took := time.Since(began); took < 300*time.Millisecond {
				t.Errorf("it took %v", took)
			}
			wantOK(t, f.text(patient, "echo\nafter"), "after")
		})
	}
	t.Run("nobody waits", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		slow := f.handler("kit", handler.Options{})
		ended := begin(ctx, slow, &client.Job{Client: "c", Payload: []byte("busy")})
		f.waitBusy(t)
		cancel()
		wantEnd(t, <-ended, "error", "the run was ended: context canceled")
	})
	t.Run("the runner ends", func(t *testing.T) {
		ended := begin(t.Context(), f.handler("kit", handler.Options{}), &client.Job{Client: "c", Payload: []byte("asleep")})
		f.waitBusy(t)
		for _, c := range f.processes.State().Busy {
			c.kill(errStopped)
		}
		e := <-ended
		testkit.Holds(t, e.Unget, "the run ended with", show(e), "want unget")
	})
}

// waitBusy waits until a process runs a guest.
func (f *fixture) waitBusy(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, "a run has begun", func() bool {
		busy := false
		for _, c := range f.processes.State().Busy {
			c.mu.Lock()
			busy = busy || c.cancel != nil
			c.mu.Unlock()
		}
		return busy
	})
}

// TestProcessesAreUsedAgain: runs of several modules share a process, and a new process replaces a damaged one.
func TestProcessesAreUsedAgain(t *testing.T) {
	f := newFixture(t, func(s *Settings) { s.MaxProcesses = 1 })
	kit, tiny := f.handler("kit", handler.Options{TimeoutMs: 10_000}), f.handler("tiny", handler.Options{})
	wantOK(t, f.text(kit, "echo\na"), "a")
	first := f.processes.State().Idle[0]
	wantOK(t, f.text(tiny, "b"), "B")
	idle := f.processes.State().Idle
	testkit.Holds(t, len(idle) == 1 && idle[0] == first, "the second run had another process")
	first.process.Kill()
	<-first.ended
	wantOK(t, f.text(kit, "echo\nc"), "c")
	large := f.handler("kit", handler.Options{TimeoutMs: 10_000, MemoryBytes: 1 << 30}) // needs another process, and only one may run
	wantOK(t, f.text(large, "echo\nd"), "d")
	idle = f.processes.State().Idle
	testkit.Holds(t, len(idle) == 1 && idle[0].class == 1<<30, "there are", len(idle), "idle processes")
}

// TestGrowingTables: a guest that grows its tables without end is stopped, with or without a cgroup.
func TestGrowingTables(t *testing.T) {
	f := newFixture(t, nil)
	e := f.text(f.handler("tables", handler.Options{TimeoutMs: 20_000}), "")
	// The table has its own limit, which is lower than the process's limit.
	wantEnd(t, e, "error")
	testkit.Holds(t, strings.Contains(e.Error, "memory") || strings.Contains(e.Error, "timeout_ms"), show(e))
	wantOK(t, f.text(f.handler("tiny", handler.Options{}), "x"), "X")
}

// TestGoGuest: a module built with Go's compiler runs.
func TestGoGuest(t *testing.T) {
	if testkit.Race {
		t.Skip("a compiler with the race detector takes 15 seconds for a module of Go's compiler")
	}
	binary := testkit.Must(goGuest())(t)
	f := newFixture(t, nil)
	wantOK(t, f.text(f.executor(Handler{Binary: f.blobs.add("", binary)}), "one\ntwo\n"), "one\ntwo\n2\n")
}

// TestTextModules: the .wasm files in testdata are up to date with the .wat files.
func TestTextModules(t *testing.T) {
	testkit.Need(t, "wat2wasm") // of the package wabt
	texts, err := filepath.Glob("testdata/*.wat")
	testkit.MustHold(t, err == nil && len(texts) != 0, texts, err)
	for _, path := range texts {
		name := strings.TrimSuffix(filepath.Base(path), ".wat")
		assembled, err := exec.Command("wat2wasm", "--enable-all", path, "--output=-").Output()
		testkit.NoError(t, err, path)
		testkit.EqualSlices(t, assembled, guestFile(t, name), name)
	}
}
