package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// BatchResult is how a job of a batch has ended. Output holds a text as its bytes, and a JSON value as its text.
type BatchResult struct {
	Line        int64 // the number of the job in the batch
	JobID       string
	Status      string // completed, failed or cancelled
	Code        string // "" if the job ended without an outcome
	ExitCode    int
	Error       string
	Output      []byte
	OutputKind  Kind
	OutputAddr  string
	LogAddr     string
	Why         string
	CompletedAt int64 // unix ms
	Meta        map[string]string
}

// resultLine is a line of the answer: a result or, as the last one, where to continue.
type resultLine struct {
	Line        int64             `json:"line"`
	JobID       string            `json:"job_id"`
	Status      string            `json:"status"`
	Code        string            `json:"code"`
	ExitCode    int               `json:"exit_code"`
	Error       string            `json:"error"`
	Output      jsontext.Value    `json:"output"`
	OutputB64   []byte            `json:"output_b64"`
	OutputAddr  string            `json:"output_addr"`
	LogAddr     string            `json:"log_addr"`
	Why         string            `json:"why"`
	CompletedAt int64             `json:"completed_at"`
	Meta        map[string]string `json:"meta"`

	Next *int64 `json:"next"`
	End  bool   `json:"end"`
}

func (l *resultLine) result() (BatchResult, error) {
	r := BatchResult{
		Line: l.Line, JobID: l.JobID, Status: l.Status, Code: l.Code, ExitCode: l.ExitCode, Error: l.Error, OutputAddr: l.OutputAddr,
		LogAddr: l.LogAddr, Why: l.Why, CompletedAt: l.CompletedAt, Meta: l.Meta,
	}
	switch {
	case l.OutputB64 != nil:
		r.Output, r.OutputKind = l.OutputB64, Bytes
	case l.Output.Kind() == '"':
		text, err := jsontext.AppendUnquote(nil, l.Output)
		if err != nil {
			return r, err
		}
		r.Output, r.OutputKind = text, Text
	case len(l.Output) > 0 && l.Output.Kind() != 'n':
		r.Output, r.OutputKind = l.Output, JSON
	}
	return r, nil
}

// ResultsQuery says which results of a batch are read.
type ResultsQuery struct {
	From   int64 // the line of the first job
	Follow bool  // wait for jobs that have not ended, until the batch has ended
	// Chunks, if not nil, makes Results read the outputs that are stored by address.
	Chunks *Chunks
}

// Results yields the results of a batch in the order of its jobs, up to the first job that has not ended; with q.Follow, as
// they come, until the batch has ended or ctx ends. When the connection breaks it continues where it was. Jobs that are
// purged have no result. An error ends the results; it is ErrNotFound if there is no such batch. If it is an output that
// cannot be read with q.Chunks, the error comes with the result, which has the reference: From its Line+1 the others follow.
func (c *Client) Results(ctx context.Context, batchID string, q ResultsQuery) iter.Seq2[BatchResult, error] {
	from := q.From
	return func(yield func(BatchResult, error) bool) {
		path, err := idPath("/batches/", batchID, "/results")
		for err == nil {
			got := resultReader{c: c, path: path, follow: q.Follow, chunks: q.Chunks, next: from, yield: yield}
			err = c.retry(ctx, path, repeatable, func() error {
				before := got.next
				err := got.read(ctx)
				if err != nil && got.next > before && errors.Is(err, ErrUnavailable) && ctx.Err() == nil {
					return nil // it came further, so the time for repeats begins again
				}
				return err
			})
			if from = got.next; got.stopped || err == nil && got.last && (got.end || !q.Follow) {
				return
			}
		}
		yield(BatchResult{}, err)
	}
}

// resultReader reads results in one request after the other.
type resultReader struct {
	c       *Client
	path    string
	follow  bool
	chunks  *Chunks // may be nil
	next    int64   // the line that the next request begins with
	last    bool    // the last line of an answer has arrived
	end     bool    // no result follows
	stopped bool    // the caller wants no more
	yield   func(BatchResult, error) bool
}

// maxResultBytes bounds a line: an output of the largest size as JSON text, and the rest.
const maxResultBytes = 6*(8<<20) + 1<<20

// read sends one request, and yields what arrives.
func (r *resultReader) read(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(r.c.o.Timeout, func() { cancel(errSilent) })
	defer late.Stop()
	q := get(r.path)
	q.query = url.Values{"follow": {strconv.FormatBool(r.follow)}, "from": {strconv.FormatInt(r.next, 10)}}
	req, err := r.c.newRequest(ctx, q)
	if err != nil {
		return err
	}
	broken := func(err error) error {
		if context.Cause(ctx) == errSilent {
			err = errSilent
		}
		return fmt.Errorf("GET %s: %w: %w", r.path, ErrUnavailable, err)
	}
	res, err := r.c.http.Do(req)
	if err != nil {
		return broken(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, err := readAnswer(res, func() {})
		if err != nil {
			return broken(err)
		}
		return refusal(q, res, text)
	}
	late.Stop() // the server sends its head before it waits
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(make([]byte, 0, 64<<10), maxResultBytes)
	for lines.Scan() {
		last, err := r.line(ctx, lines.Bytes())
		if err != nil || last || r.stopped {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return broken(err)
	}
	return broken(io.ErrUnexpectedEOF) // without the last line, it is cut off
}

// line takes one line of the answer.
func (r *resultReader) line(ctx context.Context, text []byte) (last bool, err error) {
	var l resultLine
	if err := json.Unmarshal(text, &l); err != nil {
		return false, fmt.Errorf("GET %s: %w: %w", r.path, ErrUnexpectedAnswer, err)
	}
	if l.Next != nil {
		r.next, r.last, r.end = *l.Next, true, l.End
		return true, nil
	}
	l.Output = bytes.Clone(l.Output)
	result, err := l.result()
	if err != nil {
		return false, fmt.Errorf("GET %s: %w: %w", r.path, ErrUnexpectedAnswer, err)
	}
	r.next = l.Line + 1
	if r.chunks != nil {
		if err := r.chunks.loadOutput(ctx, r.c, &result); err != nil { // which was repeated
			r.stopped = true
			r.yield(result, err)
			return false, nil
		}
	}
	r.stopped = !r.yield(result, nil)
	return false, nil
}
