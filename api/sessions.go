package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
)

// sessions identify runners and producers across connections.
type sessions struct{ engine backend.Engine }

func (s sessions) routes(r operation.Rules) []route {
	return []route{
		cold(r, http.MethodPost, "/sessions", operation.About{
			ID: "openSession", Tag: "Running", Summary: "Open a session",
			Text: "A session identifies a runner or producer across connections and restarts of the server. A request with a number\n" +
				"in a session is carried out only once, however often the client repeats it.\n",
			Answers: answers{201: "The session is open."}, Refusals: []int{503, 507},
		}, s.open),
		cold(r, http.MethodGet, "/sessions/:id", operation.About{
			ID: "session", Tag: "Running", Summary: "Read a session", Answers: answers{200: "the document"}, Refusals: []int{404, 503},
		}, s.read),
		cold(r, http.MethodDelete, "/sessions/:id", operation.About{
			ID: "endSession", Tag: "Running", Summary: "End a session", Answers: answers{204: "The session has ended."}, Refusals: []int{404, 503, 507},
		}, s.end),
	}
}

type newSession struct {
	Body struct {
		RunnerID *string `json:"runner_id" schema:"RunnerId"`
	}
}

func (s sessions) open(ctx context.Context, in *newSession) (out made[sessionDocument], err error) {
	var cmd job.OpenSession
	if in.Body.RunnerID != nil {
		cmd.Runner = *in.Body.RunnerID
	}
	session, receipt, err := s.engine.OpenSession(ctx, cmd)
	return made[sessionDocument]{receipt.Seq, "/sessions/" + session.ID.String(), documentOfSession(&session)}, err
}

func (s sessions) read(ctx context.Context, in *withID) (out found[sessionDocument], err error) {
	if err := s.engine.CatchUp(ctx, in.MinSeq); err != nil {
		return out, err
	}
	session, err := s.engine.SessionDocument(in.ID)
	return found[sessionDocument]{documentOfSession(&session)}, sessionGone(err)
}

func (s sessions) end(ctx context.Context, in *onlyID) (removed, error) {
	receipt, err := s.engine.EndSession(ctx, job.EndSession{Session: in.ID})
	return removed{receipt.Seq}, sessionGone(err)
}

// sessionGone changes the problem of a read or end of an unknown session: it reports that nothing was stored. For other
// requests in a session this is unknown.
func sessionGone(err error) error {
	if errors.Is(err, job.SessionNotFound) {
		p := refusal.Of(err)
		p.Fate = web.NotStored
		return p
	}
	return err
}

// sessionDocument is the document of a session. RunnerID is null if the session was opened without one. Slots has the
// number of the last request in each slot.
type sessionDocument struct {
	SessionID job.ID         `json:"session_id"`
	RunnerID  *string        `json:"runner_id" schema:"RunnerId"`
	CreatedAt int64          `json:"created_at" minimum:"0"`
	UsedAt    int64          `json:"used_at" minimum:"0"`
	ExpiresAt int64          `json:"expires_at" minimum:"0" doc:"when the session ends if the client does not use it"`
	Slots     []slotDocument `json:"slots" maxItems:"256"`
}

type slotDocument struct {
	Slot   int    `json:"slot" minimum:"0" maximum:"255"`
	Number uint64 `json:"number" minimum:"1" maximum:"9223372036854775807"`
}

func documentOfSession(s *document.Session) sessionDocument {
	doc := sessionDocument{SessionID: s.ID, RunnerID: web.OrNull(s.Runner), CreatedAt: s.CreatedAt, UsedAt: s.UsedAt, ExpiresAt: s.ExpiresAt}
	for _, slot := range s.Slots {
		doc.Slots = append(doc.Slots, slotDocument(slot))
	}
	return doc
}
