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
	"github.com/daybookq/daybook/client/internal/testkit"
)

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}
func (endless) Close() error { return nil }

// A create is sent again only if it is proven that nothing was stored. Every other failure is ErrUnknown.
func TestCreateIsRepeatedWhenNothingWasStored(t *testing.T) {
	created := reply{status: 201, body: `{"job_id":"` + testID(0) + `"}`}
	for name, first := range map[string]reply{
		"connection refused": refusedConnection,
		"not_ready":          problem(503, "not_ready", "not_stored"),
		"overloaded":         problem(429, "overloaded", "not_stored"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := inTurn(first, created)
				j, err := f.client(client.Options{}).Create(t.Context(), client.TextJob("t", "x"))
				if err != nil || j.ID != testID(0) || len(f.calls) != 2 {
					t.Errorf("%+v, %v, after %d requests", j, err, len(f.calls))
				}
			})
		})
	}
	for name, only := range map[string]reply{
		"lost answer":          lostAnswer,
		"502 of a proxy":       {status: 502, body: "<html>"},
		"503 of a proxy":       {status: 503, body: "<html>"},
		"413 of a proxy":       {status: 413},
		"redirect":             {status: 307, header: http.Header{"Location": {"http://elsewhere/"}}},
		"stored":               problem(500, "internal", "stored"),
		"unknown":              problem(503, "writes_failed", "unknown"),
		"outcome not given":    problem(503, "writes_failed", ""),
		"2xx that is not JSON": {status: 200, body: "<html>welcome</html>"},
		"2xx without a job":    {status: 200, body: "{}"},
		"2xx that is cut":      {status: 201, stream: io.NopCloser(io.MultiReader(strings.NewReader(`{"job_`), errReader{}))},
		"2xx too large":        {status: 201, stream: endless{}},
		"bad Daybook-Seq":      {status: 201, body: created.body, header: http.Header{"Daybook-Seq": {"x"}}},
		"no answer in time":    {after: -1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := inTurn(only)
				_, err := f.client(client.Options{}).Create(t.Context(), client.TextJob("t", "x"))
				if !errors.Is(err, client.ErrUnknown) || errors.Is(err, client.ErrUnavailable) || len(f.calls) != 1 {
					t.Errorf("%v after %d requests", err, len(f.calls))
				}
			})
		})
	}
	for name, c := range map[string]struct {
		reply reply
		is    error
	}{
		"malformed":     {problem(400, "bad_request", "not_stored"), client.ErrBadRequest},
		"body too slow": {problem(408, "body_too_slow", "not_stored"), client.ErrUnavailable},
		"disk full":     {problem(507, "disk_full", "not_stored"), client.ErrOverloaded},
	} {
		t.Run(name, func(t *testing.T) {
			f := inTurn(c.reply)
			_, err := f.client(client.Options{}).Create(t.Context(), client.TextJob("t", "x"))
			if !errors.Is(err, c.is) || errors.Is(err, client.ErrUnknown) || len(f.calls) != 1 {
				t.Errorf("%v after %d requests", err, len(f.calls))
			}
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
				if again := sent > 1; again != c.again || errors.Is(err, client.ErrUnknown) == c.again || !errors.Is(err, broken) {
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
		if got.Load() != 1 || !errors.Is(err, client.ErrUnknown) {
			t.Errorf("sent %d times: %v", got.Load(), err)
		}
	})
	t.Run("net/http's own, nobody listens", func(t *testing.T) {
		s := httptest.NewServer(nil)
		s.Close()
		_, err := client.New(s.URL, client.Options{RetryFor: -1}).Create(t.Context(), client.TextJob("t", "x"))
		if !errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrUnknown) {
			t.Error(err)
		}
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
			j, err := c.Create(ctx, client.NewJob{Type: name, Payload: []byte(want.data)})
			if err != nil || string(j.Payload) != want.data || j.Kind != want.kind {
				t.Fatalf("payload %+v, %v", j, err)
			}
			claim := testkit.Must(c.Claim(ctx, client.ClaimRequest{RunnerID: "r", Types: []string{name}}))(t)
			j, err = c.Complete(ctx, j.ID, claim.ID, client.Outcome{Output: []byte(want.data)})
			if err != nil || string(j.Output) != want.data || j.OutputKind != want.kind {
				t.Errorf("output %+v, %v", j, err)
			}
		})
	}
	for name, j := range map[string]client.NewJob{
		"a text that is not UTF-8":            {Payload: []byte("\xff"), Kind: client.Text},
		"a JSON value that is none":           {Payload: []byte("{"), Kind: client.JSON},
		"a payload of a kind that is unknown": {Payload: []byte("x"), Kind: "yaml"},
		"a payload beside an address":         {Payload: []byte("x"), Kind: client.WASI, BinaryAddr: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := c.Create(ctx, j); !errors.Is(err, client.ErrBadRequest) {
				t.Error(err)
			}
		})
	}
}
