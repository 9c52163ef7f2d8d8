package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/api"
	"github.com/daybookq/daybook/blob/s3"
	"github.com/daybookq/daybook/cmd/daybook/internal/certificates"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/memory"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/ingest/registry"
	"github.com/daybookq/daybook/ingest/registry/onlost"
	"github.com/daybookq/daybook/job"
)

// Run runs the server until a signal, a request or the end of ctx ends it. It prints the address of the server to out,
// and logs to errs.
func Run(ctx context.Context, f *Flags, out, errs io.Writer) (err error) {
	s, err := newServerRun(f, errs)
	if err != nil {
		return err
	}
	ctx, stop := terminal.UntilSignal(ctx, s.log, f.stopSignals()...)
	defer stop()
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	if f.allowQuit {
		s.options.Quit = quit
	}

	if err := f.checkData(); err != nil {
		return err
	}
	endTLS, err := s.startTLS(ctx)
	if err != nil {
		return err
	}
	defer endTLS()
	endIssuers, err := s.startIssuers(ctx)
	if err != nil {
		return err
	}
	defer endIssuers()
	if err := s.listen(); err != nil {
		return err
	}
	defer s.listener.Close() // the API has closed it if it ran; closing it twice does no harm
	endHook, err := s.startHook(ctx)
	if err != nil {
		return err
	}
	defer endHook()
	endTraces, err := s.startTraces(ctx)
	if err != nil {
		return err
	}
	defer endTraces() // after the engine, so that its last runs are exported too
	if s.cluster, err = s.startNode(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // it was told to stop while it joined
		}
		return err
	}
	for {
		err := s.serve(ctx, quit, out)
		if s.cluster == nil || !s.cluster.goesOn(ctx, err) {
			return err
		}
		if err := s.whileUnready(ctx, err, func(ctx context.Context) error { return s.cluster.recover(ctx, err) }); err != nil {
			return err
		}
	}
}

// serve opens the data directory and serves requests until ctx ends or the engine cannot go on.
func (s *serverRun) serve(ctx context.Context, quit func(), out io.Writer) (err error) {
	engine, err := s.openEngine(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.end()) }()

	endBlobs, err := s.openBlobs(ctx, engine.Engine)
	if err != nil {
		return err
	}
	defer endBlobs() // if the server runs to its end, the call below returns the error

	if err := s.checkHasKey(ctx, engine); err != nil {
		return err
	}
	endAccess := s.startAccess(ctx, engine, quit)
	defer func() { err = errors.Join(err, endAccess()) }()
	endOpsqueue, err := s.startOpsqueue(ctx, engine, quit)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endOpsqueue()) }() // before the engine
	endReturns := s.startReturns(engine)
	defer endReturns()

	s.options.Engine = engine.Engine
	server, err := api.New(s.options)
	if err != nil {
		return terminal.Usage(err)
	}
	unpublish, err := s.publish(engine.Stats().Journal.UUID)
	if err != nil {
		return err
	}
	defer unpublish()
	removeAddress, err := s.announce(out)
	if err != nil {
		return err
	}
	running := engine.whileRunning(ctx)
	defer s.supervise(running, s.figures(engine))() // until the server has stopped
	s.log.Info().Str("address", s.listener.Addr().String()).Str("data", s.data).Str("version", s.build.Version).
		Uint64("open_files", s.files.limit).Int("max_connections", s.files.connections).Msg("listening")

	if err := server.Run(running, s.kept(ctx), time.Duration(s.drain)); err != nil {
		return err
	}
	if s.cluster != nil {
		s.cluster.handOver()
	}
	if err := endBlobs(); err != nil { // a collection reads the engine's data
		return err
	}
	endReturns()
	if endAccess() != nil || endOpsqueue() != nil || engine.end() != nil {
		return nil // the deferred calls return the error
	}
	if err := removeAddress(); err != nil {
		return err
	}
	s.log.Info().Msg("stopped")
	return nil
}

// serverRun holds the parts of one run of the server. serve fills it step by step.
type serverRun struct {
	*Flags
	options  api.Options
	log      zerolog.Logger
	files    descriptors
	address  *net.TCPAddr // of --listen
	listener *net.TCPListener
	late     chan net.Conn         // see keptListener; nil: a single server
	lost     func(registry.Runner) // gets each lost runner; nil without --on-lost
	ended    func([]job.RunEnd)    // gets the ends of runs; nil without traces

	nodesTLS  *certificates.Watched // for connections between nodes; nil: without TLS
	cluster   *clusterNode          // nil: a single server
	announced bool                  // the address was printed
	batchEnds batchEnds
}

// newServerRun checks the settings. It creates nothing.
func newServerRun(f *Flags, errs io.Writer) (s *serverRun, err error) {
	s = &serverRun{Flags: f}
	if s.options, err = f.options(); err != nil {
		return nil, err
	}
	if s.log, err = terminal.NewLogger(f.logLevel, f.logFormat, errs); err != nil {
		return nil, err
	}
	if s.address, err = f.listenAddress(); err != nil {
		return nil, err
	}
	if s.files, err = openFiles(); err != nil {
		return nil, err
	}
	if f.opsqueue != "" {
		s.files.shareWithOpsqueue()
	}
	if isBucket(f.blobs) {
		s.files.connections = max(s.files.connections-s3.MaxFiles, minConnections)
	}
	if err := memory.FollowContainer(memlimit.FromCgroup, s.log); err != nil {
		s.log.Warn().Err(err).Msg("the memory of this process has no soft limit; set GOMEMLIMIT if it runs in a container")
	}
	memory.DelayCollections(memory.Limit())
	s.options.Log, s.options.MaxConnections = s.log, s.files.connections
	return s, nil
}

func (s *serverRun) listen() (err error) {
	if s.listener, err = net.ListenTCP(config.NetworkOf(s.address), s.address); err != nil {
		return fmt.Errorf("%w: %w", ErrListen, err)
	}
	if config.IsExposed(s.address) && s.insecure {
		s.log.Warn().Str("address", s.listener.Addr().String()).Msg("--insecure: other machines can connect, and until the server has a key, anybody who connects can read, change and delete all jobs")
	}
	return nil
}

// startHook runs the hook of --on-lost, if there is one, until end is called.
func (s *serverRun) startHook(ctx context.Context) (end func(), err error) {
	if s.onLost == "" {
		return func() {}, nil
	}
	hook, err := onlost.New(s.onLost, slog.New(zerolog.NewSlogHandler(s.log)))
	if err != nil {
		return nil, terminal.Usagef("--on-lost: %w", err)
	}
	s.lost, s.options.OnLostFailures = hook.Lost, hook.Failures
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx)) // the hook continues while outstanding requests end
	var running sync.WaitGroup
	running.Go(func() { hook.Run(ctx) })
	return func() {
		stop()
		running.Wait()
	}, nil
}

// runningEngine is an engine whose Run has begun. Only Run closes an engine.
type runningEngine struct {
	*ingest.Engine
	stop  context.CancelFunc
	ended chan struct{}
	err   error // of Run; read it after ended is closed
}

// openEngine opens the data directory and begins to run the engine. The engine outlives ctx, until end: outstanding
// requests need it while the server stops.
func (s *serverRun) openEngine(ctx context.Context) (*runningEngine, error) {
	var engine *ingest.Engine
	var openLog func(ingest.LogOptions) (ingest.Log, error)
	if s.cluster != nil {
		openLog = func(o ingest.LogOptions) (ingest.Log, error) {
			return s.cluster.open(func() *ingest.Engine { return engine }, o)
		}
	}
	engine, err := ingest.Open(ingest.Options{
		OpenLog: openLog,
		Dir:     s.data, JournalRetain: s.retained(), History: cmp.Or(int64(s.history), ingest.HistoryOfDisk), HistoryAge: time.Duration(s.historyAge), QueueIdle: time.Duration(s.queueIdle), AllowClockAhead: s.clockAhead,
		RunnerHeartbeat: time.Duration(s.runnerHeartbeat), OnLost: s.lost, OnRunEnds: s.ended, OnBatchEnds: s.batchEnds.report, MetricsQueues: s.metricsQueues, QueueMemory: memory.ForQueues(memory.Limit()),
		StoreFiles: s.files.store, Logger: slog.New(zerolog.NewSlogHandler(s.log)),
		Fatal: func(reason string) {
			s.log.WithLevel(zerolog.FatalLevel).Str("reason", reason).Msg("the store cannot continue; the process ends")
			terminal.End(fatalCode(reason))
		},
	})
	if err != nil {
		return nil, err
	}
	debug.FreeOSMemory() // the ballast lets the garbage of opening the store stay otherwise: 60 MiB with 100,000 keys
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	e := &runningEngine{Engine: engine, stop: stop, ended: make(chan struct{})}
	go func() {
		e.err = engine.Run(ctx)
		close(e.ended)
	}()
	if s.cluster != nil {
		go s.cluster.take(ctx)
	}
	return e, nil
}

// figures returns the figures of the engine for the service manager, which gets the readiness of /readyz.
func (s *serverRun) figures(engine *runningEngine) func() ingest.Stats {
	return func() ingest.Stats {
		f := engine.Stats()
		if f.Ready && s.options.Unready != nil {
			if err := s.options.Unready(); err != nil {
				f.Ready, f.Reason = false, err.Error()
			}
		}
		return f
	}
}

// retained returns how many bytes of the log stay on disk although the store has them.
func (s *serverRun) retained() int64 {
	if s.cluster != nil {
		return int64(s.clusterRetain)
	}
	return int64(s.journalRetain)
}

// fatalCode returns the exit code for a fatal error of the store. Pebble gives the reason as a text.
func fatalCode(reason string) int {
	if strings.Contains(reason, syscall.ENOSPC.Error()) || strings.Contains(reason, syscall.EDQUOT.Error()) {
		return terminal.ExitFile
	}
	return terminal.ExitError
}

// whileRunning returns a context that ends with ctx, or when the engine ends before that: a server without its engine
// could only refuse requests.
func (e *runningEngine) whileRunning(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		<-e.ended
		cancel()
	}()
	return ctx
}

// end stops the engine and returns the error of its Run. It may be called more than once.
func (e *runningEngine) end() error {
	e.stop()
	<-e.ended
	return e.err
}

// publish serves profiles and announces the server on the local network, as far as the settings require it. unpublish
// ends both.
func (s *serverRun) publish(id string) (unpublish func(), err error) {
	endProfiles := func() {}
	if s.pprof != "" {
		profiles, err := serveProfiles(s.pprof)
		if err != nil {
			return nil, err
		}
		endProfiles = func() { profiles.Close() }
	}
	endAnnouncement, err := s.announceOnNetwork(s.listener.Addr().(*net.TCPAddr), id, s.log)
	if err != nil {
		endProfiles()
		return nil, err
	}
	return func() {
		endAnnouncement()
		endProfiles()
	}, nil
}

// announce prints the address on which the server listens, once, and writes it to the file "address" in the data directory,
// for --listen with port 0. The file is deleted at a clean stop. After a kill it remains, with a port on which no
// server answers.
func (s *serverRun) announce(out io.Writer) (remove func() error, err error) {
	path, addr := filepath.Join(s.data, "address"), s.listener.Addr()
	fresh := path + ".new"
	if err := os.WriteFile(fresh, []byte(addr.String()+"\n"), 0o644); err != nil {
		return nil, fmt.Errorf("write address: %w", err)
	}
	if err := os.Rename(fresh, path); err != nil { // a reader sees the old file or the whole new file
		return nil, fmt.Errorf("write address: %w", err)
	}
	if !s.announced {
		if _, err := fmt.Fprintf(out, "listening on %s://%s\n", s.scheme(), addr); err != nil {
			return nil, fmt.Errorf("print address: %w", err)
		}
		s.announced = true
	}
	return func() error {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove address: %w", err)
		}
		return nil
	}, nil
}
