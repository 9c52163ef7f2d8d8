package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"time"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/files"
	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
)

// health says whether the process serves requests and the server accepts changes.
type health struct {
	engine   backend.Engine
	draining context.Context // done when the shutdown begins
	unready  func() error    // see Options; nil: never
}

func (h health) routes(r operation.Rules) []route {
	return []route{
		cold(r, http.MethodGet, "/healthz", operation.About{
			ID: "healthz", Tag: "Watching", Summary: "Check that the process serves requests",
			Text:    "It does not check the journal and the store. Use it as a liveness probe.",
			Answers: answers{200: "The process serves requests."},
		}, h.alive).often(),
		cold(r, http.MethodGet, "/readyz", operation.About{
			ID: "readyz", Tag: "Watching", Summary: "Check that the server accepts changes", Text: "Use it as a readiness probe.",
			Answers: answers{200: "The server accepts changes."}, Refusals: []int{503},
		}, h.ready).often(),
	}
}

type aliveDocument struct {
	Status string `json:"status" enum:"ok"`
}

// alive does not check the journal, because a restart of the process would not repair its disk.
func (h health) alive(context.Context, *nothing) (found[aliveDocument], error) {
	return found[aliveDocument]{aliveDocument{"ok"}}, nil
}

// ready fails with status 503 if the server does not accept changes.
func (h health) ready(context.Context, *nothing) (out found[readyDocument], err error) {
	err = h.engine.Ready()
	if err == nil && h.unready != nil {
		err = h.unready()
	}
	if h.draining.Err() != nil {
		err = web.ErrShuttingDown
	}
	if err == nil {
		doc := documentOfReady(h.engine.ClockOffset())
		if s, shared := h.engine.Cluster(); shared {
			doc.Role, doc.Term, doc.Leader = s.Role, s.Term, s.Leader
		}
		return found[readyDocument]{doc}, nil
	}
	p := *refusal.Of(err)
	if p.Status != http.StatusServiceUnavailable {
		p.Status = http.StatusServiceUnavailable
		if !errors.Is(err, ingest.ErrApply) && p.Code == "internal" {
			p.Code = "not_ready"
		}
	}
	p.Detail, p.Fate = err.Error(), web.NotStored
	return out, &p
}

// readyDocument is the answer of /readyz while the server accepts changes.
type readyDocument struct {
	Status        string `json:"status" enum:"ready"`
	ClockOffsetMs int64  `json:"clock_offset_ms" doc:"how far the server's time is ahead of its wall clock"`
	Detail        string `json:"detail,omitzero"`
	// Only of a node of a cluster.
	Role   string `json:"role,omitzero" enum:"leader,follower,candidate,learner" doc:"what this node of the cluster does"`
	Term   uint64 `json:"term,omitzero"`
	Leader string `json:"leader,omitzero" doc:"the name of the node that leads"`
}

// largeOffset is the difference between the journal's time and the wall clock from which /readyz explains it.
const largeOffset = time.Minute

func documentOfReady(offset time.Duration) readyDocument {
	doc := readyDocument{Status: "ready", ClockOffsetMs: offset.Milliseconds()}
	switch {
	case offset < -largeOffset:
		doc.Detail = fmt.Sprintf("the wall clock was set forward: the journal's time is %v earlier and catches up at double speed, so jobs with a run_at start late; POST /clock/accept sets the journal's time at once",
			-offset.Round(time.Second))
	case offset > largeOffset:
		doc.Detail = fmt.Sprintf("the wall clock was set back: the journal's time is %v ahead of it and runs at half speed until the two are equal", offset.Round(time.Second))
	}
	return doc
}

// Version identifies the build of the server.
type Version struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
}

func (v Version) routes(r operation.Rules) []route {
	return []route{
		cold(r, http.MethodGet, "/version", operation.About{
			ID: "version", Tag: "Watching", Summary: "Read the version of the server", Answers: answers{200: "the version"},
		}, v.read),
	}
}

type versionDocument struct {
	Version
	Go    string `json:"go"`
	Level int    `json:"level" minimum:"1" doc:"the newest level that this program knows"`
}

func (v Version) read(context.Context, *nothing) (found[versionDocument], error) {
	return found[versionDocument]{versionDocument{v, runtime.Version(), job.Level}}, nil
}

// Stats is the answer of /stats.
type Stats struct {
	ingest.Stats
	BlobBytes int64              `json:"blob_bytes" minimum:"0" doc:"bytes of all blobs and unfinished uploads, in the data directory or in a bucket"`
	Cluster   *job.ClusterStatus `json:"cluster,omitzero" doc:"what this node knows of its cluster"`
}

// statistics are the counters and gauges of the server as JSON.
type statistics struct {
	engine backend.Engine
	blobs  *files.Blobs
}

func (f statistics) routes(r operation.Rules) []route {
	return []route{
		cold(r, http.MethodGet, "/stats", operation.About{
			ID: "stats", Tag: "Watching", Summary: "Read counters and gauges of the server as JSON", Answers: answers{200: "the counters and gauges"},
		}, f.read).often(),
	}
}

func (f statistics) read(context.Context, *nothing) (found[Stats], error) {
	doc := Stats{Stats: f.engine.Stats()}
	if f.blobs.Storage != nil {
		doc.BlobBytes = f.blobs.Storage.Used()
	}
	if s, shared := f.engine.Cluster(); shared {
		doc.Cluster = &s
	}
	return found[Stats]{doc}, nil
}
