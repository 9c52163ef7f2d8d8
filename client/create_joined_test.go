package client_test

import (
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/clienttest"
	"github.com/daybookq/daybook/client/internal/testkit"
)

// TestJoinedCreates: creates that are made at the same time share a stream. Each returns the same document of its job
// as the server.
func TestJoinedCreates(t *testing.T) {
	s := daybooktest.Start(t)
	number := func(n int64) *int64 { return &n }
	seven := 7
	late := time.Now().Add(time.Hour).UnixMilli()
	kinds := []client.NewJob{
		client.TextJob("text", "a\nb \"c\" é"),
		client.JSONJob("json", []byte(`{"a": [1, 2.50], "b":"\u00e9"}`)),
		{Type: "bytes", Payload: []byte{0, 255, 10}},
		{Type: "nothing"},
		{Type: "guessed", Payload: []byte("é")},
		{Type: "guessed", Payload: []byte{0xff}},
		{Type: "empty-text", Kind: client.Text},
		{Type: "empty-bytes", Kind: client.Bytes},
		client.JSONJob("string", []byte(`"a\nb"`)),
		client.JSONJob("null", []byte(` null `)),
		{BinaryAddr: "bin", InputAddr: "in", Client: "acme"},
		{Type: "all", Payload: []byte("x"), Attributes: client.Attributes{
			RunAt: late, Priority: &seven, MaxAttempts: 9, LeaseMs: 7000, RetentionMs: number(5000), ExpiresAt: late + 5, TimeoutMs: 8000,
			Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Meta: map[string]string{"k": "v"},
		}},
		{Type: "later", Attributes: client.Attributes{DelayMs: 3_600_000}},
		{Type: "zero", Attributes: client.Attributes{DelayMs: 0, Priority: new(int)}},
	}
	const callers, each = 16, 40
	var group sync.WaitGroup
	var mu sync.Mutex
	made := map[string]*client.Job{}
	for i := range callers {
		group.Go(func() {
			for n := range each {
				j, err := s.Client.Create(t.Context(), kinds[(i+n)%len(kinds)])
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				made[j.ID] = j
				mu.Unlock()
			}
		})
	}
	group.Wait()
	testkit.Equal(t, len(made), callers*each, "jobs")
	for id, j := range made {
		got, err := s.Client.Job(t.Context(), id)
		if err == nil {
			got.Text, j.Text = nil, nil // creates that share a request do not have it
		}
		testkit.MustHold(t, err == nil && reflect.DeepEqual(got, j), err, j, "but the server has", got)
	}
	// A create with a key is a separate request. A refusal applies to the create that caused it.
	keyed := client.TextJob("keyed", "x")
	keyed.Key, keyed.UniqueKey = client.NewKey(), "u"
	j := testkit.Must(s.Client.Create(t.Context(), keyed))(t)
	testkit.Equal(t, j.UniqueKey, "u", j)
}

// TestCreatesWithoutStreams: if the server offers no streams, creates are HTTP requests, and the client seldom tries to
// open a stream. With NoJoin it never does.
func TestCreatesWithoutStreams(t *testing.T) {
	for _, o := range []client.Options{{}, {NoJoin: true}} {
		var asked, created atomic.Int32
		f := &clienttest.Fake{Answer: func(c clienttest.Call) clienttest.Reply {
			if c.Route == "/stream" {
				asked.Add(1)
				return clienttest.Reply{Status: 404}
			}
			created.Add(1)
			return clienttest.Reply{Status: 201, Body: fmt.Sprintf(`{"job_id":%q}`, clienttest.TestID(int(created.Load()))), After: time.Millisecond}
		}}
		c := f.Client(o)
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for range 10 {
					_, err := c.Create(t.Context(), client.TextJob("t", "x"))
					testkit.Check(t, err)
				}
			})
		}
		group.Wait()
		n := asked.Load()
		testkit.Holds(t, n <= 1 && (!o.NoJoin || n <= 0) && created.Load() == 80, o, "asked", n, "times", created.Load(), "creates")
	}
}
