//go:build unix && !aix && !solaris

package guest

import "testing"

// TestNoAddresses: memory that the system does not give is not taken for memory that the run may not have.
func TestNoAddresses(t *testing.T) {
	var p pages
	a := &account{pages: &p, limit: 1 << 60}
	if b := a.Allocate(0, 1<<60).Reallocate(1 << 16); b != nil || a.failure == nil || !lacking(a.failure) {
		t.Errorf("%d bytes, %v", len(b), a.failure)
	}
	b := &account{pages: &p, limit: 1 << 16}
	if b.Allocate(0, 1<<60).Reallocate(2<<16) != nil || b.failure != nil || !b.refused {
		t.Errorf("a limit is %v", b.failure)
	}
}
