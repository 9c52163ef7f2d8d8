package script

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daybookq/daybook/runner/sandbox"
)

// interpreter is a language's program on this machine.
type interpreter struct {
	language
	path  string
	reads []string // directories that it reads
}

const (
	// locateTimeout bounds the time in which an interpreter prints its path.
	locateTimeout = 20 * time.Second
	// findAgain is the time after which a missing interpreter is looked up again, because it may have been installed.
	findAgain = 30 * time.Second
)

// kept returns a function that calls find until it returns an interpreter, and then returns that. It returns an error
// again for findAgain before it repeats find.
func kept(find func() (*interpreter, error)) func() (*interpreter, error) {
	var mu sync.Mutex
	var found *interpreter
	var err error
	var failed time.Time
	return func() (*interpreter, error) {
		mu.Lock()
		defer mu.Unlock()
		if found == nil && (err == nil || time.Since(failed) >= findAgain) {
			if found, err = find(); err != nil {
				failed = time.Now()
			}
		}
		return found, err
	}
}

// find finds the interpreter of a language. path is the path in the configuration, or "".
func (l language) find(path string) (*interpreter, error) {
	name := path
	if name == "" {
		name = l.program
	}
	found, err := sandbox.Lookup(&sandbox.Command{Argv: []string{name}, Env: []string{"PATH=" + sandbox.Path()}})
	if err != nil {
		return nil, fmt.Errorf("no %s on this machine: %w", l.name, err)
	}
	if found, err = filepath.Abs(found); err != nil {
		return nil, fmt.Errorf("find %s: %w", l.name, err)
	}
	i := &interpreter{language: l, path: found}
	if l.locate == nil {
		return i, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), locateTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, found, l.locate...)
	command.Env = append(os.Environ(), "PATH="+sandbox.Path()) // a script that chooses a version reads it
	command.WaitDelay = time.Second
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s does not run on this machine: %s: %w", l.name, found, err)
	}
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	if !filepath.IsAbs(lines[0]) {
		return nil, fmt.Errorf("%s does not run on this machine: %s prints %q instead of its path", l.name, found, output)
	}
	i.path = lines[0]
	for _, dir := range lines[1:] {
		if filepath.IsAbs(dir) && dir != "/" && !slices.Contains(i.reads, dir) {
			i.reads = append(i.reads, dir)
		}
	}
	return i, nil
}
