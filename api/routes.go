package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/files"
	"github.com/daybookq/daybook/api/internal/openapi"
	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/stream"
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
//   - describe: nil if openapi.yaml describes the route.
type route struct {
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

// routes returns the whole API. The literal first segments of paths are reserved and cannot be client names, so that
// /{client}/job/{type}/add is unambiguous.
func (s *Server) routes() []route {
	r := s.rules()
	return slices.Concat(
		(&creation{s.reader, s.decode}).routes(), (&claims{s.reader, s.decode, s.streams, s.draining, s.log}).routes(),
		[]route{direct[stream.Request](http.MethodGet, "/stream", stream.About, s.streams.Serve).often()},
		(&jobs{s.reader}).routes(r), (&outputs{s.reader, s.blobs, s.draining}).routes(r), (&logs{s.reader, &s.logs, s.blobs, s.draining}).routes(r),
		batches{s.reader, s.draining}.routes(r), (&results{s.reader, s.web, &s.resultReaders, s.draining}).routes(r), queues{s.engine, s.documents}.routes(r), runners{s.engine, s.documents}.routes(r), sweeps{s.engine}.routes(r), sessions{s.engine}.routes(r),
		ofFiles(s.blobs.Routes(r)), ofFiles(s.uploads.Routes(r)), ofFiles(s.filesets.Routes()), s.handlers.routes(), (&stopper{s.quitting, s.log}).routes(r), s.backups.routes(r), pages{s.build.Version, s.metricsPage}.routes(r), switches{s.engine}.routes(r), journalTime{s.engine}.routes(r), levels{s.engine}.routes(r),
		health{s.engine, s.draining}.routes(r), s.build.routes(r), statistics{s.engine, s.blobs}.routes(r),
	)
}

// ofFiles returns routes of package files.
func ofFiles(list []files.Route) (routes []route) {
	for _, r := range list {
		routes = append(routes, route{r.Method, r.Path, r.Handle, r.Hot, !keyed, r.Query, r.Describe})
	}
	return routes
}

func (s *Server) rules() operation.Rules {
	return operation.Rules{Object: &s.bodies.small, Optional: &s.bodies.optional}
}

// getSwitches returns the GET forms of the switches, for users of miniq whose tools can send only GET. They exist only
// with a flag of the server. Any web page can cause a GET with an image, and browsers send such a request without a
// header from which the server could see this.
func (s *Server) getSwitches() []route {
	return append(switches{s.engine}.byGet(s.rules()), (&stopper{s.quitting, s.log}).byGet(s.rules())...)
}

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

// Route is a method and a path with parameters such as :id. It is for tests that check all routes.
type Route struct{ Method, Path string }

// Routes returns all routes.
func Routes() (list []Route) {
	for _, r := range emptyServer().routes() {
		list = append(list, Route{r.method, r.path})
	}
	return list
}

// emptyServer returns a server that is not served, for its routes and their descriptions.
func emptyServer() *Server {
	return &Server{reader: reader{limits: newLimits()}, backups: &backups{}, blobs: &files.Blobs{}, filesets: &files.Filesets{}, handlers: &handlers{}}
}
