package api

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/job"
)

// queues answers GET /queues, in order of client and type, page by page.
func (s *Server) queues(c echo.Context) error {
	q, err := queuesQuery(c.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	minSeq, err := minSeq(c)
	if err != nil {
		return err
	}
	list, more, err := s.engine.Queues(c.Request().Context(), minSeq, q.client, q.afterClient, q.afterType, q.limit)
	if err != nil {
		return err
	}
	now := s.engine.Now()
	at := buffer()
	b := append(*at, `{"queues":[`...)
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendQueue(b, &list[i], now)
	}
	b = append(b, `],"next":`...)
	if more && len(list) > 0 {
		last := &list[len(list)-1]
		b = appendText(b, last.Client+"/"+last.Type)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, "}\n"...)
	err = answer(c, http.StatusOK, mimeJSON, b)
	putBuffer(at, b)
	return err
}

type queuesRequest struct {
	client, afterClient, afterType string
	limit                          int
}

func queuesQuery(rawQuery string) (q queuesRequest, err error) {
	q.limit = job.MaxPage
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		return q, badRequest("", "the query cannot be read: "+shortened(err.Error()))
	}
	for key, list := range values {
		key = shortened(key)
		if len(list) > 1 {
			return q, badRequest(key, fmt.Sprintf("%s is there twice", key))
		}
		value := list[0]
		switch key {
		case "limit":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > job.MaxPage {
				return q, badRequest(key, fmt.Sprintf("limit must be 1 to %d, not %q", job.MaxPage, shortened(value)))
			}
			q.limit = n
		case "client":
			if err := job.CheckName(key, value); err != nil {
				return q, badField(key, err)
			}
			q.client = value
		case "after":
			var slash bool
			q.afterClient, q.afterType, slash = strings.Cut(value, "/")
			if !slash || job.CheckName(key, q.afterClient) != nil || job.CheckName(key, q.afterType) != nil {
				return q, badRequest(key, "after must be client/type, as next gives it")
			}
		default:
			return q, badRequest(key, fmt.Sprintf("parameter %s is not known here", key))
		}
	}
	return q, nil
}

// queue answers GET /queues/{client}/{type}.
func (s *Server) queue(c echo.Context) error {
	minSeq, err := minSeq(c)
	if err != nil {
		return err
	}
	client, typ, err := pathQueue(c)
	if err != nil {
		return err
	}
	return s.answerQueue(c, minSeq, client, typ)
}

func (s *Server) answerQueue(c echo.Context, minSeq uint64, client, typ string) error {
	q, err := s.engine.Queue(c.Request().Context(), minSeq, client, typ)
	if err != nil {
		return err
	}
	return answer(c, http.StatusOK, mimeJSON, append(appendQueue(nil, &q, s.engine.Now()), '\n'))
}

// pause answers POST /queues/{client}/{type}/pause, resume its opposite.
func (s *Server) pause(c echo.Context) error  { return s.setPaused(c, true) }
func (s *Server) resume(c echo.Context) error { return s.setPaused(c, false) }

func (s *Server) setPaused(c echo.Context, paused bool) error {
	client, typ, err := pathQueue(c)
	if err != nil {
		return err
	}
	body, err := s.readJSON(c, s.control, false)
	if err != nil {
		return err
	}
	defer body.release()
	if len(body.bytes) > 0 {
		if err := decodeObject(body.bytes, &struct{}{}); err != nil {
			return err
		}
	}
	result, receipt, err := s.engine.Pause(c.Request().Context(), job.Pause{Client: client, Type: typ, Paused: paused})
	if err != nil {
		return err
	}
	if err := refused(result.Refusal); err != nil {
		return err
	}
	setSeq(c, receipt.Seq)
	if err := s.answerQueue(c, receipt.Seq, client, typ); err != nil {
		return after(err)
	}
	return nil
}

func pathQueue(c echo.Context) (client, typ string, err error) {
	client, typ = c.Param("client"), c.Param("type")
	if err := job.CheckName("client", client); err != nil {
		return "", "", badField("client", err)
	}
	if strings.Contains(typ, "/") { // the router gives a last parameter the rest of the path
		return "", "", routeNotFound()
	}
	return client, typ, badField("type", job.CheckName("type", typ))
}
