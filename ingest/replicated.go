package ingest

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/ingest/registry"
	"github.com/daybookq/daybook/job"
)

// Replicated is a log that several nodes share.
type Replicated interface {
	Log
	// ClusterStatus describes the nodes as this one knows them. It never waits. Describe asks the leader, too, which knows
	// what the others lack.
	ClusterStatus() job.ClusterStatus
	Describe(ctx context.Context) job.ClusterStatus
	// MaxLevel is the newest level that the programs of all nodes know.
	MaxLevel() int
	// Remove makes a node no member. Transfer lets a node lead, any other one with "".
	Remove(ctx context.Context, node string) error
	Transfer(ctx context.Context, node string) error
	// Distrust ends Run, because the state of this node is damaged, so that the node fetches the state of another one. It
	// reports false if there is no other one.
	Distrust(why error) bool
	// Origin is that of this process (job.Origin). Away reports whether this process leads, and has heard nothing of a node
	// for 30 seconds in which it ran and led.
	Origin() uint64
	Away(node string) bool
	// AskLeader sends a question to the engine of the leader, which answers it by LogOptions.Answer.
	AskLeader(ctx context.Context, question []byte) (answer []byte, err error)
}

// ErrSingle: the server is no node of a cluster.
var ErrSingle = errors.New("this server is no node of a cluster; start it with --node, --cluster-listen and --cluster-init to make it one")

// Cluster describes the cluster; ok is false for a single server. It never waits.
func (e *Engine) Cluster() (s job.ClusterStatus, ok bool) {
	if e.shared == nil {
		return s, false
	}
	return e.shared.ClusterStatus(), true
}

// DescribeCluster describes the cluster, with what the leader knows of the nodes.
func (e *Engine) DescribeCluster(ctx context.Context) (s job.ClusterStatus, err error) {
	if e.shared == nil {
		return s, ErrSingle
	}
	return e.shared.Describe(ctx), nil
}

// RemoveNode makes a node no member of the cluster.
func (e *Engine) RemoveNode(ctx context.Context, node string) error {
	if e.shared == nil {
		return ErrSingle
	}
	return changeOfNodes(e.shared.Remove(ctx, node))
}

// TransferLeadership lets another node lead: the one with this name, or with "" the one that lacks the least.
func (e *Engine) TransferLeadership(ctx context.Context, node string) error {
	if e.shared == nil {
		return ErrSingle
	}
	return changeOfNodes(e.shared.Transfer(ctx, node))
}

// Origin returns the origin of this process in a log of several nodes (job.Origin), and 0 for a single server.
func (e *Engine) Origin() uint64 {
	if e.shared == nil {
		return 0
	}
	return e.shared.Origin()
}

// Processes are the newest processes of the nodes of a cluster, by origin. The value says whether the node is away: this
// node leads, and has heard nothing of it for 30 seconds. A process that has claims in the state and is not in a later
// result of Processes has ended, and can claim nothing any more.
func (e *Engine) Processes() map[uint64]bool {
	away := map[uint64]bool{}
	for _, o := range e.store.Cluster().Origins {
		away[o.ID] = e.shared.Away(o.Node)
	}
	return away
}

// Leads reports whether this process leads the log.
func (e *Engine) Leads() bool {
	_, leads := e.log.Leads()
	return leads
}

// ReturnAsLeader returns the jobs that claims hold to their queues, as Unget does. It is for claims of processes that have
// ended or are away. Of a cluster, only the leader knows that: at another node, the error is ErrNotLeading. If leadership ends before
// the commands are stored, a later leader may store them. They do no harm then, because the claims were made before the
// process ended or was away.
func (e *Engine) ReturnAsLeader(ctx context.Context, claims []job.ID) error {
	if !e.Leads() {
		return fmt.Errorf("return the jobs of %d claims: %w", len(claims), ErrNotLeading)
	}
	commands := make([]job.Complete, len(claims))
	for i, claim := range claims {
		commands[i] = job.Complete{Claim: claim, All: &job.Outcome{Code: job.Unget, DelayMs: -1}}
	}
	_, receipt, err := e.CompleteInOrder(ctx, commands)
	if err != nil {
		return err
	}
	return e.CatchUp(ctx, receipt.Seq)
}

// changeOfNodes returns the error of a change of the nodes: a refusal, or the reason why it can be tried again.
func changeOfNodes(err error) error {
	if err == nil || errors.Is(err, job.ErrNoNode) || errors.Is(err, job.ErrQuorum) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotReady, err)
}

// errand is what the engine of a node asks the engine of the leader, which alone knows which runners are alive, and whose
// clock is the time of the log.
type errand struct {
	Heartbeat  *heartbeatErrand `json:",omitzero"`
	Goodbye    *goodbyeErrand   `json:",omitzero"`
	Runner     *string          `json:",omitzero"`
	Runners    *pageOf          `json:",omitzero"`
	AcceptTime *acceptTime      `json:",omitzero"`
}

type heartbeatErrand struct {
	Runner   string
	Info     registry.Info
	Takeover bool
	Client   string `json:",omitzero"` // whose runner it is; see job.Owner
}

type goodbyeErrand struct{ Runner, Instance string }

type acceptTime struct{}

type pageOf struct {
	After string
	Limit int
}

// errandResult is the answer to an errand.
type errandResult struct {
	Err     string            `json:",omitzero"` // the key of an error in words
	Detail  string            `json:",omitzero"` // its text
	Since   int64             `json:",omitzero"`
	Runners []registry.Runner `json:",omitzero"`
	More    bool              `json:",omitzero"`
	Offset  int64             `json:",omitzero"`
}

// words are the refusals that keep their meaning on their way between nodes.
var words = map[string]error{
	"disk_full": ErrDiskFull, "overloaded": ErrOverloaded,
	"taken": registry.ErrTaken, "replaced": registry.ErrReplaced, "lost": registry.ErrLost, "full": registry.ErrFull, "not_found": registry.ErrNotFound,
	"not_leading": ErrNotLeading, "not_ready": ErrNotReady, "closed": ErrClosed,
}

// refusedElsewhere is the error of another node.
type refusedElsewhere struct {
	detail string
	is     error
}

func (r *refusedElsewhere) Error() string { return r.detail }
func (r *refusedElsewhere) Unwrap() error { return r.is }

// atLeader carries out an errand at the leader.
func (e *Engine) atLeader(ctx context.Context, q errand) (r errandResult, err error) {
	if e.shared == nil {
		return e.errand(ctx, q)
	}
	if _, leads := e.shared.Leads(); leads {
		return e.errand(ctx, q)
	}
	text, err := json.Marshal(q)
	if err != nil {
		return r, err
	}
	if text, err = e.shared.AskLeader(ctx, text); err != nil {
		return r, fmt.Errorf("%w: %w", ErrNotReady, err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, err
	}
	if r.Err+r.Detail != "" {
		return r, &refusedElsewhere{r.Detail, words[r.Err]}
	}
	return r, nil
}

// answerErrand answers an errand of another node.
func (e *Engine) answerErrand(ctx context.Context, text []byte) ([]byte, error) {
	var q errand
	if err := json.Unmarshal(text, &q); err != nil {
		return nil, err
	}
	r, err := e.errand(ctx, q)
	if err != nil {
		r = errandResult{Detail: err.Error()}
		for word, known := range words {
			if errors.Is(err, known) {
				r.Err = word
			}
		}
	}
	return json.Marshal(r)
}

// errand carries out an errand at this node.
func (e *Engine) errand(ctx context.Context, q errand) (r errandResult, err error) {
	switch {
	case q.Heartbeat != nil:
		r.Since, err = e.runners.Heartbeat(job.OwnerNamed(q.Heartbeat.Client, e.store.OwnersOfKeys), q.Heartbeat.Runner, q.Heartbeat.Info, q.Heartbeat.Takeover, e.moment())
	case q.Goodbye != nil:
		err = e.runners.Goodbye(q.Goodbye.Runner, q.Goodbye.Instance, e.moment())
	case q.Runner != nil:
		if known, ok := e.runners.Runner(*q.Runner, e.moment()); ok {
			r.Runners = append(r.Runners, known)
		}
	case q.Runners != nil:
		r.Runners, r.More = e.runners.Runners(q.Runners.After, q.Runners.Limit, e.moment())
	case q.AcceptTime != nil:
		if err = e.Ready(); err == nil {
			err = e.time.do(ctx, e.time.acceptTime)
		}
		r.Offset = e.ClockOffset().Milliseconds()
	}
	return r, err
}
