package webhook

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/runner/task"
)

const (
	// errorBodyBytes bounds the part of a non-2xx answer's body that becomes the error text.
	errorBodyBytes = 4 << 10
	// drainBytes bounds the rest of the body that is read so that the connection can be reused.
	drainBytes = 64 << 10
	// maxRetryAfter bounds the delay that an answer may request.
	maxRetryAfter = 24 * time.Hour
)

// statusCode returns the outcome's code for the status of an answer to one job. 408, 425 and 429 mean that the server
// did not carry out the request, so they are retry. So are numbers without a class, such as redirects.
func statusCode(status int) job.Code {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return job.Retry
	}
	if class := job.ExitCodeClass(status); class != job.NoCode {
		return class
	}
	return job.Retry
}

// statusText names a status. It ignores the server's reason phrase, which may be anything.
func statusText(status int) string {
	return strings.TrimRight(fmt.Sprintf("HTTP %d %s", status, http.StatusText(status)), " ")
}

// endOf returns the end of the run of one job. It returns an error if the end depends on the body and reading it
// failed.
func endOf(res *http.Response, mostOutput int64) (task.End, error) {
	code := statusCode(res.StatusCode)
	if code == job.OK {
		return okEnd(res, mostOutput)
	}
	text := statusText(res.StatusCode)
	body, err := io.ReadAll(io.LimitReader(res.Body, errorBodyBytes))
	if err == nil {
		io.CopyN(io.Discard, res.Body, drainBytes) // an error does not change this run
	}
	if body = bytes.TrimSpace(body); len(body) > 0 {
		text += ": " + string(body)
	}
	e := task.End{Outcome: client.Outcome{Code: code.String(), Error: task.Text(text)}}
	if job.ExitCodeClass(res.StatusCode) == code {
		e.ExitCode = res.StatusCode
	}
	delay(&e, retryAfter(res.Header, time.Now()))
	return e, nil
}

func okEnd(res *http.Response, mostOutput int64) (task.End, error) {
	tooLong := task.Failed(fmt.Sprintf("the body of the answer has more than %d bytes, which is what options.output_bytes allows", mostOutput))
	if res.ContentLength > mostOutput {
		return tooLong, nil
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, mostOutput+1))
	switch {
	case err != nil:
		return task.End{}, err
	case int64(len(body)) > mostOutput:
		return tooLong, nil
	}
	kind, err := outputKind(res.Header.Get("Content-Type"), body)
	if err != nil {
		return task.Error(err.Error()), nil
	}
	e := task.OK(body, kind)
	e.ExitCode = res.StatusCode
	return e, nil
}

// outputKind returns json if the Content-Type says JSON, text if the body is valid UTF-8, and otherwise bytes. It
// returns an error if the body should be JSON and is invalid, because readers of the output would expect JSON.
func outputKind(contentType string, body []byte) (client.Kind, error) {
	media, _, _ := mime.ParseMediaType(contentType)
	switch {
	case len(body) == 0:
		return client.None, nil
	case media == "application/json" || strings.HasSuffix(media, "+json"):
		if err := json.Unmarshal(body, new(jsontext.Value)); err != nil {
			return client.None, fmt.Errorf("INVALID_JSON: the answer has the Content-Type %s and a body that is not valid JSON: %.500s", media, err.Error())
		}
		return client.JSON, nil
	case utf8.Valid(body):
		return client.Text, nil
	}
	return client.Bytes, nil
}

// retryAfter parses the header Retry-After, which has seconds or a date. If it is missing or invalid, it returns -1.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value == "" {
		return -1
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 32)
		if err != nil { // out of range
			return maxRetryAfter
		}
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return -1
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

// delay sets the delay of a job that runs again, unless after is negative.
func delay(e *task.End, after time.Duration) {
	if after >= 0 && (e.Code == "retry" || e.Code == "error") {
		ms := after.Milliseconds()
		e.DelayMs = &ms
	}
}
