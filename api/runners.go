package api

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// runners answers GET /runners: who holds what.
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
	minSeq, err := minSeq(c)
	if err != nil {
		return err
	}
	held, err := s.holdPage(c, minSeq, maxRowsBytes)
	if err != nil {
		return err
	}
	defer held.release()
	list, more, err := s.engine.Runners(c.Request().Context(), minSeq, after, limit)
	if err != nil {
		return err
	}
	at := buffer()
	b := append(*at, `{"runners":[`...)
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendRunner(b, &list[i])
	}
	b = append(b, `],"next":`...)
	if more && len(list) > 0 {
		b = appendText(b, list[len(list)-1].Name)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, "}\n"...)
	if err := held.resize(c.Request().Context(), int64(cap(b))); err != nil {
		return err
	}
	err = answer(c, http.StatusOK, mimeJSON, b)
	putBuffer(at, b)
	return err
}

func appendRunner(b []byte, r *store.Runner) []byte {
	b = append(b, `{"runner_id":`...)
	b = appendText(b, r.Name)
	b = append(b, `,"held":`...)
	b = strconv.AppendInt(b, int64(r.Held), 10)
	b = append(b, `,"claims":[`...)
	for i := range r.Open {
		claim := &r.Open[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"claim_id":`...)
		b = appendID(b, claim.ID)
		b = append(b, `,"held":`...)
		b = strconv.AppendInt(b, int64(claim.Held), 10)
		b = append(b, `,"claimed_at":`...)
		b = strconv.AppendInt(b, claim.CreatedAt, 10)
		b = append(b, `,"tickled_at":`...)
		b = strconv.AppendInt(b, claim.TickledAt, 10)
		b = append(b, `,"deadline_at":`...)
		b = appendNumber(b, claim.DeadlineAt)
		b = append(b, '}')
	}
	b = append(b, `],"claim_count":`...)
	b = strconv.AppendInt(b, int64(r.Claims), 10)
	b = append(b, `,"last_seen_at":`...)
	b = strconv.AppendInt(b, r.LastSeenAt, 10)
	return append(b, '}')
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
	minSeq, err := minSeq(c)
	if err != nil {
		return err
	}
	held, err := s.holdPage(c, minSeq, fields.bytes(job.MaxClaimJobs))
	if err != nil {
		return err
	}
	defer held.release()
	var claim store.Claim
	var list []job.Job
	err = s.pages.do(c.Request().Context(), func() error {
		claim, list, err = s.engine.ClaimDocument(c.Request().Context(), minSeq, id, fields.parts())
		return err
	})
	if err != nil {
		return err
	}
	if err := held.resize(c.Request().Context(), statesBytes(list)); err != nil {
		return err
	}
	p := newPieces(c, mimeJSON, held, s.pages)
	b := append(p.b, `{"claim_id":`...)
	b = appendID(b, claim.ID)
	b = append(b, `,"runner_id":`...)
	b = appendText(b, claim.Runner)
	b = append(b, `,"created_at":`...)
	b = strconv.AppendInt(b, claim.CreatedAt, 10)
	b = append(b, `,"lease_ms":`...)
	b = strconv.AppendInt(b, claim.LeaseMs, 10)
	b = append(b, `,"tickled_at":`...)
	b = strconv.AppendInt(b, claim.TickledAt, 10)
	b = append(b, `,"deadline_at":`...)
	b = appendNumber(b, claim.DeadlineAt)
	b = append(b, `,"handed_out":`...)
	b = strconv.AppendInt(b, int64(claim.HandedOut), 10)
	b = append(b, `,"held":`...)
	b = strconv.AppendInt(b, int64(claim.Held), 10)
	p.b = append(b, `,"jobs":`...)
	if err := fields.write(p, list); err != nil {
		return err
	}
	p.b = append(p.b, "}\n"...)
	return p.end()
}
