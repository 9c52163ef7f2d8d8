package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/proof/powerfs"
)

// noService is how long the lanes wait for anything that a cluster does: an election, a start, an answer. A busy machine
// takes a few seconds.
const noService = time.Minute

// node is a member of the cluster, and its process.
type node struct {
	name    string
	at      place
	process *daybooktest.Process
	log     *os.File
	c       *client.Client // of this node only; it repeats nothing
	up      bool           // the process runs, and is not frozen
}

// nodes are the servers of one trial.
type nodes struct {
	dir   string // with the data and the log of each node
	http  *http.Client
	list  []*node
	named int // how many names were used
	// place returns the binary, the address of clients, the address of other nodes, and additional flags of a new node, of
	// which n other nodes have the places before.
	place func(n int) (place, error)
}

// place is where a node runs.
type place struct {
	binary          string
	listen, cluster string
	flags           []string
	data            string      // "": the directory of the trial
	disk            *powerfs.FS // with the data; nil: an ordinary one
}

// onLoopback is the place of nodes on loopback.
func onLoopback(binary string) func(int) (place, error) {
	return func(int) (p place, err error) {
		p.binary = binary
		if p.listen, err = daybooktest.FreeAddress(); err == nil {
			p.cluster, err = daybooktest.FreeAddress()
		}
		return p, err
	}
}

// found starts this many nodes as one cluster.
func (c *nodes) found(n int) error {
	for i := range n {
		p, err := c.place(i)
		if err != nil {
			return err
		}
		if _, err := c.add(p); err != nil {
			return err
		}
	}
	return c.healthy()
}

// add starts a node with a new name at a place. The first one founds the cluster, and the others join.
func (c *nodes) add(p place) (*node, error) {
	c.named++
	n := &node{name: fmt.Sprint("n", c.named), at: p}
	args := append([]string{"--node", n.name, "--cluster-listen", p.cluster, "--blobs", "none"}, p.flags...)
	if len(c.list) == 0 {
		args = append(args, "--cluster-init")
	} else {
		at := slices.IndexFunc(c.list, func(n *node) bool { return n.up })
		if at < 0 {
			return nil, errors.New("no node runs that another could join")
		}
		args = append(args, "--join", c.list[at].at.cluster)
	}
	var err error
	if n.log, err = os.OpenFile(filepath.Join(c.dir, n.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
		return nil, err
	}
	n.process = &daybooktest.Process{Binary: p.binary, Data: filepath.Join(cmp.Or(p.data, c.dir), n.name), Listen: p.listen, Args: args, Log: n.log}
	n.c = client.New("http://"+p.listen, client.Options{HTTP: c.http, RetryFor: -1, NoJoin: true})
	c.list = append(c.list, n)
	return n, c.start(n)
}

// start starts a node, and waits until it is ready. It needs most of the nodes.
func (c *nodes) start(n *node) error {
	if err := c.launch(n); err != nil {
		return err
	}
	return c.ready(n)
}

func (c *nodes) launch(n *node) error {
	if err := n.process.Launch(); err != nil {
		return err
	}
	n.up = true
	return nil
}

// ready waits until a node accepts changes.
func (c *nodes) ready(n *node) error {
	return c.await(n.name+" is ready", func(ctx context.Context) error {
		select {
		case <-n.process.Done():
			return permanent{fmt.Errorf("node %s has ended: %w", n.name, n.process.Err())}
		default:
			return n.c.Ready(ctx)
		}
	})
}

// permanent is an error that does not go away.
type permanent struct{ error }

// await repeats f until it returns no error. After noService it returns the last error.
func (c *nodes) await(what string, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), noService)
	defer cancel()
	for {
		err := f(ctx)
		if err == nil {
			return nil
		}
		if p, ok := errors.AsType[permanent](err); ok {
			return p.error
		}
		if ctx.Err() != nil {
			return fmt.Errorf("not within %v: %s: %w", noService, what, err)
		}
		pause(ctx, 10*time.Millisecond)
	}
}

// kill ends the process of a node by SIGKILL.
func (c *nodes) kill(n *node) error {
	n.up = false
	return n.process.Kill()
}

// stop ends the process of a node by SIGTERM.
func (c *nodes) stop(n *node) error {
	n.up = false
	if err := n.process.Stop(); err != nil {
		return fmt.Errorf("stop node %s: %w", n.name, err)
	}
	return nil
}

// freeze stops a process by SIGSTOP, until thaw.
func (c *nodes) freeze(n *node) error {
	n.up = false
	return n.process.Signal(syscall.SIGSTOP)
}

func (c *nodes) thaw(n *node) error {
	n.up = true
	return n.process.Signal(syscall.SIGCONT)
}

// running returns the nodes that can answer.
func (c *nodes) running() []*node {
	return slices.DeleteFunc(slices.Clone(c.list), func(n *node) bool { return !n.up })
}

// others returns the running nodes except one.
func (c *nodes) others(not *node) []*node {
	return slices.DeleteFunc(c.running(), func(n *node) bool { return n == not })
}

// urls returns the URLs of all nodes, beginning with the one at the given place.
func (c *nodes) urls(first int) string {
	var urls []string
	for i := range c.list {
		urls = append(urls, c.list[(first+i)%len(c.list)].process.URL())
	}
	return strings.Join(urls, ",")
}

// status returns what the leader says of the cluster. Of several nodes that believe that they lead, the one with the
// highest term leads.
func (c *nodes) status(ctx context.Context) (leader *node, s job.ClusterStatus, err error) {
	for _, n := range c.running() {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		of, failed := n.c.Cluster(try)
		cancel()
		if failed != nil {
			err = fmt.Errorf("cluster status of %s: %w", n.name, failed)
		} else if of.Role == "leader" && of.Term > s.Term {
			leader, s = n, of
		}
	}
	if leader != nil {
		return leader, s, nil
	}
	return nil, s, errors.Join(errors.New("no node leads"), err)
}

// leader returns the node that leads. It waits for an election.
func (c *nodes) leader() (leader *node, err error) {
	err = c.await("a node leads", func(ctx context.Context) (err error) {
		leader, _, err = c.status(ctx)
		return err
	})
	return leader, err
}

// healthy waits until all nodes are up, accept changes, vote and lack nothing.
func (c *nodes) healthy() error {
	for _, n := range c.list {
		if err := c.ready(n); err != nil {
			return err
		}
	}
	return c.await("all nodes vote and lack nothing", func(ctx context.Context) error {
		_, s, err := c.status(ctx)
		if err != nil {
			return err
		}
		if len(s.Nodes) != len(c.list) {
			return fmt.Errorf("the cluster has %d nodes, and %d run", len(s.Nodes), len(c.list))
		}
		for _, m := range s.Nodes {
			if m.Role != "voter" || m.Lag == nil || *m.Lag > lagOfLoad {
				return fmt.Errorf("node %s is %s and lacks %v entries", m.Node, m.Role, m.Lag)
			}
		}
		return nil
	})
}

// lagOfLoad is how many entries a healthy node may lack while there is load.
const lagOfLoad = 100

// quiet waits until no node lacks an entry, without load.
func (c *nodes) quiet() error {
	if err := c.healthy(); err != nil {
		return err
	}
	return c.await("no node lacks an entry", func(ctx context.Context) error {
		_, s, err := c.status(ctx)
		for _, m := range s.Nodes {
			if m.Lag == nil || *m.Lag != 0 {
				err = errors.Join(err, fmt.Errorf("node %s lacks %v entries", m.Node, m.Lag))
			}
		}
		return err
	})
}

// remove removes a node from the cluster, by a request to another one.
func (c *nodes) remove(n, by *node) error {
	return c.await("node "+n.name+" is removed", func(ctx context.Context) error {
		err := by.c.RemoveNode(ctx, n.name)
		if errors.Is(err, client.ErrNotFound) { // by an earlier try, whose answer was lost
			return nil
		}
		return err
	})
}

// replace removes a node that does not run, deletes its data, and lets a node with another name join in its place.
func (c *nodes) replace(n *node) error {
	if err := c.remove(n, c.running()[0]); err != nil {
		return err
	}
	if err := os.RemoveAll(n.process.Data); err != nil {
		return err
	}
	c.list = slices.DeleteFunc(c.list, func(m *node) bool { return m == n })
	_, err := c.add(n.at)
	return errors.Join(err, n.log.Close())
}

// end kills all nodes.
func (c *nodes) end() (err error) {
	for _, n := range c.list {
		err = errors.Join(err, n.process.Kill(), n.log.Close())
	}
	c.list = nil
	return err
}

// pause waits, or ends early with the context.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
