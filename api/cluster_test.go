package api

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// clustered is an engine whose nodes are changed with a result.
type clustered struct {
	picky
	err error
}

func (c *clustered) DescribeCluster(ctx context.Context) (job.ClusterStatus, error) {
	s, _ := c.picky.DescribeCluster(ctx)
	return s, c.err
}

func (c *clustered) RemoveNode(context.Context, string) error         { return c.err }
func (c *clustered) TransferLeadership(context.Context, string) error { return c.err }

// TestCluster: each result of the cluster has its status and its code.
func TestCluster(t *testing.T) {
	engine := &clustered{picky: picky{t: t}}
	r := startOn(t, setup{Options: Options{Log: zerolog.Nop()}, engine: engine})
	const remove, transfer = "/cluster/nodes/n2", "/cluster/transfer"
	for _, c := range []struct {
		err                      error
		code                     string
		read, removed, transfers int
	}{
		{nil, "", http.StatusOK, http.StatusNoContent, http.StatusOK},
		{ingest.ErrSingle, "no_cluster", http.StatusConflict, http.StatusConflict, http.StatusConflict},
		{job.ErrNoNode, "node_not_found", 0, http.StatusNotFound, http.StatusNotFound},
		{job.ErrQuorum, "quorum_lost", 0, http.StatusConflict, http.StatusConflict},
		{ingest.ErrNotReady, "not_ready", 0, http.StatusServiceUnavailable, http.StatusServiceUnavailable},
	} {
		engine.err = c.err
		for _, q := range []struct {
			method, path, body string
			want               int
		}{{"GET", "/cluster", "", c.read}, {"DELETE", remove, "", c.removed}, {"POST", transfer, `{"to":"n2"}`, c.transfers}, {"POST", transfer, `{}`, c.transfers}} {
			if q.want == 0 {
				continue
			}
			got := r.do(q.method, q.path, strings.NewReader(q.body), "Content-Type", "application/json")
			testkit.Equal(t, got.status, q.want, q.method, q.path, "with", c.err)
			if c.code != "" {
				testkit.Contains(t, string(got.body), `"code":"`+c.code+`"`)
			}
		}
	}
	engine.err = nil
	testkit.Contains(t, string(r.get("/cluster").body), `"leader":"n1"`, `"nodes":[{"node":"n1"`)
}
