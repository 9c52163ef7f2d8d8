package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Lookup returns the absolute path of a command's program, as Start finds it, or an error if there is no executable
// file. A name without a slash is looked up in the PATH of the command, not of the runner.
func Lookup(c *Command) (string, error) {
	name := c.Argv[0]
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(c.Dir, name)
		}
		path, err := filepath.Abs(name)
		if err != nil {
			return "", err
		}
		return path, executable(path)
	}
	path := variable(c.Env, "PATH")
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // it would depend on the runner's working directory
		}
		if file := filepath.Join(dir, name); executable(file) == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("%q is not in the PATH %q", name, path)
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return &os.PathError{Op: "execute", Path: path, Err: syscall.EISDIR}
	}
	if err := unix.Access(path, unix.X_OK); err != nil {
		return &os.PathError{Op: "execute", Path: path, Err: err}
	}
	return nil
}

// variable returns the value of an environment variable. If it is given several times, the last one counts, as in Go.
func variable(env []string, name string) string {
	value := ""
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}
