package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

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
		s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			got.Add(1)
			panic(http.ErrAbortHandler)
		}))
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
		t.Run(name, func(t *testing.T) {
			testkit.Fails(c.Create(ctx, j))(t, problem.ErrBadRequest)
		})
	}
}
