package webhook

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/runner/task"
)

// maxIDs is the largest batch whose request has the header Daybook-Job-Ids: 3.7 KB. Many servers refuse headers of more
// than 8 KB.
const maxIDs = 100

var (
	errWASI = errors.New("the job has the address of a WASI binary instead of a payload, and a handler of kind http can only send a payload")
	errLine = errors.New("the payload has a line break, and in a batch each payload is one line; send it as JSON, or store the handler without options.batch")
)

// contentTypes are the media types of payloads. lineTypes are the media types of lines of payloads.
var contentTypes, lineTypes = map[client.Kind]string{
	client.None:  "text/plain; charset=utf-8",
	client.Text:  "text/plain; charset=utf-8",
	client.JSON:  "application/json",
	client.Bytes: "application/octet-stream",
}, map[client.Kind]string{
	client.None:  "text/plain; charset=utf-8",
	client.Text:  "text/plain; charset=utf-8",
	client.JSON:  "application/x-ndjson",
	client.Bytes: "application/octet-stream",
}

// post sends a request and returns its answer. The caller closes the answer's body. The transport follows no redirects
// and keeps no cookies. It may send the body again: see http.Transport on Idempotency-Key.
func (e *Executor) post(ctx context.Context, body []byte, header http.Header) (*http.Response, error) {
	header["User-Agent"] = []string{e.userAgent}
	r := &http.Request{
		Method: http.MethodPost, URL: e.url, Host: e.url.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, ContentLength: int64(len(body)),
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
	}
	r.Body, _ = r.GetBody()
	res, err := e.transport.RoundTrip(r.WithContext(ctx))
	if err == nil && res.StatusCode == http.StatusSwitchingProtocols {
		res.Body.Close() // the body would be the connection
		res.Body = http.NoBody
	}
	return res, err
}

// singleBody returns a job's payload with a line end.
func singleBody(j *client.Job) ([]byte, error) {
	if j.Kind == client.WASI {
		return nil, errWASI
	}
	return append(slices.Grow(slices.Clone(j.Payload), 1), '\n'), nil
}

// singleHeader returns the headers of a request for one job.
func singleHeader(j *client.Job) http.Header {
	h := http.Header{
		"Content-Type":    {contentTypes[j.Kind]},
		"Daybook-Job-Id":  {j.ID},
		"Idempotency-Key": {j.ID},
		"Daybook-Type":    {j.Type},
		"Daybook-Client":  {j.Client},
		"Daybook-Attempt": {strconv.Itoa(j.RunAttempts)},
	}
	if j.Traceparent != "" {
		h["Traceparent"] = []string{j.Traceparent}
	}
	return h
}

// appendLine appends a job's payload as one line. Line breaks in JSON are always white space, so they become spaces. In
// other payloads they are an error.
func appendLine(b []byte, j *client.Job) ([]byte, error) {
	if j.Kind == client.WASI {
		return b, errWASI
	}
	begin := len(b)
	b = append(b, j.Payload...)
	for line := b[begin:]; ; {
		at := bytes.IndexByte(line, '\n')
		if at < 0 {
			return append(b, '\n'), nil
		}
		if j.Kind != client.JSON {
			return b[:begin], errLine
		}
		line[at] = ' '
		line = line[at+1:]
	}
}

// batchHeader returns the headers of a request for several jobs. It omits a header if the jobs have different values
// for it.
func batchHeader(tasks []*task.Task) http.Header {
	ids := make([]string, len(tasks))
	hash := sha256.New()
	for i, t := range tasks {
		ids[i] = t.Job.ID
		fmt.Fprintln(hash, t.Job.ID)
	}
	h := http.Header{
		"Content-Type":    {lineTypes[lineKind(tasks)]},
		"Idempotency-Key": {hex.EncodeToString(hash.Sum(nil))},
		"Daybook-Jobs":    {strconv.Itoa(len(tasks))},
	}
	if len(ids) <= maxIDs {
		h["Daybook-Job-Ids"] = []string{strings.Join(ids, ",")}
	}
	for name, of := range map[string]func(*client.Job) string{
		"Daybook-Type":   func(j *client.Job) string { return j.Type },
		"Daybook-Client": func(j *client.Job) string { return j.Client },
		"Traceparent":    func(j *client.Job) string { return j.Traceparent },
	} {
		first := of(tasks[0].Job)
		if first != "" && !slices.ContainsFunc(tasks, func(t *task.Task) bool { return of(t.Job) != first }) {
			h[name] = []string{first}
		}
	}
	return h
}

// lineKind returns a kind as which all payloads of a batch can be read.
func lineKind(tasks []*task.Task) client.Kind {
	kind := client.JSON
	for _, t := range tasks {
		switch t.Job.Kind {
		case client.Bytes:
			return client.Bytes
		case client.Text, client.None:
			kind = client.Text
		}
	}
	return kind
}
