package web

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/job"
)

// Fate records whether the change of a refused request was stored. It is the field outcome of a problem document.
type Fate string

const (
	NotStored Fate = "not_stored"
	Stored    Fate = "stored"
	Unknown   Fate = "unknown"
)

// Problem is the refusal of a request, as in RFC 9457. Its code is stable. docs/reference/errors.md has a table of all codes.
type Problem struct {
	Status int
	Code   string
	Detail string
	Field  string // the wrong field; empty if there is no single one
	Fate   Fate   // empty: not stored
	allow  string // the Allow header of a 405
	// RetryAfter is the Retry-After of a 429 or 503. 0 means defaultRetryAfter.
	RetryAfter time.Duration
	Members    map[string]any // further members of the document
	Whole      bool           // refuses the whole body, even if each position has a result
	Reported   bool           // the log has its cause once already, because the server starts or stops
}

func (p *Problem) Error() string { return p.Code + ": " + p.Detail }

// The codes that several handlers use.
const (
	CodeBadRequest  = "bad_request"
	CodeBadID       = "bad_id"
	CodeTooLarge    = "body_too_large"
	CodeOutOfScope  = "out_of_scope"
	CodeOverloaded  = "overloaded"
	CodeUnsupported = "unsupported_media_type"
	CodeShutdown    = "shutting_down"
	CodeBadAddress  = "bad_address"
)

func BadRequest(field, detail string) *Problem {
	return &Problem{Status: http.StatusBadRequest, Code: CodeBadRequest, Field: field, Detail: detail}
}

// BadField turns the error of a check of package job into a problem with the field. It returns nil for nil.
func BadField(field string, err error) error {
	if err == nil {
		return nil
	}
	return BadRequest(field, err.Error())
}

func BadID(field string) *Problem {
	return &Problem{Status: http.StatusBadRequest, Code: CodeBadID, Field: field, Detail: job.ErrBadID.Error()}
}

func RouteNotFound() *Problem {
	return &Problem{Status: http.StatusNotFound, Code: "route_not_found", Detail: "there is no route with this path"}
}

func MethodNotAllowed(allow string) *Problem {
	return &Problem{Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Detail: strings.TrimSuffix("this path does not support the method; it supports "+allow, "; it supports "), allow: allow}
}

// ErrShuttingDown ends the wait of parked claims when the server shuts down.
var ErrShuttingDown = errors.New("the server is shutting down")

// StatusClientGone is the status in logs and metrics if the client hung up and cannot read the answer.
const StatusClientGone = 499

// defaultRetryAfter is the Retry-After of a problem that sets none. Most causes of 429 and 503 end within a second, and
// one request per second is a small load while they last.
const defaultRetryAfter = time.Second

// answerProblem writes p, unless the handler has already begun to write an answer.
func answerProblem(c echo.Context, p *Problem) {
	w := c.Response()
	if w.Committed {
		return
	}
	h := w.Header()
	if p.allow != "" {
		h.Set(echo.HeaderAllow, p.allow)
	}
	if p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable {
		seconds := (cmp.Or(p.RetryAfter, defaultRetryAfter) + time.Second - 1) / time.Second
		h.Set(echo.HeaderRetryAfter, strconv.FormatInt(int64(seconds), 10))
	}
	// If the write fails, the client hung up. The access log has the request anyway.
	if text, err := EncodeDocument(DocumentOfProblem(p)); err == nil { // the encoding of texts and numbers cannot fail
		_ = Answer(c, p.Status, "application/problem+json", text)
	}
}

// ProblemDocument is a problem document of RFC 9457. The fields from code on are extensions.
type ProblemDocument struct {
	Type    string         `json:"type" enum:"about:blank"`
	Title   string         `json:"title"`
	Status  int            `json:"status" minimum:"400" maximum:"599"`
	Code    string         `json:"code" schema:"Code"`
	Detail  string         `json:"detail"`
	Outcome Fate           `json:"outcome" enum:"not_stored,stored,unknown" doc:"whether the change of the request was stored"`
	Field   string         `json:"field,omitzero" doc:"the field that is wrong"`
	Members map[string]any `json:",embed"`
}

func DocumentOfProblem(p *Problem) ProblemDocument {
	return ProblemDocument{
		Type: "about:blank", Title: cmp.Or(http.StatusText(p.Status), "Client Closed Request"), Status: p.Status, Code: p.Code,
		Detail: strings.TrimSpace(p.Detail), Outcome: cmp.Or(p.Fate, NotStored), Field: p.Field, Members: p.Members,
	}
}

// Inside adds the place in the request to the field and the detail of a problem.
func Inside(place string, err error) error {
	if p, ok := errors.AsType[*Problem](err); ok {
		at := *p
		at.Detail = place + ": " + p.Detail
		if at.Field != "" {
			at.Field = place + "." + at.Field
		}
		return &at
	}
	return err
}

func Item(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }
