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
	// idleFor is how long a process without runs is kept.
	idleFor = time.Minute
	// compilations bounds how many modules are compiled at a time.
	compilations = 2

	// The defaults of Settings.
	DefaultMostMemoryBytes = 1 << 30
	DefaultMostTimeout     = time.Hour
	// MaxMemoryBytes is all that a guest can address, with some for its extensions.
	MaxMemoryBytes = 8 << 30

	// minClass is the least memory that a process is started for, so that the handlers with usual limits share processes.
	minClass = 256 << 20
	// extraBytes is what a process needs beside the memory of guests: modules, machine code and Go's heap.
	extraBytes = 1 << 30
)

// Settings are those of a Pool.
type Settings struct {
	Sandbox *sandbox.Sandbox // required
	Blobs   Blobs            // nil means that there are none
	// Dir is the directory of the cache. If it is "", that is one in the user's cache.
	Dir        string
	CacheBytes int64 // of the cache, about; 0 means DefaultCacheBytes
	// MemoryBytes and Timeout are the most that a handler gets that is not Local, whatever its options are. 0 means
	// DefaultMostMemoryBytes and DefaultMostTimeout.
	MemoryBytes int64
	Timeout     time.Duration
	// MaxProcesses is how many processes there are at a time. 0 means four for each processor.
	MaxProcesses int
	// Grants are the permissions that the runner gives to handlers that require them.
	Grants []string
	// Extensions is a directory of modules that guests with a permission can import, or "".
	Extensions string
	// Allow are addresses that requests of guests may go to though they are not public.
	Allow *webhook.Allow
	// TLS is the configuration of https. Nil means the default.
	TLS       *tls.Config
	UserAgent string
	Log       *slog.Logger // of what this machine lacks; nil means none
}

// check says what is wrong, or sets the defaults.
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

// Pool runs WASI guests in processes that are used again and again. Its methods may be called from many goroutines.
type Pool struct {
	settings   Settings
	cache      *cache
	version    string            // of the compiler
	extensions map[string]string // files by name
	requests   *requests
	compiling  chan struct{} // has an element for each compilation under way
	// compileTimeout is that of one compilation. Tests make it short.
	compileTimeout time.Duration
	flights        singleflight.Group
	counters       *counters

	life       context.Context // ends with Close
	stop       context.CancelFunc
	background sync.WaitGroup // fetches and compiles

	fetchedMu sync.Mutex
	fetched   map[fetched]string // digits of modules
	tooLarge  map[fetched]bool   // blobs that are too large for a module

	reportsMu sync.Mutex
	reports   map[string]*report // by the digits of modules
	failures  map[string]*compileFailure

	// firstPause, storePatience and slowestPut are the constants, and free is disk.Free. Tests have other ones.
	firstPause, storePatience time.Duration
	slowestPut                int64
	free                      func(dir string) (int64, error)

	returnedMu sync.Mutex
	returned   map[string]time.Duration // the last pause, by the ids of jobs
	lackSaid   time.Time                // when the log had last what this machine lacks

	processes *pool.Pool[*child]
}

// NewPool returns a pool without processes.
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

// DefaultDir returns the directory of the cache if none is named.
func DefaultDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("there is no directory for the cache of WASI modules; name one with --cache: %w", err)
	}
	return filepath.Join(cache, "daybook", "wasi"), nil
}

// Extensions returns the names of the extensions, sorted.
func (p *Pool) Extensions() []string { return slices.Sorted(maps.Keys(p.extensions)) }

// Stats returns what the pool has done until now.
func (p *Pool) Stats() Stats {
	s := p.counters.stats()
	s.CacheBytes, s.Requests = p.cache.bytes.Load(), len(p.requests.turns)
	now := p.processes.State()
	s.Busy, s.Idle = len(now.Busy), len(now.Idle)
	return s
}

// Exposed says why a program in the sandbox could change modules, as a sentence, or returns "".
func (p *Pool) Exposed() string {
	if !p.settings.Sandbox.Shares(p.cache.dir) {
		return ""
	}
	return fmt.Sprintf("All programs in the sandbox may write the cache of WASI modules, %s, because it is among temporary files. Name another directory with --cache.", p.cache.dir)
}

// Close ends all processes, and waits until they are gone. No Run of an executor is under way.
func (p *Pool) Close() {
	p.stop()
	p.processes.Close()
	p.background.Wait()
	p.requests.transport.CloseIdleConnections()
}

// classOf returns the class of a limit of memory: the power of two that is not below it.
func classOf(bytes int64) int64 {
	class := int64(minClass)
	for class < bytes {
		class *= 2
	}
	return class
}

// processBytes is how much memory a process of a class may have.
func processBytes(class int64) int64 { return class + extraBytes }

// acquire returns a process that was used before, or starts one. It waits while there are too many. ctx ends when nobody
// waits for the run any more.
func (p *Pool) acquire(ctx context.Context, class int64) (*child, error) {
	c, err := p.processes.Acquire(func() (context.Context, func()) { return ctx, func() {} },
		func(c *child) bool { return c.class == class }, func() (*child, error) { return p.startChild(class) })
	if errors.Is(err, pool.ErrClosed) || errors.Is(err, pool.ErrUnwanted) {
		err = errStopped
	}
	return c, err
}

// release takes a process back. It ends it unless it can be used again.
func (p *Pool) release(c *child) { p.processes.Release(c, idleFor) }

// checkMemory ends a process that has too much memory, where no cgroup does.
func checkMemory(c *child) {
	if !c.usable() {
		return
	}
	if used, most := sandbox.ResidentBytes(c.process.Pid()), processBytes(c.class); used > most {
		c.kill(&goneError{"memory", fmt.Sprintf("the process of the guest had %d bytes of memory, more than the %d that it may have, and was ended", used, most)})
	}
}
