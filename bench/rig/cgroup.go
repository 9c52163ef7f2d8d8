package rig

import (
	"os"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// LimitMemory creates a memory cgroup with this many bytes for a test, and returns a line of shell that moves the shell
// into it. If the system does not allow this, the error says what is missing; with TESTS_NEED_CGROUPS set, the test fails
// instead.
func LimitMemory(t *testing.T, bytes int64) (enter string, err error) {
	t.Helper()
	group, err := newMemoryCgroup(bytes)
	if err != nil {
		const needed = "TESTS_NEED_CGROUPS"
		if os.Getenv(needed) != "" {
			t.Fatalf("%s is set, and %v", needed, err)
		}
		return "", err
	}
	t.Cleanup(func() { testkit.Check(t, group.remove()) })
	return group.enter(), nil
}
