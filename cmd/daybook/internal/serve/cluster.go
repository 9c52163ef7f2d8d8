package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/daybookq/daybook/api"
	"github.com/daybookq/daybook/cluster"
	"github.com/daybookq/daybook/cmd/daybook/internal/certificates"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/opsqueue"
	"github.com/daybookq/daybook/store"
)

// clusterFlags make the server a node of a cluster.
type clusterFlags struct {
	node          string
	clusterListen string
	clusterInit   bool
	join          string
	clusterRetain config.BytesFlag
	ca, cert, key string
}

// handoverWait bounds how long a stop waits until another node leads.
const handoverWait = time.Second

func (f *clusterFlags) define(flags *pflag.FlagSet) {
	f.clusterRetain = 4 << 30
	flags.StringVar(&f.node, "node", "", "name of this node in its cluster; no other node may ever have had it (default: a single server)")
	flags.StringVar(&f.clusterListen, "cluster-listen", "", "address for the other nodes of the cluster, which they must be able to connect to")
	flags.BoolVar(&f.clusterInit, "cluster-init", false, "found a cluster of this node, with the data that it has")
	flags.StringVar(&f.join, "join", "", "--cluster-listen of a node whose cluster this node joins, with an empty data directory")
	flags.Var(&f.clusterRetain, "cluster-log-retain", "bytes of the log to keep for nodes that were away; one that missed more fetches the whole state")
	flags.StringVar(&f.ca, "cluster-ca", "", "file with the certificates that sign those of the nodes")
	flags.StringVar(&f.cert, "cluster-cert", "", "file with the certificate of this node, for both ends of a connection")
	flags.StringVar(&f.key, "cluster-key", "", "file with the key of --cluster-cert")
}

// check refuses settings that do not fit together.
func (f *clusterFlags) check() (err error) {
	if f.node == "" {
		if f.clusterListen+f.join+f.ca+f.cert+f.key != "" || f.clusterInit {
			return terminal.Usagef("a node of a cluster needs --node with its name")
		}
		return nil
	}
	if err := job.CheckName("--node", f.node); err != nil {
		return terminal.Usage(err)
	}
	if f.clusterInit && f.join != "" {
		return terminal.Usagef("--cluster-init founds a cluster, and --join joins one; give only one of them")
	}
	secure := f.ca != "" && f.cert != "" && f.key != ""
	if !secure && f.ca+f.cert+f.key != "" {
		return terminal.Usagef("--cluster-ca, --cluster-cert and --cluster-key belong together")
	}
	host, _, err := net.SplitHostPort(f.clusterListen)
	if err != nil {
		return terminal.Usagef("--cluster-listen needs HOST:PORT: %w", err)
	}
	if ip := net.ParseIP(host); ip.IsUnspecified() {
		return terminal.Usagef("--cluster-listen %s is no address that other nodes can connect to; name the address or the name of this machine", f.clusterListen)
	} else if !secure && !ip.IsLoopback() && host != "localhost" {
		return terminal.Usagef("--cluster-listen %s can be reached from other machines, so it needs --cluster-ca, --cluster-cert and --cluster-key", f.clusterListen)
	}
	if secure {
		_, err = f.files().Load()
	}
	return err
}

// secure reports whether nodes connect by TLS.
func (f *clusterFlags) secure() bool { return f.ca != "" }

func (f *clusterFlags) files() certificates.Files {
	return certificates.Files{
		Cert: certificates.File{Flag: "cluster-cert", Path: f.cert}, Key: certificates.File{Flag: "cluster-key", Path: f.key},
		CA: certificates.File{Flag: "cluster-ca", Path: f.ca},
	}
}

// nodeSettings returns the settings of both ends of a connection between nodes.
func nodeSettings(l certificates.Loaded) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*l.Pair}, RootCAs: l.CA, ClientCAs: l.CA, ClientAuth: tls.RequireAndVerifyClientCert}
}

// listenForNodes listens for other nodes.
func (n *clusterNode) listenForNodes() (net.Listener, error) {
	l, err := net.Listen("tcp", n.clusterListen)
	if err != nil {
		return nil, fmt.Errorf("--cluster-listen: %w: %w", ErrListen, err)
	}
	if n.tls == nil {
		return l, nil
	}
	return tls.NewListener(l, &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return n.tls.Config(), nil }}), nil
}

// dial connects to another node.
func (n *clusterNode) dial(ctx context.Context, address string) (net.Conn, error) {
	if n.tls == nil {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	return (&tls.Dialer{Config: n.tls.Config()}).DialContext(ctx, "tcp", address)
}

// clusterNode is this node of a cluster.
type clusterNode struct {
	*clusterFlags
	data     string
	tls      *certificates.Watched // for connections between nodes; nil: without TLS
	identity *cluster.Identity
	log      *cluster.Cluster // of the engine that runs
	members  []job.Member     // as the store had them when it was opened
	logger   *slog.Logger

	opsqueueWanted bool        // this node has --opsqueue
	opsqueueServed atomic.Bool // it serves clients of Opsqueue
}

// startNode prepares the data directory of a node: it founds a cluster, joins one, or finds what an earlier process left.
// It returns nil for a single server.
func (s *serverRun) startNode(ctx context.Context) (n *clusterNode, err error) {
	dir := cluster.DirOf(s.data)
	identity, err := cluster.ReadIdentity(dir)
	if err != nil {
		return nil, err
	}
	if s.node == "" {
		if identity != nil {
			return nil, terminal.Usagef("%s has the data of node %s of a cluster; start it with --node %s and --cluster-listen", s.data, identity.Node, identity.Node)
		}
		return nil, nil
	}
	n = &clusterNode{clusterFlags: &s.clusterFlags, tls: s.nodesTLS, data: s.data, opsqueueWanted: s.opsqueue != "", identity: identity, logger: slog.New(zerolog.NewSlogHandler(s.log))}
	switch {
	case identity != nil && identity.Node != s.node:
		return nil, terminal.Usagef("%s has the data of node %s, and --node is %s", s.data, identity.Node, s.node)
	case identity != nil:
	case s.clusterInit:
		n.identity, err = n.found(ctx)
	case s.join != "":
		var there bool
		if there, err = ingest.HasJournal(s.data); err == nil && there {
			return nil, terminal.Usagef("%s has the data of a single server, and --join needs an empty directory; --cluster-init founds a cluster with this data", s.data)
		}
		err = s.whileUnready(ctx, fmt.Errorf("this node joins the cluster of the node at %s, and fetches its state", s.join), func(ctx context.Context) (err error) {
			return n.locked(func() (err error) {
				n.identity, err = n.joins(ctx)
				return err
			})
		})
	default:
		return nil, terminal.Usagef("%s has no node of a cluster; --cluster-init founds a cluster, --join ADDRESS joins one", s.data)
	}
	if err == nil && n.identity == nil { // whileUnready has ended because the server stops
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	return n, n.locked(func() error {
		_, err := cluster.Install(dir, ingest.StoreDir(s.data))
		return err
	})
}

// locked calls f while this process has the data directory to itself, as an engine has. No engine runs.
func (n *clusterNode) locked(f func() error) (err error) {
	lock, err := ingest.Lock(n.data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	return f()
}

// joins joins the cluster. It waits while the node of --join does not listen yet, because all nodes may be started together.
func (n *clusterNode) joins(ctx context.Context) (*cluster.Identity, error) {
	for waits := false; ; waits = true {
		i, err := cluster.Join(ctx, cluster.Joining{Dir: cluster.DirOf(n.data), Store: ingest.StoreDir(n.data), Node: n.node, Level: job.Level, From: n.join, Dial: n.dial, Logger: n.logger})
		if dial, is := errors.AsType[*net.OpError](err); !is || dial.Op != "dial" || ctx.Err() != nil {
			return i, err
		}
		if !waits {
			n.logger.Warn("the node of --join does not answer; trying again", "address", n.join, "error", err)
		}
		if err := pause(ctx, restartAfter); err != nil {
			return nil, err
		}
	}
}

// found turns the data of a single server into the first state of a cluster, or makes an empty one. Until the identity is
// written, the directory has a single server.
func (n *clusterNode) found(ctx context.Context) (*cluster.Identity, error) {
	err := ingest.Offline(ctx, ingest.Options{Dir: n.data, Logger: n.logger}, func(engine *ingest.Engine) error {
		// The claims of consumers of the single server name no process of a cluster, so no leader could decide about them.
		return opsqueue.ReturnAll(ctx, engine, engine.Queries(), n.logger)
	})
	if err != nil {
		return nil, err
	}
	uuid, salt, err := journal.ReadIdentity(ingest.JournalDir(n.data))
	if err != nil {
		return nil, err
	}
	i := cluster.NewIdentity(n.node, uuid, salt)
	err = n.locked(func() error {
		st, err := store.Open(ingest.StoreDir(n.data), store.Options{})
		if err != nil {
			return err
		}
		st.Found(i.Cluster, job.Member{ID: i.ID, Node: i.Node, Address: n.clusterListen, Role: job.Voter})
		if err := errors.Join(st.Commit(), st.FlushWait(), st.Close()); err != nil {
			return err
		}
		return cluster.Found(cluster.DirOf(n.data), i)
	})
	if err == nil {
		n.logger.Info("founded a cluster", "cluster", i.Cluster, "node", i.Node)
	}
	return i, err
}

// options returns the options of the log of an engine.
func (n *clusterNode) options(engine func() *ingest.Engine, o ingest.LogOptions) (cluster.Options, error) {
	l, err := n.listenForNodes()
	return cluster.Options{
		Dir: cluster.DirOf(n.data), Identity: n.identity, Listener: l, Dial: n.dial, State: o.Cluster, Seq: o.Seq, At: o.At, Level: o.Level, Answer: o.Answer, Logger: n.logger,
		Refuse: func(verb string, _ bool) string { return o.Refuse(verb) }, Refusal: ingest.Refusal, Opsqueue: n.saysOfOpsqueue,
		Checkpoint: func(_ context.Context, dir string) (cluster.Base, error) {
			c, err := engine().Base(dir)
			return cluster.Base{Dir: dir, Index: c.Index, Term: c.Term}, err
		},
	}, err
}

// saysOfOpsqueue returns whether this node serves clients of Opsqueue; see cluster.Options.
func (n *clusterNode) saysOfOpsqueue() string {
	switch {
	case n.opsqueueServed.Load():
		return cluster.OpsqueueServed
	case n.opsqueueWanted:
		return cluster.OpsqueueWanted
	}
	return ""
}

// open opens the log of an engine.
func (n *clusterNode) open(engine func() *ingest.Engine, lo ingest.LogOptions) (ingest.Log, error) {
	o, err := n.options(engine, lo)
	if err != nil {
		return nil, err
	}
	n.members = lo.Cluster.Members
	log, err := cluster.Open(o)
	if err != nil {
		return nil, err // and no *cluster.Cluster in an interface, which would not be nil
	}
	n.log = log
	return log, nil
}

// take makes this node a member, or tells the others its new address.
func (n *clusterNode) take(ctx context.Context) {
	if err := n.log.BecomeMember(ctx, n.clusterListen, n.join); err != nil && ctx.Err() == nil {
		n.logger.Error("this node is no member of the cluster", "error", err)
	}
}

// handOver lets another node lead, if this one does.
func (n *clusterNode) handOver() {
	ctx, cancel := context.WithTimeout(context.Background(), handoverWait)
	defer cancel()
	if err := n.log.HandOver(ctx); err != nil {
		n.logger.Info("no other node leads yet", "error", err)
	}
}

// restartAfter is the time before a node opens its data again after its log has failed.
const restartAfter = time.Second

// goesOn reports whether the node can go on after its engine has ended for a reason: it lacks entries, and fetches the state
// of another node, or a write of its log has failed, and only a new start finds out what is on the disk.
func (n *clusterNode) goesOn(ctx context.Context, why error) bool {
	_, lacks := errors.AsType[*cluster.NeedsBase](why)
	return ctx.Err() == nil && (lacks || errors.Is(why, cluster.ErrLogFailed))
}

// recover prepares the data directory for the next start, however often it must try.
func (n *clusterNode) recover(ctx context.Context, why error) error {
	n.logger.Warn("this node takes no requests until its state is complete again", "reason", why)
	needs, lacks := errors.AsType[*cluster.NeedsBase](why)
	if !lacks {
		return pause(ctx, restartAfter)
	}
	for {
		err := n.locked(func() error {
			return cluster.Recover(ctx, cluster.Joining{Dir: cluster.DirOf(n.data), Store: ingest.StoreDir(n.data), Dial: n.dial, Logger: n.logger}, n.identity, n.members, needs)
		})
		if err == nil {
			return nil
		}
		n.logger.Warn("cannot fetch the state of another node; trying again", "error", err)
		if err := pause(ctx, restartAfter); err != nil {
			return err
		}
	}
}

// pause waits, at most until ctx is done.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// whileUnready answers requests with 503 while f runs.
func (s *serverRun) whileUnready(ctx context.Context, why error, f func(ctx context.Context) error) error {
	serving, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() { served <- api.ServeUnready(serving, s.kept(ctx), s.options, why) }()
	err := f(ctx)
	stop()
	if ctx.Err() != nil {
		err = nil // the next step finds that the server stops
	}
	return errors.Join(err, <-served)
}

// kept returns the listener for one of several servers that use it one after the other. If the server closes it while the
// process goes on, connections wait for the next server.
func (s *serverRun) kept(ctx context.Context) net.Listener {
	if s.cluster == nil && s.join == "" {
		return s.listener
	}
	if err := s.listener.SetDeadline(time.Time{}); err != nil {
		s.log.Warn().Err(err).Msg("cannot listen again after the last server") // it is closed, and Accept says so
	}
	if s.late == nil {
		s.late = make(chan net.Conn, 1)
	}
	return &keptListener{TCPListener: s.listener, ctx: ctx, late: s.late, closed: make(chan struct{})}
}

type keptListener struct {
	*net.TCPListener
	ctx    context.Context // of the process
	late   chan net.Conn   // a connection that was accepted while a server closed the listener; for the next server
	once   sync.Once
	closed chan struct{}
}

// Accept is called by one goroutine of a server, so there is one late connection at most.
func (l *keptListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.late:
		return c, nil
	default:
	}
	c, err := l.TCPListener.Accept()
	select {
	case <-l.closed:
		if err == nil {
			l.late <- c
		}
		return nil, net.ErrClosed
	default:
		return c, err
	}
}

func (l *keptListener) Close() (err error) {
	l.once.Do(func() {
		close(l.closed)
		if l.ctx.Err() != nil {
			err = l.TCPListener.Close()
		} else {
			err = l.SetDeadline(time.Now())
		}
	})
	return err
}
