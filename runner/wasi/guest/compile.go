package guest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"syscall"

	"github.com/go-json-experiment/json"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// Report is what is known about a module after it was compiled.
type Report struct {
	// Error says why the file is no module that can run, or is "".
	Error string `json:"error,omitzero"`
	// Imports are the names of the modules that it imports functions or memories from, sorted.
	Imports []string `json:"imports,omitempty"`
	// Start reports whether the module has a function that is run, as entryOf says.
	Start bool `json:"start,omitzero"`
	// MemoryBytes is how much memory its own memories have at the start.
	MemoryBytes int64 `json:"memory_bytes,omitzero"`
}

// maxImports bounds the modules that a module imports from.
const maxImports = 100

// compile compiles the module of a file, which is named by its digest. The machine code is written below dir.
func compile(file, dir string) (err error) {
	defer func() {
		if p := recover(); p != nil { // wazero panics if the system has no memory for machine code
			failure, ok := p.(error)
			if !ok || !ofMachine(failure) {
				panic(p)
			}
			err = failure
		}
		if err != nil && ofMachine(err) {
			err = fmt.Errorf("%w: %w", errMachine, err)
		}
	}()
	binary, err := readModule(file)
	if err != nil {
		return err
	}
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return err
	}
	if text := notModule(binary); text != "" {
		return printReport(&Report{Error: text})
	}
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCompilationCache(cache).WithMemoryLimitPages(mostPages).WithDebugInfoEnabled(false))
	compiled, err := r.CompileModule(ctx, binary)
	var report Report
	switch {
	case err == nil:
		report = describe(compiled)
	case ofMachine(err), ofFiles(err):
		return err
	default:
		report.Error = err.Error()
	}
	return printReport(&report)
}

func printReport(r *Report) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(text)
	return err
}

// errMachine is the error of a machine that lacks memory or disk, whatever the module is.
var errMachine = errors.New("this machine cannot compile the module now")

// ofMachine reports whether the machine lacks memory, disk or descriptors.
func ofMachine(err error) bool {
	for _, lack := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO} {
		if errors.Is(err, lack) {
			return true
		}
	}
	return lacking(err)
}

// ofFiles reports whether an error is one of writing the machine code.
func ofFiles(err error) bool {
	_, path := errors.AsType[*os.PathError](err)
	_, link := errors.AsType[*os.LinkError](err)
	_, number := errors.AsType[syscall.Errno](err)
	return path || link || number
}

// describe returns the report of a module.
func describe(m wazero.CompiledModule) (r Report) {
	imports := map[string]bool{}
	for _, f := range m.ImportedFunctions() {
		module, _, _ := f.Import()
		imports[module] = true
	}
	for _, memory := range m.ImportedMemories() {
		module, _, _ := memory.Import()
		imports[module] = true
	}
	if len(imports) > maxImports {
		return Report{Error: fmt.Sprintf("the module imports from %d modules; the maximum is %d", len(imports), maxImports)}
	}
	r.Imports = slices.Sorted(maps.Keys(imports))
	for _, memory := range m.ExportedMemories() {
		r.MemoryBytes += int64(memory.Min()) << 16
	}
	functions := m.ExportedFunctions()
	entry, ok := entryOf(functions)
	if start := functions[entry]; ok {
		r.Start = true
		if len(start.ParamTypes()) > 0 || len(start.ResultTypes()) > 0 {
			return Report{Error: fmt.Sprintf("%s must have no parameters and no results; it has %s and %s",
				cmp.Or(entry, "the exported function with the empty name"), types(start.ParamTypes()), types(start.ResultTypes()))}
		}
	}
	return r
}

// types names types of values.
func types(list []api.ValueType) string {
	names := make([]string, len(list))
	for i, t := range list {
		names[i] = api.ValueTypeName(t)
	}
	return fmt.Sprint(names)
}
