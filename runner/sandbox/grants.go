package sandbox

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Grants are variables and access that a runner's configuration grants to a handler's processes, in addition to the
// defaults.
type Grants struct {
	// Env are variables. They have precedence over the variables that every process gets.
	Env map[string]string `toml:"env"`
	Access
}

// Check returns the configuration key of an invalid grant, and the problem, as the end of a sentence that begins with
// the key. If all grants are valid, both are "".
func (g *Grants) Check() (key, problem string) {
	for _, name := range slices.Sorted(maps.Keys(g.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(g.Env[name], 0) {
			return "env", fmt.Sprintf("has a variable that no process can have: %q", name)
		}
	}
	for _, list := range []struct {
		key   string
		paths []string
	}{{"read_only", g.ReadOnly}, {"read_write", g.ReadWrite}} {
		for _, path := range list.paths {
			if !filepath.IsAbs(path) {
				return list.key, fmt.Sprintf("must have absolute paths, not %q", path)
			}
			if _, err := os.Stat(path); err != nil {
				return list.key, fmt.Sprintf("has a path that is not there: %v", err)
			}
		}
	}
	return "", ""
}

// Environment returns Env and the variables in all, as NAME=value. Env has precedence.
func (g *Grants) Environment(all map[string]string) []string {
	variables := maps.Clone(all)
	maps.Copy(variables, g.Env)
	env := make([]string, 0, len(variables))
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		env = append(env, name+"="+variables[name])
	}
	return env
}

// defaultPath is the PATH to use if the runner lacks one.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Path returns the runner's PATH, or a default. Processes get the same.
func Path() string { return cmp.Or(os.Getenv("PATH"), defaultPath) }
