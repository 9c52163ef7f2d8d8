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

// Report describes a module after its compilation.
type Report struct {
	// Error is the reason why the file is not a module that can run, or "".
	Error string `json:"error,omitzero"`
	// Imports are the sorted names of the modules from which it imports functions or memories.
	Imports []string `json:"imports,omitempty"`
	// Start reports whether the module exports a function to run. See entryOf.
	Start bool `json:"start,omitzero"`
	// MemoryBytes is the initial size of the memories that the module defines.
	MemoryBytes int64 `json:"memory_bytes,omitzero"`
}

// maxImports bounds the number of modules from which a module imports.
const maxImports = 100

// compile compiles a module from its file, which is named by its digest, and writes the machine code below dir.
func compile(file, dir string) (err error) {
	defer func() {
		if p := recover(); p != nil { // wazero panics if the system lacks memory for machine code
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

// errMachine reports that the machine lacks memory or disk space, whatever the module is.
var errMachine = errors.New("this machine cannot compile the module now")

// ofMachine reports whether an error means that the machine lacks memory, disk space or descriptors.
func ofMachine(err error) bool {
	for _, lack := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO} {
		if errors.Is(err, lack) {
			return true
		}
	}
	return lacking(err)
}

// ofFiles reports whether an error occurred when the machine code was written.
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

// types returns the names of value types.
func types(list []api.ValueType) string {
	names := make([]string, len(list))
	for i, t := range list {
		names[i] = api.ValueTypeName(t)
	}
	return fmt.Sprint(names)
}
