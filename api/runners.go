package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

type runnerReader interface {
	Runners(after string, limit int) (runners []store.Runner, more bool, err error)
	ClaimDocument(id job.ID, parts store.Parts) (store.Claim, []job.Job, error)
}

// runners answers GET /runners with a page of runners and the claims that they hold.
func (s *Server) runners(c echo.Context) error {
	after, limit := "", defaultPage
	for _, p := range parameters(c) {
		var err error
		switch p.key {
		case "after":
			after, err = p.value, badField(p.key, job.CheckText(p.key, p.value, 1, job.MaxRunnerBytes))
		case "limit":
			limit, err = pageLimit(p)
		}
		if err != nil {
			return err
		}
	}
	held, err := s.holdPage(c, maxRowsBytes)
	if err != nil {
		return err
	}
	defer held.release()
	list, more, err := s.engine.Runners(after, limit)
	if err != nil {
		return err
	}
	page := runnersDocument{Runners: make([]runnerDocument, len(list))}
	for i := range list {
		page.Runners[i] = documentOfRunner(&list[i])
	}
	if more && len(list) > 0 {
		page.Next = &list[len(list)-1].Name
	}
	text, err := encodePage(c.Request().Context(), held, page)
	if err != nil {
		return err
	}
	return answer(c, http.StatusOK, mimeJSON, text)
}

// runnersDocument is a page of runners. If more follow, next is the last runner of the page.
type runnersDocument struct {
	Runners []runnerDocument `json:"runners"`
	Next    *string          `json:"next"`
}

// runnerDocument is the document of a runner. Claims has the newest of its claims that hold jobs, and ClaimCount the
// number of all of them.
type runnerDocument struct {
	RunnerID   string      `json:"runner_id"`
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

func documentOfRunner(r *store.Runner) runnerDocument {
	doc := runnerDocument{RunnerID: r.Name, Held: r.Held, ClaimCount: r.Claims, LastSeenAt: r.LastSeenAt}
	for i := range r.Open {
		claim := &r.Open[i]
		doc.Claims = append(doc.Claims, openClaim{claim.ID, claim.Held, claim.CreatedAt, claim.TickledAt, orNull(claim.DeadlineAt)})
	}
	return doc
}

// claimHead is the document of a claim without its list of jobs.
type claimHead struct {
	ClaimID    job.ID `json:"claim_id"`
	RunnerID   string `json:"runner_id"`
	CreatedAt  int64  `json:"created_at"`
	LeaseMs    int64  `json:"lease_ms"`
	TickledAt  int64  `json:"tickled_at"`
	DeadlineAt *int64 `json:"deadline_at"` // null if the claim holds no jobs
	HandedOut  int    `json:"handed_out"`
	Held       int    `json:"held"`
}

// claimDocument answers GET /claims/{id}.
func (s *Server) claimDocument(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	fields, err := onlyFields(parameters(c))
	if err != nil {
		return err
	}
	held, err := s.holdPage(c, fields.bytes(job.MaxClaimJobs))
	if err != nil {
		return err
	}
	defer held.release()
	var claim store.Claim
	var list []job.Job
	err = s.pages.do(c.Request().Context(), func() error {
		claim, list, err = s.engine.ClaimDocument(id, fields.parts())
		return err
	})
	if err != nil {
		return err
	}
	if err := held.resize(c.Request().Context(), statesBytes(list)); err != nil {
		return err
	}
	head, err := encodeHead(claimHead{
		ClaimID: claim.ID, RunnerID: claim.Runner, CreatedAt: claim.CreatedAt, LeaseMs: claim.LeaseMs, TickledAt: claim.TickledAt,
		DeadlineAt: orNull(claim.DeadlineAt), HandedOut: claim.HandedOut, Held: claim.Held,
	})
	if err != nil {
		return err
	}
	p := newPieces(c, mimeJSON, held, s.pages)
	p.b = append(append(p.b, head...), `,"jobs":`...)
	if err := fields.write(p, list); err != nil {
		return err
	}
	p.b = append(p.b, "}\n"...)
	return p.end()
}
