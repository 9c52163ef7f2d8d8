package journal

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestFill: a command with Fill gets its content exactly once, when the committer takes it into a group.
func TestFill(t *testing.T) {
	t.Run("as late as possible", func(t *testing.T) {
		g := newGate()
		r := mustRun(t, Options{Hooks: Hooks{Sync: g.sync}})
		first := testkit.Must(r.propose(Bulk, "first", ""))(t)
		<-g.entered // the commands below wait for the next group
		var content atomic.Pointer[string]
		var calls atomic.Int64
		filled := make(chan answer, 1)
		err := r.Propose(t.Context(), &Proposal{
			Lane: Bulk, Verb: "filled", Reserve: 100,
			Fill: func() (fields, body []byte, err error) {
				calls.Add(1)
				return []byte("n=1"), []byte(*content.Load()), nil
			},
			Done: func(seq uint64, at int64, err error) { filled <- answer{seq, at, err} },
		})
		testkit.MustHold(t, err == nil && calls.Load() == 0, err, calls.Load())
		used, _ := r.proposals.inFlight()
		testkit.Holds(t, used >= 100, used, "bytes are in flight, and 100 are reserved")
		late := "added after it was proposed"
		content.Store(&late)
		close(g.open)
		a := <-filled
		testkit.MustHold(t, a.err == nil && a.seq == 2, a)
		<-first
		r.stop()
		got := r.got[1]
		testkit.Holds(t, string(got.Body) == late && string(got.Fields) == "n=1" && calls.Load() == 1, got, "after", calls.Load(), "calls")
		used, _ = r.proposals.inFlight()
		testkit.Equal(t, used, 0, "bytes are still in flight")
	})
	t.Run("refused content is not stored, and the rest of the group is", func(t *testing.T) {
		g := newGate()
		r := mustRun(t, Options{Hooks: Hooks{Sync: g.sync}})
		testkit.Must(r.propose(Bulk, "first", ""))(t)
		<-g.entered
		refused := errors.New("refused")
		contents := map[string]func() (fields, body []byte, err error){
			"error":          func() (fields, body []byte, err error) { return nil, nil, refused },
			"line break":     func() (fields, body []byte, err error) { return []byte("a\nb"), nil, nil },
			"over its bound": func() (fields, body []byte, err error) { return nil, make([]byte, 11), nil },
		}
		answers := map[string]chan answer{}
		for name, fill := range contents {
			ch := make(chan answer, 1)
			answers[name] = ch
			done := func(seq uint64, at int64, err error) { ch <- answer{seq, at, err} }
			testkit.NoError(t, r.Propose(t.Context(), &Proposal{Lane: Bulk, Verb: "filled", Reserve: 10, Fill: fill, Done: done}))
		}
		last := testkit.Must(r.propose(Bulk, "last", ""))(t)
		close(g.open)
		for name, ch := range answers {
			a := <-ch
			testkit.Holds(t, errors.Is(a.err, ErrNotStored) && a.seq == 0 && (name != "error" || errors.Is(a.err, refused)), name, a)
		}
		a := <-last
		testkit.Holds(t, a.err == nil && a.seq == 2, "the last command", a)
		r.stop()
		used, _ := r.proposals.inFlight()
		testkit.Equal(t, used, 0, "bytes are still in flight")
	})
	t.Run("not called for a command that is not written", func(t *testing.T) {
		j := mustOpen(t, Options{})
		answered := make(chan error, 1)
		testkit.NoError(t, j.Propose(t.Context(), &Proposal{
			Lane: Bulk, Verb: "filled", Fill: func() (fields, body []byte, err error) { panic("called") },
			Done: func(_ uint64, _ int64, err error) { answered <- err },
		}))
		testkit.NoError(t, j.Close())
		testkit.Failed(t, <-answered, ErrNotStored)
	})
	t.Run("proposals that contradict themselves", func(t *testing.T) {
		j := mustOpen(t, Options{})
		fill := func() (fields, body []byte, err error) { return nil, nil, nil }
		for _, p := range []Proposal{{Fields: []byte("a=1")}, {Body: []byte("x")}, {Reserve: -1}, {Reserve: MaxRecordBytes}} {
			p.Verb, p.Fill, p.Done = "filled", fill, func(uint64, int64, error) {}
			err := j.Propose(t.Context(), &p)
			testkit.Holds(t, errors.Is(err, ErrInvalid), fmt.Sprintf("%+v", p.Reserve), err)
		}
	})
}
