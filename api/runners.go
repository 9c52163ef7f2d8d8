package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest/registry"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/query"
)

type runnerReader interface {
	Runners(after string, limit int) (runners []document.Runner, more bool, err error)
	Runner(id string) (document.Runner, error)
	ClaimDocument(id job.ID, parts query.Parts) (document.Claim, []job.Job, error)
}

// runners answers GET /runners with a page of the runners that the registry knows or that hold jobs.
func (s *Server) runners(c echo.Context) error {
	after, limit := "", web.DefaultPage
	for _, p := range web.Parameters(c) {
		var err error
		switch p.Key {
		case "after":
			after, err = p.Value, web.BadField(p.Key, job.CheckText(p.Key, p.Value, 1, job.MaxRunnerBytes))
		case "limit":
			limit, err = web.PageLimit(p)
		}
		if err != nil {
			return err
		}
	}
	held, err := s.holdPage(c, web.MaxRowsBytes)
	if err != nil {
		return err
	}
	defer held.Release()
	holding, moreHolding, err := s.engine.Runners(after, limit)
	if err != nil {
		return err
	}
	registered, moreRegistered := s.engine.AllRegistered(after, limit)
	page := runnersDocument{Runners: []runnerDocument{}}
	for len(page.Runners) < limit && (len(holding) > 0 || len(registered) > 0) {
		var h *document.Runner
		var r *registry.Runner
		switch order := compareFirst(holding, registered); {
		case order > 0 && len(holding) == 0 && moreHolding || order < 0 && len(registered) == 0 && moreRegistered:
			// The rest of the list that has ended is not read yet, and its next runner may belong first.
			holding, registered = nil, nil
			continue
		case order <= 0:
			h, holding = &holding[0], holding[1:]
			if order == 0 {
				r, registered = &registered[0], registered[1:]
			}
		default:
			r, registered = &registered[0], registered[1:]
		}
		page.Runners = append(page.Runners, documentOfRunner(h, r))
	}
	if n := len(page.Runners); n > 0 && (moreHolding || moreRegistered || len(holding) > 0 || len(registered) > 0) {
		page.Next = &page.Runners[n-1].RunnerID
	}
	text, err := web.EncodePage(c.Request().Context(), held, page)
	if err != nil {
		return err
	}
	return web.Answer(c, http.StatusOK, web.MIMEJSON, text)
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

// runner answers GET /runners/{id}.
func (s *Server) runner(c echo.Context) error {
	id, err := pathRunner(c)
	if err != nil {
		return err
	}
	held, err := s.holdPage(c, maxRunnerBytes)
	if err != nil {
		return err
	}
	defer held.Release()
	holding, err := s.engine.Runner(id)
	if err != nil {
		return err
	}
	known, ok := s.engine.Registered(id)
	registered := &known
	if !ok {
		registered = nil
		if holding.Claims == 0 {
			return registry.ErrNotFound
		}
	}
	return web.AnswerDocument(c, http.StatusOK, documentOfRunner(&holding, registered))
}

// runnersDocument is a page of runners. If more follow, next is the last runner of the page.
type runnersDocument struct {
	Runners []runnerDocument `json:"runners"`
	Next    *string          `json:"next"`
}

// runnerDocument is the document of a runner. Claims has the newest of its claims that hold jobs, and ClaimCount the
// number of all of them. If the registry does not know the runner, the fields of Info are left out, and State to
// HeartbeatAt are null.
type runnerDocument struct {
	RunnerID    string          `json:"runner_id"`
	State       *registry.State `json:"state"`
	End         *registry.End   `json:"end"`
	Since       *int64          `json:"since"`
	HeartbeatAt *int64          `json:"heartbeat_at"`
	*registry.Info
	Held       int         `json:"held"`
	Claims     []openClaim `json:"claims"`
	ClaimCount int         `json:"claim_count"`
	LastSeenAt int64       `json:"last_seen_at"`
}

type openClaim struct {
	ClaimID    job.ID `json:"claim_id"`
	Held       int    `json:"held"`
	ClaimedAt  int64  `json:"claimed_at"`
	TickledAt  int64  `json:"tickled_at"`
	DeadlineAt *int64 `json:"deadline_at"`
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

// claimHead is the document of a claim without its list of jobs.
type claimHead struct {
	ClaimID    job.ID  `json:"claim_id"`
	RunnerID   *string `json:"runner_id"` // null if nobody claimed the jobs; see job.Complete
	CreatedAt  int64   `json:"created_at"`
	LeaseMs    int64   `json:"lease_ms"`
	TickledAt  int64   `json:"tickled_at"`
	DeadlineAt *int64  `json:"deadline_at"` // null if the claim holds no jobs
	HandedOut  int     `json:"handed_out"`
	Held       int     `json:"held"`
}

// claimDocument answers GET /claims/{id}.
func (s *Server) claimDocument(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	fields, err := onlyFields(web.Parameters(c))
	if err != nil {
		return err
	}
	held, err := s.holdPage(c, fields.Bytes(job.MaxClaimJobs))
	if err != nil {
		return err
	}
	defer held.Release()
	var claim document.Claim
	var list []job.Job
	err = s.pages.Do(c.Request().Context(), func() error {
		claim, list, err = s.engine.ClaimDocument(id, fields.Parts())
		return err
	})
	if err != nil {
		return err
	}
	if err := held.Resize(c.Request().Context(), answer.StatesBytes(list)); err != nil {
		return err
	}
	head, err := web.EncodeHead(claimHead{
		ClaimID: claim.ID, RunnerID: web.OrNull(claim.Runner), CreatedAt: claim.CreatedAt, LeaseMs: claim.LeaseMs, TickledAt: claim.TickledAt,
		DeadlineAt: web.OrNull(claim.DeadlineAt), HandedOut: claim.HandedOut, Held: claim.Held,
	})
	if err != nil {
		return err
	}
	p := web.NewPieces(c, web.MIMEJSON, held, s.pages)
	p.B = append(append(p.B, head...), `,"jobs":`...)
	if err := fields.Write(p, list); err != nil {
		return err
	}
	p.B = append(p.B, "}\n"...)
	return p.End()
}
