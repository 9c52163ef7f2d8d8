package script

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/daybookq/daybook/runner/sandbox"
)

const (
	// watchInterval is how often idle contexts and memory are looked at.
	watchInterval = 250 * time.Millisecond
	// openFiles bounds the descriptors of a context.
	openFiles = 1024
)

// Settings are those of a Pool.
type Settings struct {
	Sandbox *sandbox.Sandbox // required
	// Dir is where contexts have their directories. If it is "", that is the user's cache. It should not be below a directory
	// for temporary files, which all programs in the sandbox may write: elsewhere, a script reaches only the directory of its
	// own context.
	Dir string
	// MaxContexts is how many contexts there are at a time. Zero means four for each processor.
	MaxContexts int
	// Interpreters are the programs of languages. Those that are missing are looked up in PATH.
	Interpreters map[string]string
	// Log gets the lines that scripts print, if it is not nil. It is called from several goroutines and must not block.
	Log func(Line)
}

// Pool runs scripts in contexts: processes that have loaded handlers and are used again and again. Its methods may be
// called from many goroutines.
type Pool struct {
	settings     Settings
	child        childSettings
	interpreters map[string]func() (*interpreter, error) // by language
	failures     failures
	dir          *directory

	background sync.WaitGroup // ends contexts, and watches them
	stop       chan struct{}  // closed by Close

	mu      sync.Mutex
	idle    []*host // the one that was used last is the last one
	busy    map[*host]bool
	places  int             // contexts that begin, run or end
	waiting []chan struct{} // who waits for a place
	closed  bool
}

// NewPool returns a pool without contexts.
func NewPool(s Settings) (*Pool, error) {
	if s.Sandbox == nil {
		return nil, errors.New("a pool of scripts needs a sandbox")
	}
	for lang := range s.Interpreters {
		if !slices.ContainsFunc(languages, func(l language) bool { return l.name == lang }) {
			return nil, fmt.Errorf("there is no language %q", lang)
		}
	}
	if s.MaxContexts <= 0 {
		s.MaxContexts = 4 * runtime.NumCPU()
	}
	p := &Pool{
		settings: s, interpreters: map[string]func() (*interpreter, error){}, stop: make(chan struct{}), busy: map[*host]bool{},
		child: childSettings{sandbox: s.Sandbox},
	}
	var err error
	if p.dir, err = newDirectory(cmp.Or(s.Dir, cacheDirectory())); err != nil {
		return nil, err
	}
	p.child.dir = p.dir.path
	for _, l := range languages {
		p.interpreters[l.name] = kept(func() (*interpreter, error) { return l.find(s.Interpreters[l.name]) })
	}
	p.background.Go(p.watch)
	return p, nil
}

func locale() string {
	if lang := os.Getenv("LANG"); lang != "" {
		return lang
	}
	return "C.UTF-8"
}

// Check says why this machine cannot run scripts in a language, or returns nil.
func (p *Pool) Check(lang string) error {
	_, err := p.interpreters[lang]()
	return err
}

// Exposed says why a script could change those of other clients, as a sentence, or returns "": all programs in the sandbox
// may write the directory of the pool.
func (p *Pool) Exposed() string {
	if !p.settings.Sandbox.Shares(p.dir.path) {
		return ""
	}
	return fmt.Sprintf("All programs in the sandbox may write the directory of scripts, %s, because it is among temporary files. Set XDG_CACHE_HOME to another directory.", p.dir.path)
}

// Missing returns what this machine lacks to run scripts in some languages, as sentences.
func (p *Pool) Missing(langs []string) (missing []string) {
	if text := p.Exposed(); text != "" {
		missing = append(missing, text)
	}
	for _, lang := range langs {
		if p.Check(lang) != nil {
			missing = append(missing, "There is no interpreter for scripts in "+lang+".")
		}
	}
	return missing
}

// Close ends all contexts, and waits until their processes are gone. No Run of an executor is under way.
func (p *Pool) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	close(p.stop)
	for _, h := range p.idle {
		p.end(h)
	}
	p.idle = nil
	for h := range p.busy {
		h.child.kill("the runner ends")
	}
	for _, w := range p.waiting {
		close(w)
	}
	p.waiting = nil
	p.mu.Unlock()
	p.background.Wait()
	if p.dir == nil {
		return nil
	}
	return p.dir.remove()
}

func (p *Pool) log(line Line) {
	if p.settings.Log != nil {
		p.settings.Log(line)
	}
}

// logOf logs a line of a context. Which job wrote it is not known: the line may have been on its way when the next began.
func (p *Pool) logOf(h *host, stream, text string) {
	p.log(Line{Lang: h.key.lang, Client: h.key.client, Type: *h.handlerType.Load(), Stream: stream, Text: text})
}

var errClosed = errors.New("the pool of scripts is closed")

// acquire returns a context that was used before, or starts one. It waits while there are too many.
func (p *Pool) acquire(ctx func() (context.Context, func()), k key, x *executor) (*host, error) {
	p.mu.Lock()
	for {
		if p.closed {
			p.mu.Unlock()
			return nil, errClosed
		}
		if h := p.takeIdle(k); h != nil {
			p.busy[h], h.users[x.ID] = true, true
			p.mu.Unlock()
			return h, nil
		}
		if p.places < p.settings.MaxContexts {
			p.places++
			p.mu.Unlock()
			return p.start(k, x)
		}
		if len(p.idle) > 0 { // the one that was not used for the longest time makes room
			p.end(p.idle[0])
			p.idle = slices.Delete(p.idle, 0, 1)
		}
		turn := make(chan struct{})
		p.waiting = append(p.waiting, turn)
		p.mu.Unlock()
		wanted, stop := ctx()
		select {
		case <-turn:
			stop()
			p.mu.Lock()
		case <-wanted.Done():
			stop()
			p.mu.Lock()
			if n := slices.Index(p.waiting, turn); n >= 0 {
				p.waiting = slices.Delete(p.waiting, n, n+1)
			} else {
				p.wake() // somebody else can use the place
			}
			p.mu.Unlock()
			return nil, errStopped
		}
	}
}

// takeIdle returns the idle context that was used last. The caller has the lock.
func (p *Pool) takeIdle(k key) *host {
	for n := len(p.idle) - 1; n >= 0; n-- {
		h := p.idle[n]
		if h.key != k {
			continue
		}
		p.idle = slices.Delete(p.idle, n, n+1)
		if h.alive() {
			return h
		}
		p.end(h) // its process ended by itself
	}
	return nil
}

// start starts a context in a place that the caller has taken.
func (p *Pool) start(k key, x *executor) (*host, error) {
	h := &host{key: k, loaded: map[string]int{}, users: map[string]bool{x.ID: true}}
	h.handlerType.Store(&x.Type)
	limits := sandbox.Limits{MemoryBytes: x.memoryBytes, OpenFiles: openFiles}
	c, err := startChild(&p.child, x.interpreter, &x.grants, limits, func(stream, text string) { p.logOf(h, stream, text) })
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.places--
		p.wake()
		return nil, err
	}
	h.child = c
	p.busy[h] = true
	if p.closed {
		c.kill("the runner ends")
	}
	return h, nil
}

// release takes a context back. It ends the context unless it can be used again.
func (p *Pool) release(h *host, again bool, idleFor time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.busy, h)
	if !again || p.closed || len(h.users) == 0 {
		p.end(h)
		return
	}
	h.idleFor, h.idleSince = idleFor, time.Now()
	p.idle = append(p.idle, h)
	p.wake()
}

// end ends a context that is in no list any more, without waiting for its process. The caller has the lock.
func (p *Pool) end(h *host) {
	p.background.Go(func() {
		if err := h.child.close(); err != nil {
			p.logOf(h, "runner", err.Error())
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.places--
		p.wake()
	})
}

// wake lets the next one look for a place. The caller has the lock.
func (p *Pool) wake() {
	if len(p.waiting) > 0 {
		close(p.waiting[0])
		p.waiting = slices.Delete(p.waiting, 0, 1)
	}
}

// forget ends the idle contexts that no other handler uses.
func (p *Pool) forget(handlerID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for h := range p.busy {
		delete(h.users, handlerID)
	}
	p.idle = slices.DeleteFunc(p.idle, func(h *host) bool {
		delete(h.users, handlerID)
		if len(h.users) > 0 {
			return false
		}
		p.end(h)
		return true
	})
}

// watch ends contexts that were idle for too long, and those that use too much memory.
func (p *Pool) watch() {
	ticks := time.NewTicker(watchInterval)
	defer ticks.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-ticks.C:
		}
		p.mu.Lock()
		p.idle = slices.DeleteFunc(p.idle, func(h *host) bool {
			if time.Since(h.idleSince) < h.idleFor && h.alive() {
				return false
			}
			p.end(h)
			return true
		})
		var limited []*host
		for h := range p.busy {
			if h.memoryBytes.Load() > 0 {
				limited = append(limited, h)
			}
		}
		p.mu.Unlock()
		for _, h := range limited { // reading /proc of many takes a while
			if reason := tooMuchMemory(residentBytes(h.child.process.Pid()), h.memoryBytes.Load()); reason != "" {
				h.child.kill(reason)
			}
		}
	}
}
