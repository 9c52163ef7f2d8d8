package api

import (
	"fmt"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/command"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/query"
)

type jobLister interface {
	List(f query.Filter) (jobs []job.Job, next job.ID, err error)
}

// list answers GET /jobs with a page of the jobs that match the query, in the order of their ids.
func (s *Server) list(c echo.Context) error {
	filter, fields, err := listQuery(web.Parameters(c))
	if err != nil {
		return err
	}
	held, err := s.holdPage(c, fields.Bytes(filter.Limit))
	if err != nil {
		return err
	}
	defer held.Release()
	var list []job.Job
	var next job.ID
	err = s.pages.Do(c.Request().Context(), func() error {
		list, next, err = s.engine.List(filter)
		return err
	})
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
	p.B = append(answer.AppendID(p.B, next), "}\n"...)
	return p.End()
}

func listQuery(query []web.Parameter) (f query.Filter, fields answer.Selection, err error) {
	f.Limit = web.DefaultPage
	for _, p := range query {
		key, value := p.Key, p.Value
		switch key {
		case "status":
			f.Status, err = parseStatus(key, value)
		case "client":
			f.Client, err = value, web.BadField(key, job.CheckName(key, value))
		case "type":
			f.Type, err = value, web.BadField(key, job.CheckName(key, value))
		case "runner_id":
			f.Runner, err = value, web.BadField(key, job.CheckText(key, value, 1, job.MaxRunnerBytes))
		case "claim_id":
			f.Claim, err = queryID(key, value)
		case "batch_id":
			f.Batch, err = queryID(key, value)
		case "created_after":
			f.CreatedAfter, err = web.QueryTime(p, 0)
		case "created_before":
			f.CreatedBefore, err = web.QueryTime(p, 1)
		case "limit":
			f.Limit, err = web.PageLimit(p)
		case "after":
			f.After, err = queryID(key, value)
		case "fields":
			fields, err = answer.SelectFields(value)
		default:
			if f.Meta == nil {
				f.Meta = map[string]string{}
			}
			f.Meta[strings.TrimPrefix(key, command.MetaPrefix)] = value
			_, metaErr := job.NewMeta(f.Meta)
			err = web.BadField(web.Shortened(key), metaErr)
		}
		if err != nil {
			return f, fields, err
		}
	}
	f.Parts = fields.Parts()
	return f, fields, nil
}

func queryID(key, value string) (job.ID, error) {
	id, err := job.ParseID(value)
	if err != nil {
		return id, web.BadID(key)
	}
	return id, nil
}

// parseStatus reads the name of a status.
func parseStatus(key, value string) (job.Status, error) {
	var names []string
	for _, status := range job.Statuses {
		if status.String() == value {
			return status, nil
		}
		names = append(names, status.String())
	}
	return 0, web.BadRequest(key, fmt.Sprintf("%s must be one of %s, not %q", key, strings.Join(names, ", "), web.Shortened(value)))
}

// onlyFields reads the parameter fields of a query.
func onlyFields(query []web.Parameter) (fields answer.Selection, err error) {
	for _, p := range query {
		if p.Key != "fields" {
			continue
		}
		if fields, err = answer.SelectFields(p.Value); err != nil {
			break
		}
	}
	return fields, err
}
