package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
)

type queueOperator interface {
	Pause(ctx context.Context, p job.Pause) (applied.Paused, ingest.Receipt, error)
	DeleteQueue(ctx context.Context, d job.DeleteQueue) (applied.QueueDeleted, ingest.Receipt, error)
}

type queueReader interface {
	Queue(client, typ string) (document.Queue, error)
	Queues(client, afterClient, afterType string, limit int) (queues []document.Queue, more bool, err error)
	WaitingTypes(client, afterType string, limit int) (types []document.WaitingType, more bool, err error)
}

// queues answers GET /queues with a page of queues, in the order of client and type. With waiting=true, it answers with
// the types that have pending jobs.
func (s *Server) queues(c echo.Context) error {
	q, err := queuesQuery(web.Parameters(c))
	if err != nil {
		return err
	}
	held, err := s.holdPage(c, web.MaxRowsBytes)
	if err != nil {
		return err
	}
	defer held.Release()
	if q.waiting {
		return s.waitingTypes(c, held, &q)
	}
	list, more, err := s.engine.Queues(q.client, q.afterClient, q.afterType, q.limit)
	if err != nil {
		return err
	}
	var next *string
	if more && len(list) > 0 {
		last := &list[len(list)-1]
		next = web.OrNull(last.Client + "/" + last.Type)
	}
	now := s.engine.Now()
	text, err := web.EncodeDocument(queuesPage(list, next, func(*document.Queue) int64 { return now }))
	if err != nil {
		return err
	}
	basis, err := web.EncodeDocument(queuesPage(list, next, ageless))
	if err != nil {
		return err
	}
	if err := held.Resize(c.Request().Context(), int64(cap(text)+cap(basis))); err != nil {
		return err
	}
	return web.AnswerTagged(c, web.MIMEJSON, text, basis)
}

// queuesDocument is a page of queues. If more follow, next is client/type of the last queue of the page.
type queuesDocument struct {
	Queues []queueDocument `json:"queues"`
	Next   *string         `json:"next"`
}

func queuesPage(list []document.Queue, next *string, now func(*document.Queue) int64) queuesDocument {
	page := queuesDocument{make([]queueDocument, len(list)), next}
	for i := range list {
		page.Queues[i] = documentOfQueue(&list[i], now(&list[i]))
	}
	return page
}

type queueDocument struct {
	Client             string        `json:"client"`
	Type               string        `json:"type"`
	Paused             bool          `json:"paused"`
	CreatedAt          int64         `json:"created_at"`
	Counts             answer.Counts `json:"counts"`
	OldestPendingAgeMs *int64        `json:"oldest_pending_age_ms"` // null without a pending job
}

func documentOfQueue(q *document.Queue, now int64) queueDocument {
	doc := queueDocument{Client: q.Client, Type: q.Type, Paused: q.Paused, CreatedAt: q.CreatedAt, Counts: answer.Counts(q.Counts)}
	if q.PendingSince != 0 {
		age := max(now-q.PendingSince, 0)
		doc.OldestPendingAgeMs = &age
	}
	return doc
}

// ageless returns the time at which the age of a queue's oldest pending job equals PendingSince. The entity tag of a
// queue is made from the document at that time, because the real age changes all the time and must not change the tag.
func ageless(q *document.Queue) int64 { return 2 * q.PendingSince }

// typesDocument is a page of types that have pending jobs. If more follow, next is the last type of the page.
type typesDocument struct {
	Types []waitingType `json:"types"`
	Next  *string       `json:"next"`
}

type waitingType struct {
	Type    string `json:"type"`
	Waiting int64  `json:"waiting"`
}

// waitingTypes answers GET /queues?waiting=true. An operator can use it to decide for which types to start runners.
func (s *Server) waitingTypes(c echo.Context, held *web.Share, q *queuesRequest) error {
	list, more, err := s.engine.WaitingTypes(q.client, q.afterType, q.limit)
	if err != nil {
		return err
	}
	var page typesDocument
	for _, w := range list {
		page.Types = append(page.Types, waitingType(w))
	}
	if more && len(list) > 0 {
		page.Next = &list[len(list)-1].Type
	}
	text, err := web.EncodePage(c.Request().Context(), held, page)
	if err != nil {
		return err
	}
	return web.AnswerTagged(c, web.MIMETypes, text, text)
}

type queuesRequest struct {
	client, afterClient, afterType string
	limit                          int
	waiting                        bool
}

func queuesQuery(query []web.Parameter) (q queuesRequest, err error) {
	q.limit = job.MaxPage
	after, isAfter := "", false
	for _, p := range query {
		switch p.Key {
		case "limit":
			q.limit, err = web.PageLimit(p)
		case "client":
			q.client, err = p.Value, web.BadField(p.Key, job.CheckName(p.Key, p.Value))
		case "after":
			after, isAfter = p.Value, true
		case "waiting":
			q.waiting, err = web.QueryBool(p)
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
		return q, web.BadField(field, job.CheckName(field, after))
	}
	var slash bool
	q.afterClient, q.afterType, slash = strings.Cut(after, "/")
	if !slash || job.CheckName(field, q.afterClient) != nil || job.CheckName(field, q.afterType) != nil {
		return q, web.BadRequest(field, "after must be client/type, the value of next of the previous page")
	}
	return q, nil
}

// queue answers GET /queues/{client}/{type}.
func (s *Server) queue(c echo.Context) error {
	client, typ, err := pathQueue(c)
	if err != nil {
		return err
	}
	if err := s.catchUp(c); err != nil {
		return err
	}
	q, err := s.engine.Queue(client, typ)
	if err != nil {
		return err
	}
	text, err := web.EncodeDocument(documentOfQueue(&q, s.engine.Now()))
	if err != nil {
		return err
	}
	basis, err := web.EncodeDocument(documentOfQueue(&q, ageless(&q)))
	if err != nil {
		return err
	}
	return web.AnswerTagged(c, web.MIMEJSON, text, basis)
}

// answerQueueAfter answers a change of a queue with the document of the queue after the change.
func (s *Server) answerQueueAfter(c echo.Context, r ingest.Receipt, client, typ string) error {
	web.SetSeq(c, r.Seq)
	if err := s.engine.CatchUp(c.Request().Context(), r.Seq); err != nil {
		return refusal.After(err)
	}
	q, err := s.engine.Queue(client, typ)
	if err != nil {
		return refusal.After(err)
	}
	return web.AnswerDocument(c, http.StatusOK, documentOfQueue(&q, s.engine.Now()))
}

// pause answers POST /queues/{client}/{type}/pause.
func (s *Server) pause(c echo.Context) error { return s.setPaused(c, true) }

// resume answers POST /queues/{client}/{type}/resume.
func (s *Server) resume(c echo.Context) error { return s.setPaused(c, false) }

func (s *Server) setPaused(c echo.Context, paused bool) error {
	client, typ, err := pathQueue(c)
	if err != nil {
		return err
	}
	if err := web.NoBody(c, &s.bodies.optional); err != nil {
		return err
	}
	result, receipt, err := s.engine.Pause(c.Request().Context(), job.Pause{Client: client, Type: typ, Paused: paused})
	if err != nil {
		return err
	}
	if err := refusal.Err(result.Refusal); err != nil {
		return err
	}
	return s.answerQueueAfter(c, receipt, client, typ)
}

// deleteQueue answers DELETE /queues/{client}/{type}. It refuses to delete a queue that has jobs.
func (s *Server) deleteQueue(c echo.Context) error {
	client, typ, err := pathQueue(c)
	if err != nil {
		return err
	}
	result, receipt, err := s.engine.DeleteQueue(c.Request().Context(), job.DeleteQueue{Client: client, Type: typ})
	if err != nil {
		return err
	}
	if err := refusal.Err(result.Refusal); err != nil {
		return err
	}
	web.SetSeq(c, receipt.Seq)
	return c.NoContent(http.StatusNoContent)
}

func pathQueue(c echo.Context) (client, typ string, err error) {
	client, typ = c.Param("client"), c.Param("type")
	if err := job.CheckName("client", client); err != nil {
		return "", "", web.BadField("client", err)
	}
	if strings.Contains(typ, "/") { // the router puts the rest of the path into the last parameter
		return "", "", web.RouteNotFound()
	}
	return client, typ, web.BadField("type", job.CheckName("type", typ))
}
