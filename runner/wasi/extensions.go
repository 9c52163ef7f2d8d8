package wasi

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/daybookq/daybook/job/handler"
)

// maxExtensions bounds the number of extensions of a runner.
const maxExtensions = 1000

// findExtensions returns the paths of the extensions in a directory, keyed by the names under which modules import them:
// the file names without .wasm, which may be in upper case.
func findExtensions(dir string) (map[string]string, error) {
	if dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the directory of extensions: %w", err)
	}
	found := map[string]string{}
	for _, e := range entries {
		suffix := filepath.Ext(e.Name())
		if e.IsDir() || !strings.EqualFold(suffix, ".wasm") {
			continue
		}
		name, path := strings.TrimSuffix(e.Name(), suffix), filepath.Join(dir, e.Name())
		if err := handler.CheckExtension(name); err != nil {
			return nil, fmt.Errorf("extension %s: %w", path, err)
		}
		if builtin(name) {
			return nil, fmt.Errorf("extension %s: %s is a module of the runner itself", path, name)
		}
		if other := found[name]; other != "" {
			return nil, fmt.Errorf("extensions %s and %s have the same name", other, path)
		}
		found[name] = path
	}
	if len(found) > maxExtensions {
		return nil, fmt.Errorf("there are %d extensions in %s; the maximum is %d", len(found), dir, maxExtensions)
	}
	return found, nil
}

// builtin reports whether name is a host module rather than an extension.
func builtin(name string) bool { return name == "serval" || strings.HasPrefix(name, "wasi_snapshot_") }
