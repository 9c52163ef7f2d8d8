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
	// Modules is the directory of modules in the cache, and Compiled the directory of machine code. The file name of a
	// module is its SHA-256 in hex, followed by Suffix.
	Modules  = "modules"
	Compiled = "compiled"
	Suffix   = ".wasm"

	// keptModules and keptModuleBytes bound the modules that a process keeps: their number and the size of their files. A
	// single module may be larger.
	keptModules     = 64
	keptModuleBytes = 256 << 20

	// mostPages bounds a memory, in pages of 64 KiB. The limits of runs are lower.
	mostPages = 1 << 16
)

// modules holds the modules that a process has used. Only one goroutine uses it.
type modules struct {
	dir     string
	runtime wazero.Runtime
	known   map[string]*module
	uses    int64
}

// module is a compiled module.
type module struct {
	wazero.CompiledModule
	entry    []string // name of the function to run, if the module has one
	bytes    int
	lastUsed int64
}

// newModules creates a runtime with the host modules. The runtime reads machine code from the directory compiled, if it
// exists.
func newModules(ctx context.Context, dir, compiled string) (*modules, error) {
	cache, err := wazero.NewCompilationCacheWithDir(compiled)
	if err != nil { // it does not exist, and cannot be created
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

// get returns a module. It reads and compiles the module at its first use.
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

// readModule reads the file of a module. It returns an error if the content does not match the digest in the file's name.
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

// trim closes the modules unused for the longest time while there are too many. No run may be running.
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
		m.known[oldest].Close(ctx) // the garbage collector frees its memory, even after an error
		delete(m.known, oldest)
	}
}

// entryOf returns the name of the exported function to run: the default export, which has the empty name, or otherwise
// _start.
func entryOf(exported map[string]api.FunctionDefinition) (name string, ok bool) {
	for _, name := range []string{"", "_start"} {
		if exported[name] != nil {
			return name, true
		}
	}
	return "", false
}

// lacking reports whether the system lacked memory or file descriptors. wazero wraps errors of loading machine code as
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
