package api

import (
	"context"
	"net/http"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
)

// quotas bound what the server keeps for each client.
type quotas struct {
	engine      backend.Engine
	documents   *web.Lane
	checkClient func(client string) error
}

func (q quotas) routes(r operation.Rules) []route {
	about := func(id, summary, text string, answers answers, refusals ...int) operation.About {
		return operation.About{ID: id, Tag: "Access", Summary: summary, Text: text, Answers: answers, Refusals: refusals}
	}
	return []route{
		cold(r, http.MethodGet, "/limits", about("quotas", "List quotas", "", answers{200: "a page of the list"}, 503), q.list),
		cold(r, http.MethodGet, "/limits/:client", about("quota", "Read the quota of a client", "", answers{200: "the document"}, 404, 503), q.read),
		cold(r, http.MethodPut, "/limits/:client", about("putQuota", "Give a client a quota",
			"It replaces the quota that the client has. Requests that would exceed it are refused with 429 `quota_exceeded` from then on.\n"+
				"What the client already has stays.\n",
			answers{200: "The quota is stored."}, 503, 507), q.put),
		cold(r, http.MethodDelete, "/limits/:client", about("deleteQuota", "Delete the quota of a client", "",
			answers{204: "The client has no quota."}, 404, 503, 507), q.remove),
	}
}

// quotaLimits are the numbers of a quota.
type quotaLimits struct {
	Unfinished      *int64 `json:"unfinished" minimum:"1" maximum:"1000000000000000" doc:"how many jobs that have not ended the client may have; null: any number"`
	Queues          *int64 `json:"queues" minimum:"1" maximum:"1000000000000000" doc:"how many queues the client may have; null: any number"`
	Bytes           *int64 `json:"bytes" minimum:"1" maximum:"1000000000000000" doc:"how many bytes the payloads of all jobs of the client that are kept may have; null: any number"`
	Sessions        *int64 `json:"sessions" minimum:"1" maximum:"1000000000000000" doc:"how many open sessions the client may own; null: any number"`
	IdempotencyKeys *int64 `json:"idempotency_keys" minimum:"1" maximum:"1000000000000000" doc:"how many remembered idempotency keys the client may own; null: any number"`
	Sweeps          *int64 `json:"sweeps" minimum:"1" maximum:"1000000000000000" doc:"how many sweeps in progress the client may own; null: any number"`
}

// numbers returns the numbers, in the order of those of job.Quota.
func (q *quotaLimits) numbers() [6]**int64 {
	return [...]**int64{&q.Unfinished, &q.Queues, &q.Bytes, &q.Sessions, &q.IdempotencyKeys, &q.Sweeps}
}

// quotaUse is what a client has.
type quotaUse struct {
	Unfinished      int64 `json:"unfinished" minimum:"0" doc:"jobs that have not ended"`
	Queues          int64 `json:"queues" minimum:"0"`
	Bytes           int64 `json:"bytes" minimum:"0" doc:"of the payloads of all jobs that are kept"`
	Sessions        int64 `json:"sessions" minimum:"0" doc:"open ones of keys whose first client this is"`
	IdempotencyKeys int64 `json:"idempotency_keys" minimum:"0" doc:"of the last day and a half at most"`
	Sweeps          int64 `json:"sweeps" minimum:"0" doc:"in progress, of keys whose first client this is"`
}

type quotaDocument struct {
	Client string `json:"client" schema:"Name"`
	quotaLimits
	Use       quotaUse `json:"use"`
	ChangedAt int64    `json:"changed_at" minimum:"0"`
	By        string   `json:"by,omitzero" doc:"the key that set it"`
}

// documentOf returns the document of a quota.
func (q quotas) documentOf(d *document.Named) (quotaDocument, error) {
	use, err := q.engine.ClientUse(d.Name)
	doc := quotaDocument{Client: d.Name, Use: quotaUse(use), ChangedAt: d.CreatedAt, By: d.By}
	quota := job.ParseQuotaSummary(d.Summary)
	of := quota.Numbers()
	for i, number := range doc.numbers() {
		*number = web.OrNull(*of[i].N)
	}
	return doc, err
}

type quotasPage struct {
	Body struct {
		Limits []quotaDocument `json:"limits" maxItems:"1000"`
		Next   *string         `json:"next"`
	}
}

// list answers with a page of quotas, in the order of their clients.
func (q quotas) list(ctx context.Context, in *globalsQuery) (out quotasPage, err error) {
	list, next, err := in.page(ctx, q.engine, q.documents, job.QuotaDocument)
	out.Body.Next, out.Body.Limits = next, make([]quotaDocument, len(list))
	for i := range list {
		if out.Body.Limits[i], err = q.documentOf(&list[i]); err != nil {
			return out, err
		}
	}
	return out, err
}

// namedClient is the path of a request about a quota.
type namedClient struct {
	Client string `path:"client" schema:"Name" doc:"the client"`
}

func (q quotas) read(ctx context.Context, in *struct {
	namedClient
	caughtUp
}) (out found[quotaDocument], err error) {
	if err := q.engine.CatchUp(ctx, in.MinSeq); err != nil {
		return out, err
	}
	if !job.KeyOf(ctx).By().HasDocument(job.QuotaDocument, "", in.Client) {
		return out, job.QuotaNotFound
	}
	d, _, err := q.engine.Document(job.QuotaDocument, "", in.Client, 0)
	if err == nil {
		out.Body, err = q.documentOf(&d)
	}
	return out, err
}

func (q quotas) put(ctx context.Context, in *struct {
	namedClient
	Body quotaLimits `required:"true"`
}) (out changed[quotaDocument], err error) {
	if err := job.CheckName("client", in.Client); err != nil {
		return out, web.BadField("client", err)
	}
	if err := q.checkClient(in.Client); err != nil {
		return out, err
	}
	var quota job.Quota
	of := quota.Numbers()
	for i, number := range in.Body.numbers() {
		if *number != nil {
			*of[i].N = **number
		}
	}
	if err := quota.Check(); err != nil {
		return out, web.BadRequest("", err.Error())
	}
	p := job.PutDocument{Kind: job.QuotaDocument, Name: in.Client, Summary: quota.Summary(), Document: quota.Document()}
	put, receipt, err := q.engine.PutDocument(ctx, p)
	if err != nil {
		return changed[quotaDocument]{Seq: receipt.Seq}, err
	}
	doc, err := q.documentOf(&put.Document)
	if err != nil {
		return changed[quotaDocument]{Seq: receipt.Seq}, err
	}
	return changedBy(receipt, doc), nil
}

func (q quotas) remove(ctx context.Context, in *namedClient) (removed, error) {
	_, receipt, err := q.engine.DeleteDocument(ctx, job.DeleteDocument{Kind: job.QuotaDocument, Name: in.Client})
	return removed{receipt.Seq}, err
}
