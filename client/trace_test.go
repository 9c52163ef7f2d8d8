package client_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/testkit"
)

type traceKey struct{}

// TestTraceparentOfContext: every form of create sends the trace context of its caller, also creates that share a
// request. The trace context of a job has precedence. A repeat with a key may have another trace context.
func TestTraceparentOfContext(t *testing.T) {
	s := daybooktest.Start(t)
	c := client.New(s.URL, client.Options{Traceparent: func(ctx context.Context) string {
		text, _ := ctx.Value(traceKey{}).(string)
		return text
	}})
	traced := func(n int) (context.Context, string) {
		text := fmt.Sprintf("00-0af7651916cd43dd8448eb211c80319c-%016x-01", n+1)
		return context.WithValue(t.Context(), traceKey{}, text), text
	}
	wants := func(form, id, want string) {
		t.Helper()
		j, err := c.Job(t.Context(), id)
		testkit.Holds(t, err == nil && j.Traceparent == want, form, j, err, "not", want)
	}
	const callers, each = 8, 40 // enough for a stream, and for shared requests
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			for n := range each {
				ctx, want := traced(i*each + n)
				j, err := c.Create(ctx, client.TextJob("x", "y"))
				if err != nil || j.Traceparent != want {
					t.Errorf("%+v, %v", j, err)
					return
				}
				wants("a shared create", j.ID, want)
			}
		})
	}
	group.Wait()

	ctx, want := traced(1 << 20)
	many := testkit.Must(c.CreateMany(ctx, []client.NewJob{client.TextJob("x", "y")}, client.CreateOptions{}))(t)
	wants("CreateMany", many.FirstID, want)
	lines := testkit.Must(c.AddLines(ctx, []byte("x\n"), client.AddOptions{}))(t)
	wants("AddLines", lines.FirstID, want)
	added := testkit.Must(c.Add(ctx, strings.NewReader("x\n"), client.AddOptions{}))(t)
	wants("Add", added.Bodies[0].FirstID, want)

	own := client.TextJob("x", "y")
	_, own.Traceparent = traced(7)
	j := testkit.Must(c.Create(ctx, own))(t)
	wants("a job with its own", j.ID, own.Traceparent)
	for _, none := range []string{"", "nonsense", want + "\r\nx: y"} {
		j = testkit.Must(c.Create(context.WithValue(t.Context(), traceKey{}, none), client.TextJob("x", "y")))(t)
		wants("without a trace context", j.ID, "")
	}

	keyed := client.TextJob("x", "y")
	keyed.Key = client.NewKey()
	first := testkit.Must(c.Create(ctx, keyed))(t)
	other, _ := traced(8)
	again := testkit.Must(c.Create(other, keyed))(t)
	testkit.Holds(t, again.ID == first.ID && again.Traceparent == want, "a repeat", again)
}
