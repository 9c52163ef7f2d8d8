package cluster

import (
	"errors"
	"fmt"
	"time"

	"github.com/daybookq/daybook/bench/rig"
)

// networkFaults cut cables. Users reach all nodes meanwhile.
var networkFaults = []fault{
	{"the leader is cut off", (*trial).cutOffLeader, time.Second, true},
	{"a follower is cut off", ofFollower((*trial).cutOff), time.Second, false},
	{"the leader hears nothing", ofLeader((*trial).deafen), time.Second, false},
	{"the leader is not heard", ofLeader((*trial).silence), time.Second, false},
	{"a follower hears nothing", ofFollower((*trial).deafen), time.Second, false},
	{"a follower is not heard", ofFollower((*trial).silence), time.Second, false},
	{"the leader and a follower are cut from each other", ofFollower((*trial).cutFromLeader), time.Second, false},
	{"all nodes are cut from each other", (*trial).cutAll, time.Second, true},
	{"the network of the leader flaps", ofLeader((*trial).flap), 0, true},
	{"the network of a follower flaps", ofFollower((*trial).flap), 0, false},
}

// machine returns the number of the machine of a node.
func (t *trial) machine(n *rig.Node) int {
	for i := range t.net.machines {
		if n.At.Listen == machineAddress(i)+":1717" {
			return i
		}
	}
	panic("no machine has the address " + n.At.Listen)
}

// cuts drops what some nodes send to others.
func (t *trial) cuts(pairs ...[2]*rig.Node) error {
	for _, p := range pairs {
		if err := t.net.cut(t.machine(p[0]), t.machine(p[1])); err != nil {
			return err
		}
	}
	return nil
}

// silence drops all that a node sends to the other nodes.
func (t *trial) silence(n *rig.Node) (func() error, error) {
	var pairs [][2]*rig.Node
	for _, other := range t.Others(n) {
		pairs = append(pairs, [2]*rig.Node{n, other})
	}
	return t.net.heal, t.cuts(pairs...)
}

// deafen drops all that the other nodes send to a node.
func (t *trial) deafen(n *rig.Node) (func() error, error) {
	var pairs [][2]*rig.Node
	for _, other := range t.Others(n) {
		pairs = append(pairs, [2]*rig.Node{other, n})
	}
	return t.net.heal, t.cuts(pairs...)
}

func (t *trial) cutOff(n *rig.Node) (func() error, error) {
	if _, err := t.silence(n); err != nil {
		return nil, err
	}
	return t.deafen(n)
}

// cutOffLeader measures how long there is no service at the other nodes.
func (t *trial) cutOffLeader() (func() error, error) {
	n, err := t.Leader()
	if err != nil {
		return nil, err
	}
	gap, err := t.service(n, func() error {
		_, err := t.cutOff(n)
		return err
	})
	t.gaps.cuts = append(t.gaps.cuts, gap)
	t.say("no service for %v", gap)
	if leads, failed := t.Leader(); failed == nil && leads == n { // then nothing was cut off
		err = errors.Join(err, fmt.Errorf("node %s is cut off, and leads", n.Name))
	}
	return t.net.heal, err
}

func (t *trial) cutFromLeader(n *rig.Node) (func() error, error) {
	leader, err := t.Leader()
	if err != nil {
		return nil, err
	}
	return t.net.heal, t.cuts([2]*rig.Node{leader, n}, [2]*rig.Node{n, leader})
}

func (t *trial) cutAll() (func() error, error) {
	for _, n := range t.Running() {
		if _, err := t.silence(n); err != nil {
			return nil, err
		}
	}
	return t.net.heal, nil
}

// flap cuts a node off and heals the network several times.
func (t *trial) flap(n *rig.Node) (func() error, error) {
	for range 5 + t.rng.IntN(5) {
		if _, err := t.cutOff(n); err != nil {
			return nil, err
		}
		rig.Pause(t.Ctx, t.between(20*time.Millisecond, 600*time.Millisecond))
		if err := t.net.heal(); err != nil {
			return nil, err
		}
		rig.Pause(t.Ctx, t.between(20*time.Millisecond, 400*time.Millisecond))
	}
	return nil, nil
}
