package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/daybookq/daybook/cluster"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
	"github.com/daybookq/daybook/store/applied"
)

// server is an engine whose log is shared.
type server struct {
	t      testing.TB
	hooks  journal.Hooks
	dir    string
	addr   string
	id     *cluster.Identity
	runs   atomic.Int64 // that have ended, as the engine reported them
	engine *ingest.Engine
	log    *cluster.Cluster
	cancel context.CancelFunc
	ended  chan error
}

func dial(ctx context.Context, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", address)
}

func (s *server) start() {
	listener := testkit.Must(net.Listen("tcp", s.addr))(s.t)
	logger := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		logger = slog.Default().With("node", s.id.Node)
	}
	s.engine = testkit.Must(ingest.Open(ingest.Options{Dir: s.dir, Logger: logger, OnRunEnds: s.ran, OpenLog: func(o ingest.LogOptions) (ingest.Log, error) {
		var err error
		s.log, err = cluster.Open(cluster.Options{
			Dir: filepath.Join(s.dir, "cluster"), Identity: s.id, Listener: listener, State: o.Cluster, Seq: o.Seq, At: o.At, Hooks: s.hooks, Logger: logger,
			Refuse: func(verb string, _ bool) string { return o.Refuse(verb) }, Dial: dial,
			Checkpoint: func(_ context.Context, dir string) (cluster.Base, error) {
				c, err := s.engine.Base(dir)
				return cluster.Base{Dir: dir, Index: c.Index, Term: c.Term}, err
			},
		})
		return s.log, err
	}}))(s.t)
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.ended = cancel, make(chan error, 1)
	go func() { s.ended <- s.engine.Run(ctx) }()
}

// ran counts runs that have ended.
func (s *server) ran(ends []job.RunEnd) {
	for i := range ends {
		s.runs.Add(int64(ends[i].Jobs))
	}
}

func (s *server) stop() {
	if s.engine == nil {
		return
	}
	s.cancel()
	testkit.Check(s.t, <-s.ended)
	s.engine = nil
}

// newServers makes n servers whose stores have the cluster's first state.
func newServers(t testing.TB, n int, hooks journal.Hooks) []*server {
	servers := make([]*server, n)
	founders := make([]job.Member, n)
	for i := range servers {
		l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
		s := &server{t: t, hooks: hooks, dir: t.TempDir(), addr: l.Addr().String()}
		testkit.NoError(t, l.Close())
		s.id = &cluster.Identity{Cluster: "00000000000000c1", ID: uint64(i + 1), Node: fmt.Sprint("n", i+1), UUID: "0b5c7e0e-7a1f-4a53-9a9a-3d6c1f0f6f3e", Salt: 7}
		founders[i] = job.Member{ID: s.id.ID, Node: s.id.Node, Address: s.addr, Role: job.Voter}
		servers[i] = s
	}
	for _, s := range servers {
		st := testkit.Must(store.Open(ingest.StoreDir(s.dir), store.Options{Journal: s.id.UUID}))(t)
		st.Found(s.id.Cluster, founders...)
		testkit.NoError(t, errors.Join(st.Commit(), st.FlushWait(), st.Close()))
		testkit.NoError(t, cluster.Found(filepath.Join(s.dir, "cluster"), s.id))
	}
	for _, s := range servers {
		s.start()
	}
	t.Cleanup(func() {
		for _, s := range servers {
			s.stop()
		}
	})
	return servers
}

// TestEngines: jobs that are created at one node are claimed and completed at others. The end of each run is reported once.
func TestEngines(t *testing.T) {
	servers := newServers(t, 3, journal.Hooks{})
	const each, batch = 20, 50
	var done sync.WaitGroup
	for i, s := range servers {
		testkit.Eventually(t, "the node is ready", func() bool { return s.engine.Ready() == nil })
		done.Go(func() {
			for range each {
				if _, _, err := s.engine.Create(t.Context(), lines(batch)); err != nil {
					t.Errorf("node %d: %v", i+1, err)
				}
			}
		})
	}
	done.Wait()
	term := servers[0].log.ClusterStatus().Term
	var mu sync.Mutex
	seen := map[job.ID]int{}
	for i, s := range servers {
		done.Go(func() {
			for {
				claimed, runs, _, err := s.engine.ClaimAdmitted(t.Context(), job.Claim{Runner: fmt.Sprint("r", i), Max: 100, MaxBytes: job.MaxClaimBytes}, 0, func(int64) error { return nil })
				if err != nil {
					t.Errorf("claim at node %d: %v", i+1, err)
					return
				}
				if len(runs) == 0 {
					return
				}
				complete := job.Complete{Claim: claimed.Claim}
				for _, r := range runs {
					for i := range r.N {
						id := r.ID(i)
						mu.Lock()
						seen[id]++
						mu.Unlock()
						complete.Outcomes = append(complete.Outcomes, job.Outcome{ID: id, Code: job.OK, ExitCode: 200, DelayMs: -1})
					}
				}
				if _, _, err := servers[(i+1)%3].engine.Complete(t.Context(), complete); err != nil {
					t.Errorf("complete: %v", err)
				}
			}
		})
	}
	done.Wait()
	testkit.Equal(t, len(seen), 3*each*batch, "jobs")
	for id, n := range seen {
		testkit.Equal(t, n, 1, id)
	}
	reported := func() (n int64) {
		for _, s := range servers {
			n += s.runs.Load()
		}
		return n
	}
	for _, s := range servers {
		testkit.NoError(t, s.engine.CatchUp(t.Context(), 0))
	}
	if servers[0].log.ClusterStatus().Term == term { // otherwise the runs around the election may be reported twice, or by no node
		testkit.Eventually(t, "all runs are reported", func() bool { return reported() >= 3*each*batch })
		testkit.Equal(t, reported(), 3*each*batch, "runs that all engines have reported")
	}
}

// lines returns a create of n lines in the default queue.
func lines(n int) *job.Create {
	var body []byte
	for i := range n {
		body = fmt.Appendf(body, "line %d\n", i)
	}
	payloads, _, longest := job.TrimLines(body)
	return &job.Create{Frame: job.LineFrame, Longest: longest, Payloads: payloads, Groups: []job.Group{{
		Lines: n, Client: "default", Type: "default", Attributes: job.Attributes{Kind: job.Text, Priority: 4, MaxAttempts: 3, LeaseMs: 60_000,
			Backoff: job.Backoff{InitialMs: 1000, FactorMilli: 2000, MaxMs: 10_000}, RetentionMs: 1_000_000},
	}}}
}

// TestJoin: a node joins a cluster of one under load, gets its state and all later commands, and votes. The first node can
// then be removed.
func TestJoin(t *testing.T) {
	servers := newServers(t, 1, journal.Hooks{})
	first := servers[0]
	testkit.Eventually(t, "the node is ready", func() bool { return first.engine.Ready() == nil })
	for range 20 {
		testkit.Must2(first.engine.Create(t.Context(), lines(100)))(t)
	}
	for i := range 2 {
		l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
		s := &server{t: t, dir: t.TempDir(), addr: l.Addr().String()}
		testkit.NoError(t, l.Close())
		s.id = testkit.Must(cluster.Join(t.Context(), cluster.Joining{Dir: filepath.Join(s.dir, "cluster"), Store: ingest.StoreDir(s.dir), Node: fmt.Sprint("j", i), Level: job.Level, From: first.addr, Dial: dial}))(t)
		s.start()
		t.Cleanup(s.stop)
		testkit.NoError(t, s.log.BecomeMember(t.Context(), s.addr, first.addr))
		servers = append(servers, s)
		testkit.Must2(first.engine.Create(t.Context(), lines(100)))(t)
	}
	testkit.Eventually(t, "all nodes vote", func() bool {
		voters := 0
		for _, m := range first.log.ClusterStatus().Nodes {
			if m.Role == "voter" {
				voters++
			}
		}
		return voters == 3
	})
	for i, s := range servers {
		testkit.NoError(t, s.engine.CatchUp(t.Context(), 0))
		testkit.Equal(t, s.engine.Queries().Totals().Counts[job.Pending], 2200, "jobs at node", i)
	}
	first.stop() // the others go on without it
	_, receipt := testkit.Must2(createWhenLed(t, servers[1], 5))(t)
	testkit.NoError(t, servers[2].engine.CatchUp(t.Context(), receipt.Seq))
	testkit.Equal(t, servers[2].engine.Queries().Totals().Counts[job.Pending], 2205, "jobs after the first node stopped")
}

// cutConn is a connection on which nothing arrives any more once cut returns true.
type cutConn struct {
	net.Conn
	cut func() bool
}

func (c *cutConn) Read(b []byte) (int, error) {
	if c.cut() {
		return 0, errCut
	}
	return c.Conn.Read(b)
}

var errCut = errors.New("the connection was cut")

// TestJoinResumes: a join ends when one file of the state has arrived. The next one keeps this file, and the state is whole.
func TestJoinResumes(t *testing.T) {
	first := newServers(t, 1, journal.Hooks{})[0]
	testkit.Eventually(t, "the node is ready", func() bool { return first.engine.Ready() == nil })
	testkit.Must2(first.engine.Create(t.Context(), lines(100)))(t)

	s := &server{t: t, dir: t.TempDir()}
	arrived := func() (whole []string) {
		files := testkit.Must(filepath.Glob(filepath.Join(s.dir, "cluster", "base", "store", "*")))(t)
		return slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, ".part") })
	}
	j := cluster.Joining{Dir: filepath.Join(s.dir, "cluster"), Store: ingest.StoreDir(s.dir), Node: "j", Level: job.Level, From: first.addr}
	j.Dial = func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := dial(ctx, address)
		return &cutConn{conn, func() bool { return len(arrived()) > 0 }}, err
	}
	testkit.Fails(cluster.Join(t.Context(), j))(t, errCut)
	kept := arrived()
	testkit.MustEqual(t, len(kept), 1, "files that have arrived", kept)
	was := testkit.Must(os.Stat(kept[0]))(t)

	j.Dial = dial
	s.id = testkit.Must(cluster.Join(t.Context(), j))(t)
	is := testkit.Must(os.Stat(filepath.Join(j.Store, filepath.Base(kept[0]))))(t)
	testkit.Holds(t, os.SameFile(was, is), "the second join fetched", kept[0], "again")
	st := testkit.Must(store.Open(j.Store, store.Options{}))(t)
	testkit.Equal(t, st.Totals().Counts[job.Pending], 100, "jobs")
	testkit.NoError(t, st.Close())
}

// createWhenLed creates jobs as soon as a node leads.
func createWhenLed(t *testing.T, s *server, n int) (made applied.Made, r ingest.Receipt, err error) {
	testkit.Eventually(t, "a node leads", func() bool {
		made, r, err = s.engine.Create(t.Context(), lines(n))
		return err == nil
	})
	return made, r, err
}
