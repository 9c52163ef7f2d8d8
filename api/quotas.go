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
			"It replaces the quota that the client has. Creates that would exceed it are refused with 429 `quota_exceeded` from then on.\n"+
				"What the client already has stays.\n",
			answers{200: "The quota is stored."}, 503, 507), q.put),
		cold(r, http.MethodDelete, "/limits/:client", about("deleteQuota", "Delete the quota of a client", "",
			answers{204: "The client has no quota."}, 404, 503, 507), q.remove),
	}
}

// quotaLimits are the numbers of a quota.
type quotaLimits struct {
	Unfinished *int64 `json:"unfinished" minimum:"1" maximum:"1000000000000000" doc:"how many jobs that have not ended the client may have; null: any number"`
	Queues     *int64 `json:"queues" minimum:"1" maximum:"1000000000000000" doc:"how many queues the client may have; null: any number"`
}

// quotaUse is what a client has.
type quotaUse struct {
	Unfinished int64 `json:"unfinished" minimum:"0" doc:"jobs that have not ended"`
	Queues     int64 `json:"queues" minimum:"0"`
}

type quotaDocument struct {
	Client string `json:"client" schema:"Name"`
	quotaLimits
	Use       quotaUse `json:"use"`
	ChangedAt int64    `json:"changed_at" minimum:"0"`
	By        string   `json:"by,omitzero" doc:"the key that set it"`
}

// documentOf returns the document of a quota.
func (q quotas) documentOf(d *document.Named) quotaDocument {
	quota := job.ParseQuotaSummary(d.Summary)
	use, _ := q.engine.ClientUse(d.Name)
	return quotaDocument{
		Client: d.Name, quotaLimits: quotaLimits{web.OrNull(quota.Unfinished), web.OrNull(quota.Queues)},
		Use: quotaUse{use.Unfinished, use.Queues}, ChangedAt: d.CreatedAt, By: d.By,
	}
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
		out.Body.Limits[i] = q.documentOf(&list[i])
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
	d, _, err := q.engine.Document(job.QuotaDocument, "", in.Client, 0)
	if err == nil {
		out.Body = q.documentOf(&d)
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
	if in.Body.Unfinished != nil {
		quota.Unfinished = *in.Body.Unfinished
	}
	if in.Body.Queues != nil {
		quota.Queues = *in.Body.Queues
	}
	if err := quota.Check(); err != nil {
		return out, web.BadRequest("", err.Error())
	}
	p := job.PutDocument{Kind: job.QuotaDocument, Name: in.Client, Summary: quota.Summary(), Document: quota.Document()}
	put, receipt, err := q.engine.PutDocument(ctx, p)
	if err != nil {
		return changed[quotaDocument]{Seq: receipt.Seq}, err
	}
	return changedBy(receipt, q.documentOf(&put.Document)), nil
}

func (q quotas) remove(ctx context.Context, in *namedClient) (removed, error) {
	_, receipt, err := q.engine.DeleteDocument(ctx, job.DeleteDocument{Kind: job.QuotaDocument, Name: in.Client})
	return removed{receipt.Seq}, err
}
