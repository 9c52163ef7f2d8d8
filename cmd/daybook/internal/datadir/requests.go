package datadir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/daybookq/daybook/api"
	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/ingest"
)

// Connect calls f with a client of the API over the directory's data. It needs no key: whoever can change the files may do
// everything. The requests stay in this process, and follow the rules of a running server. Meanwhile the directory is locked, and its
// engine runs. The error is ingest.ErrInUse if a server runs, or SingleOnly's if it is the data of a node.
func (d *Directory) Connect(ctx context.Context, f func(*client.Client) error) error {
	if err := d.SingleOnly("start it, and send the request to it or another node: a change belongs in the log of all of them"); err != nil {
		return err
	}
	err := ingest.Offline(ctx, ingest.Options{Dir: d.Path}, func(e *ingest.Engine) error {
		server, err := api.New(api.Options{Engine: e, Trusted: true})
		if err != nil {
			return err
		}
		return f(client.New("http://localhost", client.Options{HTTP: &http.Client{Transport: inProcess{server.Handler()}}, RetryFor: -1, NoJoin: true}))
	})
	if errors.Is(err, ingest.ErrInUse) {
		err = fmt.Errorf("%w; next step: stop the server, or ask it by giving --server instead of --data", err)
	}
	return err
}

// inProcess sends requests to a handler in this process. Answers are small.
type inProcess struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	in.Host, in.RequestURI = r.URL.Host, r.URL.RequestURI()
	if in.Body == nil {
		in.Body = http.NoBody
	}
	defer in.Body.Close()
	a := &answer{header: http.Header{}, status: http.StatusOK}
	p.handler.ServeHTTP(a, in)
	return &http.Response{
		Status: http.StatusText(a.status), StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: a.header,
		Body: io.NopCloser(&a.body), ContentLength: int64(a.body.Len()), Request: r,
	}, nil
}

// answer keeps the answer of a handler.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }

// The handler sets deadlines for slow connections, and there is no connection.
func (a *answer) SetReadDeadline(time.Time) error  { return nil }
func (a *answer) SetWriteDeadline(time.Time) error { return nil }
