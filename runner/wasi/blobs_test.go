package wasi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/sandbox"
	"github.com/daybookq/daybook/runner/wasi/guest"
)

// opens returns a value for memoryBlobs.fail that opens r.
func opens(r io.ReadCloser) func(context.Context, string) (io.ReadCloser, error) {
	return func(context.Context, string) (io.ReadCloser, error) { return r, nil }
}

// TestBinaryAddr: a job can name its own binary, in all forms of addresses.
func TestBinaryAddr(t *testing.T) {
	testkit.OneByOne(t)
	f := newFixture(t, nil)
	binary := guestFile(t, "kit")
	f.blobs.add("c", binary)
	x := f.executor(Handler{})
	for _, address := range addresses(binary) {
		t.Run(address[:7]+fmt.Sprint(len(address)), func(t *testing.T) {
			e := f.run(x, &client.Job{Client: "c", Kind: client.WASI, BinaryAddr: address, InputAddr: f.blobs.add("c", []byte("echo\nhello"))})
			wantOK(t, e, "hello")
			testkit.Equal(t, string(f.blobs.get("c", e.OutputAddr)), "hello", "the blob at", e.OutputAddr)
		})
	}
	t.Run("of another client", func(t *testing.T) {
		e := f.run(x, &client.Job{Client: "d", Kind: client.WASI, BinaryAddr: addresses(binary)[0]})
		wantEnd(t, e, "failed", "binary_addr: there is no blob sha256:")
	})
	t.Run("no address", func(t *testing.T) {
		e := f.run(x, &client.Job{Client: "c", Kind: client.WASI, BinaryAddr: "http://example.com/x.wasm"})
		wantEnd(t, e, "failed", "binary_addr: ", "sha256:<64 hex digits>")
	})
	t.Run("no input blob", func(t *testing.T) {
		e := f.run(x, &client.Job{Client: "c", Kind: client.WASI, BinaryAddr: addresses(binary)[0], InputAddr: strings.Repeat("a", 40)})
		wantEnd(t, e, "failed", "input_addr: there is no blob aaaa")
	})
	t.Run("none", func(t *testing.T) {
		e := f.text(x, "echo\n")
		testkit.Holds(t, e.Unget, "the run ended with", show(e), "want unget")
	})
	t.Run("no _start", func(t *testing.T) {
		e := f.run(x, &client.Job{Client: "c", Kind: client.WASI, BinaryAddr: f.blobs.add("c", guestFile(t, "nostart"))})
		wantOK(t, e, "")
		testkit.Equal(t, e.OutputAddr, addresses(nil)[0], "the output is at")
	})
	t.Run("fails", func(t *testing.T) {
		before := len(f.blobs.blobs["c"])
		e := f.run(x, &client.Job{Client: "c", Kind: client.WASI, BinaryAddr: addresses(binary)[0], InputAddr: f.blobs.add("c", []byte("exit 1"))})
		wantEnd(t, e, "error", "Goodbye, world!")
		n := len(f.blobs.blobs["c"])
		testkit.Equal(t, n, before+1, n-before, "blobs were stored")
	})
}

// TestOutputBlobs: long outputs, and all outputs of jobs with a binary_addr, become blobs.
func TestOutputBlobs(t *testing.T) {
	f := newFixture(t, nil)
	kit := f.handler("kit", handler.Options{InlineBytes: 1000})
	t.Run("of the maximum", func(t *testing.T) { wantOK(t, f.text(kit, "write 1000"), strings.Repeat("x", 1000)) })
	for _, n := range []int{1001, 200_000} {
		e := f.text(kit, fmt.Sprintf("write %d", n))
		testkit.Holds(t, e.Code == "ok" && len(e.Output) == 0 && e.OutputKind == client.None &&
			bytes.Equal(f.blobs.get("c", e.OutputAddr), bytes.Repeat([]byte("x"), n)), n, "bytes", show(e))
	}
	t.Run("cannot be stored", func(t *testing.T) {
		f.blobs.broken = errors.New("no space")
		defer func() { f.blobs.broken = nil }()
		wantEnd(t, f.text(kit, "write 10000000"), "error", "store the output: no space")
		f.blobs.broken = fmt.Errorf("down: %w", client.ErrUnavailable)
		e := f.text(kit, "write 10000000")
		testkit.Holds(t, e.Unget, "the run ended with", show(e), "want unget")
	})
	t.Run("no blobs", func(t *testing.T) {
		f := newFixture(t, func(s *Settings) { s.Blobs = nil })
		x := f.executor(Handler{File: filepath.Join("testdata", "kit.wasm"), Options: handler.Options{InlineBytes: 1000}})
		wantOK(t, f.text(x, "write 1000"), strings.Repeat("x", 1000))
		wantEnd(t, f.text(x, "write 1001"), "failed", "no access to blobs")
		wantEnd(t, f.run(x, &client.Job{Client: "c", InputAddr: strings.Repeat("a", 40)}), "failed", "no access to blobs")
	})
}

// TestInputErrors: an input that breaks off is never taken for a shorter input.
func TestInputErrors(t *testing.T) {
	f := newFixture(t, nil)
	kit := f.handler("kit", handler.Options{TimeoutMs: 60_000})
	f.text(kit, "echo\n")
	input := f.blobs.add("c", []byte("x"))
	for _, c := range []struct {
		name   string
		before int
		err    error
		unget  bool
	}{
		{"at once", 0, errors.New("damaged"), false},
		{"in the first part", 100, errors.New("damaged"), false},
		{"after the first part", 1_000_000, errors.New("damaged"), false},
		{"broken connection in the first part", 100, io.ErrUnexpectedEOF, true},
		{"broken connection after the first part", 1_000_000, io.ErrUnexpectedEOF, true},
		{"server is away", 1_000_000, fmt.Errorf("get: %w", client.ErrUnavailable), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.blobs.fail = opens(io.NopCloser(io.MultiReader(strings.NewReader("count\n"+strings.Repeat("x", c.before)), iotest.ErrReader(c.err))))
			defer func() { f.blobs.fail = nil }()
			e := f.run(kit, &client.Job{Client: "c", InputAddr: input})
			if c.unget != e.Unget || !c.unget && (e.Code != "error" || !strings.Contains(e.Error, "input_addr: read blob sha256:") || !strings.Contains(e.Error, "damaged")) {
				t.Errorf("the run ended with %s", show(e))
			}
		})
	}
	t.Run("cannot be opened", func(t *testing.T) {
		f.blobs.fail = func(context.Context, string) (io.ReadCloser, error) { return nil, client.ErrUnavailable }
		defer func() { f.blobs.fail = nil }()
		e := f.run(kit, &client.Job{Client: "c", InputAddr: input})
		testkit.Holds(t, e.Unget, "the run ended with", show(e), "want unget")
	})
}

// zeros returns an input of a first line and n zeros.
func zeros(first string, n int64) io.ReadCloser {
	return io.NopCloser(io.MultiReader(strings.NewReader(first), io.LimitReader(zeroReader{}, n)))
}

type zeroReader struct{}

func (zeroReader) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// TestStreams: the runner and the process of the guest pass on long inputs and outputs with little memory.
func TestStreams(t *testing.T) {
	f := newFixture(t, func(s *Settings) { s.MaxProcesses = 1 })
	kit := f.handler("kit", handler.Options{TimeoutMs: 120_000})
	wantOK(t, f.text(kit, "echo\n"), "")
	const n = 100 << 20
	input := f.blobs.add("c", []byte("x"))
	f.blobs.discard = true
	ours, theirs := resident(), f.resident()
	f.blobs.fail = func(context.Context, string) (io.ReadCloser, error) { return zeros("count\n", n), nil }
	wantOK(t, f.run(kit, &client.Job{Client: "c", InputAddr: input}), fmt.Sprint(n))
	f.blobs.fail = func(context.Context, string) (io.ReadCloser, error) { return zeros("echo\n", n), nil }
	e := f.run(kit, &client.Job{Client: "c", InputAddr: input})
	want := addressOfZeros(n)
	testkit.Holds(t, e.Code == "ok" && e.OutputAddr == want, "the run ended with", show(e), "want the address", want)
	const most = 40 << 20 // less than half of the bytes passed on
	more := resident() - ours
	testkit.Holds(t, more <= most || testkit.Race, "the runner has", more, "bytes more than before")
	more = f.resident() - theirs
	testkit.Holds(t, more <= most, "the process of the guest has", more, "bytes more than before")
}

func addressOfZeros(n int64) string {
	b := newBlobs()
	b.discard = true
	address, err := b.Put(context.Background(), "", io.LimitReader(zeroReader{}, n))
	if err != nil {
		panic(err)
	}
	return address
}

// resident returns the resident memory of the test and its processes.
func resident() int64 { return sandbox.ResidentBytes(os.Getpid()) }

// resident returns the resident memory of the idle process.
func (f *fixture) resident() int64 {
	return sandbox.ResidentBytes(f.processes.State().Idle[0].process.Pid())
}

// TestSlowInput: a guest can find out that no input has arrived yet, with poll and with non-blocking reads.
func TestSlowInput(t *testing.T) {
	f := newFixture(t, nil)
	kit := f.handler("kit", handler.Options{TimeoutMs: 60_000})
	f.text(kit, "echo\n")
	input := f.blobs.add("c", []byte("x"))
	for _, command := range []string{"polls", "nonblocking"} {
		t.Run(command, func(t *testing.T) {
			r, w := io.Pipe()
			f.blobs.fail = opens(r)
			defer func() { f.blobs.fail = nil }()
			first := command + "\n" + strings.Repeat("x", guest.MaxPartBytes) // longer than the first part, so that the guest starts
			ended := begin(t.Context(), kit, &client.Job{Client: "c", InputAddr: input})
			io.WriteString(w, first)
			f.waitBusy(t)
			time.Sleep(2 * time.Second) // real time: nothing arrives while the guest, another process, reads
			io.WriteString(w, "more")
			w.Close()
			wantOK(t, <-ended, fmt.Sprintf("waited, %d bytes\n", guest.MaxPartBytes+4))
		})
	}
}

// TestDamagedCache: damaged, empty and missing files in the cache cost time, nothing more.
func TestDamagedCache(t *testing.T) {
	dir := t.TempDir()
	set := func(s *Settings) { s.Dir = dir }
	f := newFixture(t, set)
	f.blobs.add("c", guestFile(t, "tiny"))
	j := &client.Job{Client: "c", BinaryAddr: addresses(guestFile(t, "tiny"))[0], InputAddr: f.blobs.add("c", []byte("hello"))}
	wantOK(t, f.run(f.executor(Handler{}), j), "HELLO")
	f.Close()
	files := cacheFiles(t, dir)
	testkit.MustHold(t, len(files) >= 3, "the cache has only the files", files)
	damages := map[string]func(t *testing.T, path string){
		"removed":   func(t *testing.T, path string) { testkit.NoError(t, os.Remove(path)) },
		"empty":     func(t *testing.T, path string) { testkit.NoError(t, os.Truncate(path, 0)) },
		"cut":       func(t *testing.T, path string) { testkit.NoError(t, os.Truncate(path, size(t, path)/2)) },
		"one bit":   func(t *testing.T, path string) { flip(t, path, size(t, path)/2) },
		"first bit": func(t *testing.T, path string) { flip(t, path, 0) },
		"last bit":  func(t *testing.T, path string) { flip(t, path, size(t, path)-1) },
	}
	for _, path := range files {
		for name, damage := range damages {
			if testkit.Race && name != "one bit" {
				continue // a process with the race detector takes half a second to start
			}
			t.Run(strings.SplitN(path, "/", 2)[0]+" "+name, func(t *testing.T) {
				for _, running := range []bool{false, true} {
					f := newFixture(t, set)
					f.blobs.add("c", guestFile(t, "tiny"))
					f.blobs.add("c", []byte("hello"))
					x := f.executor(Handler{})
					if running { // the pool has checked the files already, but no process has
						wantOK(t, f.run(x, j), "HELLO")
						for _, c := range f.processes.State().Idle {
							c.kill(errStopped)
						}
					}
					damage(t, filepath.Join(dir, path))
					wantOK(t, f.run(x, j), "HELLO")
					f.Close()
				}
			})
		}
	}
}

// cacheFiles returns the paths of the files in a cache, relative to its directory.
func cacheFiles(t *testing.T, dir string) (files []string) {
	t.Helper()
	testkit.NoError(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			path, err = filepath.Rel(dir, path)
			files = append(files, filepath.ToSlash(path))
		}
		return err
	}))
	return files
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info := testkit.Must(os.Stat(path))(t)
	return info.Size()
}

// flip flips a bit of a file.
func flip(t *testing.T, path string, at int64) {
	t.Helper()
	b := testkit.Must(os.ReadFile(path))(t)
	b[at] ^= 1
	testkit.NoError(t, os.WriteFile(path, b, 0o600))
}

// TestCacheIsBounded: a cache that is too large deletes the files unused for the longest time.
func TestCacheIsBounded(t *testing.T) {
	dir := t.TempDir()
	f := newFixture(t, func(s *Settings) { s.Dir, s.CacheBytes = dir, 100_000 })
	for _, name := range []string{"kit", "serval", "tiny"} {
		f.text(f.handler(name, handler.Options{}), "")
	}
	var sum int64
	for _, path := range cacheFiles(t, dir) {
		sum += size(t, filepath.Join(dir, path))
	}
	testkit.Holds(t, sum <= 100_000, "the cache has", sum, "bytes")
	wantOK(t, f.text(f.handler("kit", handler.Options{}), "echo\nstill"), "still")
}

// TestAccess: a cached module gives no client access to a blob that it may not read. Each client opens a blob once.
func TestAccess(t *testing.T) {
	f := newFixture(t, nil)
	binary := f.blobs.add("c", guestFile(t, "tiny"))
	x := f.executor(Handler{})
	for range 3 {
		wantOK(t, f.run(x, &client.Job{Client: "c", BinaryAddr: binary}), "")
	}
	testkit.Equal(t, f.blobs.gets, 1, "the blob was opened", "times")
	wantEnd(t, f.run(x, &client.Job{Client: "d", BinaryAddr: binary}), "failed", "there is no blob")
	f.blobs.fail = func(context.Context, string) (io.ReadCloser, error) { return nil, client.ErrUnavailable }
	e := f.run(x, &client.Job{Client: "d", BinaryAddr: binary})
	testkit.Holds(t, e.Unget, "the run ended with", show(e), "want unget")
	f.blobs.fail = opens(io.NopCloser(strings.NewReader("another content")))
	other := addresses([]byte("never stored"))[0]
	wantEnd(t, f.run(x, &client.Job{Client: "d", BinaryAddr: other}), "error", "another digest")
	wantEnd(t, f.run(x, &client.Job{Client: "d", BinaryAddr: other[7:47]}), "error", "another digest")
}
