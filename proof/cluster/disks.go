package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

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

// mountDisks gives each place a disk of its own.
func mountDisks(dir string, of func(int) (place, error)) func(n int) (place, error) {
	return func(n int) (place, error) {
		p, err := of(n)
		if err != nil {
			return p, err
		}
		p.data = filepath.Join(dir, fmt.Sprint("disk", n))
		if err := os.Mkdir(p.data, 0o755); err != nil {
			return p, err
		}
		p.disk, err = powerfs.Mount(p.data)
		return p, err
	}
}

// cutPower cuts the power of a node at a random moment.
func (t *trial) cutPower(n *node) (func() error, error) {
	timer := time.NewTimer(t.between(0, time.Second))
	defer timer.Stop()
	var moment <-chan struct{}
	if kind := t.rng.IntN(5); kind < 3 {
		latest := []int{200, 15, 100}[kind]
		moment = n.at.disk.CutAt(powerfs.Moment(kind), 1+t.rng.IntN(latest), t.rng.Uint64())
	}
	select {
	case <-moment:
	case <-timer.C:
		n.at.disk.Cut(t.rng.Uint64())
	}
	err := t.kill(n)
	n.at.disk.PowerOn()
	return func() error { return t.startAfterCut(n) }, err
}

// startAfterCut starts nodes after a cut, now and then with another cut during the start.
func (t *trial) startAfterCut(list ...*node) error {
	for _, n := range list {
		for t.rng.IntN(3) == 0 {
			if err := t.launch(n); err != nil {
				return err
			}
			pause(t.ctx, t.between(0, 100*time.Millisecond))
			n.at.disk.Cut(t.rng.Uint64())
			if err := t.kill(n); err != nil {
				return err
			}
			n.at.disk.PowerOn()
		}
	}
	return t.startAll(list)
}

// cutAllPower cuts the power of all nodes at once, as in a building without power.
func (t *trial) cutAllPower() (func() error, error) {
	list := t.running()
	for _, n := range list {
		n.at.disk.Cut(t.rng.Uint64())
	}
	var err error
	for _, n := range list {
		err = errors.Join(err, t.kill(n))
		n.at.disk.PowerOn()
	}
	return func() error { return t.startAfterCut(list...) }, err
}

// failSyncs makes a few syncs of a node fail. The node then goes on by itself, or ends with the reason in its log. Now and
// then the power is cut afterwards, because nothing that a failed sync was for may be trusted.
func (t *trial) failSyncs(n *node) (func() error, error) {
	_, before := n.at.disk.Syncs()
	n.at.disk.FailSyncs(1 + t.rng.IntN(3))
	err := t.await("a sync fails", func(context.Context) error {
		if _, failed := n.at.disk.Syncs(); failed == before {
			return errors.New("there is no sync")
		}
		return nil
	})
	return func() error {
		n.at.disk.FailSyncs(0)
		if t.rng.IntN(2) == 0 {
			n.at.disk.Cut(t.rng.Uint64())
			err := t.kill(n)
			n.at.disk.PowerOn()
			return errors.Join(err, t.startAfterCut(n))
		}
		select {
		case <-n.process.Done():
			t.say("node %s has ended: %v", n.name, n.process.Err())
			text, err := os.ReadFile(n.log.Name())
			if err == nil && !bytes.Contains(text, []byte("input/output error")) {
				err = fmt.Errorf("node %s has ended without a reason in its log", n.name)
			}
			return errors.Join(err, t.kill(n), t.start(n))
		default:
			return t.ready(n)
		}
	}, err
}

// fillDisk leaves a node a few megabytes, or nothing. It may refuse commands, and it may end.
func (t *trial) fillDisk(n *node) (func() error, error) {
	n.at.disk.SetSize(n.at.disk.Used() + t.rng.Int64N(8<<20))
	return func() error {
		n.at.disk.SetSize(0)
		select {
		case <-n.process.Done():
			t.say("node %s has ended: %v", n.name, n.process.Err())
			return errors.Join(t.kill(n), t.start(n))
		default:
			return t.ready(n)
		}
	}, nil
}

// slowDisk makes each sync of a node slow.
func (t *trial) slowDisk(n *node) (func() error, error) {
	n.at.disk.SlowSyncs(t.between(20*time.Millisecond, 400*time.Millisecond))
	return func() error {
		n.at.disk.SlowSyncs(0)
		return nil
	}, nil
}
