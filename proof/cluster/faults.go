package cluster

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/daybookq/daybook/bench/rig"
)

// fault does harm to a cluster. The function that it returns repairs it; nil means that nothing is left to repair.
type fault struct {
	name string
	do   func(t *trial) (repair func() error, err error)
	// least is the shortest time until the repair.
	least time.Duration
	// alone means that it does not happen while another node is down.
	alone bool
}

// processFaults need nothing but processes.
var processFaults = []fault{
	{"SIGKILL of the leader", (*trial).killLeader, 0, true},
	{"SIGKILL of a follower", ofFollower((*trial).killNode), 0, false},
	{"SIGKILL of all nodes", (*trial).killAll, 0, true},
	{"SIGSTOP of the leader", ofLeader((*trial).freezeNode), time.Second, false},
	{"SIGSTOP of a follower", ofFollower((*trial).freezeNode), time.Second, false},
	{"SIGTERM of the leader", (*trial).stopLeader, 0, true},
	{"transfer of the lead", (*trial).transfer, 0, true},
	{"loss of a follower's data", ofFollower((*trial).loseData), 0, true},
	{"loss of the leader's data", ofLeader((*trial).loseData), 0, true},
	{"removal of a follower that runs", ofFollower((*trial).removeNode), 0, true},
	{"removal of the leader", ofLeader((*trial).removeNode), 0, true},
}

func ofLeader(f func(*trial, *rig.Node) (func() error, error)) func(*trial) (func() error, error) {
	return func(t *trial) (func() error, error) {
		n, err := t.Leader()
		if err != nil {
			return nil, err
		}
		return f(t, n)
	}
}

func ofFollower(f func(*trial, *rig.Node) (func() error, error)) func(*trial) (func() error, error) {
	return func(t *trial) (func() error, error) {
		leader, err := t.Leader()
		if err != nil {
			return nil, err
		}
		followers := t.Others(leader)
		return f(t, followers[t.rng.IntN(len(followers))])
	}
}

// killLeader measures how long there is no service.
func (t *trial) killLeader() (func() error, error) {
	n, err := t.Leader()
	if err != nil {
		return nil, err
	}
	gap, err := t.service(n, func() error { return t.Kill(n) })
	t.gaps.kills = append(t.gaps.kills, gap)
	t.say("no service for %v", gap)
	return func() error { return t.Start(n) }, err
}

func (t *trial) killNode(n *rig.Node) (func() error, error) {
	return func() error { return t.Start(n) }, t.Kill(n)
}

func (t *trial) killAll() (func() error, error) {
	var err error
	killed := t.Running()
	for _, n := range killed {
		err = errors.Join(err, t.Kill(n))
	}
	return func() error { return t.startAll(killed) }, err
}

// startAll starts nodes of which none may be ready without the others.
func (t *trial) startAll(list []*rig.Node) error {
	for _, n := range list {
		if err := t.Launch(n); err != nil {
			return err
		}
	}
	for _, n := range list {
		if err := t.Ready(n); err != nil {
			return err
		}
	}
	return nil
}

func (t *trial) freezeNode(n *rig.Node) (func() error, error) {
	return func() error { return t.Thaw(n) }, t.Freeze(n)
}

func (t *trial) stopLeader() (func() error, error) {
	n, err := t.Leader()
	if err != nil {
		return nil, err
	}
	gap, err := t.service(n, func() error { return t.Stop(n) })
	t.gaps.graceful = append(t.gaps.graceful, gap)
	t.say("no service for %v", gap)
	return func() error { return t.Start(n) }, err
}

func (t *trial) transfer() (func() error, error) {
	n, err := t.Leader()
	if err != nil {
		return nil, err
	}
	to := ""
	if t.rng.IntN(2) == 0 {
		others := t.Others(n)
		to = others[t.rng.IntN(len(others))].Name
	}
	gap, err := t.service(n, func() error {
		s, err := n.Client.TransferLeadership(t.Ctx, to)
		if err == nil && (s.Leader == n.Name || to != "" && s.Leader != to) {
			err = fmt.Errorf("after a transfer from %s to %q, %q leads", n.Name, to, s.Leader)
		}
		return err
	})
	t.gaps.graceful = append(t.gaps.graceful, gap)
	t.say("no service for %v", gap)
	return nil, err
}

// loseData kills a node for good. Another one joins in its place.
func (t *trial) loseData(n *rig.Node) (func() error, error) {
	if err := t.Kill(n); err != nil {
		return nil, err
	}
	return func() error {
		if _, err := t.Leader(); err != nil {
			return err
		}
		return t.Replace(n)
	}, nil
}

// removeNode removes a node whose process goes on, and must not answer as if it were a member. Another one joins in its place.
func (t *trial) removeNode(n *rig.Node) (func() error, error) {
	by := t.Others(n)[0]
	err := t.Remove(n, by)
	return func() error { return errors.Join(t.Kill(n), t.Replace(n)) }, err
}

// plan returns this many faults in a random order. Each kind is there about as often as the others, and the first kind, by
// which the leader is lost, at least once.
func (t *trial) plan(from []fault, n int) (plan []fault) {
	for len(plan) < n {
		deck := slices.Clone(from)
		t.rng.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		plan = append(plan, deck...)
	}
	plan = plan[:n]
	if !slices.ContainsFunc(plan, func(f fault) bool { return f.name == from[0].name }) {
		plan[t.rng.IntN(n)] = from[0]
	}
	return plan
}

// attack does the harm of a fault, now and then together with another one, and repairs it. Then it waits until all nodes
// serve again.
func (t *trial) attack(f fault, from []fault) error {
	hold := t.between(f.least, t.longest)
	t.say("%s, for %v", f.name, hold.Round(time.Millisecond))
	t.l.tally(func(c *tally) { c.Faults++ })
	repair, err := f.do(t)
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	repairs := []func() error{repair}
	if repair != nil && !f.alone && t.rng.IntN(3) == 0 {
		rig.Pause(t.Ctx, t.between(0, 300*time.Millisecond))
		second := t.Running()[t.rng.IntN(len(t.Running()))]
		t.say("and SIGKILL of %s", second.Name)
		t.l.tally(func(c *tally) { c.Faults++ })
		if err := errors.Join(t.Kill(second), t.Launch(second)); err != nil {
			return err
		}
		// It is ready once most of the nodes run, which the first repair may have to bring about.
		repairs = append(repairs, func() error { return t.Ready(second) })
	}
	rig.Pause(t.Ctx, hold)
	for _, repair := range repairs {
		if repair != nil {
			if err := repair(); err != nil {
				return fmt.Errorf("after %s: %w", f.name, err)
			}
		}
	}
	repaired := t.l.now()
	if err := t.Healthy(); err != nil {
		return fmt.Errorf("after %s: %w", f.name, err)
	}
	healthy := t.l.now()
	err = t.awaitLoad()
	t.say("all nodes are healthy after %v, and users are served after another %v", time.Duration(healthy-repaired).Round(time.Millisecond), time.Duration(t.l.now()-healthy).Round(time.Millisecond))
	return err
}
