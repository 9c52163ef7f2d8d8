package api

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/command"
	"github.com/daybookq/daybook/api/internal/files"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/stream"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/api/joblog"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/store/query"
)

// Defaults are the attributes of jobs that a create request does not give.
type Defaults = command.Defaults

// Blobs has the blobs of a server.
type Blobs = files.Storage

// Options configure a server. Engine is required. The zero values of the other fields are useful defaults.
type Options struct {
	Engine   *ingest.Engine
	Blobs    *Blobs // nil: the server stores no blobs
	Defaults Defaults
	// Hosts are the names that a request's Host can have in addition to localhost and any IP address. *.example.com
	// allows all names below example.com, and * allows any name.
	Hosts []string
	// RequireClaimID makes the server refuse tickles, completions and releases without a claim_id.
	RequireClaimID bool
	// GetSwitches serves GET /start, /stop and /quit; see getSwitches.
	GetSwitches bool
	Log         zerolog.Logger
	Build       Version
	// MaxConnections is the largest number of open connections. 0 means 16384.
	MaxConnections int
	// StreamHeartbeat is the time between two pings of a stream. 0 means 5 s.
	StreamHeartbeat time.Duration
	// OnLostFailures returns the number of lost runners for which the server's hook failed. Nil means that there is no
	// hook.
	OnLostFailures func() uint64
	// Spans returns counts of the spans of runs: exported, dropped and failed. Nil means that no traces are exported.
	Spans func() SpanCounts
	// Quit is called for a request to /quit, and must shut the process down. If it is nil, the server refuses the
	// request.
	Quit func()
}

// Server answers the HTTP API.
type Server struct {
	reader
	decode   *command.Decoder
	log      zerolog.Logger
	build    Version
	quitting func()
	// onLostFailures and spans are copied from the options.
	onLostFailures func() uint64
	spans          func() SpanCounts

	web      *web.Server
	draining context.Context // done when the shutdown begins
	metrics  *metrics

	blobs         *files.Blobs
	uploads       *files.Uploads
	filesets      *files.Filesets
	handlers      *handlers
	streams       *stream.Streams
	logs          jobLogs
	resultReaders atomic.Int64 // requests that follow results
	backups       *backups
}

// New returns a server. Use Run to serve a listener, or Handler.
func New(o Options) (*Server, error) {
	s, err := newServer(o, behind{o.Engine, stateOf{o.Engine.Queries()}})
	if err == nil {
		o.Engine.WhenLost(s.streams.Lose)
	}
	return s, err
}

// behind is an engine with the queries of its state. The engine's own methods come first where both have one of a name.
type behind struct {
	*ingest.Engine
	stateOf
}

type stateOf struct{ *query.Queries }

func newServer(o Options, engine backend.Engine) (*Server, error) {
	defaults, err := o.Defaults.Filled()
	if err != nil {
		return nil, fmt.Errorf("default attributes: %w", err)
	}
	s := &Server{
		reader: reader{engine, newLimits()}, log: o.Log, build: o.Build, quitting: o.Quit, onLostFailures: o.OnLostFailures, spans: o.Spans,
	}
	registry := prometheus.NewRegistry()
	s.web, err = web.New(web.Options{
		Log: o.Log, Hosts: o.Hosts, MaxConnections: o.MaxConnections, ProblemOf: refusal.Of, Registry: registry, Compressors: s.compressors,
		Spell: files.SpellAddress, SecretOf: files.SecretOf, Evict: func() bool { return s.streams.Evict() }, WaitHijacked: func(ctx context.Context) error { return s.streams.Wait(ctx) },
	})
	if err != nil {
		return nil, err
	}
	s.draining = s.web.Draining
	s.logs.Logs = joblog.New()
	s.decode = &command.Decoder{Defaults: defaults, Fenced: o.RequireClaimID, CheckClient: s.web.CheckClient, Now: engine.Now, HandlerFor: engine.HandlerFor}
	s.streams = stream.New(stream.Options{
		Engine: engine, Decode: s.decode, Log: o.Log, Draining: s.draining, Heartbeat: o.StreamHeartbeat, Connections: s.web.MaxConnections,
		Bulk: s.bulk, Control: s.control, Handouts: s.handouts, Changes: s.changes, Waiting: s.streamRequests, Jobs: s.streamJobs, Pages: s.pages, Registry: registry, Requests: s.web.Metrics,
	})
	s.blobs = files.NewBlobs(files.Options{
		Log: o.Log, Storage: o.Blobs, Registry: registry, CheckClient: s.web.CheckClient,
		Documents: s.documents, Downloads: s.downloads, Control: s.control, Uploads: s.streamed, Manifests: s.manifests,
	})
	s.uploads, s.filesets = files.NewUploads(s.blobs), files.NewFilesets(s.blobs, engine)
	s.handlers = newHandlers(s.reader, s.web.CheckClient)
	s.metrics = newMetrics(s, registry)
	s.backups = &backups{engine, s.limits, s.blobs, o.Build.Version, s.metrics.backupMetrics, defaultBackupPatience, s.draining, o.Log}
	routes := withHeads(s.routes())
	if o.GetSwitches {
		routes = append(routes, s.getSwitches()...)
	}
	served := make([]web.Route, len(routes))
	for i, r := range routes {
		served[i] = web.Route{Method: r.method, Path: r.path, Handle: r.handle, Hot: r.hot, Keyed: r.keyed, Query: r.query, Compressed: r.compressed()}
	}
	s.web.Serve(served)
	return s, nil
}

// Handler returns the handler of the API, for callers that do not use Run.
func (s *Server) Handler() http.Handler { return s.web.Handler() }

// Run serves requests on l until ctx is done. Then it answers parked claims, waits at most drain for the remaining
// requests to end, and closes the connections of requests that have not ended by then. After Run has returned without a
// forced close, no handler runs, and the caller can stop the engine.
func (s *Server) Run(ctx context.Context, l net.Listener, drain time.Duration) error {
	tidying, stopTidying := context.WithCancel(context.Background())
	var tidy sync.WaitGroup
	tidy.Go(func() { s.logs.Run(tidying) })
	defer tidy.Wait()
	defer stopTidying()
	return s.web.Run(ctx, l, drain)
}
