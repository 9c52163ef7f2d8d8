package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/daybookq/daybook/bench/rig"
	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
)

// servers are the processes that the demo harms.
type servers struct {
	urls  func(first int) string // of all of them, beginning with one
	harms []harm
	how   string // all harm, in words
	// account reads all jobs back, at each of them, and prints their accounts.
	account func(ctx context.Context) error
	stop    func() error
}

// harm is done once. It returns when all servers serve again, and says what happened.
type harm func(ctx context.Context) (said string, err error)

// kills is how often a single server is killed.
const kills = 3

// startServer starts a single server.
func (d *demo) startServer(ctx context.Context, binary, dir string) error {
	server := &daybooktest.Process{Binary: binary, Data: filepath.Join(dir, "data"), Log: os.Stderr, Args: []string{"--log-level", "error"}}
	d.servers = servers{
		urls: func(int) string { return server.URL() },
		how:  fmt.Sprint(kills, " kills with SIGKILL"),
		account: func(ctx context.Context) error {
			a, err := d.lines.check(ctx, d.client)
			fmt.Fprintln(d.out, a)
			return err
		},
		stop: server.Stop,
	}
	for range kills {
		d.harms = append(d.harms, func(ctx context.Context) (string, error) {
			pid, began := server.Pid(), time.Now()
			err := errors.Join(server.Kill(), server.Start(ctx))
			return fmt.Sprintf("kill -9 %d: restarted, replayed and ready after %v", pid, since(began)), err
		})
	}
	return server.Start(ctx)
}

const nodes = 3

// startNodes starts a cluster.
func (d *demo) startNodes(ctx context.Context, binary, dir string) error {
	c := &rig.Nodes{Ctx: ctx, Dir: dir, HTTP: http.DefaultClient, Place: rig.OnLoopback(binary)}
	d.servers = servers{
		urls:    c.URLs,
		how:     fmt.Sprintf("each of %d nodes killed with SIGKILL, and one wiped", nodes),
		account: func(ctx context.Context) error { return d.accounts(ctx, c) },
		stop:    c.End,
	}
	if err := c.Found(nodes); err != nil {
		return err
	}
	for _, n := range c.List {
		d.harms = append(d.harms, func(ctx context.Context) (string, error) {
			return d.without(ctx, c, n, "kill -9", func() (string, error) { return "started again", c.Start(n) })
		})
	}
	d.harms = append(d.harms, func(ctx context.Context) (string, error) {
		n, err := c.Leader()
		if err != nil {
			return "", err
		}
		return d.without(ctx, c, n, "kill -9 and loss of the data", func() (string, error) {
			err := c.Replace(n)
			return c.List[len(c.List)-1].Name + " joined in its place", err
		})
	})
	return nil
}

// aloneShare is the part of the work that the other nodes do before a killed node starts again.
const aloneShare = 20

// without kills a node, waits until the other nodes have done some work, and repairs the cluster.
func (d *demo) without(ctx context.Context, c *rig.Nodes, n *rig.Node, what string, repair func() (string, error)) (string, error) {
	leader, err := c.Leader()
	if err != nil {
		return "", err
	}
	role := "a follower"
	if n == leader {
		role = "the leader"
	}
	before, err := d.progress(ctx)
	if err != nil {
		return "", err
	}
	killed := time.Now()
	if err := c.Kill(n); err != nil {
		return "", err
	}
	now := before
	for now.done() < before.done()+int64(2*d.posted/aloneShare) {
		if now, err = d.progress(ctx); err != nil {
			return "", err
		}
		rig.Pause(ctx, refresh)
	}
	alone, began := since(killed), time.Now()
	repaired, err := repair()
	if err != nil {
		return "", err
	}
	err = c.Healthy()
	return fmt.Sprintf("%s of %s, %s: the others went on for %v, with %d lines posted and %d completed; %s, and all nodes are up to date after %v",
		what, n.Name, role, alone, now.stored-before.stored, now.completed-before.completed, repaired, since(began)), err
}

// accounts reads all jobs back at each node. All of them must have the same documents.
func (d *demo) accounts(ctx context.Context, c *rig.Nodes) error {
	if err := c.Quiet(); err != nil {
		return err
	}
	_, status, err := c.Status(ctx)
	if err != nil {
		return err
	}
	first, errs := account{}, []error{}
	for i, n := range c.List {
		a, err := d.lines.check(ctx, client.New(n.Process.URL(), client.Options{}))
		role := "follows"
		if n.Name == status.Leader {
			role = "leads"
		}
		fmt.Fprintf(d.out, "%s, which %s, says:\n%v\ndigest of its documents: %x\n", n.Name, role, a, a.digest)
		if i == 0 {
			first = a
		} else if a.digest != first.digest {
			err = errors.Join(err, fmt.Errorf("the documents of nodes %s and %s differ", c.List[0].Name, n.Name))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("node %s: %w", n.Name, err))
		}
	}
	return errors.Join(errs...)
}

func since(t time.Time) time.Duration { return time.Since(t).Round(time.Millisecond) }
