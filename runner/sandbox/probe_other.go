//go:build !linux

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// tree is empty, because this system offers only process groups.
type tree struct{}

func (tree) shares(string) bool { return false }

func (tree) reads(*Command, string) bool { return true }

// New returns a sandbox, or ErrMissing with mode Require.
func New(mode Mode) (*Sandbox, error) {
	switch mode {
	case Auto, "", Off:
		return &Sandbox{missing: []string{plainMissing}}, nil
	case Require:
		return nil, fmt.Errorf("%w: %s", ErrMissing, plainMissing)
	default:
		return nil, fmt.Errorf("the mode of the sandbox must be auto, require or off, not %q", mode)
	}
}

// Lookup returns the path of a command's program, as Start finds it: in the runner's PATH, or in the default if the
// runner lacks one.
func Lookup(c *Command) (string, error) {
	path, err := exec.LookPath(c.Argv[0])
	if os.Getenv("PATH") != "" || !errors.Is(err, exec.ErrNotFound) {
		return path, err
	}
	for _, dir := range filepath.SplitList(defaultPath) {
		if path, err := exec.LookPath(filepath.Join(dir, c.Argv[0])); err == nil {
			return path, nil
		}
	}
	return "", err
}

func (s *Sandbox) start(c *Command) (*Process, error) {
	path, err := Lookup(c)
	if err != nil {
		return nil, err
	}
	return startPlain(c, path)
}
