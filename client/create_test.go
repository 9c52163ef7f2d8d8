package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/clienttest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/problem"
)

// A create is sent again only if it is proven that nothing was stored. Every other failure is ErrUnknown.
func TestCreateIsRepeatedWhenNothingWasStored(t *testing.T) {
	created := clienttest.Reply{Status: 201, Body: `{"job_id":"` + clienttest.TestID(0) + `"}`}
	for name, first := range map[string]clienttest.Reply{
		"connection refused": clienttest.RefusedConnection,
		"not_ready":          clienttest.Problem(503, "not_ready", "not_stored"),
		"overloaded":         clienttest.Problem(429, "overloaded", "not_stored"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := clienttest.InTurn(first, created)
				j := testkit.Must(f.Client(client.Options{}).Create(t.Context(), client.TextJob("t", "x")))(t)
				testkit.Holds(t, j.ID == clienttest.TestID(0) && len(f.Calls) == 2, j, "after", len(f.Calls), "requests")
			})
		})
	}
	for name, only := range map[string]clienttest.Reply{
		"lost answer":          clienttest.LostAnswer,
		"502 of a proxy":       {Status: 502, Body: "<html>"},
		"503 of a proxy":       {Status: 503, Body: "<html>"},
		"413 of a proxy":       {Status: 413},
		"redirect":             {Status: 307, Header: http.Header{"Location": {"http://elsewhere/"}}},
		"stored":               clienttest.Problem(500, "internal", "stored"),
		"unknown":              clienttest.Problem(503, "writes_failed", "unknown"),
		"outcome not given":    clienttest.Problem(503, "writes_failed", ""),
		"2xx that is not JSON": {Status: 200, Body: "<html>welcome</html>"},
		"2xx without a job":    {Status: 200, Body: "{}"},
		"2xx that is cut":      {Status: 201, Stream: io.NopCloser(io.MultiReader(strings.NewReader(`{"job_`), errReader{}))},
		"2xx too large":        {Status: 201, Stream: clienttest.Endless{}},
		"bad Daybook-Seq":      {Status: 201, Body: created.Body, Header: http.Header{"Daybook-Seq": {"x"}}},
		"no answer in time":    {After: -1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := clienttest.InTurn(only)
				_, err := f.Client(client.Options{}).Create(t.Context(), client.TextJob("t", "x"))
				testkit.Holds(t, errors.Is(err, problem.ErrUnknown) && !errors.Is(err, problem.ErrUnavailable) &&
					len(f.Calls) == 1, err, "after", len(f.Calls), "requests")
			})
		})
	}
	for name, c := range map[string]struct {
		reply clienttest.Reply
		is    error
	}{
		"malformed":     {clienttest.Problem(400, "bad_request", "not_stored"), problem.ErrBadRequest},
		"body too slow": {clienttest.Problem(408, "body_too_slow", "not_stored"), problem.ErrUnavailable},
		"disk full":     {clienttest.Problem(507, "disk_full", "not_stored"), problem.ErrOverloaded},
	} {
		t.Run(name, func(t *testing.T) {
			f := clienttest.InTurn(c.reply)
			_, err := f.Client(client.Options{}).Create(t.Context(), client.TextJob("t", "x"))
			testkit.Holds(t, errors.Is(err, c.is) && !errors.Is(err, problem.ErrUnknown) &&
				len(f.Calls) == 1, err, "after", len(f.Calls), "requests")
		})
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// roundTripper is a transport that is not the one of net/http.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The transport of net/http reports reliably whether a create was sent. Another transport does so only if it has called
// a hook of the trace.
func TestWhatATransportTellsOfACreate(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		trace func(*httptrace.ClientTrace)
		again bool
	}{
		"no hook called":             {func(*httptrace.ClientTrace) {}, false},
		"connected, nothing sent":    {func(tr *httptrace.ClientTrace) { tr.GotConn(httptrace.GotConnInfo{}) }, true},
		"connected, headers sent":    {func(tr *httptrace.ClientTrace) { tr.GotConn(httptrace.GotConnInfo{}); tr.WroteHeaders() }, false},
		"headers sent, nothing else": {func(tr *httptrace.ClientTrace) { tr.WroteHeaders() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				transport := roundTripper(func(r *http.Request) (*http.Response, error) {
					sent++
					c.trace(httptrace.ContextClientTrace(r.Context()))
					return nil, broken
				})
				cl := client.New("http://fake", client.Options{HTTP: &http.Client{Transport: transport}})
				_, err := cl.Create(t.Context(), client.TextJob("t", "x"))
				if again := sent > 1; again != c.again || errors.Is(err, problem.ErrUnknown) == c.again || !errors.Is(err, broken) {
					t.Errorf("sent %d times: %v", sent, err)
				}
			})
		})
	}
	t.Run("net/http's own, answer lost", func(t *testing.T) {
		var got atomic.Int32
		s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got.Add(1); panic(http.ErrAbortHandler) }))
		defer s.Close()
		_, err := client.New(s.URL, client.Options{}).Create(t.Context(), client.TextJob("t", "x"))
		testkit.Holds(t, got.Load() == 1 && errors.Is(err, problem.ErrUnknown), "sent", got.Load(), "times", err)
	})
	t.Run("net/http's own, nobody listens", func(t *testing.T) {
		s := httptest.NewServer(nil)
		s.Close()
		_, err := client.New(s.URL, client.Options{RetryFor: -1}).Create(t.Context(), client.TextJob("t", "x"))
		testkit.Holds(t, errors.Is(err, problem.ErrUnavailable) && !errors.Is(err, problem.ErrUnknown), err)
	})
}

// Data without a kind is not lost.
func TestContentWithoutKind(t *testing.T) {
	ctx := context.Background()
	c := daybooktest.Start(t).Client
	for name, want := range map[string]struct {
		data string
		kind client.Kind
	}{
		"text": {"précieux", client.Text}, "bytes": {"\xff\x00", client.Bytes}, "nothing": {"", client.None},
	} {
		t.Run(name, func(t *testing.T) {
			j := testkit.Must(c.Create(ctx, client.NewJob{Type: name, Payload: []byte(want.data)}))(t)
			testkit.MustHold(t, string(j.Payload) == want.data && j.Kind == want.kind, "payload", j)
			claim := testkit.Must(c.Claim(ctx, client.ClaimRequest{RunnerID: "r", Types: []string{name}}))(t)
			j = testkit.Must(c.Complete(ctx, j.ID, claim.ID, client.Outcome{Output: []byte(want.data)}))(t)
			testkit.Holds(t, string(j.Output) == want.data && j.OutputKind == want.kind, "output", j)
		})
	}
	for name, j := range map[string]client.NewJob{
		"a text that is not UTF-8":            {Payload: []byte("\xff"), Kind: client.Text},
		"a JSON value that is none":           {Payload: []byte("{"), Kind: client.JSON},
		"a payload of a kind that is unknown": {Payload: []byte("x"), Kind: "yaml"},
		"a payload beside an address":         {Payload: []byte("x"), Kind: client.WASI, BinaryAddr: "a"},
	} {
		t.Run(name, func(t *testing.T) { testkit.Fails(c.Create(ctx, j))(t, problem.ErrBadRequest) })
	}
}

// TestAttributes: every attribute reaches the server, in the body of a create, in creates that share a request, in the query of
// a bulk post, and for the job that follows. Documents and claims show each that has a field of the same name.
func TestAttributes(t *testing.T) {
	s := daybooktest.Start(t)
	c := s.Client
	ctx := t.Context()
	number := func(n int64) *int64 { return &n }
	priority := 0
	all := client.Attributes{
		RunAt: 4102444800000, Priority: &priority, MaxAttempts: 7,
		Backoff: &client.Backoff{InitialMs: number(0), FactorMilli: number(1500), MaxMs: number(9000)},
		LeaseMs: 61_000, RetentionMs: number(0), ExpiresAt: 4102444800001, TimeoutMs: 62_000,
		Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Meta: map[string]string{"a": "b c", "d": "é=&"},
	}
	fields := reflect.TypeFor[client.Attributes]()
	check := func(form string, j *client.Job) {
		t.Helper()
		for i := range fields.NumField() {
			name := fields.Field(i).Name
			given := reflect.Indirect(reflect.ValueOf(all).Field(i))
			if elsewhere := name == "DelayMs" || name == "OnComplete"; elsewhere {
				continue
			} else if reflect.ValueOf(all).Field(i).IsZero() {
				t.Errorf("this test gives no %s", name)
			} else if shown := reflect.ValueOf(*j).FieldByName(name); shown.IsValid() {
				testkit.DeepEqual(t, shown.Interface(), given.Interface(), form, name)
			}
		}
	}
	alone := client.New(s.URL, client.Options{NoJoin: true})
	created := testkit.Must(alone.Create(ctx, client.NewJob{Type: "x", Attributes: all}))(t)
	check("a create", created)
	check("a create, read", testkit.Must(c.Job(ctx, created.ID))(t))
	for range 3 { // creates share a request once two of them run at the same time
		var together sync.WaitGroup
		jobs := make([]*client.Job, 8)
		for i := range jobs {
			together.Go(func() {
				var err error
				jobs[i], err = c.Create(ctx, client.NewJob{Type: "x", Attributes: all})
				testkit.Check(t, err)
			})
		}
		together.Wait()
		for _, j := range jobs {
			testkit.MustHold(t, j != nil, "no job")
			check("a shared create", j)
			check("a shared create, read", testkit.Must(c.Job(ctx, j.ID))(t))
		}
	}
	now, then := all, all
	now.RunAt, then.RunAt, then.ExpiresAt = 0, 0, 0
	now.OnComplete = &client.FollowOn{Type: "z", Attributes: then}
	next := testkit.Must(alone.Create(ctx, client.NewJob{Type: "now", Attributes: now}))(t).OnComplete
	got := testkit.Must(c.Claim(ctx, client.ClaimRequest{RunnerID: "r", Types: []string{"now"}}))(t)
	testkit.MustEqual(t, len(got.Jobs), 1, got)
	got.Jobs[0].RunAt = all.RunAt
	check("a claim", got.Jobs[0])
	for i := range fields.NumField() {
		if want := reflect.ValueOf(then).Field(i); !want.IsZero() && fields.Field(i).Name != "Backoff" && fields.Field(i).Name != "RetentionMs" {
			testkit.DeepEqual(t, reflect.ValueOf(next.Attributes).Field(i).Interface(), want.Interface(), "the job that follows:", fields.Field(i).Name)
		}
	}
	added := testkit.Must(c.AddLines(ctx, []byte("line\n"), client.AddOptions{Type: "x", Attributes: all}))(t)
	j := testkit.Must(c.Job(ctx, added.FirstID))(t)
	check("a bulk post", j)

	// Documents do not show the backoff and the retention. With a first backoff of 0 a job is pending at once after a
	// retry. With a retention of 0 it is purged when it ends.
	hidden := client.Attributes{Backoff: all.Backoff, RetentionMs: all.RetentionMs}
	testkit.Must(c.AddLines(ctx, []byte("line\n"), client.AddOptions{Type: "y", Attributes: hidden}))(t)
	claim := testkit.Must(c.Claim(ctx, client.ClaimRequest{RunnerID: "r", Types: []string{"y"}}))(t)
	testkit.MustEqual(t, len(claim.Jobs), 1, claim)
	id := claim.Jobs[0].ID
	j, err := c.Complete(ctx, id, claim.ID, client.Outcome{Code: "retry"})
	testkit.Holds(t, err == nil && j.Status == "pending", "after a retry", j, err)
	testkit.Must(c.Cancel(ctx, id))(t)
	testkit.Fails(c.Job(ctx, id))(t, problem.ErrNotFound)
}

func TestStrategy(t *testing.T) {
	for strategy, want := range map[client.Strategy]string{
		client.Fair: `"fair"`,
		"best":      `"best"`, // which the server refuses
		client.PreferDistinct("user", client.Random):                                  `{"meta_key":"user","name":"prefer_distinct","underlying":"random"}`,
		client.PreferDistinct("region", client.PreferDistinct("user", client.Newest)): `{"meta_key":"region","name":"prefer_distinct","underlying":{"meta_key":"user","name":"prefer_distinct","underlying":"newest"}}`,
		client.PreferDistinct("user", ""):                                             `{"meta_key":"user","name":"prefer_distinct","underlying":"oldest"}`,
	} {
		got, err := json.Marshal(strategy)
		testkit.Holds(t, string(got) == want && err == nil, strategy, "is sent as", got, err)
	}
	five := client.Oldest
	for range 5 {
		five = client.PreferDistinct("k", five)
	}
	for _, strategy := range []client.Strategy{five, client.PreferDistinct("a b", client.Oldest), client.PreferDistinct("a/b", client.Oldest), client.PreferDistinct("", client.Oldest), client.PreferDistinct("a", "best")} {
		got, err := json.Marshal(strategy)
		testkit.Holds(t, errors.Is(err, problem.ErrBadRequest), strings.TrimSpace(string(strategy)), "is sent as", got, err)
	}
}
