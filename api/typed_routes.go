package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/openapi"
	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
)

// route is a method and a path of the API, and its handler.
//
//   - hot: the route is called so often that its successes are logged only at debug level.
//
//   - keyed: the route supports an Idempotency-Key and session numbers. Other routes that change something refuse them.
//
//   - query: the names of the query parameters, separated by spaces. A name that ends in a dot means all names with
//     this prefix, and a name that ends in a star can be given several times. The server refuses other parameters.
//
//   - describe: describes the route.
type route struct {
	id           string // of the operation
	method, path string
	handle       echo.HandlerFunc
	hot          bool
	keyed        bool
	query        string
	describe     func(*openapi.Schemas) *openapi.Operation
}

// compressed reports whether long answers are compressed: those of reads, except the ones that are sent while they are
// made, and blobs.
func (r *route) compressed() bool {
	switch r.path {
	case "/stream", "/backup", "/filesets/:name", "/jobs/:id/log", "/batches/:id/results":
		return false
	}
	return (r.method == http.MethodGet || r.method == http.MethodHead) && !strings.HasPrefix(r.path, "/blob")
}

const (
	hot   = true
	keyed = true
)

// withHeads adds a HEAD route for each GET route. net/http leaves out the body of the answer.
func withHeads(routes []route) []route {
	all := slices.Clone(routes)
	for _, r := range routes {
		if r.method == http.MethodGet {
			r.method = http.MethodHead
			all = append(all, r)
		}
	}
	return all
}

// cold returns the route of a typed function.
func cold[I, O any](r operation.Rules, method, path string, about operation.About, f func(ctx context.Context, in *I) (O, error)) route {
	op := operation.New(r, method, path, about, f)
	return route{op.ID, method, path, op.Handle, !hot, !keyed, op.Query, op.Describe}
}

// written returns the route of a function that writes its answer itself.
func written[I any](r operation.Rules, method, path string, about operation.About, f func(c echo.Context, in *I) error) route {
	op := operation.Written(r, method, path, about, f)
	return route{op.ID, method, path, op.Handle, !hot, !keyed, op.Query, op.Describe}
}

// direct returns the route of a function that reads its request itself. The fields of I describe the request.
func direct[I any](method, path string, about operation.About, f echo.HandlerFunc) route {
	op := operation.Described[I](method, path, about, f)
	return route{op.ID, method, path, op.Handle, !hot, !keyed, op.Query, op.Describe}
}

// once marks a route that supports an Idempotency-Key and session numbers.
func (r route) once() route {
	r.keyed = true
	return r
}

// often marks a route that is called so often that its successes are logged only at debug level.
func (r route) often() route {
	r.hot = true
	return r
}

// nothing is a request without parameters.
type nothing struct{}

// found is the answer to a read.
type found[T any] struct{ Body T }

// changed is the answer to a change.
type changed[T any] struct {
	Seq  uint64 `header:"Daybook-Seq"`
	Body T
}

func changedBy[T any](r ingest.Receipt, body T) changed[T] { return changed[T]{r.Seq, body} }

// made is the answer to a creation.
type made[T any] struct {
	Seq      uint64 `header:"Daybook-Seq"`
	Location string `header:"Location"`
	Body     T
}

// removed is the answer to a deletion, which has no document.
type removed struct {
	Seq uint64 `header:"Daybook-Seq"`
}

// caughtUp are the parameters of a read that waits until the state includes an earlier change.
type caughtUp struct {
	MinSeq uint64 `header:"Daybook-Min-Seq" doc:"the Daybook-Seq of an earlier answer; the server waits until its state includes that change"`
}

// withID are the parameters of a read of one document, and onlyID those of a change.
type (
	withID struct {
		onlyID
		caughtUp
	}
	onlyID struct {
		ID job.ID `path:"id" doc:"id of the job, batch, claim, session, sweep or version of a handler"`
	}
)

// tagged is the header of a request for an answer with an entity tag.
type tagged struct {
	IfNoneMatch string `header:"If-None-Match" read:"elsewhere" doc:"the ETag of an earlier answer; the answer is 304 if the document still has this ETag"`
}

// sameDocument is the answer if the client has the document already.
var sameDocument = operation.Reply{Status: http.StatusNotModified, Text: "The document has the ETag of the request.", Headers: []string{"ETag"}}

// answered is the shape of an answer in JSON.
func answered[T any]() openapi.Shape { return openapi.JSON[T](openapi.InAnswer) }

// inRuns is the shape of a text in runs, with an example.
func inRuns(example string) openapi.Shape { return openapi.Plain(openapi.Ref("Runs")).Like(example) }

// replied describes an answer in JSON.
func replied[T any](status int, text string, headers ...string) operation.Reply {
	return operation.Reply{Status: status, Text: text, Headers: headers, Content: map[string]openapi.Shape{web.MIMEJSON: answered[T]()}}
}

// jobReply describes an answer with the document of a job after a change.
func jobReply(text string, headers ...string) operation.Reply {
	return replied[answer.Job](http.StatusOK, text, append([]string{"Daybook-Seq"}, headers...)...)
}

// answers describes the successful answers of an operation by their status.
type answers = map[int]string

// globalsQuery are the parameters of a list of documents that belong to no client, in the order of their names.
type globalsQuery struct {
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"1000" doc:"maximum number of items of a page; default: 1000"`
	After string `query:"after" schema:"Name" doc:"next of the previous page"`
	caughtUp
}

// page reads a page of the documents of a kind. If more follow, next is the name of the last one.
func (in *globalsQuery) page(ctx context.Context, engine backend.Engine, lane *web.Lane, kind job.DocumentKind) (list []document.Named, next *string, err error) {
	if err := engine.CatchUp(ctx, in.MinSeq); err != nil {
		return nil, nil, err
	}
	if err := operation.Hold(ctx, lane, web.MaxRowsBytes); err != nil {
		return nil, nil, err
	}
	list, more, err := engine.Documents(&job.KeyOf(ctx).By().Scope, kind, in.After, "", in.Limit)
	if more && len(list) > 0 {
		next = &list[len(list)-1].Name
	}
	return list, next, err
}
