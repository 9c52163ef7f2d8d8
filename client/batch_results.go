package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/client/internal/transport"
	"github.com/daybookq/daybook/client/problem"
	"github.com/daybookq/daybook/job/runs"
)

// BatchResult is how a job of a batch has ended. Output holds a text as its bytes, and a JSON value as its text.
type BatchResult struct {
	Line        int64  `json:"line"` // the number of the job in the batch
	JobID       string `json:"job_id"`
	Status      string `json:"status"` // completed, failed or cancelled
	Code        string `json:"code"`   // "" if the job ended without an outcome
	ExitCode    int    `json:"exit_code"`
	ProcessExit *int64 `json:"process_exit"` // the exit status of a process, if the runner has reported one
	Error       string `json:"error"`
	Output      []byte `json:"-"`
	OutputKind  Kind   `json:"-"`
	OutputAddr  string `json:"output_addr"`
	// OutputAddrKind is the kind of the blob at OutputAddr; None if the runner has not given it.
	OutputAddrKind Kind              `json:"output_addr_kind"`
	LogAddr        string            `json:"log_addr"`
	Why            string            `json:"why"`
	CompletedAt    int64             `json:"completed_at"` // unix ms
	Meta           map[string]string `json:"meta"`
	// Undecodable is why Options.Codec could not decode the output or the error; see Job.Undecodable.
	Undecodable error `json:"-"`
}

// decodeResult decodes the output and the error of a result.
func (c *Client) decodeResult(r *BatchResult) {
	err := c.decode(PartOutput, &r.OutputKind, &r.Output)
	if err == nil {
		err = c.decodeError(&r.Error)
	}
	if err != nil {
		r.Undecodable = fmt.Errorf("job %s: %w", r.JobID, err)
	}
}

// resultLine is a line of the answer: a result, or in the last line the place where the next request continues.
type resultLine struct {
	BatchResult
	Output    jsontext.Value `json:"output"`
	OutputB64 []byte         `json:"output_b64"`

	Next *int64 `json:"next"`
	End  bool   `json:"end"`
}

// ResultsQuery selects results of a batch.
type ResultsQuery struct {
	From   int64 // the line of the first job
	Follow bool  // wait for jobs that have not ended, until the batch has ended
}

// Results yields the results of a batch in the order of its jobs, up to the first job that has not ended. With q.Follow
// it waits for jobs that have not ended, until the batch has ended or ctx ends. When the connection breaks, Results
// continues where it was. Purged jobs are skipped. An error ends the results; it is ErrNotFound if there is no such
// batch.
func (c *Client) Results(ctx context.Context, batchID string, q ResultsQuery) iter.Seq2[BatchResult, error] {
	from := q.From
	return func(yield func(BatchResult, error) bool) {
		path, err := idPath("/batches/", batchID, "/results")
		for err == nil {
			got := resultReader{c: c, path: path, follow: q.Follow, next: from, yield: yield}
			err = c.conn.Retry(ctx, path, transport.Repeatable, func() error {
				before := got.next
				err := got.read(ctx)
				if err != nil && got.next > before && errors.Is(err, problem.ErrUnavailable) && ctx.Err() == nil {
					return nil // more results arrived, so the time for repeats begins again
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

// resultReader reads results, with one request after the other.
type resultReader struct {
	c       *Client
	path    string
	follow  bool
	next    int64 // the line that the next request begins with
	last    bool  // the last line of an answer has arrived
	end     bool  // no result follows
	stopped bool  // the caller has stopped the iteration
	yield   func(BatchResult, error) bool
}

// maxResultBytes bounds a line: an output of the largest size as JSON text, and the other fields.
const maxResultBytes = 6*(8<<20) + 1<<20

// read sends one request, and yields the results as they arrive.
func (r *resultReader) read(ctx context.Context) (err error) {
	q := transport.Get(r.path)
	q.Accept = runs.MediaType + ", " + transport.MimeNDJSON
	q.Query = url.Values{"follow": {strconv.FormatBool(r.follow)}, "from": {strconv.FormatInt(r.next, 10)}}
	answer, err := r.c.conn.Open(ctx, q, 0) // the server sends its head before it waits
	if err != nil {
		return err
	}
	defer answer.Close()
	if mediaType, _, _ := strings.Cut(answer.Header.Get("Content-Type"), ";"); mediaType == runs.MediaType {
		err = r.readRuns(answer)
	} else {
		err = r.readLines(answer)
	}
	if err != nil && !errors.Is(err, problem.ErrUnexpectedAnswer) && !errors.Is(err, problem.ErrUnavailable) { // the answer has ended too early, or ctx has
		err = answer.Broken(err)
	}
	return err
}

// readLines yields the results of an answer in NDJSON.
func (r *resultReader) readLines(body io.Reader) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 64<<10), maxResultBytes)
	lines.Split(wholeLines)
	for lines.Scan() {
		last, err := r.line(lines.Bytes())
		if err != nil || last || r.stopped {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF // without the last line, it is cut off
}

// wholeLines splits a text at newlines. It drops a last line without a newline, where the text was cut off.
func wholeLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if bytes.IndexByte(data, '\n') < 0 {
		return 0, nil, nil
	}
	return bufio.ScanLines(data, atEOF)
}

// line handles one line of the answer.
func (r *resultReader) line(text []byte) (last bool, err error) {
	var l resultLine
	if err := json.Unmarshal(text, &l); err != nil {
		return false, fmt.Errorf("GET %s: %w: %w", r.path, problem.ErrUnexpectedAnswer, err)
	}
	if l.Next != nil {
		r.next, r.last, r.end = *l.Next, true, l.End
		return true, nil
	}
	if l.BatchResult.Output, l.OutputKind, err = content(l.Output, l.OutputB64); err != nil {
		return false, fmt.Errorf("GET %s: %w: %w", r.path, problem.ErrUnexpectedAnswer, err)
	}
	r.c.decodeResult(&l.BatchResult)
	r.next = l.Line + 1
	r.stopped = !r.yield(l.BatchResult, nil)
	return false, nil
}
