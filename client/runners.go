package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/daybookq/daybook/client/internal/transport"
)

// RunnerInfo is how a runner describes itself in a heartbeat. ID and Instance are required. All texts together have at
// most 4 KiB.
type RunnerInfo struct {
	// ID is the runner_id. In heartbeats it has the form of a name: letters, digits and . _ : -
	ID string `json:"runner_id,omitzero"`
	// Instance names the process by a random text, such as a result of NewKey. One instance holds a runner id at a
	// time.
	Instance  string            `json:"instance"`
	Name      string            `json:"name,omitzero"` // for people
	Addresses []string          `json:"addresses,omitzero"`
	Kinds     []string          `json:"kinds,omitzero"`   // of handlers that it runs
	Types     []string          `json:"types,omitzero"`   // of jobs that it claims; nil means all
	Clients   []string          `json:"clients,omitzero"` // whose jobs it claims; nil means all
	Slots     int64             `json:"slots,omitzero"`   // how many jobs it runs at a time
	Labels    map[string]string `json:"labels,omitzero"`
	Version   string            `json:"version,omitzero"` // of its program
	Stats     RunnerStats       `json:"stats,omitzero"`
	// Takeover makes the instance hold the runner id even if another instance holds it, which then gets
	// ErrRunnerReplaced. Documents do not show it.
	Takeover bool `json:"takeover,omitzero"`
}

// RunnerStats are figures of a runner.
type RunnerStats struct {
	CPU     float64 `json:"cpu"`     // how many cores it uses; 0.5 is half of a core
	Memory  int64   `json:"memory"`  // bytes
	Running int64   `json:"running"` // how many jobs it runs
}

// Heartbeat reports that a runner is alive. If it misses three heartbeats, the server declares it lost, and returns its
// jobs to their queues. The error is:
//
//   - ErrRunnerTaken if another instance holds the runner id;
//   - ErrRunnerReplaced if another instance has taken it over: the runner must end, and drop its jobs;
//   - ErrRunnerLost if the runner was declared lost, or has ended: it must drop its jobs, and may send heartbeats
//     with a new instance.
//
// every is the time until the next heartbeat. Heartbeat is repeated when the answer is lost, so ctx should end before
// the next heartbeat.
func (c *Client) Heartbeat(ctx context.Context, info RunnerInfo) (every time.Duration, err error) {
	r := aboutRunner(http.MethodPost, info.ID)
	info.ID = "" // it is in the path
	doc, err := transport.Ask[struct {
		HeartbeatMs int64 `json:"heartbeat_ms"`
	}](ctx, &c.conn, r.With(info))
	return time.Duration(doc.HeartbeatMs) * time.Millisecond, err
}

// Goodbye reports the clean end of a runner, so that it is not declared lost. Its claims keep their jobs until their
// leases end. No heartbeat of the instance may follow. Goodbye is repeated when the answer is lost.
func (c *Client) Goodbye(ctx context.Context, runnerID, instance string) error {
	r := aboutRunner(http.MethodDelete, runnerID)
	r.Query = url.Values{"instance": {instance}}
	return c.conn.Tell(ctx, r)
}

// States of a runner, and why it is dead.
const (
	RunnerAlive = "ALIVE"
	RunnerDead  = "DEAD"
	RunnerLost  = "lost" // it missed heartbeats
	RunnerLeft  = "left" // it reported its end
)

// Runner is the document of a runner. If the server knows no heartbeat of it, State is "", and RunnerInfo has only
// the ID. Times are unix ms.
type Runner struct {
	RunnerInfo
	State       string `json:"state"`        // RunnerAlive or RunnerDead
	End         string `json:"end"`          // RunnerLost or RunnerLeft if the runner is dead
	Since       int64  `json:"since"`        // when it became alive or dead
	HeartbeatAt int64  `json:"heartbeat_at"` // when its last heartbeat arrived

	Held       int64       `json:"held"`   // how many jobs
	Claims     []OpenClaim `json:"claims"` // up to 100 claims that hold jobs, newest first
	ClaimCount int64       `json:"claim_count"`
	LastSeenAt int64       `json:"last_seen_at"` // the last heartbeat, or the last claim or tickle in Claims
}

// OpenClaim is a claim that holds jobs. Times are unix ms.
type OpenClaim struct {
	ID         string `json:"claim_id"`
	Held       int64  `json:"held"`
	ClaimedAt  int64  `json:"claimed_at"`
	TickledAt  int64  `json:"tickled_at"`
	DeadlineAt int64  `json:"deadline_at"` // when its jobs are abandoned unless they are tickled
}

// Runner returns the document of a runner, or ErrNotFound if the runner holds no jobs and the server knows no heartbeat
// of it.
func (c *Client) Runner(ctx context.Context, runnerID string) (Runner, error) {
	return transport.Ask[Runner](ctx, &c.conn, aboutRunner(http.MethodGet, runnerID))
}

// Runners yields the runners that hold jobs or sent heartbeats, page by page. An error ends the list. A page is read again
// when the answer is lost.
func (c *Client) Runners(ctx context.Context) iter.Seq2[Runner, error] {
	return transport.List[Runner](ctx, &c.conn, transport.Get("/runners"), "runners")
}
