package rig

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
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/job"
)

// NoService is how long Nodes waits for anything that a cluster does: an election, a start, an answer. A busy machine takes
// a few seconds.
const NoService = time.Minute

// Node is a member of a cluster, and its process.
type Node struct {
	Name    string
	At      Place
	Process *daybooktest.Process
	Log     *os.File
	Client  *client.Client // of this node only; it repeats nothing

	up bool // the process runs, and is not frozen
}

// Nodes are the servers of a cluster. One goroutine at a time may call its methods.
type Nodes struct {
	Ctx  context.Context // ends all waiting
	Dir  string          // with the data and the log of each node
	HTTP *http.Client    // of the client of each node
	// Place returns the place of a new node, of which n other nodes have the places before.
	Place func(n int) (Place, error)
	List  []*Node

	named int // how many names were used
}

// Place is where a node runs.
type Place struct {
	Binary          string
	Listen, Cluster string   // addresses for clients and for other nodes
	Flags           []string // additional ones
	Data            string   // "": the directory of Nodes
}

// OnLoopback is the place of nodes on loopback.
func OnLoopback(binary string) func(int) (Place, error) {
	return func(int) (p Place, err error) {
		p.Binary = binary
		if p.Listen, err = daybooktest.FreeAddress(); err == nil {
			p.Cluster, err = daybooktest.FreeAddress()
		}
		return p, err
	}
}

// Found starts this many nodes as one cluster.
func (c *Nodes) Found(n int) error {
	for i := range n {
		p, err := c.Place(i)
		if err != nil {
			return err
		}
		if _, err := c.Add(p); err != nil {
			return err
		}
	}
	return c.Healthy()
}

// Add starts a node with a new name at a place. The first node founds the cluster, and each later node joins it.
func (c *Nodes) Add(p Place) (*Node, error) {
	n, err := c.New(p)
	if err != nil {
		return nil, err
	}
	return n, c.Start(n)
}

// New is Add without the start.
func (c *Nodes) New(p Place) (*Node, error) {
	c.named++
	n := &Node{Name: fmt.Sprint("n", c.named), At: p}
	args := append([]string{"--node", n.Name, "--cluster-listen", p.Cluster, "--blobs", "none"}, p.Flags...)
	if len(c.List) == 0 {
		args = append(args, "--cluster-init")
	} else {
		at := slices.IndexFunc(c.List, func(n *Node) bool { return n.up })
		if at < 0 {
			return nil, errors.New("no node runs that another could join")
		}
		args = append(args, "--join", c.List[at].At.Cluster)
	}
	var err error
	if n.Log, err = os.OpenFile(filepath.Join(c.Dir, n.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
		return nil, err
	}
	n.Process = &daybooktest.Process{Binary: p.Binary, Data: filepath.Join(cmp.Or(p.Data, c.Dir), n.Name), Listen: p.Listen, Args: args, Log: n.Log}
	n.Client = client.New("http://"+p.Listen, client.Options{HTTP: c.HTTP, RetryFor: -1, NoJoin: true})
	c.List = append(c.List, n)
	return n, nil
}

// Start starts a node, and waits until it is ready. It needs most of the nodes.
func (c *Nodes) Start(n *Node) error {
	if err := c.Launch(n); err != nil {
		return err
	}
	return c.Ready(n)
}

func (c *Nodes) Launch(n *Node) error {
	if err := n.Process.Launch(); err != nil {
		return err
	}
	n.up = true
	return nil
}

// Ready waits until a node accepts changes.
func (c *Nodes) Ready(n *Node) error {
	return c.Await(n.Name+" is ready", func(ctx context.Context) error {
		select {
		case <-n.Process.Done():
			return permanent{fmt.Errorf("node %s has ended: %w", n.Name, n.Process.Err())}
		default:
			return n.Client.Ready(ctx)
		}
	})
}

// permanent is an error that does not go away.
type permanent struct{ error }

// Await repeats f until it returns no error. After NoService it returns the last error.
func (c *Nodes) Await(what string, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(c.Ctx, NoService)
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
			return fmt.Errorf("not within %v: %s: %w", NoService, what, err)
		}
		Pause(ctx, 10*time.Millisecond)
	}
}

// Kill ends the process of a node by SIGKILL.
func (c *Nodes) Kill(n *Node) error {
	n.up = false
	return n.Process.Kill()
}

// Stop ends the process of a node by SIGTERM.
func (c *Nodes) Stop(n *Node) error {
	n.up = false
	if err := n.Process.Stop(); err != nil {
		return fmt.Errorf("stop node %s: %w", n.Name, err)
	}
	return nil
}

// Freeze stops a process by SIGSTOP, until thaw.
func (c *Nodes) Freeze(n *Node) error {
	n.up = false
	return Freeze(n.Process)
}

func (c *Nodes) Thaw(n *Node) error {
	n.up = true
	return Thaw(n.Process)
}

// Running returns the nodes that can answer.
func (c *Nodes) Running() []*Node {
	return slices.DeleteFunc(slices.Clone(c.List), func(n *Node) bool { return !n.up })
}

// Others returns the running nodes except one.
func (c *Nodes) Others(not *Node) []*Node {
	return slices.DeleteFunc(c.Running(), func(n *Node) bool { return n == not })
}

// URLs returns the URLs of all nodes, beginning with the one at the given place.
func (c *Nodes) URLs(first int) string {
	var urls []string
	for i := range c.List {
		urls = append(urls, c.List[(first+i)%len(c.List)].Process.URL())
	}
	return strings.Join(urls, ",")
}

// Status returns what the leader says of the cluster. Of several nodes that believe that they lead, the one with the
// highest term leads.
func (c *Nodes) Status(ctx context.Context) (leader *Node, s job.ClusterStatus, err error) {
	for _, n := range c.Running() {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		of, failed := n.Client.Cluster(try)
		cancel()
		if failed != nil {
			err = fmt.Errorf("cluster status of %s: %w", n.Name, failed)
		} else if of.Role == "leader" && of.Term > s.Term {
			leader, s = n, of
		}
	}
	if leader != nil {
		return leader, s, nil
	}
	return nil, s, errors.Join(errors.New("no node leads"), err)
}

// Leader returns the node that leads. It waits for an election.
func (c *Nodes) Leader() (leader *Node, err error) {
	err = c.Await("a node leads", func(ctx context.Context) (err error) {
		leader, _, err = c.Status(ctx)
		return err
	})
	return leader, err
}

// Healthy waits until all nodes are up, accept changes, vote and lack nothing.
func (c *Nodes) Healthy() error {
	for _, n := range c.List {
		if err := c.Ready(n); err != nil {
			return err
		}
	}
	return c.Await("all nodes vote and lack nothing", func(ctx context.Context) error {
		_, s, err := c.Status(ctx)
		if err != nil {
			return err
		}
		if len(s.Nodes) != len(c.List) {
			return fmt.Errorf("the cluster has %d nodes, and %d run", len(s.Nodes), len(c.List))
		}
		for _, m := range s.Nodes {
			if m.Role != "voter" || m.Lag == nil || *m.Lag > lagUnderLoad {
				return fmt.Errorf("node %s is %s and lacks %v entries", m.Node, m.Role, m.Lag)
			}
		}
		return nil
	})
}

// lagUnderLoad is how many entries a healthy node may lack while there is load.
const lagUnderLoad = 100

// Quiet waits until no node lacks an entry, without load.
func (c *Nodes) Quiet() error {
	if err := c.Healthy(); err != nil {
		return err
	}
	return c.Await("no node lacks an entry", func(ctx context.Context) error {
		_, s, err := c.Status(ctx)
		for _, m := range s.Nodes {
			if m.Lag == nil || *m.Lag != 0 {
				err = errors.Join(err, fmt.Errorf("node %s lacks %v entries", m.Node, m.Lag))
			}
		}
		return err
	})
}

// Remove removes a node from the cluster, by a request to another node.
func (c *Nodes) Remove(n, by *Node) error {
	return c.Await("node "+n.Name+" is removed", func(ctx context.Context) error {
		err := by.Client.RemoveNode(ctx, n.Name)
		if errors.Is(err, client.ErrNotFound) { // by an earlier try, whose answer was lost
			return nil
		}
		return err
	})
}

// Replace removes a node that does not run, deletes its data, and lets a node with another name join in its place.
func (c *Nodes) Replace(n *Node) error {
	if err := c.Remove(n, c.Running()[0]); err != nil {
		return err
	}
	if err := os.RemoveAll(n.Process.Data); err != nil {
		return err
	}
	c.List = slices.DeleteFunc(slices.Clone(c.List), func(m *Node) bool { return m == n })
	_, err := c.Add(n.At)
	return errors.Join(err, n.Log.Close())
}

// End kills all nodes.
func (c *Nodes) End() (err error) {
	for _, n := range c.List {
		err = errors.Join(err, n.Process.Kill(), n.Log.Close())
	}
	c.List = nil
	return err
}

// Pause waits, or ends early with the context.
func Pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
