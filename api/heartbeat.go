package api

import (
	"context"
	"errors"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest/registry"
)

type heartbeatRequest struct {
	namedRunner
	Body struct {
		registry.Info
		Takeover bool `json:"takeover" doc:"hold the runner id even if another instance holds it"`
	} `required:"true"`
}

type heartbeatDocument struct {
	HeartbeatMs int64 `json:"heartbeat_ms" minimum:"1000" maximum:"3600000" doc:"time until the next heartbeat"`
	AliveSince  int64 `json:"alive_since" minimum:"0" doc:"when this instance sent its first heartbeat"`
}

func (n runners) heartbeat(_ context.Context, in *heartbeatRequest) (out found[heartbeatDocument], err error) {
	if err := in.Body.Check(); err != nil {
		if wrong, ok := errors.AsType[*registry.FieldError](err); ok {
			return out, web.BadRequest(wrong.Field, wrong.Text)
		}
		return out, err
	}
	since, every, err := n.engine.Heartbeat(in.ID, in.Body.Info, in.Body.Takeover)
	return found[heartbeatDocument]{heartbeatDocument{every.Milliseconds(), since}}, err
}

type goodbyeRequest struct {
	namedRunner
	Instance string `query:"instance" required:"true" schema:"Instance" doc:"the instance of the heartbeats"`
}

// goodbye reports the clean end of a runner.
func (n runners) goodbye(_ context.Context, in *goodbyeRequest) (out struct{}, err error) {
	if err := registry.CheckInstance(in.Instance); err != nil {
		return out, web.BadField("instance", err)
	}
	return out, n.engine.Goodbye(in.ID, in.Instance)
}
