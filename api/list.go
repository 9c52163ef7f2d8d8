package api

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/command"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/query"
)

// selected is the parameter that selects fields of a job's document.
type selected struct {
	Fields *answer.Selection `query:"fields" list:"commas" doc:"fields of the document, separated by commas; the answer always includes job_id"`
}

// selection returns the selected fields: all, without the parameter.
func (s *selected) selection() answer.Selection {
	if s.Fields == nil {
		return answer.Selection{}
	}
	return *s.Fields
}

type jobsQuery struct {
	Status        *string           `query:"status" enum:"deferred,pending,active,completed,failed,cancelled" doc:"only jobs with this status"`
	Client        string            `query:"client" schema:"Name" doc:"only jobs of this client"`
	Type          string            `query:"type" schema:"Name" doc:"only jobs of this type"`
	Batch         job.ID            `query:"batch_id" doc:"only jobs of this batch"`
	Runner        string            `query:"runner_id" schema:"RunnerId" doc:"only jobs that this runner holds, or whose last run was ended by this runner"`
	Claim         job.ID            `query:"claim_id" doc:"only jobs whose current or last claim is this one"`
	CreatedAfter  int64             `query:"created_after" minimum:"0" maximum:"253402300799999" doc:"only jobs created at this time or later, in unix ms"`
	CreatedBefore int64             `query:"created_before" minimum:"1" maximum:"253402300799999" doc:"only jobs created before this time, in unix ms"`
	UpdatedAfter  *int64            `query:"updated_after" minimum:"0" maximum:"253402300799999" doc:"only jobs created, moved to another status or patched at this time or later, in unix ms"`
	UpdatedBefore int64             `query:"updated_before" minimum:"1" maximum:"253402300799999" doc:"only jobs whose updated_at is before this time, in unix ms"`
	Order         *string           `query:"order" enum:"oldest,newest,updated" doc:"oldest: by id. newest: by id, the newest job first. updated: by updated_at, the last first; for up to 1,000 queues. Default: updated with updated_after or updated_before, else oldest."`
	Limit         int               `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"maximum number of items of a page; default: 100"`
	After         *string           `query:"after" schema:"JobPlace" doc:"next of the previous page; in the orders oldest and newest also the id of any job"`
	Meta          map[string]string `query:"meta." maxLength:"256" doc:"only jobs with this label"`
	selected
	caughtUp
}

// filter returns the jobs that a list has.
func (in *jobsQuery) filter() (f query.Filter, err error) {
	f = query.Filter{
		Client: in.Client, Type: in.Type, Batch: in.Batch, Runner: in.Runner, Claim: in.Claim, CreatedAfter: in.CreatedAfter, CreatedBefore: in.CreatedBefore,
		UpdatedBefore: in.UpdatedBefore, Limit: in.Limit, Meta: in.Meta,
	}
	switch {
	case in.Order != nil:
		f.Order = orders[*in.Order]
	case in.UpdatedAfter != nil || in.UpdatedBefore != 0:
		f.Order = query.Updated
	}
	if in.UpdatedAfter != nil {
		f.UpdatedAfter = *in.UpdatedAfter
	}
	if in.After != nil {
		if f.After, err = placeOfJob(f.Order, *in.After); err != nil {
			return f, err
		}
	}
	if in.Status != nil {
		f.Status = statusNamed(*in.Status)
	}
	fields := in.selection()
	f.Parts = fields.Parts()
	return f, checkLabels(in.Meta)
}

var orders = map[string]query.Order{"oldest": query.Oldest, "newest": query.Newest, "updated": query.Updated}

// appendJobPlace adds a place in a list of jobs as a value of JSON: an id or, in the order updated, an id and a time with a slash
// between them, or null for no place.
func appendJobPlace(b []byte, o query.Order, p query.JobPlace) []byte {
	if p.IsZero() || o != query.Updated {
		return answer.AppendID(b, p.ID)
	}
	b = p.ID.AppendText(append(b, '"'))
	return append(strconv.AppendInt(append(b, '/'), p.UpdatedAt, 10), '"')
}

// placeOfJob reads the text of a place.
func placeOfJob(o query.Order, text string) (p query.JobPlace, err error) {
	id, at, timed := strings.Cut(text, "/")
	if p.ID, err = queryID("after", id); err != nil {
		return p, err
	}
	if timed {
		p.UpdatedAt, err = strconv.ParseInt(at, 10, 64)
	}
	if err != nil || timed != (o == query.Updated) || p.UpdatedAt < 0 || p.UpdatedAt > job.MaxTimeMs || timed && at != strconv.FormatInt(p.UpdatedAt, 10) {
		return p, web.BadRequest("after", "after must be the next of a page in the same order")
	}
	return p, nil
}

// statusNamed returns the status with a name that exists.
func statusNamed(name string) job.Status {
	i := slices.IndexFunc(job.Statuses[:], func(s job.Status) bool { return s.String() == name })
	return job.Statuses[i]
}

// checkLabels checks the parameters of labels by which a list is filtered.
func checkLabels(meta map[string]string) error {
	checked := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(meta)) {
		checked[name] = meta[name]
		if _, err := job.NewMeta(checked); err != nil {
			return web.BadRequest(web.Shortened(command.MetaPrefix+name), err.Error())
		}
	}
	return nil
}

// jobsDocument is a page of jobs. It is sent in pieces.
type jobsDocument struct {
	Jobs []answer.JobPart `json:"jobs" maxItems:"1000"`
	Next *string          `json:"next" schema:"JobPlace"`
}

// list answers with a page of the jobs that match the query.
func (s *jobs) list(c echo.Context, in *jobsQuery) error {
	filter, err := in.filter()
	if err != nil {
		return err
	}
	key := job.KeyOf(c.Request().Context())
	if filter.Scope = key.By().Scope; key.PermitsRunner(filter.Runner) != nil {
		filter.Scope = job.Scope{Clients: []string{}} // others have this runner
	}
	fields := in.selection()
	held, err := s.page(c, in.caughtUp, fields.Bytes(filter.Limit))
	if err != nil {
		return err
	}
	defer held.Release()
	var list []job.Job
	var next query.JobPlace
	err = s.pages.Do(c.Request().Context(), func() error {
		list, next, err = s.engine.List(filter)
		answer.ConcealAll(key, list)
		return err
	})
	if errors.Is(err, query.ErrManyQueues) {
		return web.BadRequest("order", "the list has more than 1,000 queues, and is not in the order updated for so many; give client or type")
	}
	if err != nil {
		return err
	}
	if err := held.Resize(c.Request().Context(), answer.StatesBytes(list)); err != nil {
		return err
	}
	p := web.NewPieces(c, web.MIMEJSON, held, s.pages)
	p.B = append(p.B, `{"jobs":`...)
	if err := fields.Write(p, list); err != nil {
		return err
	}
	p.B = append(p.B, `,"next":`...)
	p.B = append(appendJobPlace(p.B, filter.Order, next), "}\n"...)
	return p.End()
}

func queryID(key, value string) (job.ID, error) {
	id, err := job.ParseID(value)
	if err != nil {
		return id, web.BadID(key)
	}
	return id, nil
}
