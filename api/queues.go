package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
)

// queues are the jobs of a client and type.
type queues struct {
	engine    backend.Engine
	documents *web.Lane
}

func (q queues) routes(r operation.Rules) []route {
	pausing := answers{200: "the document of the queue after the change"}
	return []route{
		cold(r, http.MethodGet, "/queues", operation.About{
			ID: "queues", Tag: "Reading", Summary: "List queues, or the types that have pending jobs",
			Answers: answers{200: "a page of the list"}, Refusals: []int{503},
		}, q.list),
		cold(r, http.MethodGet, "/queues/:client/:type", operation.About{
			ID: "queue", Tag: "Reading", Summary: "Read a queue", Answers: answers{200: "the document"}, Refusals: []int{404, 503},
		}, q.read),
		cold(r, http.MethodDelete, "/queues/:client/:type", operation.About{
			ID: "deleteQueue", Tag: "Moving", Summary: "Delete a queue that has no jobs",
			Text: "The queue must have no jobs, and ended jobs count too. It may be paused. The next job of this client and type\n" +
				"creates the queue again. The server itself deletes queues that have had no jobs for `--queue-idle`, unless they\n" +
				"are paused.\n",
			Answers: answers{204: "The queue is deleted."}, Refusals: []int{404, 409, 503, 507},
		}, q.delete),
		cold(r, http.MethodPost, "/queues/:client/:type/pause", operation.About{
			ID: "pause", Tag: "Moving", Summary: "Pause a queue", Text: "Claims get no jobs of a paused queue. Creates and completions continue.",
			Answers: pausing, Refusals: []int{404, 503, 507},
		}, q.pause),
		cold(r, http.MethodPost, "/queues/:client/:type/resume", operation.About{
			ID: "resume", Tag: "Moving", Summary: "Resume a queue", Answers: pausing, Refusals: []int{404, 503, 507},
		}, q.resume),
	}
}

type queuesQuery struct {
	Limit   int     `query:"limit" minimum:"1" maximum:"1000" default:"1000" doc:"maximum number of items of a page; default: 1000"`
	After   *string `query:"after" doc:"next of the previous page"`
	Client  string  `query:"client" schema:"Name" doc:"only queues or types of this client"`
	Waiting bool    `query:"waiting" doc:"with true, the answer lists the types that have pending jobs, and how many"`
	caughtUp
}

// after returns the place of a page in the list of queues.
func (in *queuesQuery) after() (client, typ string, err error) {
	const field = "after"
	if in.After == nil {
		return "", "", nil
	}
	if in.Waiting {
		return "", *in.After, web.BadField(field, job.CheckName(field, *in.After))
	}
	client, typ, slash := strings.Cut(*in.After, "/")
	if !slash || job.CheckName(field, client) != nil || job.CheckName(field, typ) != nil {
		return "", "", web.BadRequest(field, "after must be client/type, the value of next of the previous page")
	}
	return client, typ, nil
}

// queuesPage is a page of queues, or of the types that have pending jobs. Basis has no age of jobs, which changes all the
// time and must not change the entity tag.
type queuesPage struct {
	Body  queuesDocument
	Basis queuesDocument
	Types *typesDocument `media:"application/vnd.daybook.types+json"`
}

// list answers with a page of queues, in the order of client and type.
func (q queues) list(ctx context.Context, in *queuesQuery) (out queuesPage, err error) {
	client, typ, err := in.after()
	if err != nil {
		return out, err
	}
	if err := q.engine.CatchUp(ctx, in.MinSeq); err != nil {
		return out, err
	}
	if err := operation.Hold(ctx, q.documents, web.MaxRowsBytes); err != nil {
		return out, err
	}
	if in.Waiting {
		out.Types, err = q.waiting(ctx, in.Client, typ, in.Limit)
		return out, err
	}
	list, more, err := q.engine.Queues(&job.KeyOf(ctx).By().Scope, in.Client, client, typ, in.Limit)
	if err != nil {
		return out, err
	}
	var next *string
	if more && len(list) > 0 {
		last := &list[len(list)-1]
		next = web.OrNull(last.Client + "/" + last.Type)
	}
	now := q.engine.Now()
	out.Body = pageOfQueues(list, next, func(*document.Queue) int64 { return now })
	out.Basis = pageOfQueues(list, next, ageless)
	return out, nil
}

// queuesDocument is a page of queues. If more follow, next is client/type of the last queue of the page.
type queuesDocument struct {
	Queues []queueDocument `json:"queues" maxItems:"1000"`
	Next   *string         `json:"next"`
}

func pageOfQueues(list []document.Queue, next *string, now func(*document.Queue) int64) queuesDocument {
	page := queuesDocument{make([]queueDocument, len(list)), next}
	for i := range list {
		page.Queues[i] = documentOfQueue(&list[i], now(&list[i]))
	}
	return page
}

type queueDocument struct {
	Client             string        `json:"client" schema:"Name"`
	Type               string        `json:"type" schema:"Name"`
	Paused             bool          `json:"paused"`
	CreatedAt          int64         `json:"created_at" minimum:"0"`
	Counts             answer.Counts `json:"counts"`
	OldestPendingAgeMs *int64        `json:"oldest_pending_age_ms" minimum:"0" doc:"how long the job that is claimed next has been pending; null without a pending job"`
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
	Next  *string       `json:"next" schema:"Name"`
}

type waitingType struct {
	Type    string `json:"type" schema:"Name"`
	Waiting int64  `json:"waiting" minimum:"1"`
}

// waiting returns a page of the types that have pending jobs. An operator can use it to decide for which types to start
// runners.
func (q queues) waiting(ctx context.Context, client, after string, limit int) (*typesDocument, error) {
	list, more, err := q.engine.WaitingTypes(&job.KeyOf(ctx).By().Scope, client, after, limit)
	if err != nil {
		return nil, err
	}
	var page typesDocument
	for _, w := range list {
		page.Types = append(page.Types, waitingType(w))
	}
	if more && len(list) > 0 {
		page.Next = &list[len(list)-1].Type
	}
	return &page, nil
}

// namedQueue are the parameters of a request about a queue.
type namedQueue struct {
	Client string `path:"client" schema:"Name" doc:"client of the queue"`
	Type   string `path:"type" schema:"Name" doc:"type of the queue"`
}

type queueQuery struct {
	namedQueue
	caughtUp
}

type taggedQueue struct{ Body, Basis queueDocument }

func (q queues) read(ctx context.Context, in *queueQuery) (out taggedQueue, err error) {
	if err := q.engine.CatchUp(ctx, in.MinSeq); err != nil {
		return out, err
	}
	queue, err := q.engine.Queue(in.Client, in.Type)
	if err != nil {
		return out, err
	}
	return taggedQueue{documentOfQueue(&queue, q.engine.Now()), documentOfQueue(&queue, ageless(&queue))}, nil
}

func (q queues) pause(ctx context.Context, in *namedQueue) (changed[queueDocument], error) {
	return q.setPaused(ctx, in, true)
}

func (q queues) resume(ctx context.Context, in *namedQueue) (changed[queueDocument], error) {
	return q.setPaused(ctx, in, false)
}

// setPaused answers with the document of the queue after the change.
func (q queues) setPaused(ctx context.Context, in *namedQueue, paused bool) (out changed[queueDocument], err error) {
	result, receipt, err := q.engine.Pause(ctx, job.Pause{Client: in.Client, Type: in.Type, Paused: paused})
	if err == nil {
		err = refusal.Err(result.Refusal)
	}
	if err != nil {
		return out, err
	}
	out.Seq = receipt.Seq
	if err := q.engine.CatchUp(ctx, receipt.Seq); err != nil {
		return out, refusal.After(err)
	}
	queue, err := q.engine.Queue(in.Client, in.Type)
	if err != nil {
		return out, refusal.After(err)
	}
	out.Body = documentOfQueue(&queue, q.engine.Now())
	return out, nil
}

// delete refuses to delete a queue that has jobs.
func (q queues) delete(ctx context.Context, in *namedQueue) (removed, error) {
	result, receipt, err := q.engine.DeleteQueue(ctx, job.DeleteQueue{Client: in.Client, Type: in.Type})
	if err == nil {
		err = refusal.Err(result.Refusal)
	}
	return removed{receipt.Seq}, err
}
