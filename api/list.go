package api

import (
	"fmt"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/query"
)

type jobLister interface {
	List(f query.Filter) (jobs []job.Job, next job.ID, err error)
}

// defaultPage is the number of jobs or runners on a page if the request has no limit.
const defaultPage = 100

// list answers GET /jobs with a page of the jobs that match the query, in the order of their ids.
func (s *Server) list(c echo.Context) error {
	filter, fields, err := listQuery(parameters(c))
	if err != nil {
		return err
	}
	held, err := s.holdPage(c, fields.bytes(filter.Limit))
	if err != nil {
		return err
	}
	defer held.release()
	var list []job.Job
	var next job.ID
	err = s.pages.do(c.Request().Context(), func() error {
		list, next, err = s.engine.List(filter)
		return err
	})
	if err != nil {
		return err
	}
	if err := held.resize(c.Request().Context(), statesBytes(list)); err != nil {
		return err
	}
	p := newPieces(c, mimeJSON, held, s.pages)
	p.b = append(p.b, `{"jobs":`...)
	if err := fields.write(p, list); err != nil {
		return err
	}
	p.b = append(p.b, `,"next":`...)
	p.b = append(appendID(p.b, next), "}\n"...)
	return p.end()
}

func listQuery(query []parameter) (f query.Filter, fields selection, err error) {
	f.Limit = defaultPage
	for _, p := range query {
		key, value := p.key, p.value
		switch key {
		case "status":
			f.Status, err = parseStatus(key, value)
		case "client":
			f.Client, err = value, badField(key, job.CheckName(key, value))
		case "type":
			f.Type, err = value, badField(key, job.CheckName(key, value))
		case "runner_id":
			f.Runner, err = value, badField(key, job.CheckText(key, value, 1, job.MaxRunnerBytes))
		case "claim_id":
			f.Claim, err = queryID(key, value)
		case "batch_id":
			f.Batch, err = queryID(key, value)
		case "created_after":
			f.CreatedAfter, err = queryTime(p, 0)
		case "created_before":
			f.CreatedBefore, err = queryTime(p, 1)
		case "limit":
			f.Limit, err = pageLimit(p)
		case "after":
			f.After, err = queryID(key, value)
		case "fields":
			fields, err = selectFields(value)
		default:
			if f.Meta == nil {
				f.Meta = map[string]string{}
			}
			f.Meta[strings.TrimPrefix(key, metaPrefix)] = value
			_, metaErr := job.NewMeta(f.Meta)
			err = badField(shortened(key), metaErr)
		}
		if err != nil {
			return f, fields, err
		}
	}
	f.Parts = fields.parts()
	return f, fields, nil
}

func queryID(key, value string) (job.ID, error) {
	id, err := job.ParseID(value)
	if err != nil {
		return id, badID(key)
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
	return 0, badRequest(key, fmt.Sprintf("%s must be one of %s, not %q", key, strings.Join(names, ", "), shortened(value)))
}

// onlyFields reads the parameter fields of a query.
func onlyFields(query []parameter) (fields selection, err error) {
	for _, p := range query {
		if p.key != "fields" {
			continue
		}
		if fields, err = selectFields(p.value); err != nil {
			break
		}
	}
	return fields, err
}
