package runner

import (
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
)

// TestWithin: a stored handler that names a program in the configuration can lower the program's limits but not raise
// them.
func TestWithin(t *testing.T) {
	limits := &handler.Options{TimeoutMs: 1000, MemoryBytes: 32 << 20}
	for _, c := range []struct{ of, want handler.Options }{
		{handler.Options{}, handler.Options{TimeoutMs: 1000, MemoryBytes: 32 << 20}},
		{handler.Options{TimeoutMs: 500, MemoryBytes: 64 << 20, InlineBytes: 9, Weight: 3}, handler.Options{TimeoutMs: 500, MemoryBytes: 32 << 20, InlineBytes: 9, Weight: 3}},
	} {
		testkit.Equal(t, *within(c.of, limits), c.want, "of", c.of)
		testkit.Equal(t, *within(c.of, nil), c.of, "without limits", "of")
	}
}
