package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/daybookq/daybook/bench/rig"
	"github.com/daybookq/daybook/proof/powerfs"
)

// diskFaults need nodes whose data are on powerfs.
var diskFaults = []fault{
	{"power cut of the leader", ofLeader((*trial).cutPower), 0, false},
	{"power cut of a follower", ofFollower((*trial).cutPower), 0, false},
	{"power cut of all nodes", (*trial).cutAllPower, 0, true},
	{"power cut of all nodes", (*trial).cutAllPower, 0, true},
	{"syncs of the leader fail", ofLeader((*trial).failSyncs), 0, true},
	{"syncs of a follower fail", ofFollower((*trial).failSyncs), 0, true},
	{"the disk of the leader is slow", ofLeader((*trial).slowDisk), time.Second, false},
	{"the disk of a follower is slow", ofFollower((*trial).slowDisk), time.Second, false},
	{"the disk of the leader is full", ofLeader((*trial).fillDisk), time.Second, true},
	{"the disk of a follower is full", ofFollower((*trial).fillDisk), time.Second, true},
}

// mountDisk mounts the disk of a place.
func (t *trial) mountDisk(p rig.Place) (*powerfs.FS, error) {
	if err := os.Mkdir(p.Data, 0o755); err != nil {
		return nil, err
	}
	disk, err := powerfs.Mount(p.Data)
	if err == nil {
		t.disks[p.Data] = disk
	}
	return disk, err
}

// disk returns the disk of a node.
func (t *trial) disk(n *rig.Node) *powerfs.FS { return t.disks[n.At.Data] }

// cutPower cuts the power of a node at a random moment.
func (t *trial) cutPower(n *rig.Node) (func() error, error) {
	timer := time.NewTimer(t.between(0, time.Second))
	defer timer.Stop()
	var moment <-chan struct{}
	if kind := t.rng.IntN(5); kind < 3 {
		latest := []int{200, 15, 100}[kind]
		moment = t.disk(n).CutAt(powerfs.Moment(kind), 1+t.rng.IntN(latest), t.rng.Uint64())
	}
	select {
	case <-moment:
	case <-timer.C:
		t.disk(n).Cut(t.rng.Uint64())
	}
	err := t.Kill(n)
	t.disk(n).PowerOn()
	return func() error { return t.startAfterCut(n) }, err
}

// startAfterCut starts nodes after a cut, now and then with another cut during the start.
func (t *trial) startAfterCut(list ...*rig.Node) error {
	for _, n := range list {
		for t.rng.IntN(3) == 0 {
			if err := t.Launch(n); err != nil {
				return err
			}
			rig.Pause(t.Ctx, t.between(0, 100*time.Millisecond))
			t.disk(n).Cut(t.rng.Uint64())
			if err := t.Kill(n); err != nil {
				return err
			}
			t.disk(n).PowerOn()
		}
	}
	return t.startAll(list)
}

// cutAllPower cuts the power of all nodes at once, as in a building without power.
func (t *trial) cutAllPower() (func() error, error) {
	list := t.Running()
	for _, n := range list {
		t.disk(n).Cut(t.rng.Uint64())
	}
	var err error
	for _, n := range list {
		err = errors.Join(err, t.Kill(n))
		t.disk(n).PowerOn()
	}
	return func() error { return t.startAfterCut(list...) }, err
}

// failSyncs makes a few syncs of a node fail. The node then goes on by itself, or ends with the reason in its log. Now and
// then the power is cut afterwards, because nothing that a failed sync was for may be trusted.
func (t *trial) failSyncs(n *rig.Node) (func() error, error) {
	_, before := t.disk(n).Syncs()
	t.disk(n).FailSyncs(1 + t.rng.IntN(3))
	err := t.Await("a sync fails", func(context.Context) error {
		if _, failed := t.disk(n).Syncs(); failed == before {
			return errors.New("there is no sync")
		}
		return nil
	})
	return func() error {
		t.disk(n).FailSyncs(0)
		if t.rng.IntN(2) == 0 {
			t.disk(n).Cut(t.rng.Uint64())
			err := t.Kill(n)
			t.disk(n).PowerOn()
			return errors.Join(err, t.startAfterCut(n))
		}
		select {
		case <-n.Process.Done():
			t.say("node %s has ended: %v", n.Name, n.Process.Err())
			text, err := os.ReadFile(n.Log.Name())
			if err == nil && !bytes.Contains(text, []byte("input/output error")) {
				err = fmt.Errorf("node %s has ended without a reason in its log", n.Name)
			}
			return errors.Join(err, t.Kill(n), t.Start(n))
		default:
			return t.Ready(n)
		}
	}, err
}

// fillDisk leaves a node a few megabytes, or nothing. It may refuse commands, and it may end.
func (t *trial) fillDisk(n *rig.Node) (func() error, error) {
	t.disk(n).SetSize(t.disk(n).Used() + t.rng.Int64N(8<<20))
	return func() error {
		t.disk(n).SetSize(0)
		select {
		case <-n.Process.Done():
			t.say("node %s has ended: %v", n.Name, n.Process.Err())
			return errors.Join(t.Kill(n), t.Start(n))
		default:
			return t.Ready(n)
		}
	}, nil
}

// slowDisk makes each sync of a node slow.
func (t *trial) slowDisk(n *rig.Node) (func() error, error) {
	t.disk(n).SlowSyncs(t.between(20*time.Millisecond, 400*time.Millisecond))
	return func() error {
		t.disk(n).SlowSyncs(0)
		return nil
	}, nil
}
