package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"time"

	"github.com/daybookq/daybook/job"
)

// joinEvery is the time between two attempts to become a member.
const joinEvery = 500 * time.Millisecond

// Joining describes a node that joins a cluster.
type Joining struct {
	Dir, Store string // the directories of the cluster's files and of the store, which are empty, or have the parts of a base
	Node       string
	Level      int // the newest level of this program
	From       string
	Dial       func(ctx context.Context, address string) (net.Conn, error)
	Logger     *slog.Logger // nil: it does not log
}

// Join makes the files of a node that joins the cluster of the node at From: it fetches the state of that node. The node is
// no member yet; BecomeMember makes it one. If Join ends early, the next call goes on with the files that it has.
func Join(ctx context.Context, j Joining) (*Identity, error) {
	i := &Identity{Cluster: "none", ID: draw(), Node: j.Node}
	calls := newCaller(j.Dial, i)
	defer calls.close()
	r, err := calls.ask(ctx, j.From, question{Op: opJoin, Member: job.Member{ID: i.ID, Node: j.Node}, Level: j.Level})
	if err != nil {
		return nil, err
	}
	i.Cluster, i.UUID, i.Salt = r.Identity.Cluster, r.Identity.UUID, r.Identity.Salt
	if err := Fetch(ctx, j, i, job.Member{Address: j.From}, 1); err != nil {
		return nil, fmt.Errorf("fetch the state of the node at %s: %w", j.From, err)
	}
	if _, err := Install(j.Dir, j.Store); err != nil {
		return nil, err
	}
	return i, i.write(j.Dir)
}

// BecomeMember asks the leader to make this node a member with an address, until it is one. seeds are addresses of nodes that
// may know who leads.
func (c *Cluster) BecomeMember(ctx context.Context, address string, seeds ...string) error {
	me := job.Member{ID: c.o.Identity.ID, Node: c.o.Identity.Node, Address: address, Role: job.Learner}
	for {
		op := opAdd
		switch m := c.member(me.Node); {
		case m.Role == job.Removed || m.Role != 0 && m.ID != me.ID:
			return ErrRemoved
		case m.Role != 0 && m.Address == address:
			return nil
		case m.Role != 0:
			op = opSet
		}
		for _, m := range c.members() {
			seeds = append(seeds, m.Address)
		}
		err := ErrNoLeader
		for _, seed := range seeds {
			if _, err = c.calls.ask(ctx, seed, question{Op: op, Member: me, Level: job.Level}); err == nil {
				break
			}
		}
		if err != nil {
			c.o.Logger.Info("cannot become a member yet; trying again", "error", err)
		}
		seeds = seeds[:min(len(seeds), 1)]
		select {
		case <-time.After(joinEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Recover fetches the state of another member, because this node lacks entries, and puts it in the place of its own. The next
// Open goes on from there.
func Recover(ctx context.Context, j Joining, i *Identity, members []job.Member, needs *NeedsBase) error {
	errs := errors.New("no other node has it")
	for _, m := range members {
		if m.ID == i.ID {
			continue
		}
		err := Fetch(ctx, j, i, m, needs.Index)
		if err == nil {
			_, err = Install(j.Dir, j.Store)
			return err
		}
		errs = errors.Join(errs, fmt.Errorf("fetch the state of node %s: %w", m.Node, err))
	}
	return errs
}

// LogDir returns the directory of the entries of group 0.
func LogDir(dir string) string { return filepath.Join(dir, "0", "log") }
