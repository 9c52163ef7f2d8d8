package script

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/daybookq/daybook/runner/pool"
	"github.com/daybookq/daybook/runner/sandbox"
)

// openFiles bounds the descriptors of a context.
const openFiles = 1024

// Settings are the settings of a Pool.
type Settings struct {
	Sandbox *sandbox.Sandbox // required
	// Dir is the parent of the contexts' directories. "" means the user's cache. It should not be below a directory for
	// temporary files, because every program in the sandbox may write there. Elsewhere, a script reaches only its own
	// context's directory.
	Dir string
	// MaxContexts is the most contexts at a time. 0 means four per processor.
	MaxContexts int
	// Interpreters has the programs of languages. Missing ones are looked up in PATH.
	Interpreters map[string]string
	// Log receives the lines that scripts print, if it is not nil. It is called from several goroutines and must not
	// block.
	Log func(Line)
}

// Pool runs scripts in contexts: processes that have loaded handlers and are reused. Its methods may be called from
// many goroutines.
type Pool struct {
	settings     Settings
	child        childSettings
	interpreters map[string]func() (*interpreter, error) // by language
	failures     failures
	dir          *directory

	contexts *pool.Pool[*host]
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
		settings: s, interpreters: map[string]func() (*interpreter, error){},
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
	p.contexts = pool.New(pool.Options[*host]{
		Most: s.MaxContexts, Usable: (*host).usable, Kill: func(h *host) { h.child.kill("the runner ends") }, Close: p.end, Look: checkMemory,
	})
	return p, nil
}

func locale() string {
	if lang := os.Getenv("LANG"); lang != "" {
		return lang
	}
	return "C.UTF-8"
}

// Check returns why this machine cannot run scripts in a language, or nil.
func (p *Pool) Check(lang string) error {
	_, err := p.interpreters[lang]()
	return err
}

// Exposed returns, as a sentence, why a script could change other clients' scripts, or "". It could if all programs in
// the sandbox may write the pool's directory.
func (p *Pool) Exposed() string {
	if !p.settings.Sandbox.Shares(p.dir.path) {
		return ""
	}
	return fmt.Sprintf("All programs in the sandbox may write the directory of scripts, %s, because it is among temporary files. Set XDG_CACHE_HOME to another directory.", p.dir.path)
}

// Missing returns what this machine lacks for scripts in these languages, as sentences.
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

// Close ends all contexts, and waits until their processes are gone. Call it after all executors' calls of Run have
// returned.
func (p *Pool) Close() error {
	p.contexts.Close()
	return p.dir.remove()
}

// Try loads a handler in a new context without running a job. It returns why the handler cannot be loaded, or nil.
func (p *Pool) Try(ctx context.Context, h Handler) error {
	e, err := p.Executor(h)
	if err != nil {
		return err
	}
	x := e.(*executor)
	wanted := func() (context.Context, func()) { return ctx, func() {} }
	c, err := p.acquire(wanted, key{lang: h.Document.Lang, client: h.Client, group: h.ID}, x, true)
	if err != nil {
		return err
	}
	defer p.release(c, 0)
	_, err = c.load(ctx, x)
	return err
}

func (p *Pool) log(line Line) {
	if p.settings.Log != nil {
		p.settings.Log(line)
	}
}

// logOf logs a line of a context. The line's job is unknown, because the line may arrive after the next job has begun.
func (p *Pool) logOf(h *host, stream, text string) {
	p.log(Line{Lang: h.key.lang, Client: h.key.client, Type: *h.handlerType.Load(), Stream: stream, Text: text})
}

// acquire returns a used context, or starts one. If fresh is set, it always starts one. If there are too many, it
// waits. It returns errStopped if nobody waits for the jobs any more, or if the pool is closed.
func (p *Pool) acquire(wanted func() (context.Context, func()), k key, x *executor, fresh bool) (*host, error) {
	h, err := p.contexts.Acquire(wanted, func(h *host) bool { return !fresh && h.key == k }, func() (*host, error) { return p.start(k, x) })
	if errors.Is(err, pool.ErrClosed) || errors.Is(err, pool.ErrUnwanted) {
		return nil, errStopped
	}
	if err != nil {
		return nil, err
	}
	h.use(x.ID)
	return h, nil
}

// start starts a context.
func (p *Pool) start(k key, x *executor) (*host, error) {
	h := &host{key: k, loaded: map[string]int{}, users: map[string]bool{x.ID: true}}
	h.handlerType.Store(&x.Type)
	limits := sandbox.Limits{MemoryBytes: x.memoryBytes, OpenFiles: openFiles}
	var err error
	h.child, err = startChild(&p.child, x.interpreter, &x.grants, limits, func(stream, text string) { p.logOf(h, stream, text) })
	return h, err
}

// release takes a context back. It ends the context if keep is 0, or if it cannot be used again.
func (p *Pool) release(h *host, keep time.Duration) { p.contexts.Release(h, keep) }

// end ends a context, and waits until its process is gone.
func (p *Pool) end(h *host) {
	if err := h.child.close(); err != nil {
		p.logOf(h, "runner", err.Error())
	}
}

// forget ends the idle contexts that no other handler uses.
func (p *Pool) forget(handlerID string) {
	s := p.contexts.State()
	for _, h := range slices.Concat(s.Idle, s.Busy) {
		h.forget(handlerID)
	}
	p.contexts.Sweep()
}

// checkMemory ends a context that exceeds its memory limit while it runs a batch.
func checkMemory(h *host) {
	allowed := h.memoryBytes.Load()
	if allowed == 0 {
		return
	}
	if reason := tooMuchMemory(sandbox.ResidentBytes(h.child.process.Pid()), allowed); reason != "" {
		h.child.kill(reason)
	}
}
