package stream

import (
	"bytes"
	"fmt"
	"time"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// helloDocument is the answer to hello.
type helloDocument struct {
	StreamID    string         `json:"stream_id"`
	HeartbeatMs int64          `json:"heartbeat_ms"`
	MaxRequests int            `json:"max_requests"`
	MaxBytes    int            `json:"max_message_bytes"`
	Defaults    streamDefaults `json:"defaults"`
	Claims      []openedClaim  `json:"claims"`
}

// streamDefaults are the attributes of jobs that are created without them, as far as documents show them.
type streamDefaults struct {
	Priority    int   `json:"priority"`
	MaxAttempts int   `json:"max_attempts"`
	LeaseMs     int64 `json:"lease_ms"`
}

// maxHelloClaims bounds the claims that a stream takes over.
const maxHelloClaims = maxCredit

// beginHello names the runner, and takes over claims from the runner's earlier stream.
func (t *stream) beginHello(r *streamRequest) (finisher, error) {
	var body struct {
		RunnerID *string  `json:"runner_id"`
		LingerMs *int64   `json:"linger_ms"`
		Jobs     *string  `json:"jobs"`
		Resume   *string  `json:"resume"`
		Claims   []job.ID `json:"claims"`
	}
	if err := web.DecodeObject(bytes.TrimSpace(r.Hello), &body); err != nil {
		return nil, err
	}
	h := helloFields{}
	if body.RunnerID != nil {
		h.runner = *body.RunnerID
		if err := job.CheckText("runner_id", h.runner, 1, job.MaxRunnerBytes); err != nil {
			return nil, web.BadField("runner_id", err)
		}
		if err := job.KeyOf(t.ctx).PermitsRunner(h.runner); err != nil {
			return nil, err
		}
	}
	if body.LingerMs != nil {
		h.lingerMs = *body.LingerMs
		if err := job.CheckRange("linger_ms", h.lingerMs, 0, maxLinger.Milliseconds()); err != nil {
			return nil, web.BadField("linger_ms", err)
		}
	}
	if body.Jobs != nil {
		if h.runs = *body.Jobs == "runs"; !h.runs && *body.Jobs != "json" {
			return nil, web.BadRequest("jobs", fmt.Sprintf("jobs must be json or runs, not %q", web.Shortened(*body.Jobs)))
		}
	}
	if len(body.Claims) > maxHelloClaims {
		return nil, web.BadRequest("claims", fmt.Sprintf("claims has %d ids; the maximum is %d", len(body.Claims), maxHelloClaims))
	}
	for i, id := range body.Claims {
		if id.IsZero() {
			return nil, web.BadID(web.Item("claims", i))
		}
	}
	if (body.Resume != nil || len(body.Claims) > 0) && h.runner == "" {
		return nil, web.BadRequest("runner_id", "runner_id is missing; a stream that takes over claims must name their runner")
	}
	if t.greeted.Load() {
		return nil, web.BadRequest("hello", "hello was sent before; a stream has one, as its first request")
	}
	t.s.greet(t, h)
	t.greeted.Store(true)
	t.heard.Store(t.s.Engine.Silence(h.runner)) // this request is a sign of life
	resume := ""
	if body.Resume != nil {
		resume = *body.Resume
	}
	return func(b []byte) ([]byte, uint64, error) {
		doc := helloDocument{
			StreamID: t.id, HeartbeatMs: int64(t.s.Heartbeat / time.Millisecond), MaxRequests: maxStreamRequests, MaxBytes: web.MaxBodyBytes,
			Defaults: streamDefaults{job.DefaultPriority, t.s.Decode.Defaults.MaxAttempts, t.s.Decode.Defaults.LeaseMs},
		}
		claims, err := t.adopt(resume, body.Claims)
		if err != nil {
			t.greeted.Store(false)
			return nil, 0, err
		}
		if doc.Claims = claims; claims == nil {
			doc.Claims = []openedClaim{}
		}
		return appendDocument(b, doc, 0)
	}, nil
}
