package wasi

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/digest"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/sandbox"
	"github.com/daybookq/daybook/runner/task"
)

// memoryBlobs are blobs in memory.
type memoryBlobs struct {
	mu    sync.Mutex
	blobs map[string]map[string][]byte // by client and address
	old   map[string]string            // addresses by SHA-1
	gets  int
	fail  func(ctx context.Context, address string) (io.ReadCloser, error) // replaces Get, unless it returns neither a reader nor an error
	// discard makes Put discard the bytes, for large outputs.
	discard bool
	broken  error // error of Put
}

func newBlobs() *memoryBlobs {
	return &memoryBlobs{blobs: map[string]map[string][]byte{}, old: map[string]string{}}
}

func (m *memoryBlobs) Get(ctx context.Context, of, address string) (io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gets++
	if m.fail != nil {
		if r, err := m.fail(ctx, address); r != nil || err != nil {
			return r, err
		}
	}
	ref, err := digest.Parse(address)
	if err != nil {
		return nil, err
	}
	if ref.SHA1 != nil {
		address = m.old[ref.String()]
	}
	b, ok := m.blobs[of][address]
	if !ok {
		return nil, fmt.Errorf("blob %s: %w", address, client.ErrNotFound)
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

func (m *memoryBlobs) Put(_ context.Context, of string, r io.Reader) (string, error) {
	m.mu.Lock()
	broken, discard := m.broken, m.discard
	m.mu.Unlock()
	if broken != nil {
		return "", broken
	}
	sum := sha256.New()
	var kept bytes.Buffer
	to := io.Writer(sum)
	if !discard {
		to = io.MultiWriter(sum, &kept)
	}
	if _, err := io.Copy(to, r); err != nil {
		return "", err
	}
	address := "sha256:" + hex.EncodeToString(sum.Sum(nil))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.blobs[of] == nil {
		m.blobs[of] = map[string][]byte{}
	}
	m.blobs[of][address] = kept.Bytes()
	return address, nil
}

// add stores a blob and returns its address.
func (m *memoryBlobs) add(of string, b []byte) string {
	address, err := m.Put(context.Background(), of, bytes.NewReader(b))
	if err != nil {
		panic(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old := sha1.Sum(b)
	m.old[hex.EncodeToString(old[:])] = address
	return address
}

func (m *memoryBlobs) get(of, address string) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.blobs[of][address]
}

// addresses returns all forms of the address of b.
func addresses(b []byte) []string {
	sum, old := sha256.Sum256(b), sha1.Sum(b)
	return []string{"sha256:" + hex.EncodeToString(sum[:]), hex.EncodeToString(sum[:]), "sha256-" + base64.StdEncoding.EncodeToString(sum[:]), hex.EncodeToString(old[:])}
}

var box = sync.OnceValues(func() (*sandbox.Sandbox, error) { return sandbox.New(sandbox.Auto) })

// fixture is a pool with the blobs that it uses.
type fixture struct {
	testing.TB
	*Pool
	blobs *memoryBlobs
}

// sharedCache is the cache of most tests' pools, so that each module is compiled once.
var sharedCache = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "wasi-cache-") })

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := sharedCache(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// newFixture returns a pool. set may change its settings.
func newFixture(t testing.TB, set func(*Settings)) *fixture {
	t.Helper()
	s := testkit.Must(box())(t)
	dir := testkit.Must(sharedCache())(t)
	blobs := newBlobs()
	settings := Settings{Sandbox: s, Blobs: blobs, Dir: dir}
	if set != nil {
		set(&settings)
	}
	p := testkit.Must(NewPool(settings))(t)
	p.firstPause, p.storePatience, p.slowestPut = time.Millisecond, 50*time.Millisecond, 1<<40
	t.Cleanup(p.Close)
	return &fixture{t, p, blobs}
}

func guestFile(t testing.TB, name string) []byte {
	t.Helper()
	return testkit.Must(os.ReadFile(filepath.Join("testdata", name+".wasm")))(t)
}

// goGuest compiles testdata/goguest once.
var goGuest = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "goguest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "goguest.wasm")
	build := exec.Command("go", "build", "-o", out, "./testdata/goguest")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if text, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, text)
	}
	return os.ReadFile(out)
})

// handler stores a guest as the binary of a handler, and returns the handler's executor.
func (f *fixture) handler(guest string, options handler.Options, permissions ...string) task.Executor {
	f.Helper()
	return f.executor(Handler{Binary: f.blobs.add("", guestFile(f, guest)), Options: options, Permissions: permissions})
}

func (f *fixture) executor(h Handler) task.Executor {
	f.Helper()
	return testkit.Must(f.Executor(h))(f)
}

// begin starts a job, and returns a channel that gets its end after its process was released.
func begin(ctx context.Context, x task.Executor, j *client.Job) <-chan task.End {
	ended := make(chan task.End, 1)
	go func() {
		var end task.End
		x.Run([]*task.Task{task.New(ctx, j, func(e task.End) { end = e })})
		ended <- end
	}()
	return ended
}

// run runs a job to its end.
func (f *fixture) run(x task.Executor, j *client.Job) task.End {
	f.Helper()
	select {
	case e := <-begin(context.Background(), x, j):
		return e
	case <-time.After(2 * time.Minute):
		f.Fatal("the run has not ended within two minutes")
		panic("unreachable")
	}
}

// text runs a job with the given payload.
func (f *fixture) text(x task.Executor, payload string) task.End {
	f.Helper()
	return f.run(x, &client.Job{ID: "1", Client: "c", Type: "t", Kind: client.Text, Payload: []byte(payload)})
}

// wantOK checks that a run succeeded with the given inline output.
func wantOK(t testing.TB, e task.End, output string) {
	t.Helper()
	testkit.MustHold(t, !e.Unget && e.Code == "ok" && string(e.Output) == output && e.ProcessExit != nil &&
		*e.ProcessExit == 0, "the run ended with", show(e), "want ok and", output)
}

// wantEnd checks the code of a run, and that its error contains the texts. The code unable means that the handler cannot
// run.
func wantEnd(t testing.TB, e task.End, code string, texts ...string) {
	t.Helper()
	if e.Unable != "" {
		e.Unget, e.Code, e.Error = false, "unable", e.Unable
	}
	bad := e.Unget || e.Code != code || len(e.Output) > 0 || e.OutputAddr != ""
	for _, text := range texts {
		bad = bad || !strings.Contains(e.Error, text)
	}
	testkit.MustHold(t, !bad, "the run ended with", show(e), "want", code, "and an error with", texts)
}

func show(e task.End) string {
	if e.Unget {
		return "unget"
	}
	exit := "none"
	if e.ProcessExit != nil {
		exit = fmt.Sprint(*e.ProcessExit)
	}
	return fmt.Sprintf("%s, exit %s, output %.200q (%s) at %q, error %q", e.Code, exit, e.Output, e.OutputKind, e.OutputAddr, e.Error)
}

// endless is an input without an end: Read blocks until Close.
type endless struct {
	first  []byte
	closed chan struct{}
	once   sync.Once
}

func newEndless(first string) *endless {
	return &endless{first: []byte(first), closed: make(chan struct{})}
}

func (e *endless) Read(b []byte) (int, error) {
	if len(e.first) > 0 {
		n := copy(b, e.first)
		e.first = e.first[n:]
		return n, nil
	}
	<-e.closed
	return 0, errors.New("closed")
}

func (e *endless) Close() error { e.once.Do(func() { close(e.closed) }); return nil }
