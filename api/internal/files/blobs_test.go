package files

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/internal/testkit"
)

// resolver counts look-ups. Look-ups of SHA-1 digests that begin with 1 find nothing, and look-ups of digests that
// begin with 2 fail.
type resolver struct {
	asked, now, most atomic.Int64
	full             chan struct{} // closed when the largest allowed number runs
	fill             sync.Once
}

var errResolver = errors.New("no answer")

func (r *resolver) resolve(ctx context.Context, ref blob.Ref) (blob.Address, error) {
	r.asked.Add(1)
	n := r.now.Add(1)
	defer r.now.Add(-1)
	for old := r.most.Load(); n > old && !r.most.CompareAndSwap(old, n); old = r.most.Load() {
	}
	if n == resolveAtOnce {
		r.fill.Do(func() { close(r.full) })
	}
	<-r.full
	switch ref.SHA1[0] {
	case 1:
		return blob.Address{}, fmt.Errorf("%w: nothing", blob.ErrNotFound)
	case 2:
		return blob.Address{}, errResolver
	}
	return blob.Address{0: ref.SHA1[0], 1: ref.SHA1[1]}, ctx.Err()
}

// TestResolveAll: a request looks up each SHA-1 once and a bounded number at a time. A failed look-up is not reported
// as a missing blob.
func TestResolveAll(t *testing.T) {
	var refs []blob.Ref
	for i := range 1000 {
		if i%10 == 0 {
			refs = append(refs, blob.Ref{SHA256: &blob.Address{0: 9}})
		} else {
			refs = append(refs, blob.Ref{SHA1: &blob.SHA1{0: byte(i % 2), 1: byte(i)}})
		}
	}
	of := resolver{full: make(chan struct{})}
	all := testkit.Must(resolveAll(t.Context(), refs, of.resolve))(t)
	for i, ref := range refs {
		switch {
		case ref.SHA256 != nil && (all[i] == nil || *all[i] != *ref.SHA256),
			ref.SHA256 == nil && ref.SHA1[0] == 1 && all[i] != nil,
			ref.SHA256 == nil && ref.SHA1[0] == 0 && (all[i] == nil || all[i][1] != byte(i)):
			t.Fatalf("%s: %v", ref, all[i])
		}
	}
	if asked, most := of.asked.Load(), of.most.Load(); asked != 900 || most != resolveAtOnce {
		t.Errorf("%d look-ups, %d at once", asked, most)
	}
	refs[500] = blob.Ref{SHA1: &blob.SHA1{0: 2}}
	testkit.Fails(resolveAll(t.Context(), refs, of.resolve))(t, errResolver)
}
