//go:build unix && !aix && !solaris

package guest

import (
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestNoAddresses: if the system refuses memory, the run does not end with Memory, which means that its limit is too low.
func TestNoAddresses(t *testing.T) {
	var p pages
	a := &account{pages: &p, limit: 1 << 60}
	got := a.Allocate(0, 1<<60).Reallocate(1 << 16)
	testkit.Holds(t, got == nil && a.failure != nil && lacking(a.failure), len(got), "bytes", a.failure)
	b := &account{pages: &p, limit: 1 << 16}
	testkit.Holds(t, b.Allocate(0, 1<<60).Reallocate(2<<16) == nil && b.failure == nil && b.refused, "a limit is", b.failure)
}
