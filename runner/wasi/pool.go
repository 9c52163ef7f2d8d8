package wasi

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/disk"
	"github.com/daybookq/daybook/runner/pool"
	"github.com/daybookq/daybook/runner/sandbox"
	"github.com/daybookq/daybook/runner/webhook"
)

const (
	// idleFor is how long an idle process is kept.
	idleFor = time.Minute
	// compilations bounds the number of concurrent compilations.
	compilations = 2

	// Defaults of Settings.
	DefaultMostMemoryBytes = 1 << 30
	DefaultMostTimeout     = time.Hour
	// MaxMemoryBytes is the 4 GiB that a guest can address, and as much again for its extensions.
	MaxMemoryBytes = 8 << 30

	// minClass is the smallest memory limit of a process, so that handlers with common limits share processes.
	minClass = 256 << 20
	// extraBytes is the memory of a process beyond the memory of guests: modules, machine code and Go's heap.
	extraBytes = 1 << 30
)

// Settings configures a Pool.
type Settings struct {
	Sandbox *sandbox.Sandbox // required
	Blobs   Blobs            // nil: the runner cannot access blobs
	// Dir is the directory of the cache. "" means a directory in the user's cache.
	Dir        string
	CacheBytes int64 // approximate size of the cache; 0 means DefaultCacheBytes
	// MemoryBytes and Timeout bound the options of handlers that are not Local. 0 means DefaultMostMemoryBytes and
	// DefaultMostTimeout.
	MemoryBytes int64
	Timeout     time.Duration
	// MaxProcesses bounds the number of processes. 0 means four for each processor.
	MaxProcesses int
	// Grants are the permissions that handlers can require.
	Grants []string
	// Extensions is a directory of modules that guests with a permission can import. "" means none.
	Extensions string
	// Allow lists addresses that guests may send requests to although they are not public.
	Allow *webhook.Allow
	// TLS configures https requests. Nil means the default.
	TLS       *tls.Config
	UserAgent string
	Log       *slog.Logger // for errors of this machine; nil discards them
}

// check sets the defaults. It returns an error if a setting is invalid.
func (s *Settings) check() error {
	if s.Sandbox == nil {
		return errors.New("a pool of WASI guests needs a sandbox")
	}
	if s.MemoryBytes != 0 && (s.MemoryBytes < handler.MinMemoryBytes || s.MemoryBytes > MaxMemoryBytes) {
		return fmt.Errorf("the most memory of a WASI guest must be %d to %d bytes, not %d", handler.MinMemoryBytes, int64(MaxMemoryBytes), s.MemoryBytes)
	}
	if s.Timeout != 0 && s.Timeout < handler.MinTimeoutMs*time.Millisecond {
		return fmt.Errorf("the longest time-out of a WASI guest must be at least %d ms, not %v", handler.MinTimeoutMs, s.Timeout)
	}
	if s.CacheBytes < 0 {
		return fmt.Errorf("the cache of WASI modules must have at least 0 bytes, not %d", s.CacheBytes)
	}
	s.MemoryBytes, s.Timeout = cmp.Or(s.MemoryBytes, DefaultMostMemoryBytes), cmp.Or(s.Timeout, DefaultMostTimeout)
	s.CacheBytes = cmp.Or(s.CacheBytes, DefaultCacheBytes)
	s.UserAgent = cmp.Or(s.UserAgent, "Daybook")
	if s.MaxProcesses <= 0 {
		s.MaxProcesses = 4 * runtime.NumCPU()
	}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	return checkPermissions(s.Grants)
}

// Pool runs WASI guests in processes that it reuses. Its methods may be called from many goroutines.
type Pool struct {
	settings   Settings
	cache      *cache
	version    string            // of the compiler
	extensions map[string]string // paths by name
	requests   *requests
	compiling  chan struct{} // holds an element for each running compilation
	// compileTimeout bounds one compilation. Tests shorten it.
	compileTimeout time.Duration
	flights        singleflight.Group
	counters       *counters

	life       context.Context // canceled by Close
	stop       context.CancelFunc
	background sync.WaitGroup // running fetches and compilations

	fetchedMu sync.Mutex
	fetched   map[fetched]string // SHA-256 of modules, in hex
	tooLarge  map[fetched]bool   // blobs that are too large for a module

	reportsMu sync.Mutex
	reports   map[string]*report // by the SHA-256 of the module
	failures  map[string]*compileFailure

	// firstPause, storePatience and slowestPut have the values of the constants, and free is disk.Free. Tests change
	// them.
	firstPause, storePatience time.Duration
	slowestPut                int64
	free                      func(dir string) (int64, error)

	returnedMu sync.Mutex
	returned   map[string]time.Duration // the last pause, by job id
	lackSaid   time.Time                // when the log last reported a lack

	processes *pool.Pool[*child]
}

// NewPool returns a pool, or an error if the settings are invalid or the cache cannot be opened. It starts no process.
func NewPool(s Settings) (*Pool, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	extensions, err := findExtensions(s.Extensions)
	if err != nil {
		return nil, err
	}
	if s.Dir == "" {
		if s.Dir, err = DefaultDir(); err != nil {
			return nil, err
		}
	}
	p := &Pool{
		settings: s, version: compilerVersion(), extensions: extensions, requests: newRequests(&s), compiling: make(chan struct{}, compilations),
		compileTimeout: compileTimeout, firstPause: firstPause, storePatience: storePatience, slowestPut: slowestPut, free: disk.Free, returned: map[string]time.Duration{},
		counters: newCounters(), fetched: map[fetched]string{}, tooLarge: map[fetched]bool{}, reports: map[string]*report{}, failures: map[string]*compileFailure{},
	}
	if p.cache, err = newCache(s.Dir, s.CacheBytes); err != nil {
		return nil, err
	}
	p.life, p.stop = context.WithCancel(context.Background())
	p.processes = pool.New(pool.Options[*child]{
		Most: s.MaxProcesses, Usable: (*child).usable, Kill: func(c *child) { c.kill(errStopped) }, Close: (*child).close, Look: checkMemory,
	})
	return p, nil
}

// DefaultDir returns the default directory of the cache.
func DefaultDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("there is no directory for the cache of WASI modules; name one with --cache: %w", err)
	}
	return filepath.Join(cache, "daybook", "wasi"), nil
}

// Extensions returns the sorted names of the extensions.
func (p *Pool) Extensions() []string { return slices.Sorted(maps.Keys(p.extensions)) }

// Stats returns the pool's counts and its present state.
func (p *Pool) Stats() Stats {
	s := p.counters.stats()
	s.CacheBytes, s.Requests = p.cache.bytes.Load(), len(p.requests.turns)
	now := p.processes.State()
	s.Busy, s.Idle = len(now.Busy), len(now.Idle)
	return s
}

// Exposed returns a sentence if programs in the sandbox can change the cached modules, or "" if they cannot.
func (p *Pool) Exposed() string {
	if !p.settings.Sandbox.Shares(p.cache.dir) {
		return ""
	}
	return fmt.Sprintf("All programs in the sandbox may write the cache of WASI modules, %s, because it is among temporary files. Name another directory with --cache.", p.cache.dir)
}

// Close kills all processes and waits until they have exited. No executor's Run may be running.
func (p *Pool) Close() {
	p.stop()
	p.processes.Close()
	p.background.Wait()
	p.requests.transport.CloseIdleConnections()
}

// classOf returns the class of a memory limit: the smallest power of two that is at least the limit, and at least
// minClass.
func classOf(bytes int64) int64 {
	class := int64(minClass)
	for class < bytes {
		class *= 2
	}
	return class
}

// processBytes returns the memory limit of a process of a class.
func processBytes(class int64) int64 { return class + extraBytes }

// acquire returns an idle process of the class, or starts one. It waits while MaxProcesses are busy, until ctx ends
// because nobody waits for the run any more.
func (p *Pool) acquire(ctx context.Context, class int64) (*child, error) {
	c, err := p.processes.Acquire(func() (context.Context, func()) { return ctx, func() {} },
		func(c *child) bool { return c.class == class }, func() (*child, error) { return p.startChild(class) })
	if errors.Is(err, pool.ErrClosed) || errors.Is(err, pool.ErrUnwanted) {
		err = errStopped
	}
	return c, err
}

// release takes a process back. It closes a process that is no longer usable.
func (p *Pool) release(c *child) { p.processes.Release(c, idleFor) }

// checkMemory kills a process that uses too much memory, for systems where no cgroup limits it.
func checkMemory(c *child) {
	if !c.usable() {
		return
	}
	if used, most := sandbox.ResidentBytes(c.process.Pid()), processBytes(c.class); used > most {
		c.kill(&goneError{"memory", fmt.Sprintf("the process of the guest had %d bytes of memory, more than the %d that it may have, and was ended", used, most)})
	}
}
