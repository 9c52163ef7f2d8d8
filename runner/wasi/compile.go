package wasi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/runner/sandbox"
	"github.com/daybookq/daybook/runner/task"
	"github.com/daybookq/daybook/runner/wasi/guest"
)

const (
	// compileTimeout and compileMemoryBytes bound the compilation of one module. A module of 2 MiB takes about half a
	// second.
	compileTimeout     = 2 * time.Minute
	compileMemoryBytes = 4 << 30
	// maxCompiledBytes bounds the machine code of a module.
	maxCompiledBytes = 2 << 30
	// watchInterval is the interval at which the memory of a compilation is measured.
	watchInterval = 250 * time.Millisecond
	// maxReportBytes bounds the output of a compilation.
	maxReportBytes = 64 << 10

	// After a failed compilation, the module is not compiled again for a while: for leastFailed or failedFactor times the
	// duration of the compilation, and for at least twice as long as the last time, but never longer than mostFailed. So
	// failing compilations take only a small part of the time.
	leastFailed  = 5 * time.Second
	mostFailed   = time.Hour
	failedFactor = 20
	// maxFailures bounds the number of remembered failures.
	maxFailures = 1000
)

// report is the report of a module in the cache, for one version of the compiler.
type report struct {
	guest.Report
	// File is the path of the machine code in the directory of the version, and SHA256 is its digest. Both are empty if
	// there is no machine code.
	File   string `json:"file,omitzero"`
	SHA256 string `json:"sha256,omitzero"`
}

// compilerVersion names the version of the compiler and the platform. Machine code may be used only by the version that
// wrote it.
func compilerVersion() string {
	version := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/tetratelabs/wazero" {
				version = m.Version
				if m.Replace != nil {
					version = m.Replace.Version
				}
			}
		}
	}
	if version == "" || version == "(devel)" {
		hash := fnv.New64a()
		if info, err := os.Stat(self()); err == nil {
			fmt.Fprint(hash, info.Size(), info.ModTime())
		}
		version = hex.EncodeToString(hash.Sum(nil))
	}
	return version + "-" + runtime.GOOS + "-" + runtime.GOARCH
}

// self returns the path of the runner's own binary.
func self() string {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe" // is right even after an update has replaced the file
	}
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// reportFile returns the path of a module's report, and compiled returns the directory of machine code.
func (p *Pool) reportFile(digits string) string {
	return filepath.Join(p.cache.dir, reports, p.version, digits+".json")
}
func (p *Pool) compiled() string { return filepath.Join(p.cache.dir, guest.Compiled, p.version) }

// ready reports whether the cache still has the machine code of all modules of a run.
func (p *Pool) ready(m *prepared) bool {
	for _, digits := range m.digits {
		if p.known(digits) == nil {
			return false
		}
	}
	return true
}

// known returns a module's report if it was read before and the cache still has the machine code, or nil.
func (p *Pool) known(digits string) *report {
	p.reportsMu.Lock()
	r := p.reports[digits]
	p.reportsMu.Unlock()
	if r == nil || !p.cache.has(p.reportFile(digits)) || r.File != "" && !p.cache.has(filepath.Join(p.compiled(), filepath.FromSlash(r.File))) {
		return nil
	}
	return r
}

// compile returns the report of a module, and compiles the module first unless the cache has a report of it.
func (p *Pool) compile(ctx context.Context, digits string) (*report, error) {
	if r := p.known(digits); r != nil {
		return r, nil
	}
	if err := p.lastFailure(digits); err != nil {
		return nil, err
	}
	value, err := p.once(ctx, "compile "+digits, func() (any, error) {
		r := p.readReport(digits)
		if r == nil {
			if err := p.lastFailure(digits); err != nil { // another call may have failed just now
				return nil, err
			}
			began := time.Now()
			var err error
			r, err = p.compileNow(digits)
			p.countCompilation(r, err, time.Since(began))
			if err != nil {
				p.failed(digits, err, time.Since(began))
				return nil, err
			}
		}
		p.reportsMu.Lock()
		defer p.reportsMu.Unlock()
		delete(p.failures, digits)
		if len(p.reports) >= maxFetched {
			clear(p.reports)
		}
		p.reports[digits] = r
		return r, nil
	})
	if err != nil {
		return nil, err
	}
	return value.(*report), nil
}

func (p *Pool) countCompilation(r *report, err error, took time.Duration) {
	_, machine := errors.AsType[*machineError](err)
	switch {
	case errors.Is(err, errDamaged) || errors.Is(err, errStopped):
	case machine:
		p.counters.compilation("machine", took)
	case err != nil:
		p.counters.compilation("failed", took)
	case r.Error != "":
		p.counters.compilation("refused", took)
	default:
		p.counters.compilation("ok", took)
	}
}

// errDamaged reports that the cache has a damaged module, or no longer has it.
var errDamaged = errors.New("the cache has a damaged module")

// compileFailure records a failed compilation that may succeed later.
type compileFailure struct {
	err   error
	at    time.Time
	lasts time.Duration // from at until the module may be compiled again
}

// lastFailure returns the last error of a module that must not be compiled again yet, or nil.
func (p *Pool) lastFailure(digits string) error {
	p.reportsMu.Lock()
	defer p.reportsMu.Unlock()
	f := p.failures[digits]
	if f == nil {
		return nil
	}
	ago := time.Since(f.at)
	if ago >= f.lasts {
		return nil
	}
	return fmt.Errorf("%w\nThis was %v ago. The runner does not compile the module again in the next %v", f.err, ago.Round(time.Second), (f.lasts - ago).Round(time.Second))
}

// failed records that compiling a module failed after the time took.
func (p *Pool) failed(digits string, err error, took time.Duration) {
	if _, machine := errors.AsType[*machineError](err); machine || errors.Is(err, errDamaged) || errors.Is(err, errStopped) {
		return // not the module's fault
	}
	p.reportsMu.Lock()
	defer p.reportsMu.Unlock()
	lasts := max(leastFailed, failedFactor*took)
	if last := p.failures[digits]; last != nil {
		lasts = max(lasts, 2*last.lasts)
	} else if len(p.failures) >= maxFailures {
		clear(p.failures)
	}
	p.failures[digits] = &compileFailure{err, time.Now(), min(lasts, mostFailed)}
}

// forget deletes the machine code and the report of a module that a process could not load, and the module if it is
// damaged.
func (p *Pool) forget(digits string) {
	p.reportsMu.Lock()
	if r := p.reports[digits]; r != nil && r.File != "" {
		p.cache.remove(filepath.Join(p.compiled(), filepath.FromSlash(r.File)))
	}
	delete(p.reports, digits)
	p.reportsMu.Unlock()
	p.cache.remove(p.reportFile(digits))
	if sum, err := sumOf(p.cache.module(digits)); err != nil || sum != digits {
		p.cache.remove(p.cache.module(digits))
	}
}

// readReport returns the report in the cache, or nil if there is none or its machine code is missing or damaged.
func (p *Pool) readReport(digits string) *report {
	all, err := os.ReadFile(p.reportFile(digits))
	if err != nil {
		return nil
	}
	sum, text, _ := bytes.Cut(all, []byte("\n"))
	if string(sum) != sumOfReport(digits, text) {
		return nil
	}
	r := &report{}
	if json.Unmarshal(text, r) != nil {
		return nil
	}
	if r.File == "" {
		return r
	}
	if !filepath.IsLocal(filepath.FromSlash(r.File)) {
		return nil
	}
	if sum, err := sumOf(filepath.Join(p.compiled(), filepath.FromSlash(r.File))); err != nil || sum != r.SHA256 {
		return nil
	}
	return r
}

// compileNow compiles a module in a separate process.
func (p *Pool) compileNow(digits string) (*report, error) {
	select {
	case p.compiling <- struct{}{}:
		defer func() { <-p.compiling }()
	case <-p.life.Done():
		return nil, errStopped
	}
	dir, err := os.MkdirTemp(filepath.Join(p.cache.dir, temporary), "compile-")
	if err != nil {
		return nil, &machineError{fmt.Errorf("compile a module: %w", err)}
	}
	defer os.RemoveAll(dir)
	output, stderr := &limited{most: maxReportBytes}, &tail{}
	process, err := p.settings.Sandbox.Start(sandbox.Command{
		Argv: []string{self(), guest.ModeCompile, p.cache.module(digits), dir}, Env: environment(), Dir: dir, Stdout: output, Stderr: stderr,
		Limits: sandbox.Limits{MemoryBytes: compileMemoryBytes, OpenFiles: openFiles, FileBytes: maxCompiledBytes},
		// Share the directory, not the file, which another runner may replace by an equal one at any time.
		Access: sandbox.Access{ReadOnly: []string{filepath.Dir(p.cache.module(digits))}, ReadWrite: []string{dir}}, Bare: true,
	})
	if err != nil {
		return nil, &machineError{fmt.Errorf("compile a module: %w", err)}
	}
	ctx, cancel := context.WithTimeout(p.life, p.compileTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, process.Kill)()
	tooLarge := watchMemory(ctx, process)
	exit, err := process.Wait()
	cancel()
	large := <-tooLarge
	switch {
	case p.life.Err() != nil:
		return nil, errStopped
	case large:
		return nil, fmt.Errorf("the module took more than %d bytes of memory to compile", int64(compileMemoryBytes))
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("the module took longer than %v to compile", p.compileTimeout)
	case err != nil:
		return nil, &machineError{fmt.Errorf("compile a module: %w", err)}
	case exit.Code == guest.ExitMachine && exit.Signal == 0:
		return nil, &machineError{fmt.Errorf("compile a module: %s", stderr)}
	case !exit.OK():
		if sum, err := sumOf(p.cache.module(digits)); err != nil || sum != digits {
			return nil, errDamaged
		}
		return nil, fmt.Errorf("the module could not be compiled: %s\n%s", exit, stderr)
	}
	r := &report{}
	if err := json.Unmarshal(output.held, &r.Report); err != nil {
		return nil, fmt.Errorf("the report of a compilation is damaged: %w", err)
	}
	if err := p.keepCode(r, dir); err != nil {
		return nil, &machineError{fmt.Errorf("store machine code: %w", err)}
	}
	if err := p.writeReport(digits, r); err != nil {
		return nil, &machineError{err}
	}
	if err := p.cache.trim(); err != nil {
		return nil, &machineError{err}
	}
	return r, nil
}

// watchMemory kills a compilation that uses too much memory, for systems where no cgroup limits it. The channel reports
// whether it did, at the latest when ctx ends.
func watchMemory(ctx context.Context, process *sandbox.Process) <-chan bool {
	tooLarge := make(chan bool, 1)
	go func() {
		ticks := time.NewTicker(watchInterval)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				tooLarge <- false
				return
			case <-ticks.C:
			}
			if sandbox.ResidentBytes(process.Pid()) > compileMemoryBytes {
				process.Kill()
				tooLarge <- true
				return
			}
		}
	}()
	return tooLarge
}

// keepCode moves the machine code from the directory of a compilation to the cache. A compilation writes at most one
// file.
func (p *Pool) keepCode(r *report, dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "wazero-*", "*"))
	switch {
	case err != nil:
		return err
	case len(files) == 0 || r.Error != "":
		return nil
	case len(files) > 1:
		return fmt.Errorf("there are %d files instead of one", len(files))
	}
	if info, err := os.Lstat(files[0]); err != nil || !info.Mode().IsRegular() {
		return errors.New("it is no regular file")
	}
	if r.SHA256, err = sumOf(files[0]); err != nil {
		return err
	}
	local, err := filepath.Rel(dir, files[0])
	if err != nil {
		return err
	}
	to := filepath.Join(p.compiled(), local)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	r.File = filepath.ToSlash(local)
	return os.Rename(files[0], to)
}

func (p *Pool) writeReport(digits string, r *report) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	path := p.reportFile(digits)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("store the report of a module: %w", err)
	}
	f, err := os.CreateTemp(filepath.Join(p.cache.dir, temporary), "report-")
	if err != nil {
		return fmt.Errorf("store the report of a module: %w", err)
	}
	defer os.Remove(f.Name()) // fails after the rename
	_, err = fmt.Fprintf(f, "%s\n%s", sumOfReport(digits, text), text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("store the report of a module: %w", err)
	}
	return nil
}

// reportForm is the version of the form of reports. A module whose report has another version is compiled again.
const reportForm = "2"

// sumOfReport returns the digest of a report. It is the first line of the report's file.
func sumOfReport(digits string, text []byte) string {
	sum := sha256.Sum256(append([]byte(reportForm+" "+digits+"\n"), text...))
	return hex.EncodeToString(sum[:])
}

// environment returns the environment of the processes. It disables asynchronous preemption: otherwise Go sends signals
// to threads that run for long, and a guest in poll_oneoff gets EINTR.
func environment() []string {
	return []string{guest.Variable + "=1", "GOMAXPROCS=2", "GOMEMLIMIT=512MiB", "GOTRACEBACK=single", "GODEBUG=asyncpreemptoff=1"}
}

// limited keeps the bytes written to it, up to a limit.
type limited struct {
	most int
	held []byte
}

// Write implements io.Writer.
func (l *limited) Write(b []byte) (int, error) {
	if len(l.held)+len(b) > l.most {
		return 0, errors.New("the output is too long")
	}
	l.held = append(l.held, b...)
	return len(b), nil
}

// tail keeps the last bytes written to it. Only one goroutine uses it at a time.
type tail struct{ held []byte }

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.held = append(t.held, b[max(0, len(b)-guest.StderrBytes):]...)
	if len(t.held) > 4*guest.StderrBytes {
		t.held = append(t.held[:0], t.held[len(t.held)-guest.StderrBytes:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	return task.Tail(bytes.TrimRight(t.held, "\x00"), guest.StderrBytes)
}
