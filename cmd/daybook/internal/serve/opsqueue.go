package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/opsqueue"
)

// opsqueueFlags are the settings of the listener that speaks the protocol of Opsqueue.
type opsqueueFlags struct {
	opsqueue           string // its address; "": no listener
	opsqueueExpiration config.DurationFlag
	opsqueueHeartbeat  config.DurationFlag
	opsqueueMissable   int
	opsqueueRetries    int
	opsqueueAge        config.DurationFlag
	opsqueueReturned   int
	opsqueueKey        string
}

// define defines the flags. Their defaults are Opsqueue's.
func (f *opsqueueFlags) define(flags *pflag.FlagSet) {
	original := opsqueue.DefaultConfig()
	f.opsqueueExpiration, f.opsqueueHeartbeat = config.DurationFlag(original.ReservationExpiration), config.DurationFlag(original.HeartbeatInterval)
	f.opsqueueAge = config.DurationFlag(original.MaxSubmissionAge)
	flags.StringVar(&f.opsqueue, "opsqueue", "", "address of a second listener, which speaks the protocol of Opsqueue (default: none)")
	flags.StringVar(&f.opsqueueKey, "opsqueue-key", "", "with --opsqueue: name of the key as which the listener acts; it needs the roles producer and worker. Once the server has keys, the listener refuses everything without it")
	flags.Var(&f.opsqueueExpiration, "opsqueue-reservation-expiration", "with --opsqueue: how long a consumer may hold a chunk")
	flags.Var(&f.opsqueueHeartbeat, "opsqueue-heartbeat-interval", "with --opsqueue: time between two pings of a consumer")
	flags.IntVar(&f.opsqueueMissable, "opsqueue-max-missable-heartbeats", int(original.MaxMissableHeartbeats), "with --opsqueue: how many pings a consumer may leave without an answer")
	flags.IntVar(&f.opsqueueRetries, "opsqueue-max-chunk-retries", int(original.MaxChunkRetries), "with --opsqueue: how many times a chunk may run")
	flags.Var(&f.opsqueueAge, "opsqueue-max-submission-age", "with --opsqueue: how long a submission is kept after it has ended")
	flags.IntVar(&f.opsqueueReturned, "opsqueue-max-submissions-returned", int(original.MaxSubmissionsReturned), "with --opsqueue: how many ids the answer to a lookup by metadata has at most")
}

const (
	maxMissableHeartbeats  = 1000
	maxSubmissionsReturned = 1_000_000 // the ids of an answer are in memory
)

// opsqueueAddress returns the address of --opsqueue; nil if there is none.
func (f *Flags) opsqueueAddress() (*net.TCPAddr, error) {
	if f.opsqueue == "" {
		if f.opsqueueKey != "" {
			return nil, terminal.Usagef("--opsqueue-key needs --opsqueue")
		}
		return nil, nil
	}
	if f.opsqueueKey != "" {
		if err := job.CheckName("--opsqueue-key", f.opsqueueKey); err != nil {
			return nil, terminal.Usage(err)
		}
	}
	for _, err := range []error{
		config.CheckDuration("--opsqueue-reservation-expiration", f.opsqueueExpiration, 1, job.MaxLeaseMs),
		config.CheckDuration("--opsqueue-heartbeat-interval", f.opsqueueHeartbeat, minHeartbeatMs, maxHeartbeatMs),
		config.CheckDuration("--opsqueue-max-submission-age", f.opsqueueAge, 0, job.MaxDelayMs),
		job.CheckRange("--opsqueue-max-missable-heartbeats", int64(f.opsqueueMissable), 0, maxMissableHeartbeats),
		job.CheckRange("--opsqueue-max-chunk-retries", int64(f.opsqueueRetries), 1, job.MaxAttempts),
		job.CheckRange("--opsqueue-max-submissions-returned", int64(f.opsqueueReturned), 1, maxSubmissionsReturned),
	} {
		if err != nil {
			return nil, terminal.Usage(err)
		}
	}
	address, err := net.ResolveTCPAddr("tcp", f.opsqueue)
	if err != nil {
		return nil, terminal.Usagef("--opsqueue %q is not an address with a port, like 127.0.0.1:3999: %w", f.opsqueue, err)
	}
	if config.IsExposed(address) && !f.insecure {
		return nil, terminal.Usagef("--opsqueue %s is not a loopback address, and the protocol has neither TLS nor keys: %w", f.opsqueue, config.ErrExposed)
	}
	return address, nil
}

// startOpsqueue serves the protocol of Opsqueue, if the settings require it, until ctx ends. Then outstanding requests
// may take as long as requests of the API, and end waits for them. If the listener fails or is refused, startOpsqueue calls
// quit, and end returns why.
func (s *serverRun) startOpsqueue(ctx context.Context, engine *runningEngine, quit func()) (end func() error, err error) {
	address, err := s.opsqueueAddress()
	if err != nil || address == nil {
		return func() error { return nil }, err
	}
	listener, err := net.ListenTCP(config.NetworkOf(address), address)
	if err != nil {
		return nil, fmt.Errorf("--opsqueue: %w: %w", ErrListen, err)
	}
	s.log.Info().Str("address", listener.Addr().String()).Msg("listening for clients of Opsqueue")
	once := sync.OnceValue(s.serveOpsqueue(engine, listener, time.Duration(s.drain), quit))
	unneeded := context.AfterFunc(ctx, func() { _ = once() })
	return func() error {
		unneeded()
		return once()
	}, nil
}

func (s *serverRun) listenerKey(engine *runningEngine) *listenerKey {
	return &listenerKey{name: s.opsqueueKey, required: s.options.RequireKeys, engine: engine.Engine}
}

// opsqueueConfig returns the settings of the listener.
func (s *serverRun) opsqueueConfig(engine *runningEngine, key *listenerKey) opsqueue.Config {
	return opsqueue.Config{
		ReservationExpiration: time.Duration(s.opsqueueExpiration), HeartbeatInterval: time.Duration(s.opsqueueHeartbeat),
		MaxMissableHeartbeats: uint64(s.opsqueueMissable), MaxChunkRetries: uint32(s.opsqueueRetries), MaxSubmissionAge: time.Duration(s.opsqueueAge),
		MaxSubmissionsReturned: int64(s.opsqueueReturned), MaxConnections: s.files.opsqueue, Origin: engine.Origin(), Permit: key.permit, Log: slog.New(zerolog.NewSlogHandler(s.log)),
	}
}

// startReturns returns, while this node of a cluster leads, the chunks that listeners of other processes have left, until
// end is called. Every node does that, because any of them may lead.
func (s *serverRun) startReturns(engine *runningEngine) (end func()) {
	if s.cluster == nil {
		return func() {}
	}
	ctx, stop := context.WithCancel(context.Background())
	returns := opsqueue.NewReturns(engine.Engine, engine.Queries(), s.opsqueueConfig(engine, s.listenerKey(engine)))
	var running sync.WaitGroup
	running.Go(func() {
		if untilReady(ctx, engine) {
			returns.Run(ctx)
		}
	})
	return func() {
		stop()
		running.Wait()
	}
}

// mayServeOpsqueue returns why this node must not serve the protocol of Opsqueue, or nil, and the nodes that did not answer.
// The engine is ready, so this node knows all members, and answers them.
func (s *serverRun) mayServeOpsqueue(ctx context.Context) (silent []string, err error) {
	for _, begun := range []bool{false, true} {
		s.cluster.opsqueueServed.Store(begun)
		var node string
		if node, silent = s.cluster.log.OpsqueueAt(ctx, begun); node != "" {
			s.cluster.opsqueueServed.Store(false)
			return nil, fmt.Errorf("--opsqueue: node %s of the cluster has --opsqueue, too, and only one node may; next step: let clients of Opsqueue use that node, or start it again without --opsqueue first", node)
		}
	}
	return silent, nil
}

// askAgain asks the nodes that did not answer until they do, and logs an error if one of them serves clients of Opsqueue, too.
func (s *serverRun) askAgain(ctx context.Context, silent []string) {
	s.log.Warn().Strs("nodes", silent).Msg("some nodes do not answer, so it is not known whether they serve clients of Opsqueue, which only one node may")
	for len(silent) > 0 && pause(ctx, 10*time.Second) == nil {
		var node string
		node, silent = s.cluster.log.OpsqueueAt(ctx, false)
		if node != "" {
			s.log.Error().Str("node", node).Msg("another node serves clients of Opsqueue, too, and only one node may; next step: start one of the two again without --opsqueue")
		}
	}
}

// serveOpsqueue serves the protocol of Opsqueue on a listener until end is called. end gives outstanding requests the
// time drain. If the listener fails or is refused, serveOpsqueue calls quit, and end returns why.
func (s *serverRun) serveOpsqueue(engine *runningEngine, listener net.Listener, drain time.Duration, quit func()) (end func() error) {
	key := s.listenerKey(engine)
	server := opsqueue.New(asKey{engine.Engine, key}, engine.Queries(), s.opsqueueConfig(engine, key))
	s.batchEnds.Store(server)
	var running sync.WaitGroup
	var failed error // of the goroutine
	running.Go(func() {
		if !untilReady(server.Running(), engine) { // until then, connections wait in the backlog of the system, and keys are not known
			_ = listener.Close()
			return
		}
		if s.cluster != nil {
			var silent []string
			if silent, failed = s.mayServeOpsqueue(server.Running()); failed != nil {
				_ = listener.Close()
			} else if len(silent) > 0 {
				running.Go(func() { s.askAgain(server.Running(), silent) })
			}
		}
		if failed == nil {
			if failed = server.Serve(listener); failed != nil {
				failed = fmt.Errorf("the listener for clients of Opsqueue has failed: %w", failed)
			}
		}
		if failed != nil {
			s.log.Error().Err(failed).Msg("the server stops")
			quit()
		}
	})
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), drain)
		defer cancel()
		_ = server.Close(ctx) // an error means that connections are already closed
		running.Wait()
		if s.cluster != nil {
			s.cluster.opsqueueServed.Store(false)
		}
		return failed
	}
}

// untilReady waits until the engine has replayed the journal, and so knows all keys. It reports false if the engine or ctx ends before.
func untilReady(ctx context.Context, engine *runningEngine) bool {
	const pause = 2 * time.Millisecond
	for engine.Ready() != nil {
		select {
		case <-time.After(pause):
		case <-engine.ended:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// batchEnds passes the ends of batches to the server that counts them, once there is one.
type batchEnds struct {
	atomic.Pointer[opsqueue.Server]
}

func (b *batchEnds) report(ends []job.BatchEnd) {
	if server := b.Load(); server != nil {
		server.BatchEnds(ends)
	}
}
