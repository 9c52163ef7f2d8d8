package opsqueue

import (
	"context"
	"log/slog"
	"strings"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
)

// Returner returns what claims hold to its queue. *ingest.Engine implements it.
type Returner interface {
	ReturnAsLeader(ctx context.Context, claims []job.ID) error
}

// holders finds the runners of servers that have ended, and returns their claims.
type holders struct {
	engine Returner
	state  Queries
	log    *slog.Logger
	ended  func(instance string) bool // of a server. It is called after the claims of the instance were read
	before int64                      // claims up to this time count
}

// returnAll returns the chunks that the runners hold, and how many claims it has returned.
func (h *holders) returnAll(ctx context.Context) (returned int, err error) {
	const page = 100
	for after, more := "", true; more; {
		var list []document.Runner
		if list, more, err = h.state.Runners(after, page); err != nil {
			return returned, err
		}
		for i := range list {
			after = list[i].Name
			if instance, is := instanceOfRunner(after); is && h.ended(instance) {
				n, err := h.returnClaims(ctx, after, instance)
				if returned += n; err != nil {
					return returned, err
				}
			}
		}
		more = more && len(list) > 0
	}
	return returned, nil
}

// returnClaims returns the chunks that a runner holds. It reads the newest claims first, a bounded number at a time.
func (h *holders) returnClaims(ctx context.Context, runner, instance string) (returned int, err error) {
	for {
		doc, err := h.state.Runner(runner)
		if err != nil {
			return returned, err
		}
		var claims []job.ID
		for _, claim := range doc.Open {
			if claim.CreatedAt <= h.before {
				claims = append(claims, claim.ID)
			}
		}
		if len(claims) == 0 || !h.ended(instance) {
			return returned, nil
		}
		if err := h.engine.ReturnAsLeader(ctx, claims); err != nil {
			return returned, err
		}
		returned += len(claims)
		h.log.Info("chunks of a connection to an earlier server are available again", "runner_id", runner, "claims", len(claims))
	}
}

// runnerPrefix is the prefix of the runner ids of connections. The instance of the server and the name of the connection
// follow.
const runnerPrefix = "opsqueue/"

// instanceOfRunner returns the instance of the server to which a runner is a connection.
func instanceOfRunner(runner string) (instance string, ok bool) {
	rest, ok := strings.CutPrefix(runner, runnerPrefix)
	instance, _, _ = strings.Cut(rest, "/")
	return instance, ok
}
