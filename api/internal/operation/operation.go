package operation

import (
	"context"
	"maps"
	"net/http"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/openapi"
	"github.com/daybookq/daybook/api/internal/web"
)

// About is the part of an operation's description that its types do not have.
type About struct {
	ID, Tag, Summary, Text string
	// Answers describes the answer with each successful status.
	Answers map[int]string
	// Refusals are the statuses of its problems. The description also has the statuses of all operations and of all bodies.
	Refusals []int
	// Deprecated marks an operation that has a better one.
	Deprecated bool
	// Faultless marks an operation that is never answered with 500, because nothing in it can fail.
	Faultless bool

	// Replies are the successful answers of Written and Described operations, instead of Answers.
	Replies []Reply
	// Bodies are the media types of a body that is no JSON object. It is required with BodyRequired.
	Bodies       map[string]openapi.Shape
	BodyText     string
	BodyRequired bool
}

// Reply is an answer that a function writes itself.
type Reply struct {
	Status  int
	Text    string
	Headers []string                 // names of headers of the components
	Content map[string]openapi.Shape // by media type; nil: without a body
}

// Operation is a handler and its description.
type Operation struct {
	ID     string
	Handle echo.HandlerFunc
	// Describe describes the operation. It adds the schemas that the description uses.
	Describe func(schemas *openapi.Schemas) *openapi.Operation
	Query    string // the names of the query parameters; see web.ParseQuery
}

// Rules are the rules of bodies.
type Rules struct {
	Object, Optional *web.BodyRule // Optional is for a body that can be empty
}

// New returns the operation of a function. It panics if the types of the function do not have the form that the package
// describes, so a wrong type fails the first test.
func New[I, O any](rules Rules, method, path string, about About, f func(ctx context.Context, in *I) (O, error)) Operation {
	in, out := newRequest(reflect.TypeFor[I](), method, &about), newAnswer(reflect.TypeFor[O](), about.Answers)
	return operation(in, method, path, about, out.describe, func(c echo.Context) error {
		var request I
		return in.call(c, rules, reflect.ValueOf(&request).Elem(), func(call *call) error {
			answer, err := f(context.WithValue(c.Request().Context(), callKey{}, call), &request)
			out.writeHeaders(c, reflect.ValueOf(&answer).Elem()) // a refusal after the change was stored has them, too
			if err != nil {
				return err
			}
			return out.write(c, call, reflect.ValueOf(&answer).Elem())
		})
	})
}

// Written returns the operation of a function that writes its answer itself, because the answer is no JSON, or too long for
// memory, or made without reflection.
func Written[I any](rules Rules, method, path string, about About, f func(c echo.Context, in *I) error) Operation {
	in := newRequest(reflect.TypeFor[I](), method, &about)
	return operation(in, method, path, about, about.replies, func(c echo.Context) error {
		var request I
		return in.call(c, rules, reflect.ValueOf(&request).Elem(), func(*call) error { return f(c, &request) })
	})
}

// Described returns the operation of a function that reads its request itself, too, because it is called for each job. The
// fields of I only describe the request.
func Described[I any](method, path string, about About, f echo.HandlerFunc) Operation {
	return operation(newRequest(reflect.TypeFor[I](), method, &about), method, path, about, about.replies, f)
}

func operation(in *request, method, path string, about About, answers func(*openapi.Operation, *openapi.Schemas), handle echo.HandlerFunc) Operation {
	return Operation{ID: about.ID, Handle: handle, Query: in.query(), Describe: func(schemas *openapi.Schemas) *openapi.Operation {
		op := &openapi.Operation{
			Method: method, Path: pathParameter.ReplaceAllString(path, "{$1}"), ID: about.ID, Summary: about.Summary, Description: about.Text, Tags: []string{about.Tag},
			Deprecated: about.Deprecated, Responses: openapi.Responses{},
		}
		in.describe(op, schemas)
		answers(op, schemas)
		about.refusals(op, in.hasBody)
		return op
	}}
}

// call reads a request, and calls f. It releases the memory of the request and of the answer afterwards.
func (r *request) call(c echo.Context, rules Rules, into reflect.Value, f func(*call) error) error {
	call := &call{request: c.Request(), connection: web.ConnectionOf(c.Request())}
	defer call.release()
	if err := r.read(c, rules, call, into); err != nil {
		return err
	}
	return f(call)
}

// replies describes the answers that a function writes itself.
func (a *About) replies(op *openapi.Operation, schemas *openapi.Schemas) {
	for _, reply := range a.Replies {
		r := &openapi.Response{Description: reply.Text, Content: contents(reply.Content, schemas)}
		for _, name := range reply.Headers {
			r.Header(name)
		}
		op.Responses[reply.Status] = r
	}
}

func contents(shapes map[string]openapi.Shape, schemas *openapi.Schemas) map[string]openapi.Media {
	if shapes == nil {
		return nil
	}
	all := map[string]openapi.Media{}
	for _, kind := range slices.Sorted(maps.Keys(shapes)) {
		all[kind] = shapes[kind](schemas)
	}
	return all
}

// refusals adds the problems that an operation can have.
func (a *About) refusals(op *openapi.Operation, hasBody bool) {
	list := append([]int{http.StatusBadRequest, http.StatusForbidden}, a.Refusals...)
	if !a.Faultless {
		list = append(list, http.StatusInternalServerError)
	}
	if hasBody {
		list = append(list, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusTooManyRequests)
	}
	for _, status := range list {
		op.Responses[status] = &openapi.Response{Ref: "#/components/responses/P" + strconv.Itoa(status)}
	}
}

var pathParameter = regexp.MustCompile(`:(\w+)`)

// call is a request that is being carried out.
type call struct {
	request    *http.Request
	connection *web.Connection
	body       *web.Body
	held       *web.Share // for the answer; nil if the function took none
}

type callKey struct{}

func (c *call) release() {
	if c.body != nil {
		c.body.Release()
	}
	if c.held != nil {
		c.held.Release()
	}
}

// Hold takes a share of a budget for the answer of a call, before the answer's data is read. It is resized to the text of
// the answer, and released after the answer was written.
func Hold(ctx context.Context, from *web.Lane, n int64) error {
	call := ctx.Value(callKey{}).(*call)
	call.held = Share(ctx, from)
	return call.held.Resize(ctx, n)
}

// Reserve takes times as many bytes as the body of a call has, for the values that the function makes of the body.
func Reserve(ctx context.Context, times int64) error {
	body := ctx.Value(callKey{}).(*call).body
	return body.Reserve(ctx, times*int64(len(body.Bytes)))
}

// Share returns an empty share of a budget for the client of a call. The caller releases it.
func Share(ctx context.Context, from *web.Lane) *web.Share {
	held := &web.Share{Lane: from}
	if conn := ctx.Value(callKey{}).(*call).connection; conn != nil {
		held.Peer = conn.Peer
	}
	return held
}

// PeerOf returns the address from which a call comes, and the zero address if it is not known.
func PeerOf(ctx context.Context) (peer netip.Addr) {
	if conn := ctx.Value(callKey{}).(*call).connection; conn != nil {
		peer = conn.Peer
	}
	return peer
}

// RequestOf returns a call's request, for its cookies. Its body is read.
func RequestOf(ctx context.Context) *http.Request { return ctx.Value(callKey{}).(*call).request }

// jsonName returns the name that a field has in JSON.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
