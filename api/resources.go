package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/command"
	"github.com/daybookq/daybook/api/internal/files"
	"github.com/daybookq/daybook/api/internal/openapi"
	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/rates"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/stream"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/api/joblog"
	"github.com/daybookq/daybook/job"
)

// resources are the subjects of the routes, and the parts that they share.
type resources struct {
	reader
	decode *command.Decoder
	log    zerolog.Logger
	build  Version
	quit   func()
	// unready returns why the server is not ready although its engine is; see Options.
	unready func() error
	trusted bool // requests need no key, so the server must not listen

	web        *web.Server
	authorizer *authorizer
	refusals   *refusals
	draining   context.Context // done when the shutdown begins
	metrics    *metrics

	blobs         *files.Blobs
	uploads       *files.Uploads
	filesets      *files.Filesets
	handlers      *handlers
	streams       *stream.Streams
	logs          jobLogs
	resultReaders followers
	backups       *backups
	rates         *rates.Rates
}

func newResources(o *Options, engine backend.Engine) (*resources, error) {
	defaults, err := o.Defaults.Filled()
	if err != nil {
		return nil, fmt.Errorf("default attributes: %w", err)
	}
	now := o.now
	if now == nil {
		now = time.Now
	}
	limited := rates.New(engine, now)
	engine = limited.Over(engine)
	s := &resources{
		rates:  limited,
		reader: reader{engine, newLimits()}, log: o.Log, build: o.Build, quit: o.Quit, unready: o.Unready, trusted: o.Trusted,
	}
	registry := prometheus.NewRegistry()
	s.refusals = &refusals{wrong: wrongKeys{now: engine.Now}, log: o.Log}
	s.authorizer = &authorizer{engine: engine, issuers: o.Issuers, certificates: o.Certificates, required: o.RequireKeys, trusted: o.Trusted}
	authorize := s.authorizer.authorize
	s.web, err = web.New(web.Options{
		Log: o.Log, Hosts: o.Hosts, Origins: o.Origins, MaxConnections: o.MaxConnections, TLS: o.TLS, ProblemOf: refusal.Of, Registry: registry, Compressors: s.compressors,
		Authorize: authorize, Confine: confiner{engine}.confine, Refused: s.refusals.refuseRequest, Admit: limited.Admit, Spell: files.SpellAddress, SecretOf: files.SecretOf, Evict: func() bool { return s.streams.Evict() }, WaitHijacked: func(ctx context.Context) error { return s.streams.Wait(ctx) },
	})
	if err != nil {
		return nil, err
	}
	s.draining = s.web.Draining
	s.logs.Logs = joblog.New()
	clients := func() int { return engine.OwnersOfKeys() }
	s.logs.readers = followers{most: maxLogReaders, what: "logs", clients: clients}
	s.resultReaders = followers{most: maxResultReaders, what: "results", clients: clients}
	s.decode = &command.Decoder{Defaults: defaults, Fenced: o.RequireClaimID, CheckClient: s.web.CheckClient, Now: engine.Now, HandlerFor: engine.HandlerFor}
	s.streams = stream.New(stream.Options{
		Authorize: authorize, Access: streamAccess, Rates: limited, Engine: engine, Decode: s.decode, Log: o.Log, Draining: s.draining, Heartbeat: o.StreamHeartbeat, Connections: s.web.MaxConnections,
		Bulk: s.bulk, Control: s.control, Handouts: s.handouts, Changes: s.changes, Waiting: s.streamRequests, Jobs: s.streamJobs, Pages: s.pages, Registry: registry, Requests: s.web.Metrics,
	})
	s.blobs = files.NewBlobs(files.Options{
		Log: o.Log, Storage: o.Blobs, Registry: registry, CheckClient: s.web.CheckClient,
		Documents: s.documents, Downloads: s.downloads, Control: s.control, Uploads: s.streamed, Manifests: s.manifests,
	})
	s.uploads, s.filesets = files.NewUploads(s.blobs), files.NewFilesets(s.blobs, engine)
	s.handlers = newHandlers(s.reader, s.web.CheckClient)
	s.metrics = newMetrics(o, s.reader, s.web, &s.logs, registry)
	s.backups = &backups{engine, s.limits, s.blobs, o.Build.Version, s.metrics.backupMetrics, defaultBackupPatience, s.draining, o.Log}
	return s, nil
}

// routes returns the whole API. The literal first segments of paths are reserved and cannot be client names, so that
// /{client}/job/{type}/add is unambiguous.
func (s *resources) routes() []route {
	r := s.rules()
	return slices.Concat(
		(&creation{s.reader, s.decode}).routes(),
		(&claims{s.reader, s.web, s.decode, s.streams, s.draining, s.log}).routes(),
		[]route{direct[stream.Request](http.MethodGet, "/stream", stream.About, s.streams.Serve).often()},
		(&jobs{s.reader}).routes(r),
		(&outputs{s.reader, s.web, s.blobs, s.draining}).routes(r),
		(&logs{s.reader, s.web, &s.logs, s.blobs, s.draining}).routes(r),
		batches{s.reader, s.draining}.routes(r),
		(&results{s.reader, s.web, &s.resultReaders, s.draining}).routes(r),
		queues{s.engine, s.documents}.routes(r),
		runners{s.engine, s.documents}.routes(r),
		sweeps{s.engine}.routes(r),
		sessions{s.engine}.routes(r),
		s.handlers.routes(),
		keys{s.engine, s.documents, s.authorizer}.routes(r),
		audit{s.reader}.routes(r),
		logins{s.engine, s.authorizer, s.refusals, s.log}.routes(r),
		quotas{s.engine, s.documents, s.checkClient}.routes(r),
		ofFiles(s.blobs.Routes(r)),
		ofFiles(s.uploads.Routes(r)),
		ofFiles(s.filesets.Routes()),
		switches{s.engine}.routes(r),
		(&stopper{s.quit, s.log}).routes(r),
		journalTime{s.engine}.routes(r),
		levels{s.engine}.routes(r),
		clusterNodes{s.engine}.routes(r),
		s.backups.routes(r),
		pages{s.build.Version, s.metrics.show, wholeDescription}.routes(r),
		health{s.engine, s.draining, s.unready}.routes(r),
		s.build.routes(r),
		statistics{s.engine, s.blobs}.routes(r),
	)
}

// checkClient is web.Server.CheckClient; a description has no server.
func (s *resources) checkClient(client string) error { return s.web.CheckClient(client) }

// ofFiles returns routes of package files.
func ofFiles(list []files.Route) (routes []route) {
	for _, r := range list {
		routes = append(routes, route{r.ID, r.Method, r.Path, r.Handle, r.Hot, !keyed, r.Query, r.Describe})
	}
	return routes
}

func (s *resources) rules() operation.Rules {
	return operation.Rules{Object: &s.bodies.small, Optional: &s.bodies.optional}
}

// getSwitches returns the GET forms of the switches, for users of miniq whose tools can send only GET. They exist only
// with a flag of the server. Any web page can cause a GET with an image, and browsers send such a request without a
// header from which the server could see this.
func (s *resources) getSwitches() []route {
	return append(switches{s.engine}.byGet(s.rules()), (&stopper{s.quit, s.log}).byGet(s.rules())...)
}

// Route is a method and a path with parameters such as :id. It is for tests that check all routes.
type Route struct{ Method, Path string }

// Routes returns all routes.
func Routes() (list []Route) {
	for _, r := range unserved().routes() {
		list = append(list, Route{r.method, r.path})
	}
	return list
}

// Permit is what the table of access says of an operation at a route, or of a verb of streams. It is for tests that check all
// of them.
type Permit struct {
	Route
	Operation string    // its id, or the verb, which has no route
	Roles     job.Roles // a key needs one of these, or admin; 0: the route needs no key
}

// Permits returns the permits of all routes: also of HEAD, and of the switches by GET, and at last of the verbs of streams.
func Permits() (list []Permit) {
	s := unserved()
	for _, r := range append(withHeads(s.routes()), s.getSwitches()...) {
		list = append(list, Permit{Route{r.method, r.path}, r.id, access[r.id].Roles()})
	}
	for _, verb := range stream.Verbs() {
		list = append(list, Permit{Operation: verb, Roles: streamAccess[verb]})
	}
	return list
}

// unserved returns resources without an engine, for their routes and descriptions.
func unserved() *resources {
	return &resources{reader: reader{limits: newLimits()}, backups: &backups{}, metrics: &metrics{}, blobs: &files.Blobs{}, filesets: &files.Filesets{}, handlers: &handlers{}}
}

var generated struct {
	once sync.Once
	text descriptions
	err  error
}

// wholeDescription returns the description of all routes, which is derived from the types of their functions.
func wholeDescription() (descriptions, error) {
	generated.once.Do(func() { generated.text, generated.err = describe() })
	return generated.text, generated.err
}

func describe() (text descriptions, err error) {
	schemas := newSchemas()
	var operations []*openapi.Operation
	s := unserved()
	for _, r := range append(s.routes(), s.getSwitches()...) {
		if r.describe == nil {
			continue
		}
		op := r.describe(schemas)
		if access[r.id].NeedsKey() {
			for _, status := range []int{http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusServiceUnavailable} {
				op.Responses[status] = &openapi.Response{Ref: "#/components/responses/P" + strconv.Itoa(status)}
			}
		}
		if r.method == http.MethodGet && access[r.id].NeedsKey() { // by the rates of the key
			op.Responses[http.StatusTooManyRequests] = &openapi.Response{Ref: "#/components/responses/P429"}
		}
		operations = append(operations, op)
	}
	text.yaml, text.json, err = openapi.Document(head(), operations, schemas)
	return text, err
}
