package api

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// queues answers GET /queues, in order of client and type, page by page; with waiting=true the types that have something to hand out.
func (s *Server) queues(c echo.Context) error {
	q, err := queuesQuery(parameters(c))
	if err != nil {
		return err
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
	if q.waiting {
		return s.waitingTypes(c, held, minSeq, &q)
	}
	list, more, err := s.engine.Queues(c.Request().Context(), minSeq, q.client, q.afterClient, q.afterType, q.limit)
	if err != nil {
		return err
	}
	next := "null"
	if more && len(list) > 0 {
		last := &list[len(list)-1]
		next = `"` + last.Client + "/" + last.Type + `"`
	}
	now := s.engine.Now()
	at := buffer()
	b := appendQueues(*at, list, next, func(*store.Queue) int64 { return now })
	basis := appendQueues(nil, list, next, ageless)
	if err := held.resize(c.Request().Context(), int64(cap(b)+cap(basis))); err != nil {
		return err
	}
	err = answerTagged(c, mimeJSON, b, basis)
	putBuffer(at, b)
	return err
}

func appendQueues(b []byte, list []store.Queue, next string, now func(*store.Queue) int64) []byte {
	b = append(b, `{"queues":[`...)
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendQueue(b, &list[i], now(&list[i]))
	}
	b = append(b, `],"next":`...)
	b = append(b, next...)
	return append(b, "}\n"...)
}

// ageless is a time at which the age of a queue's oldest job says since when it waits: tags are made from documents of that time, since
// the age alone, which changes by itself, is no news.
func ageless(q *store.Queue) int64 { return 2 * q.PendingSince }

// waitingTypes answers GET /queues?waiting=true: what a new runner of some type would find.
func (s *Server) waitingTypes(c echo.Context, held *share, minSeq uint64, q *queuesRequest) error {
	list, more, err := s.engine.WaitingTypes(c.Request().Context(), minSeq, q.client, q.afterType, q.limit)
	if err != nil {
		return err
	}
	at := buffer()
	b := append(*at, `{"types":[`...)
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"type":`...)
		b = appendName(b, list[i].Type)
		b = append(b, `,"waiting":`...)
		b = strconv.AppendInt(b, list[i].Waiting, 10)
		b = append(b, '}')
	}
	b = append(b, `],"next":`...)
	if more && len(list) > 0 {
		b = appendName(b, list[len(list)-1].Type)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, "}\n"...)
	if err := held.resize(c.Request().Context(), int64(cap(b))); err != nil {
		return err
	}
	err = answerTagged(c, mimeTypes, b, b)
	putBuffer(at, b)
	return err
}

type queuesRequest struct {
	client, afterClient, afterType string
	limit                          int
	waiting                        bool
}

func queuesQuery(query []parameter) (q queuesRequest, err error) {
	q.limit = job.MaxPage
	after, isAfter := "", false
	for _, p := range query {
		switch p.key {
		case "limit":
			q.limit, err = pageLimit(p)
		case "client":
			q.client, err = p.value, badField(p.key, job.CheckName(p.key, p.value))
		case "after":
			after, isAfter = p.value, true
		case "waiting":
			q.waiting, err = queryBool(p)
		}
		if err != nil {
			return q, err
		}
	}
	if !isAfter {
		return q, nil
	}
	const field = "after"
	if q.waiting {
		q.afterType = after
		return q, badField(field, job.CheckName(field, after))
	}
	var slash bool
	q.afterClient, q.afterType, slash = strings.Cut(after, "/")
	if !slash || job.CheckName(field, q.afterClient) != nil || job.CheckName(field, q.afterType) != nil {
		return q, badRequest(field, "after must be client/type, as next gives it")
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
	q, err := s.engine.Queue(c.Request().Context(), minSeq, client, typ)
	if err != nil {
		return err
	}
	return answerTagged(c, mimeJSON, append(appendQueue(nil, &q, s.engine.Now()), '\n'), appendQueue(nil, &q, ageless(&q)))
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
	if err := s.noBody(c); err != nil {
		return err
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

// deleteQueue answers DELETE /queues/{client}/{type}: the queue must have no jobs.
func (s *Server) deleteQueue(c echo.Context) error {
	client, typ, err := pathQueue(c)
	if err != nil {
		return err
	}
	result, receipt, err := s.engine.DeleteQueue(c.Request().Context(), job.DeleteQueue{Client: client, Type: typ})
	if err != nil {
		return err
	}
	if err := refused(result.Refusal); err != nil {
		return err
	}
	setSeq(c, receipt.Seq)
	return c.NoContent(http.StatusNoContent)
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
