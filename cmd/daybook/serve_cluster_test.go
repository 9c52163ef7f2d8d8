package main

import (
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// node is a server that is a node of a cluster.
type node struct {
	*server
	name, address string // address of --cluster-listen
}

// startNode starts a node with a data directory. It waits until the node is ready.
func startNode(t *testing.T, name, data string, args ...string) *node {
	t.Helper()
	n := &node{name: name, address: testkit.Must(daybooktest.FreeAddress())(t)}
	n.server = serving(t, data, append([]string{"--node", name, "--cluster-listen", n.address, "--blobs", "none"}, args...)...)
	return n
}

// again starts a node again on its data, its cluster address and another port.
func (n *node) again(t *testing.T, args ...string) *node {
	t.Helper()
	return &node{serving(t, n.data, append([]string{"--node", n.name, "--cluster-listen", n.address, "--blobs", "none"}, args...)...), n.name, n.address}
}

// status returns what a node knows of the cluster.
func (n *node) status(t *testing.T) (s job.ClusterStatus) {
	t.Helper()
	testkit.NoError(t, json.Unmarshal([]byte(ok(t, "cluster", "status", "--json", "--server", n.url)), &s))
	return s
}

// awaitVoters waits until a node knows this many nodes that vote.
func (n *node) awaitVoters(t *testing.T, want int) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprint(want, " nodes vote"), func() bool {
		voters := 0
		for _, m := range n.status(t).Nodes {
			if m.Role == job.Voter.String() {
				voters++
			}
		}
		return voters == want
	})
}

// awaitLeader waits until another node than one leads, and returns it.
func awaitLeader(t *testing.T, not string, nodes ...*node) *node {
	t.Helper()
	var leader *node
	testkit.Eventually(t, "another node leads", func() bool {
		for _, n := range nodes {
			if s := n.status(t); s.Role == "leader" && n.name != not {
				leader = n
			}
		}
		return leader != nil
	})
	return leader
}

// TestServeCluster: the data of a single server become those of a cluster of three, which goes on without its leader. A node is
// removed, and another one joins in its place.
func TestServeCluster(t *testing.T) {
	dir := t.TempDir()
	single := serving(t, filepath.Join(dir, "n1"))
	first := strings.Fields(ok(t, "create", "before", "--type", "t", "--server", single.url))[0]
	testkit.Equal(t, single.end(t, syscall.SIGTERM), 0)

	n1 := startNode(t, "n1", single.data, "--cluster-init")
	n2 := startNode(t, "n2", filepath.Join(dir, "n2"), "--join", n1.address)
	n3 := startNode(t, "n3", filepath.Join(dir, "n3"), "--join", n2.address)
	for _, n := range []*node{n1, n2, n3} { // the leader knows it first, and no node leads without it if the leader dies then
		n.awaitVoters(t, 3)
	}
	s := n3.status(t)
	testkit.Equal(t, s.Node, "n3")
	testkit.Equal(t, s.Role, "follower")
	testkit.Contains(t, ok(t, "cluster", "status", "--server", n2.url), "n1 leads in term", "NODE", "ADDRESS", n1.address, n2.address, n3.address)
	testkit.Contains(t, get(t, n2.url+"/readyz"), `"role":"follower"`, `"leader":"n1"`)
	testkit.Contains(t, get(t, n2.url+"/stats"), `"cluster":{"cluster":"`+s.Cluster)

	// Each node has the state, takes requests and knows the runners.
	testkit.Contains(t, ok(t, "get", first, "--server", n3.url), "before")
	urls := n2.url + "," + n1.url + "," + n3.url
	c := client.New(urls, client.Options{})
	made := testkit.Must(c.Create(t.Context(), client.TextJob("t", "later")))(t)
	for _, n := range []*node{n1, n2, n3} {
		testkit.Equal(t, testkit.Must(client.New(n.url, client.Options{}).Job(t.Context(), made.ID))(t).Status, "pending")
	}
	testkit.Must(client.New(n2.url, client.Options{}).Heartbeat(t.Context(), client.RunnerInfo{ID: "r1", Instance: "i"}))(t)
	testkit.Contains(t, ok(t, "runners", "--server", n3.url), "r1")
	testkit.Fails(client.New(n3.url, client.Options{}).Heartbeat(t.Context(), client.RunnerInfo{ID: "r1", Instance: "other"}))(t, client.ErrRunnerTaken)
	testkit.Contains(t, ok(t, "clock", "--accept", "--server", n3.url), "from its wall clock")
	testkit.Contains(t, ok(t, "level", "--server", n3.url), "the newest")
	testkit.Contains(t, ok(t, "__complete", "cluster", "remove", "--server", n2.url, ""), "n1\t"+n1.address, "n3\t")

	// The leader dies. The client goes on with the nodes that are left, and a claim of the dead node stays with its runner.
	claim := testkit.Must(client.New(n1.url, client.Options{}).Claim(t.Context(), client.ClaimRequest{RunnerID: "r1", Types: []string{"t"}, Max: 1}))(t)
	n1.end(t, syscall.SIGKILL)
	for range 5 {
		testkit.Must(c.Create(t.Context(), keyed("without n1")))(t)
	}
	testkit.Must(c.Complete(t.Context(), claim.Jobs[0].ID, claim.ID, client.TextOutput("done")))(t)
	leader := awaitLeader(t, "n1", n2, n3)
	other := map[*node]*node{n2: n3, n3: n2}[leader]

	// n1 comes back under another address, gets what it missed, and leads when it is told to.
	n1.address = testkit.Must(daybooktest.FreeAddress())(t)
	n1 = n1.again(t)
	testkit.Equal(t, testkit.Must(client.New(n1.url, client.Options{}).Job(t.Context(), claim.Jobs[0].ID))(t).Status, "completed")
	testkit.Eventually(t, "the new address is known", func() bool { return strings.Contains(ok(t, "cluster", "status", "--server", other.url), n1.address) })
	testkit.Contains(t, ok(t, "cluster", "transfer", "n1", "--server", other.url), "n1 leads in term")

	// A node that stops lets another one lead before it ends.
	testkit.Equal(t, n1.end(t, syscall.SIGTERM), 0)
	awaitLeader(t, "n1", n2, n3)
	testkit.Must(c.Create(t.Context(), keyed("after the stop")))(t)

	// A node that is gone can be removed, and its name is used up.
	testkit.Contains(t, failed(t, "cluster", "remove", "nobody", "--server", n2.url), "no such node")
	testkit.Contains(t, ok(t, "cluster", "remove", "n1", "--server", n3.url), "n1 is no member")
	testkit.Contains(t, refused(t, "n1", filepath.Join(dir, "again"), "--join", n2.address), "n1 was removed")
	testkit.Contains(t, refused(t, "n2", filepath.Join(dir, "again"), "--join", n2.address), "belongs to another node")
	testkit.Contains(t, endsAs(t, n1), "was removed")
	n4 := startNode(t, "n4", filepath.Join(dir, "n4"), "--join", n2.address)
	n2.awaitVoters(t, 3)
	testkit.Contains(t, ok(t, "get", made.ID, "--server", n4.url), "later")

	// A backup of a node is one of a single server.
	backup := filepath.Join(dir, "backup")
	ok(t, "backup", backup, "--server", n4.url)
	for _, n := range []*node{n2, n3, n4} {
		n.end(t, syscall.SIGTERM)
	}
	testkit.Contains(t, failed(t, "serve", "--data", n2.data, "--listen", "127.0.0.1:0"), "of a cluster; start it with --node n2")
	found := testkit.Must(filepath.Glob(filepath.Join(backup, "*")))(t)
	testkit.MustEqual(t, len(found), 1, "backups", found)
	ok(t, "restore", found[0], "--data", filepath.Join(dir, "restored"))
	testkit.Contains(t, ok(t, "get", made.ID, "--server", serving(t, filepath.Join(dir, "restored")).url), "later")
}

// keyed returns a job whose create is repeated if its answer is lost, for example with the leader.
func keyed(payload string) client.NewJob {
	j := client.TextJob("t", payload)
	j.Key = client.NewKey()
	return j
}

// failed runs a command that must fail, and returns what it wrote.
func failed(t *testing.T, args ...string) string {
	t.Helper()
	r := execute(t, "", args...)
	testkit.Holds(t, r.code != terminal.ExitOK, "daybook", args, "succeeded:", r.out)
	return r.errs
}

// refused starts a node that must not start.
func refused(t *testing.T, name, data string, args ...string) string {
	t.Helper()
	address := testkit.Must(daybooktest.FreeAddress())(t)
	return failed(t, append([]string{"serve", "--node", name, "--data", data, "--listen", "127.0.0.1:0", "--cluster-listen", address, "--blobs", "none"}, args...)...)
}

// endsAs starts a node again that must end by itself, and returns its log.
func endsAs(t *testing.T, n *node) string {
	t.Helper()
	return failed(t, "serve", "--node", n.name, "--data", n.data, "--listen", "127.0.0.1:0", "--cluster-listen", n.address, "--blobs", "none")
}

// TestStopWhileJoining: a node that waits for the node of --join is stopped, and can join later.
func TestStopWhileJoining(t *testing.T) {
	data, log := filepath.Join(t.TempDir(), "n2"), &processLog{}
	cmd := command("serve", "--node", "n2", "--data", data, "--listen", "127.0.0.1:0", "--cluster-listen", "127.0.0.1:0", "--blobs", "none", "--join", testkit.Must(daybooktest.FreeAddress())(t))
	cmd.Stderr = log
	testkit.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended, unless the test failed
	testkit.Eventually(t, "it waits", func() bool { return strings.Contains(log.String(), "does not answer; trying again") })
	testkit.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	testkit.NoError(t, cmd.Wait(), log)
	n1 := startNode(t, "n1", filepath.Join(t.TempDir(), "n1"), "--cluster-init")
	startNode(t, "n2", data, "--join", n1.address)
	n1.awaitVoters(t, 2)
}

// TestServeClusterRefusals: settings that do not fit together are refused with the next step.
func TestServeClusterRefusals(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	with := func(args ...string) []string {
		return append([]string{"serve", "--data", data, "--init", "--listen", "127.0.0.1:0", "--blobs", "none"}, args...)
	}
	for want, args := range map[string][]string{
		"needs --node":                        with("--cluster-init"),
		"--cluster-listen needs HOST:PORT":    with("--node", "n1", "--cluster-init"),
		"give only one of them":               with("--node", "n1", "--cluster-listen", "127.0.0.1:0", "--cluster-init", "--join", "127.0.0.1:1"),
		"--cluster-init founds a cluster":     with("--node", "n1", "--cluster-listen", "127.0.0.1:0"),
		"is no address that other nodes":      with("--node", "n1", "--cluster-listen", "0.0.0.0:1", "--cluster-init"),
		"needs --cluster-ca":                  with("--node", "n1", "--cluster-listen", "10.0.0.1:1", "--cluster-init"),
		"belong together":                     with("--node", "n1", "--cluster-listen", "127.0.0.1:0", "--cluster-init", "--cluster-ca", "x"),
		"needs --blobs none":                  with("--node", "n1", "--cluster-listen", "127.0.0.1:0", "--cluster-init", "--blobs", "dir"),
		"is not announced by mDNS":            with("--node", "n1", "--cluster-listen", "127.0.0.1:0", "--cluster-init", "--mdns", "on"),
		"--node may hold":                     with("--node", "a b", "--cluster-listen", "127.0.0.1:0", "--cluster-init"),
		"this server is no node of a cluster": nil,
	} {
		if args == nil {
			args = []string{"cluster", "status", "--server", serving(t, filepath.Join(t.TempDir(), "single")).url}
		}
		testkit.Contains(t, failed(t, args...), want)
	}
	// A cluster is founded in an empty directory with --init only.
	testkit.Contains(t, refused(t, "n1", filepath.Join(t.TempDir(), "empty"), "--cluster-init"), "it has no journal")
	// A directory with a journal joins no cluster.
	single := serving(t, filepath.Join(t.TempDir(), "single"))
	single.end(t, syscall.SIGTERM)
	testkit.Contains(t, refused(t, "n2", single.data, "--join", "127.0.0.1:1"), "has the data of a single server")
	// A node of one cluster does not talk to another one.
	a := startNode(t, "a", filepath.Join(t.TempDir(), "a"), "--cluster-init")
	testkit.Contains(t, refused(t, "other", a.data, "--join", a.address), "has the data of node a")
}

// TestServeClusterTLS: nodes with certificates of one authority form a cluster, and others are refused.
func TestServeClusterTLS(t *testing.T) {
	ours, theirs := testkit.NewAuthority(t), testkit.NewAuthority(t)
	n1 := startNode(t, "n1", filepath.Join(t.TempDir(), "n1"), append(nodeFlags(t, ours, "n1"), "--cluster-init")...)
	n2 := startNode(t, "n2", filepath.Join(t.TempDir(), "n2"), append(nodeFlags(t, ours, "n2"), "--join", n1.address)...)
	n1.awaitVoters(t, 2)
	made := testkit.Must(client.New(n2.url, client.Options{}).Create(t.Context(), client.TextJob("t", "x")))(t)
	testkit.Contains(t, get(t, n1.url+"/jobs/"+made.ID), made.ID)
	testkit.Contains(t, refused(t, "n3", filepath.Join(t.TempDir(), "n3"), append(nodeFlags(t, theirs, "n3"), "--join", n1.address)...), "certificate")
	testkit.Contains(t, refused(t, "n3", filepath.Join(t.TempDir(), "n3"), "--join", n1.address), n1.address, "EOF")
	conn := testkit.Must(net.Dial("tcp", n1.address))(t) // without TLS
	defer conn.Close()
	testkit.Must(fmt.Fprint(conn, "daybook-cluster v=1 cluster=none from=0 to=0 node=none kind=call level=1\n"))(t)
	answer := make([]byte, 100)
	n, _ := conn.Read(answer)
	testkit.Lacks(t, string(answer[:n]), "ok")
}

// nodeFlags returns the flags of a node with a certificate of an authority.
func nodeFlags(t *testing.T, a *testkit.Authority, name string) []string {
	cert, key := a.Issue(t, name)
	return []string{"--cluster-ca", a.CA, "--cluster-cert", cert, "--cluster-key", key}
}
