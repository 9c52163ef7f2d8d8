package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/command"
	"github.com/daybookq/daybook/api/internal/files"
	"github.com/daybookq/daybook/job"
)

// route is a method and a path of the API, and its handler.
//
//   - hot: the route is called so often that its successes are logged only at debug level.
//   - keyed: the route supports an Idempotency-Key and session numbers. Other routes that change something refuse them.
//   - query: the names of the query parameters, separated by spaces. A name that ends in a dot means all names with
//     this prefix, and a name that ends in a star can be given several times. The server refuses other parameters.
//
// To add a route, add a line with its handler to routes, an operation to openapi.yaml, and a section to
// docs/reference/api.md. Tests compare the three.
type route struct {
	method, path string
	handle       echo.HandlerFunc
	hot          bool
	keyed        bool
	query        string
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
	return []route{
		{http.MethodPost, "/jobs/create", s.create, hot, keyed, ""},
		{http.MethodPost, "/add", s.add, hot, keyed, "client jobtype " + command.LineQuery},
		{http.MethodPost, "/:client/job/:type/add", s.addToQueue, hot, keyed, command.LineQuery},

		{http.MethodGet, "/jobs", s.list, !hot, !keyed, "status client type batch_id runner_id claim_id created_after created_before limit after fields " + command.MetaPrefix},
		{http.MethodGet, "/jobs/:id", s.job, hot, !keyed, "fields view"},
		{http.MethodGet, "/jobs/:id/output", s.output, !hot, !keyed, "wait_ms"},
		{http.MethodGet, "/jobs/:id/log", s.jobLog, !hot, !keyed, "follow"},
		{http.MethodPost, "/jobs/:id/log", s.appendLog, hot, !keyed, "claim_id offset"},
		{http.MethodGet, "/batches", s.batches, !hot, !keyed, "status client type name name_prefix limit after " + command.MetaPrefix},
		{http.MethodGet, "/batches/:id", s.batch, hot, !keyed, "wait_ms"},
		{http.MethodGet, "/batches/:id/metadata", s.batchMetadata, !hot, !keyed, ""},
		{http.MethodGet, "/batches/:id/results", s.results, !hot, !keyed, "from limit follow"},
		{http.MethodGet, "/claims/:id", s.claimDocument, !hot, !keyed, "fields"},
		{http.MethodGet, "/runners", s.runners, !hot, !keyed, "limit after"},
		{http.MethodGet, "/runners/:id", s.runner, !hot, !keyed, ""},

		{http.MethodPost, "/jobs/claim", s.claim, hot, keyed, "fields"},
		{http.MethodPost, "/jobs/tickle", s.tickleMany, hot, !keyed, ""},
		{http.MethodPost, "/jobs/:id/tickle", s.tickle, hot, !keyed, ""},
		{http.MethodPost, "/jobs/complete", s.completeMany, hot, keyed, ""},
		{http.MethodPost, "/jobs/:id/complete", s.complete, hot, keyed, ""},
		{http.MethodPost, "/jobs/:id/release", s.release, hot, keyed, ""},
		{http.MethodPost, "/runners/:id", s.heartbeat, hot, !keyed, ""},
		{http.MethodDelete, "/runners/:id", s.goodbye, !hot, !keyed, "instance"},

		{http.MethodPost, "/jobs/:id/cancel", s.move(job.Cancel), !hot, !keyed, ""},
		{http.MethodPost, "/jobs/:id/redrive", s.move(job.Redrive), !hot, !keyed, ""},
		{http.MethodPost, "/jobs/:id/run", s.move(job.Run), !hot, !keyed, ""},
		{http.MethodPatch, "/jobs/:id", s.patch, !hot, !keyed, ""},
		{http.MethodDelete, "/jobs/:id", s.remove, !hot, !keyed, ""},
		{http.MethodPost, "/batches/:id/jobs", s.addToBatch, hot, keyed, "client jobtype " + command.LineQuery},
		{http.MethodPost, "/batches/:id/close", s.changeBatch(job.CloseBatch), !hot, !keyed, ""},
		{http.MethodPost, "/batches/:id/resume", s.changeBatch(job.ResumeBatch), !hot, !keyed, ""},
		{http.MethodPost, "/batches/:id/cancel", s.moveBatch(job.Cancel), !hot, !keyed, "status"},
		{http.MethodPost, "/batches/:id/redrive", s.moveBatch(job.Redrive), !hot, !keyed, "status"},
		{http.MethodDelete, "/batches/:id", s.moveBatch(job.Delete), !hot, !keyed, "status"},
		{http.MethodPost, "/queues/:client/:type/cancel", s.moveQueue(job.Cancel), !hot, !keyed, "status"},
		{http.MethodPost, "/queues/:client/:type/redrive", s.moveQueue(job.Redrive), !hot, !keyed, "status"},
		{http.MethodDelete, "/queues/:client/:type/jobs", s.moveQueue(job.Delete), !hot, !keyed, "status"},
		{http.MethodGet, "/sweeps", s.sweeps, !hot, !keyed, ""},
		{http.MethodGet, "/sweeps/:id", s.sweep, !hot, !keyed, ""},

		{http.MethodPost, "/sessions", s.openSession, !hot, !keyed, ""},
		{http.MethodGet, "/sessions/:id", s.session, !hot, !keyed, ""},
		{http.MethodDelete, "/sessions/:id", s.endSession, !hot, !keyed, ""},

		{http.MethodGet, "/handlers", s.handlers, !hot, !keyed, "limit after"},
		{http.MethodPut, "/handlers/:type", s.putHandler, !hot, !keyed, "client"},
		{http.MethodGet, "/handlers/:type", s.handlerOf, !hot, !keyed, "client"},
		{http.MethodDelete, "/handlers/:type", s.deleteHandler, !hot, !keyed, "client"},
		{http.MethodGet, "/handlers/:type/versions", s.handlerVersions, !hot, !keyed, "client"},
		{http.MethodGet, "/handler-versions/:id", s.handlerVersion, !hot, !keyed, ""},
		{http.MethodPost, "/:client/handler/:type/add", s.addHandler, !hot, !keyed, ""},
		{http.MethodGet, "/:client/handler/:type/get", s.handlerOf, !hot, !keyed, ""},
		{http.MethodPost, "/:client/handler/:type/delete", s.deleteHandler, !hot, !keyed, ""},
		{http.MethodPost, "/:client/handler/add/:type/add", s.addHandler, !hot, !keyed, ""}, // as in miniq's document
		{http.MethodGet, "/:client/handler/get/:type/get", s.handlerOf, !hot, !keyed, ""},
		{http.MethodPost, "/:client/handler/del/:type/del", s.deleteHandler, !hot, !keyed, ""},

		{http.MethodPut, "/blobs", s.blobs.Put, !hot, !keyed, "client"},
		{http.MethodGet, "/blobs", s.blobs.List, !hot, !keyed, "client limit after"},
		{http.MethodPut, "/blobs/:address", s.blobs.Put, !hot, !keyed, "client"},
		{http.MethodGet, "/blobs/:address", s.blobs.Get, hot, !keyed, "client"},
		{http.MethodPost, "/blobs/missing", s.blobs.Missing, !hot, !keyed, "client"},
		{http.MethodPost, "/blobs/collect", s.blobs.Collect, !hot, !keyed, ""},
		{http.MethodPut, "/blob", s.blobs.PutCastaway, !hot, !keyed, "client"},
		{http.MethodGet, "/blob/:address", s.blobs.Get, hot, !keyed, "client"},

		{http.MethodOptions, "/uploads", files.TusRoute(s.uploads.Options), !hot, !keyed, ""},
		{http.MethodPost, "/uploads", files.TusRoute(s.uploads.Create), !hot, !keyed, "client"},
		{http.MethodGet, "/uploads/:id", files.TusRoute(s.uploads.Get), !hot, !keyed, "client"},
		{http.MethodPatch, "/uploads/:id", files.TusRoute(s.uploads.Append), hot, !keyed, "client"},
		{http.MethodDelete, "/uploads/:id", files.TusRoute(s.uploads.Remove), !hot, !keyed, "client"},

		{http.MethodGet, "/filesets", s.filesets.List, !hot, !keyed, "limit after"},
		{http.MethodPut, "/filesets/:name", s.filesets.Put, !hot, !keyed, "client"},
		{http.MethodGet, "/filesets/:name", s.filesets.Get, !hot, !keyed, "client version pattern*"},
		{http.MethodDelete, "/filesets/:name", s.filesets.Delete, !hot, !keyed, "client"},
		{http.MethodGet, "/filesets/:name/versions", s.filesets.Versions, !hot, !keyed, "client"},

		{http.MethodGet, "/stream", s.streams.Serve, hot, !keyed, ""},

		{http.MethodGet, "/queues", s.queues, !hot, !keyed, "limit after client waiting"},
		{http.MethodGet, "/queues/:client/:type", s.queue, !hot, !keyed, ""},
		{http.MethodDelete, "/queues/:client/:type", s.deleteQueue, !hot, !keyed, ""},
		{http.MethodPost, "/queues/:client/:type/pause", s.pause, !hot, !keyed, ""},
		{http.MethodPost, "/queues/:client/:type/resume", s.resume, !hot, !keyed, ""},

		{http.MethodPost, "/start", s.setStopped(false), !hot, !keyed, ""},
		{http.MethodPost, "/stop", s.setStopped(true), !hot, !keyed, ""},
		{http.MethodPost, "/quit", s.quit, !hot, !keyed, ""},

		{http.MethodPost, "/clock/accept", s.acceptTime, !hot, !keyed, ""},
		{http.MethodGet, "/level", s.level, !hot, !keyed, ""},
		{http.MethodPost, "/level/raise", s.raiseLevel, !hot, !keyed, ""},

		{http.MethodGet, "/backup", s.backup, !hot, !keyed, ""},
		{http.MethodGet, "/backup/clients", s.backupClients, !hot, !keyed, ""},

		{http.MethodGet, "/", s.root, !hot, !keyed, ""},
		{http.MethodGet, "/ping", s.ping, hot, !keyed, ""},
		{http.MethodGet, "/healthz", s.healthz, hot, !keyed, ""},
		{http.MethodGet, "/readyz", s.readyz, hot, !keyed, ""},
		{http.MethodGet, "/version", s.version, !hot, !keyed, ""},
		{http.MethodGet, "/stats", s.stats, hot, !keyed, ""},
		{http.MethodGet, "/metrics", s.metricsPage, hot, !keyed, ""},

		{http.MethodGet, "/openapi.yaml", s.openapi, !hot, !keyed, ""},
		{http.MethodGet, "/docs", s.docs, !hot, !keyed, ""},
		{http.MethodGet, "/docs/:file", s.docsFile, !hot, !keyed, ""},
	}
}

// getSwitches returns the GET forms of the switches, for users of miniq whose tools can send only GET. They exist only
// with a flag of the server. Any web page can cause a GET with an image, and browsers send such a request without a
// header from which the server could see this.
func (s *Server) getSwitches() []route {
	return []route{
		{http.MethodGet, "/start", s.setStopped(false), !hot, !keyed, ""},
		{http.MethodGet, "/stop", s.setStopped(true), !hot, !keyed, ""},
		{http.MethodGet, "/quit", s.quit, !hot, !keyed, ""},
	}
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
	for _, r := range (&Server{}).routes() {
		list = append(list, Route{r.method, r.path})
	}
	return list
}
