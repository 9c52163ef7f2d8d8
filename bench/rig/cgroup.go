package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/testkit"
)

// Limited returns a program that runs the server binary with this many bytes of memory, in a cgroup that lasts until the test ends,
// and, unless files is 0, with this many descriptors. If the system does not allow the cgroup, the error says what is missing, and
// the program runs without it; with TESTS_NEED_CGROUPS set, the test fails instead.
func Limited(t *testing.T, bytes int64, files int) (program string, err error) {
	t.Helper()
	const needed = "TESTS_NEED_CGROUPS"
	limits := "true"
	group, err := newMemoryCgroup(bytes)
	switch {
	case err == nil:
		t.Cleanup(func() { testkit.Check(t, group.remove()) })
		limits = group.enter()
	case os.Getenv(needed) != "":
		t.Fatalf("%s is set, and %v", needed, err)
	}
	if files > 0 {
		limits += fmt.Sprintf(" && ulimit -n %d", files)
	}
	program = filepath.Join(t.TempDir(), "limited")
	script := fmt.Sprintf("#!/bin/sh\n%s && exec '%s' \"$@\"\n", limits, testkit.Must(daybooktest.Binary())(t))
	testkit.NoError(t, os.WriteFile(program, []byte(script), 0o755))
	return program, err
}
