package command

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/containerjob"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/handler"
)

// The jobs of a type with a stored handler of kind container have payloads of one form. The server refuses a create
// with another payload, because the job could never run. For other types the look-up costs only a read of a map in
// memory.

// needsDocument reports whether the jobs of a type must have the payload of a container.
func (s *Decoder) needsDocument(client, typ string) bool {
	h, ok := s.HandlerFor(client, typ)
	return ok && h.Summary == handler.Container
}

// checkPayload refuses a payload with which a job of its type could never run.
func (s *Decoder) checkPayload(client, typ string, payload []byte) error {
	if !s.needsDocument(client, typ) {
		return nil
	}
	if _, err := containerjob.Parse(payload); err != nil {
		return web.BadRequest("payload", fmt.Sprintf("%v; the type %s has a handler of kind container", err, typ))
	}
	return nil
}

// CheckPayloads refuses a command with a payload that checkPayload refuses. The problem begins with the place of the
// job, as in line 3.
func (s *Decoder) CheckPayloads(cmd *job.Create, place string) error {
	if !slices.ContainsFunc(cmd.Groups, func(g job.Group) bool { return s.needsDocument(g.Client, g.Type) }) {
		return nil
	}
	rest, before := cmd.Payloads, 0
	for i := range cmd.Groups {
		g := &cmd.Groups[i]
		var err error
		if !s.needsDocument(g.Client, g.Type) {
			if rest, err = cmd.Frame.Skip(rest, g.Lines); err != nil {
				return err
			}
			before += g.Lines
			continue
		}
		for n := range g.Lines {
			var payload []byte
			if payload, rest, err = cmd.Frame.Next(rest); err != nil {
				return err
			}
			if err := s.checkPayload(g.Client, g.Type, payload); err != nil {
				return refusal.Placed(place+" "+strconv.Itoa(before+n+1), err)
			}
		}
		before += g.Lines
	}
	return nil
}
