package guest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

const (
	// Modules is the directory of modules in the cache, and Compiled that of machine code. The file of a module is named by
	// the hex digits of its SHA-256, with Suffix.
	Modules  = "modules"
	Compiled = "compiled"
	Suffix   = ".wasm"

	// A process keeps at most so many modules, and so many bytes of their files. One module may be larger.
	keptModules     = 64
	keptModuleBytes = 256 << 20

	// mostPages is how many pages of 64 KiB a memory may have. Runs have limits of their own.
	mostPages = 1 << 16
)

// modules are the modules that a process has used. One goroutine uses them.
type modules struct {
	dir     string
	runtime wazero.Runtime
	known   map[string]*module
	uses    int64
}

// module is a compiled module.
type module struct {
	wazero.CompiledModule
	entry    []string // the function that is run, if there is one
	bytes    int
	lastUsed int64
}

// newModules returns a runtime with the host modules. Machine code is read from dir, if it is there.
func newModules(ctx context.Context, dir, compiled string) (*modules, error) {
	cache, err := wazero.NewCompilationCacheWithDir(compiled)
	if err != nil { // it is not there, and cannot be created
		cache = wazero.NewCompilationCache()
	}
	m := &modules{
		dir: dir, known: map[string]*module{},
		runtime: wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCompilationCache(cache).WithMemoryLimitPages(mostPages).WithDebugInfoEnabled(false)),
	}
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, m.runtime); err != nil {
		return nil, err
	}
	return m, addServal(ctx, m.runtime)
}

// get returns a module.
func (m *modules) get(ctx context.Context, digits string) (*module, error) {
	m.uses++
	if known := m.known[digits]; known != nil {
		known.lastUsed = m.uses
		return known, nil
	}
	binary, err := readModule(filepath.Join(m.dir, Modules, digits+Suffix))
	if err != nil {
		return nil, err
	}
	compiled, err := m.runtime.CompileModule(ctx, binary)
	if err != nil {
		return nil, err
	}
	added := &module{CompiledModule: compiled, bytes: len(binary), lastUsed: m.uses}
	if entry, ok := entryOf(compiled.ExportedFunctions()); ok {
		added.entry = []string{entry}
	}
	m.known[digits] = added
	return added, nil
}

// readModule reads the file of a module and verifies it.
func readModule(path string) ([]byte, error) {
	binary, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(binary); hex.EncodeToString(sum[:])+Suffix != filepath.Base(path) {
		return nil, fmt.Errorf("the file of a module has another SHA-256: %s", path)
	}
	return binary, nil
}

// trim closes the modules that were not used for the longest time, if there are too many. No run is under way.
func (m *modules) trim(ctx context.Context) {
	for {
		var bytes int
		oldest := ""
		for digits, known := range m.known {
			bytes += known.bytes
			if oldest == "" || known.lastUsed < m.known[oldest].lastUsed {
				oldest = digits
			}
		}
		if len(m.known) <= 1 || len(m.known) <= keptModules && bytes <= keptModuleBytes {
			return
		}
		m.known[oldest].Close(ctx) // its memory is freed later, whatever it says
		delete(m.known, oldest)
	}
}

// entryOf returns the name of the exported function that is run: the one with the empty name, which is the default export
// of a module, or otherwise _start.
func entryOf(exported map[string]api.FunctionDefinition) (name string, ok bool) {
	for _, name := range []string{"", "_start"} {
		if exported[name] != nil {
			return name, true
		}
	}
	return "", false
}

// lacking reports whether the system had no memory or no file descriptor. wazero passes that of loading machine code on as a
// text.
func lacking(err error) bool {
	for _, lack := range []error{syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, lack) {
			return true
		}
	}
	text := err.Error()
	return strings.HasPrefix(text, "compilationcache: error mmapping") && strings.HasSuffix(text, syscall.ENOMEM.Error())
}
