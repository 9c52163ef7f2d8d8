package guest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/sys"
)

// run is one run of a guest.
type run struct {
	process *process
	number  uint32
	spec    *Spec
	stdin   *stdin // nil if the input is empty
	stdout  stdout
	stderr  stderr
	memory  account
}

// guests configures all guests: no arguments, no environment and no files.
var guests = wazero.NewModuleConfig().WithName("").WithSysWalltime().WithSysNanotime().WithSysNanosleep().WithRandSource(rand.Reader)

// do runs the guest.
func (r *run) do(ctx context.Context) (result Result) {
	defer r.memory.free()
	defer func() {
		if p := recover(); p != nil {
			switch failure, ok := p.(error); {
			case ok && lacking(failure): // wazero panics if the system lacks memory for machine code
				r.memory.failure = failure
			case !r.memory.refused:
				panic(p)
			}
			result = r.tooLarge() // wazero panics if the allocator refuses the initial memory
		}
		if r.memory.failure != nil && (result.End != Exit || result.Code != 0) {
			result = Result{End: Lack, Text: r.memory.failure.Error()}
		}
	}()
	m := r.process.modules
	module, err := m.get(ctx, r.spec.Module)
	if err != nil {
		return ended(Load, "", err)
	}
	config := guests.WithStartFunctions(module.entry...).WithStdout(&r.stdout).WithStderr(&r.stderr)
	if r.stdin != nil {
		config = config.WithStdin(r.stdin.guest)
	}
	if r.spec.Proc {
		proc, err := openProc()
		if err != nil {
			return ended(NoProc, "", err)
		}
		defer proc.close()
		config = config.WithFSConfig(wazero.NewFSConfig().WithFSMount(proc, "/proc"))
	}
	ctx = context.WithValue(experimental.WithMemoryAllocator(ctx, &r.memory), callerKey{}, r)
	if len(r.spec.Extensions) > 0 {
		extensions, result := r.extensions(ctx)
		for _, e := range extensions {
			defer e.Close(ctx)
		}
		if result != nil {
			return *result
		}
		ctx = experimental.WithImportResolver(ctx, func(name string) api.Module { return extensions[name] })
	}
	return r.instantiate(ctx, module, config)
}

// extensions instantiates the extensions of the run. The caller closes all that it returns, even with a result.
func (r *run) extensions(ctx context.Context) (map[string]api.Module, *Result) {
	extensions := map[string]api.Module{}
	for name, digits := range r.spec.Extensions {
		module, err := r.process.modules.get(ctx, digits)
		if err != nil {
			result := ended(Load, "extension "+name+": ", err)
			return extensions, &result
		}
		e, err := r.process.modules.runtime.InstantiateModule(ctx, module.CompiledModule, guests.WithStartFunctions("_initialize").WithStderr(&r.stderr))
		if err != nil {
			result := r.failed(err)
			result.Text = fmt.Sprintf("extension %s: %s", name, result.Text)
			return extensions, &result
		}
		if e.IsClosed() { // it exited with status 0
			return extensions, &Result{End: Load, Text: fmt.Sprintf("extension %s: it has ended in _initialize", name)}
		}
		extensions[name] = e
	}
	return extensions, nil
}

// ended returns the result of a run that could not start: Lack if the machine lacks something, which is not the guest's
// fault, or otherwise end.
func ended(end End, of string, err error) Result {
	if lacking(err) {
		end = Lack
	}
	return Result{End: end, Text: of + err.Error()}
}

// instantiate instantiates the guest, which also runs it.
func (r *run) instantiate(ctx context.Context, module *module, config wazero.ModuleConfig) Result {
	instance, err := r.process.modules.runtime.InstantiateModule(ctx, module.CompiledModule, config)
	if instance != nil {
		defer instance.Close(ctx)
	}
	if err != nil {
		return r.failed(err)
	}
	return Result{End: Exit}
}

// failed converts an error of wazero to the result of the run.
func (r *run) failed(err error) Result {
	if exit, ok := errors.AsType[*sys.ExitError](err); ok {
		return Result{End: Exit, Code: exit.ExitCode()}
	}
	text := err.Error()
	// wazero has no types for these errors. Start sections run during instantiation, so their errors are traps, too.
	if strings.HasPrefix(text, "module[] function[") {
		if inner := errors.Unwrap(err); inner != nil {
			text = inner.Error()
		}
		return Result{End: Trap, Text: text}
	}
	if strings.HasPrefix(text, "start function[") {
		return Result{End: Trap, Text: text}
	}
	return Result{End: Link, Text: text}
}

func (r *run) tooLarge() Result {
	return Result{End: Memory, Text: fmt.Sprintf("the guest needs more memory at its start than the %d bytes that it may have", r.memory.limit)}
}
