package api

import (
	"context"
	"net/http"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/job"
)

// clusterNodes are the servers that share one journal, of which this server is one.
type clusterNodes struct{ engine backend.Engine }

func (c clusterNodes) routes(r operation.Rules) []route {
	return []route{
		cold(r, http.MethodGet, "/cluster", operation.About{
			ID: "cluster", Tag: "Watching", Summary: "Describe the nodes of the cluster",
			Text:    "Each node answers. The leader knows what the other nodes lack.\n",
			Answers: answers{200: "the nodes"}, Refusals: []int{409},
		}, c.read),
		cold(r, http.MethodPost, "/cluster/transfer", operation.About{
			ID: "transferLeadership", Tag: "Switches", Summary: "Let another node lead",
			Text:    "Use it before work on the machine of the leader. A node that stops cleanly does it by itself.\n",
			Answers: answers{200: "The other node leads."}, Refusals: []int{404, 409, 503},
		}, c.transfer),
		cold(r, http.MethodDelete, "/cluster/nodes/:node", operation.About{
			ID: "removeNode", Tag: "Switches", Summary: "Remove a node from the cluster",
			Text: "The node must not be needed to store anything: most of the other nodes that vote must answer. Its name is never\n" +
				"used again. A node whose data are lost is removed, and joins again under another name.\n",
			Answers: answers{204: "The node is no member of the cluster any more."}, Refusals: []int{404, 409, 503},
		}, c.remove),
	}
}

func (c clusterNodes) read(ctx context.Context, _ *nothing) (found[job.ClusterStatus], error) {
	s, err := c.engine.DescribeCluster(ctx)
	return found[job.ClusterStatus]{s}, err
}

type transferRequest struct {
	Body struct {
		To *string `json:"to" schema:"Name" doc:"the node that leads then; without it, the one that lacks the least"`
	}
}

func (c clusterNodes) transfer(ctx context.Context, in *transferRequest) (out found[job.ClusterStatus], err error) {
	to := ""
	if in.Body.To != nil {
		to = *in.Body.To
	}
	if err := c.engine.TransferLeadership(ctx, to); err != nil {
		return out, err
	}
	return c.read(ctx, nil)
}

type nodeName struct {
	Node string `path:"node" schema:"Name" doc:"the name of the node"`
}

func (c clusterNodes) remove(ctx context.Context, in *nodeName) (out struct{}, err error) {
	return out, c.engine.RemoveNode(ctx, in.Node)
}
