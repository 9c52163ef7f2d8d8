package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// packages are the folders of the benchmarks, in the order of a turn.
var packages = []string{"journal", "store", "ingest", "bench"}

// A tree is a checkout, and the folder of the binaries built from it.
type tree struct {
	name string // base or head
	dir  string
	bin  string
}

// checkOut makes a git worktree of a commit in dir. remove deletes the worktree, even after ctx has ended.
func checkOut(ctx context.Context, repository, commit, dir string) (remove func() error, err error) {
	if _, err := run(ctx, repository, nil, "git", "rev-parse", "--verify", "--quiet", commit+"^{commit}"); err != nil {
		return nil, fmt.Errorf("%q is no commit of %s: %w", commit, repository, err)
	}
	remove = func() error {
		gone := os.RemoveAll(dir)
		_, err := run(context.WithoutCancel(ctx), repository, nil, "git", "worktree", "prune")
		return errors.Join(gone, err)
	}
	if _, err := run(ctx, repository, nil, "git", "worktree", "add", "--quiet", "--detach", dir, commit); err != nil {
		return nil, errors.Join(err, remove())
	}
	return remove, nil
}

// build builds the server and the test binaries of the tree. Two trees with the same sources get identical binaries.
func (t tree) build(ctx context.Context) error {
	env := []string{"CGO_ENABLED=0"}
	if _, err := run(ctx, t.dir, env, "go", "build", "-trimpath", "-buildvcs=false", "-o", t.server(), "./cmd/daybook"); err != nil {
		return fmt.Errorf("build the server of the %s: %w", t.name, err)
	}
	for _, pkg := range packages {
		if _, err := run(ctx, t.dir, env, "go", "test", "-c", "-trimpath", "-buildvcs=false", "-o", t.test(pkg), "./"+pkg); err != nil {
			return fmt.Errorf("build the benchmarks of %s of the %s: %w", pkg, t.name, err)
		}
	}
	return nil
}

func (t tree) server() string         { return filepath.Join(t.bin, "daybook") }
func (t tree) test(pkg string) string { return filepath.Join(t.bin, pkg+".test") }

// endsIn is how long a program may take to end after it was interrupted.
const endsIn = 10 * time.Second

// run runs a program to its end and returns its standard output. If ctx ends, the program is interrupted.
func run(ctx context.Context, dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = endsIn
	var stderr bytes.Buffer // separate, so that it does not come between a benchmark's name and its figures
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	if err != nil {
		return out, fmt.Errorf("%s %v: %w\n%s%s", name, args, err, out, stderr.Bytes())
	}
	return out, nil
}
