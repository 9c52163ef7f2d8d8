package api

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/job"
)

// route is a line of the API. A hot route is called so often that its successes are logged at debug level only.
type route struct {
	method, path string
	handle       echo.HandlerFunc
	hot          bool
}

const hot = true

// routes is the whole API. A literal first segment is a reserved client name, so that /{client}/job/{type}/add stays unambiguous.
func (s *Server) routes() []route {
	return []route{
		{http.MethodPost, "/jobs/create", s.create, hot},
		{http.MethodPost, "/add", s.add, hot},
		{http.MethodPost, "/:client/job/:type/add", s.addToQueue, hot},

		{http.MethodGet, "/jobs", s.list, !hot},
		{http.MethodGet, "/jobs/:id", s.job, hot},
		{http.MethodGet, "/batches/:id", s.batch, hot},
		{http.MethodGet, "/claims/:id", s.claimDocument, !hot},
		{http.MethodGet, "/runners", s.runners, !hot},

		{http.MethodPost, "/jobs/claim", s.claim, hot},
		{http.MethodPost, "/jobs/tickle", s.tickleMany, hot},
		{http.MethodPost, "/jobs/:id/tickle", s.tickle, hot},
		{http.MethodPost, "/jobs/complete", s.completeMany, hot},
		{http.MethodPost, "/jobs/:id/complete", s.complete, hot},
		{http.MethodPost, "/jobs/:id/release", s.release, hot},

		{http.MethodPost, "/jobs/:id/cancel", s.move(job.Cancel), !hot},
		{http.MethodPost, "/jobs/:id/redrive", s.move(job.Redrive), !hot},
		{http.MethodPost, "/jobs/:id/run", s.move(job.Run), !hot},
		{http.MethodPatch, "/jobs/:id", s.patch, !hot},
		{http.MethodDelete, "/jobs/:id", s.remove, !hot},
		{http.MethodPost, "/batches/:id/cancel", s.moveBatch(job.Cancel), !hot},
		{http.MethodPost, "/batches/:id/redrive", s.moveBatch(job.Redrive), !hot},
		{http.MethodDelete, "/batches/:id", s.moveBatch(job.Delete), !hot},
		{http.MethodPost, "/queues/:client/:type/cancel", s.moveQueue(job.Cancel), !hot},
		{http.MethodPost, "/queues/:client/:type/redrive", s.moveQueue(job.Redrive), !hot},
		{http.MethodDelete, "/queues/:client/:type/jobs", s.moveQueue(job.Delete), !hot},
		{http.MethodGet, "/sweeps", s.sweeps, !hot},
		{http.MethodGet, "/sweeps/:id", s.sweep, !hot},

		{http.MethodGet, "/queues", s.queues, !hot},
		{http.MethodGet, "/queues/:client/:type", s.queue, !hot},
		{http.MethodPost, "/queues/:client/:type/pause", s.pause, !hot},
		{http.MethodPost, "/queues/:client/:type/resume", s.resume, !hot},

		// As miniq has them: a browser, or anything that can only get, may use them too.
		{http.MethodPost, "/start", s.setStopped(false), !hot},
		{http.MethodGet, "/start", s.setStopped(false), !hot},
		{http.MethodPost, "/stop", s.setStopped(true), !hot},
		{http.MethodGet, "/stop", s.setStopped(true), !hot},
		{http.MethodPost, "/quit", s.quit, !hot},
		{http.MethodGet, "/quit", s.quit, !hot},

		{http.MethodGet, "/ping", s.ping, hot},
		{http.MethodGet, "/healthz", s.healthz, hot},
		{http.MethodGet, "/readyz", s.readyz, hot},
		{http.MethodGet, "/version", s.version, !hot},
		{http.MethodGet, "/stats", s.stats, hot},
		{http.MethodGet, "/metrics", s.metricsPage, hot},

		{http.MethodGet, "/openapi.yaml", s.openapi, !hot},
		{http.MethodGet, "/docs", s.docs, !hot},
		{http.MethodGet, "/docs/:file", s.docsFile, !hot},
	}
}

// literalPaths returns the methods of each path without a parameter. The router prefers a parameter to a literal path of
// another method, so that it would take GET /jobs/create for a job with the id "create"; the guard answers 405.
func literalPaths(routes []route) map[string][]string {
	paths := map[string][]string{}
	for _, r := range routes {
		if !strings.Contains(r.path, ":") {
			paths[r.path] = append(paths[r.path], r.method)
		}
	}
	return paths
}

// reservedNames returns the literal first segments of all paths.
func reservedNames(routes []route) map[string]bool {
	names := map[string]bool{}
	for _, r := range routes {
		if first, _, _ := strings.Cut(r.path[1:], "/"); first[0] != ':' {
			names[first] = true
		}
	}
	return names
}
