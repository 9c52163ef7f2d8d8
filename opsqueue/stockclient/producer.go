package stockclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/daybookq/daybook/opsqueue/wire"
)

// Producer is the original's producer. Any goroutine may use it.
type Producer struct {
	address    string // host:port
	violations *Violations
	http       *http.Client
	retries    atomic.Int64
}

// NewProducer returns a producer of the server at address, which is host:port. Close closes its connections.
func NewProducer(address string, v *Violations) *Producer {
	return &Producer{address: address, violations: v, http: &http.Client{Transport: &http.Transport{}}}
}

// Close closes the idle connections.
func (p *Producer) Close() { p.http.CloseIdleConnections() }

// Retries returns how often requests were sent again.
func (p *Producer) Retries() int64 { return p.retries.Load() }

// ErrNotFound is returned for a cancel that is answered with 404.
var ErrNotFound = errors.New("submission not found")

// NotCancellableError is returned for a cancel that is answered with 409.
type NotCancellableError struct{ wire.SubmissionNotCancellable }

func (e *NotCancellableError) Error() string { return "submission not cancellable" }

// TooManyError is returned for a lookup by metadata that is answered with 400. Its value is the server's limit.
type TooManyError int64

func (e TooManyError) Error() string { return fmt.Sprintf("more than %d submissions match", int64(e)) }

// StatusError is returned for any other status except 200.
type StatusError struct {
	Status int
	Body   string
}

func (e *StatusError) Error() string { return fmt.Sprintf("status %d: %s", e.Status, e.Body) }

// Insert creates a submission. header may have the headers of a trace context. As in the original, Insert repeats the
// request if the response is lost, which can create a second submission.
func (p *Producer) Insert(ctx context.Context, s wire.InsertSubmission, header http.Header) (wire.SubmissionID, error) {
	n, err := p.number(ctx, request{method: http.MethodPost, path: "/producer/submissions", body: wire.EncodeJSON(s), header: header, on5xx: true})
	return wire.SubmissionID(n), err
}

// Status returns the status of a submission, or nil if the server does not know it.
func (p *Producer) Status(ctx context.Context, id wire.SubmissionID) (*wire.SubmissionStatus, error) {
	body, err := p.ok(ctx, request{method: http.MethodGet, path: "/producer/submissions/" + id.String(), on5xx: true})
	if err != nil {
		return nil, err
	}
	var status *wire.SubmissionStatus
	err = wire.DecodeJSON(body, &status)
	return status, p.shape("status", body, err)
}

// Cancel cancels a submission. Its errors include ErrNotFound and NotCancellableError.
func (p *Producer) Cancel(ctx context.Context, id wire.SubmissionID) error {
	a, err := p.exchange(ctx, request{method: http.MethodPost, path: "/producer/submissions/cancel/" + id.String()})
	if err != nil {
		return err
	}
	switch a.status {
	case http.StatusOK:
		if len(a.body) > 0 || a.header.Get("Content-Length") != "0" || a.header.Get("Content-Type") != "" {
			p.violations.add("cancel: 200 has the body %q, Content-Length %q, Content-Type %q", a.body, a.header.Get("Content-Length"), a.header.Get("Content-Type"))
		}
		return nil
	case http.StatusNotFound:
		var n wire.SubmissionID
		err := wire.DecodeJSON(a.body, &n)
		if err := p.shape("cancel: 404", a.body, err); err != nil {
			return err
		}
		if n != id {
			p.violations.add("cancel of %s: 404 has the id %d", id, n)
		}
		return ErrNotFound
	case http.StatusConflict:
		var reason wire.SubmissionNotCancellable
		err := wire.DecodeJSON(a.body, &reason)
		if err := p.shape("cancel: 409", a.body, err); err != nil {
			return err
		}
		return &NotCancellableError{reason}
	}
	return &StatusError{a.status, string(a.body)}
}

// Count returns the number of submissions in progress. As in the original, it must fit into 32 bits.
func (p *Producer) Count(ctx context.Context) (int64, error) {
	n, err := p.number(ctx, request{method: http.MethodGet, path: "/producer/submissions/count", on5xx: true})
	if err == nil && n >= 1<<32 {
		p.violations.add("count: %d is greater than 32 bits", n)
	}
	return n, err
}

// CountCompleted returns the number of completed submissions. The original's library lacks this call.
func (p *Producer) CountCompleted(ctx context.Context) (int64, error) {
	return p.number(ctx, request{method: http.MethodGet, path: "/producer/submissions/count_completed"})
}

// LookupByPrefix returns the id of a submission with a prefix. ok is false if there is none.
func (p *Producer) LookupByPrefix(ctx context.Context, prefix string) (id wire.SubmissionID, ok bool, err error) {
	body, err := p.ok(ctx, request{method: http.MethodGet, path: "/producer/submissions/lookup_id_by_prefix/" + url.PathEscape(prefix), on5xx: true})
	if err != nil || strings.TrimSpace(string(body)) == "null" {
		return 0, false, err
	}
	err = wire.DecodeJSON(body, &id)
	return id, err == nil, p.shape("lookup by prefix", body, err)
}

// LookupByMetadata returns the submissions in progress that have all pairs. Its errors include TooManyError.
func (p *Producer) LookupByMetadata(ctx context.Context, pairs wire.Metadata) ([]wire.SubmissionID, error) {
	a, err := p.exchange(ctx, request{method: http.MethodPost, path: "/producer/submissions/lookup_ids_by_strategic_metadata", body: wire.EncodeJSON(pairs)})
	if err != nil {
		return nil, err
	}
	switch a.status {
	case http.StatusOK:
		var ids []wire.SubmissionID
		err := wire.DecodeJSON(a.body, &ids)
		return ids, p.shape("lookup by metadata", a.body, err)
	case http.StatusBadRequest: // the original reads every body of status 400 as a number
		var n int64
		err := wire.DecodeJSON(a.body, &n)
		if err := p.shape("lookup by metadata: 400", a.body, err); err != nil {
			return nil, err
		}
		return nil, TooManyError(n)
	}
	return nil, &StatusError{a.status, string(a.body)}
}

// ServerVersion returns the version of the server. It does not repeat the request.
func (p *Producer) ServerVersion(ctx context.Context) (string, error) {
	body, err := p.ok(ctx, request{method: http.MethodGet, path: "/producer/version", once: true})
	return string(body), err
}

// number sends a request and returns the number in its response.
func (p *Producer) number(ctx context.Context, r request) (int64, error) {
	body, err := p.ok(ctx, r)
	if err != nil {
		return 0, err
	}
	var n int64
	err = wire.DecodeJSON(body, &n)
	return n, p.shape(r.path, body, err)
}

// ok sends a request and returns the body of the response, or an error unless the status is 200.
func (p *Producer) ok(ctx context.Context, r request) ([]byte, error) {
	a, err := p.exchange(ctx, r)
	if err == nil && a.status != http.StatusOK {
		err = &StatusError{a.status, string(a.body)}
	}
	return a.body, err
}

// shape records a response that cannot be decoded.
func (p *Producer) shape(of string, body []byte, err error) error {
	if err == nil {
		return nil
	}
	if len(body) > 200 {
		body = body[:200]
	}
	p.violations.add("%s: %v: %q", of, err, body)
	return fmt.Errorf("%s: %w", of, err)
}
