package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest/registry"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
)

// runners are the processes that run jobs.
type runners struct {
	engine    backend.Engine
	documents *web.Lane
}

func (n runners) routes(r operation.Rules) []route {
	return []route{
		cold(r, http.MethodGet, "/runners", operation.About{
			ID: "runners", Tag: "Reading", Summary: "List runners and the claims that they hold",
			Answers: answers{200: "a page of the list"}, Refusals: []int{503},
		}, n.list),
		cold(r, http.MethodGet, "/runners/:id", operation.About{
			ID: "runner", Tag: "Reading", Summary: "Read a runner and the claims that it holds",
			Answers: answers{200: "the document"}, Refusals: []int{404, 503},
		}, n.read),
		cold(r, http.MethodPost, "/runners/:id", operation.About{
			ID: "heartbeat", Tag: "Running", Summary: "Report that a runner is alive",
			Text: "A runner sends a heartbeat every heartbeat_ms. If three are missing, the server declares the runner lost and returns\n" +
				"its jobs. One process holds a runner id at a time: the one whose instance the first heartbeat had, or the one that\n" +
				"took it over.\n",
			Answers: answers{200: "The runner is alive, and holds its runner id."}, Refusals: []int{409},
		}, n.heartbeat).often(),
		cold(r, http.MethodDelete, "/runners/:id", operation.About{
			ID: "goodbye", Tag: "Running", Summary: "Report the clean end of a runner",
			Answers: answers{204: "The runner has ended, and is not declared lost."}, Refusals: []int{404, 409},
		}, n.goodbye),
	}
}

type runnersQuery struct {
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"maximum number of items of a page; default: 100"`
	After string `query:"after" schema:"RunnerId" doc:"next of the previous page"`
	caughtUp
}

// list answers with a page of the runners that the registry knows or that hold jobs.
func (n runners) list(ctx context.Context, in *runnersQuery) (out found[runnersDocument], err error) {
	if err := n.engine.CatchUp(ctx, in.MinSeq); err != nil {
		return out, err
	}
	if err := operation.Hold(ctx, n.documents, web.MaxRowsBytes); err != nil {
		return out, err
	}
	page, key := runnersDocument{Runners: []runnerDocument{}}, job.KeyOf(ctx)
	for after, more := in.After, true; more && len(page.Runners) < in.Limit; {
		var list []runnerDocument
		if list, more, err = n.after(ctx, after, in.Limit); err != nil {
			return out, err
		}
		for i := range list {
			if after = list[i].RunnerID; key.PermitsRunner(after) != nil {
				continue
			}
			if page.Runners = append(page.Runners, list[i]); len(page.Runners) == in.Limit {
				if more || i < len(list)-1 {
					page.Next = &list[i].RunnerID
				}
				break
			}
		}
		more = more && len(list) > 0
	}
	return found[runnersDocument]{page}, nil
}

// after returns up to limit runners after one, and whether more may follow.
func (n runners) after(ctx context.Context, after string, limit int) (list []runnerDocument, more bool, err error) {
	holding, moreHolding, err := n.engine.Runners(after, limit)
	if err != nil {
		return nil, false, err
	}
	registered, moreRegistered, err := n.engine.AllRegistered(ctx, after, limit)
	if err != nil {
		return nil, false, err
	}
	for len(list) < limit && (len(holding) > 0 || len(registered) > 0) {
		var h *document.Runner
		var r *registry.Runner
		switch order := compareFirst(holding, registered); {
		case order > 0 && len(holding) == 0 && moreHolding || order < 0 && len(registered) == 0 && moreRegistered:
			// The rest of the list that has ended is not read yet, and its next runner may belong first.
			return list, true, nil
		case order <= 0:
			h, holding = &holding[0], holding[1:]
			if order == 0 {
				r, registered = &registered[0], registered[1:]
			}
		default:
			r, registered = &registered[0], registered[1:]
		}
		list = append(list, documentOfRunner(h, r))
	}
	return list, moreHolding || moreRegistered || len(holding) > 0 || len(registered) > 0, nil
}

// compareFirst compares the first runners of two lists, at least one of which is not empty. An empty list sorts last.
func compareFirst(holding []document.Runner, registered []registry.Runner) int {
	switch {
	case len(holding) == 0:
		return 1
	case len(registered) == 0:
		return -1
	}
	return registry.Compare(holding[0].Name, registered[0].ID)
}

// maxRunnerBytes is the memory for an answer with one runner.
const maxRunnerBytes = 128 << 10

// namedRunner are the parameters of a request about a runner. A runner that sends heartbeats must have an id of the bytes
// of names, because paths cannot contain other bytes.
type namedRunner struct {
	ID string `path:"id" schema:"Name" doc:"the runner_id, which must have the form of a name"`
}

type runnerQuery struct {
	namedRunner
	caughtUp
}

func (n runners) read(ctx context.Context, in *runnerQuery) (out found[runnerDocument], err error) {
	if err := n.engine.CatchUp(ctx, in.MinSeq); err != nil {
		return out, err
	}
	if err := operation.Hold(ctx, n.documents, maxRunnerBytes); err != nil {
		return out, err
	}
	holding, err := n.engine.Runner(in.ID)
	if err != nil {
		return out, err
	}
	known, ok, err := n.engine.Registered(ctx, in.ID)
	if err != nil {
		return out, err
	}
	registered := &known
	if !ok {
		registered = nil
		if holding.Claims == 0 {
			return out, registry.ErrNotFound
		}
	}
	return found[runnerDocument]{documentOfRunner(&holding, registered)}, nil
}

// runnersDocument is a page of runners. If more follow, next is the last runner of the page.
type runnersDocument struct {
	Runners []runnerDocument `json:"runners" maxItems:"1000"`
	Next    *string          `json:"next"`
}

// runnerDocument is the document of a runner. Claims has the newest of its claims that hold jobs, and ClaimCount the
// number of all of them. If the registry does not know the runner, the fields of Info are left out, and State to
// HeartbeatAt are null.
type runnerDocument struct {
	RunnerID    string          `json:"runner_id" schema:"RunnerId"`
	State       *registry.State `json:"state" enum:"ALIVE,DEAD"`
	End         *registry.End   `json:"end" enum:"lost,left" doc:"why the runner is dead"`
	Since       *int64          `json:"since" minimum:"0" doc:"when it became alive or dead"`
	HeartbeatAt *int64          `json:"heartbeat_at" minimum:"0" doc:"when its last heartbeat arrived"`
	*registry.Info
	Held       int         `json:"held" minimum:"0" doc:"number of jobs that the runner holds"`
	Claims     []openClaim `json:"claims" maxItems:"100"`
	ClaimCount int         `json:"claim_count" minimum:"0" doc:"number of all claims of the runner that hold jobs"`
	LastSeenAt int64       `json:"last_seen_at" minimum:"0"`
}

type openClaim struct {
	ClaimID    job.ID `json:"claim_id"`
	Held       int    `json:"held" minimum:"0"`
	ClaimedAt  int64  `json:"claimed_at" minimum:"0"`
	TickledAt  int64  `json:"tickled_at" minimum:"0"`
	DeadlineAt *int64 `json:"deadline_at" minimum:"0"`
}

// documentOfRunner combines the state's view of a runner (nil if the runner holds no jobs) with the registry's view
// (nil if the registry does not know it).
func documentOfRunner(holding *document.Runner, registered *registry.Runner) (doc runnerDocument) {
	if holding != nil {
		doc = runnerDocument{RunnerID: holding.Name, Held: holding.Held, ClaimCount: holding.Claims, LastSeenAt: holding.LastSeenAt}
		for i := range holding.Open {
			claim := &holding.Open[i]
			doc.Claims = append(doc.Claims, openClaim{claim.ID, claim.Held, claim.CreatedAt, claim.TickledAt, web.OrNull(claim.DeadlineAt)})
		}
	}
	if r := registered; r != nil {
		doc.RunnerID, doc.State, doc.End, doc.Since, doc.HeartbeatAt = r.ID, &r.State, web.OrNull(r.End), &r.Since, &r.HeartbeatAt
		doc.Info = &r.Info
		doc.LastSeenAt = max(doc.LastSeenAt, r.HeartbeatAt)
	}
	return doc
}

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

func (n runners) heartbeat(ctx context.Context, in *heartbeatRequest) (out found[heartbeatDocument], err error) {
	if err := in.Body.Check(); err != nil {
		if wrong, ok := errors.AsType[*registry.FieldError](err); ok {
			return out, web.BadRequest(wrong.Field, wrong.Text)
		}
		return out, err
	}
	since, every, err := n.engine.Heartbeat(ctx, in.ID, in.Body.Info, in.Body.Takeover)
	return found[heartbeatDocument]{heartbeatDocument{every.Milliseconds(), since}}, err
}

type goodbyeRequest struct {
	namedRunner
	Instance string `query:"instance" required:"true" schema:"Instance" doc:"the instance of the heartbeats"`
}

// goodbye reports the clean end of a runner.
func (n runners) goodbye(ctx context.Context, in *goodbyeRequest) (out struct{}, err error) {
	if err := registry.CheckInstance(in.Instance); err != nil {
		return out, web.BadField("instance", err)
	}
	return out, n.engine.Goodbye(ctx, in.ID, in.Instance)
}
