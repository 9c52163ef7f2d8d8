package api

import (
	"fmt"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// defaultPage is how many jobs or runners a page has when the request does not say.
const defaultPage = 100

// list answers GET /jobs: a page of the jobs that the query names, in order of ids.
func (s *Server) list(c echo.Context) error {
	filter, fields, err := listQuery(c.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	minSeq, err := minSeq(c)
	if err != nil {
		return err
	}
	held, err := s.holdPage(c, minSeq, fields.bytes(filter.Limit))
	if err != nil {
		return err
	}
	defer held.release()
	list, next, err := s.engine.List(c.Request().Context(), minSeq, filter)
	if err != nil {
		return err
	}
	if err := held.resize(c.Request().Context(), statesBytes(list)); err != nil {
		return err
	}
	p := newPieces(c, mimeJSON, held)
	p.b = append(p.b, `{"jobs":`...)
	if err := fields.write(p, list); err != nil {
		return err
	}
	p.b = append(p.b, `,"next":`...)
	p.b = append(appendID(p.b, next), "}\n"...)
	return p.end()
}

func listQuery(rawQuery string) (f store.Filter, fields selection, err error) {
	f.Limit = defaultPage
	err = readQuery(rawQuery, func(key, value string) (known bool, err error) {
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
		case "created_after":
			f.CreatedAfter, err = queryTime(key, value, 0)
		case "created_before":
			f.CreatedBefore, err = queryTime(key, value, 1)
		case "limit":
			f.Limit, err = pageLimit(key, value)
		case "after":
			f.After, err = queryID(key, value)
		case "fields":
			fields, err = selectFields(value)
		default:
			name, isMeta := strings.CutPrefix(key, "meta.")
			if !isMeta {
				return false, nil
			}
			if f.Meta == nil {
				f.Meta = map[string]string{}
			}
			f.Meta[name] = value
			if _, err := job.NewMeta(f.Meta); err != nil {
				return true, badField(shortened(key), err)
			}
		}
		return true, err
	})
	f.Parts = fields.parts()
	return f, fields, err
}

func queryID(key, value string) (job.ID, error) {
	id, err := job.ParseID(value)
	if err != nil {
		return id, badID(key)
	}
	return id, nil
}

// parseStatus reads a status that a document can show.
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

// onlyFields reads a query that may name fields and nothing else.
func onlyFields(rawQuery string) (fields selection, err error) {
	err = readQuery(rawQuery, func(key, value string) (known bool, err error) {
		if key != "fields" {
			return false, nil
		}
		fields, err = selectFields(value)
		return true, err
	})
	return fields, err
}
