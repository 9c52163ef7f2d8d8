package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/api"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
)

type serveFlags struct {
	listen        string
	data          string
	init          bool
	insecure      bool
	hosts         []string
	abandonedAge  durationFlag
	maxAttempts   int
	retention     durationFlag
	queueIdle     durationFlag
	journalRetain bytesFlag
	logLevel      string
	logFormat     string
	clockAhead    bool
	pprof         string
	mdns          string
	mdnsOn        []string
	drain         durationFlag
	allowQuit     bool
	allowGet      bool
	requireClaim  bool
	config        string
	printConfig   bool
}

const (
	defaultListen = "127.0.0.1:1717"
	defaultData   = "./daybook-data"
)

func newServe() *cobra.Command {
	f := serveFlags{
		abandonedAge: job.DefaultLeaseMs * durationFlag(time.Millisecond),
		retention:    job.DefaultRetentionMs * durationFlag(time.Millisecond),
		queueIdle:    job.DefaultQueueIdleMs * durationFlag(time.Millisecond),
		drain:        durationFlag(10 * time.Second),
	}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Run the server until SIGTERM or SIGINT, which stop it gracefully: requests under way get up to --drain to end. A second signal ends it at once, as
SIGKILL would. What was acknowledged is safe either way.

The server prints the address it listens on as "listening on http://…", and keeps it in the file "address" in the data directory until a clean stop. It answers
before it is ready: while it replays the journal, /readyz says so.

There is no access control yet, so the server refuses to listen beyond loopback unless --insecure is given. With it, every start logs a warning.

The default data directory is created when it does not exist. One that --data names must hold a journal already, unless --init is given: a disk that is not
mounted would otherwise start an empty queue.

A server that listens beyond loopback announces itself on the local network by multicast DNS, under its id, so that ` + "`daybook discover`" + ` and
--server mdns: find it. --mdns off keeps it quiet; --mdns on makes it an error if the server cannot be announced.

A request's Host must be an IP address, localhost, or a name that --allow-host lists: a web page could make any other name point to this server. For containers
and clusters: --allow-host daybook, --allow-host '*.svc.cluster.local'; --allow-host '*' accepts every name.

Settings may also be in a TOML file, named by --config: max-attempts = 5, allow-host = ["a.example"]. The command line has precedence over the environment, and
the environment over the file. --print-config shows the settings in force and where each comes from.`,
		Example: `  daybook serve --listen 127.0.0.1:0 --data /var/lib/daybook --init
  DAYBOOK_LOG_FORMAT=console daybook serve --abandoned-age 60s --retention 30d
  daybook serve --config /etc/daybook.toml --print-config`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := fromConfig(cmd.Flags(), f.config); err != nil {
				return err
			}
			if err := f.checkSettings(); err != nil {
				return err
			}
			if f.printConfig {
				for _, name := range unknownVariables(os.Environ()) {
					fmt.Fprintf(cmd.ErrOrStderr(), "daybook: warning: %s\n", unknownVariable(name))
				}
				return printConfig(cmd.OutOrStdout(), cmd.Flags())
			}
			return serve(cmd, &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", defaultListen, "address to listen on; port 0 takes one that is free")
	flags.StringVar(&f.data, "data", defaultData, "data directory")
	flags.BoolVar(&f.init, "init", false, "start an empty queue in the data directory that --data names if it holds none; harmless when it does")
	flags.BoolVar(&f.insecure, "insecure", false, "listen beyond loopback although there is no access control")
	flags.StringSliceVar(&f.hosts, "allow-host", nil, "names that requests may have as their Host; *.example.com allows all names below, * every name")
	flags.Var(&f.abandonedAge, "abandoned-age", "how long a claim may go without a tickle before its jobs are handed out again, unless they say otherwise")
	flags.IntVar(&f.maxAttempts, "max-attempts", job.DefaultMaxAttempts, "how often a job runs at most, unless it says otherwise")
	flags.Var(&f.retention, "retention", "how long finished jobs are kept, unless they say otherwise; 0: not at all")
	flags.Var(&f.queueIdle, "queue-idle", "how long a queue stays that has no jobs and is not paused, at least a minute; 0: for ever")
	flags.Var(&f.journalRetain, "journal-retain", "bytes of journal to keep although the store no longer needs them, for rebuilds and audits")
	flags.StringVar(&f.logLevel, "log-level", "info", "trace, debug, info, warn or error; successes on hot routes are logged at debug only")
	flags.StringVar(&f.logFormat, "log-format", "json", "json, or console for people")
	flags.BoolVar(&f.clockAhead, "allow-clock-ahead", false, "start although the journal's last time is more than a day ahead of the clock")
	flags.StringVar(&f.mdns, "mdns", "auto", "announce the server on the local network: on, off, or auto, which is when it listens beyond loopback")
	flags.StringSliceVar(&f.mdnsOn, "mdns-interface", nil, "network interfaces to announce it on; all that can multicast without")
	flags.StringVar(&f.pprof, "pprof", "", "loopback address for profiles by net/http/pprof; off without")
	flags.Var(&f.drain, "drain", "how long requests under way may take to end when the server stops")
	flags.BoolVar(&f.requireClaim, "require-claim-id", false, "refuse tickles, completions and releases that do not name their claim")
	flags.BoolVar(&f.allowQuit, "allow-quit", false, "end on POST /quit, if it comes from this machine and through no proxy")
	flags.BoolVar(&f.allowGet, "allow-get-switches", false, "let GET /start, GET /stop and GET /quit do what POST does, as in miniq; any web page can send a GET")
	flags.StringVar(&f.config, "config", "", "TOML file with settings, named like these flags")
	flags.BoolVar(&f.printConfig, "print-config", false, "print the settings in force, as a configuration file, and end")
	cobra.CheckErr(cmd.MarkFlagFilename("config", "toml"))
	cobra.CheckErr(cmd.MarkFlagDirname("data"))
	return cmd
}

// errListen is a failure to listen on the address.
var errListen = errors.New("cannot listen")

// checkData refuses a data directory that was named and holds no journal. The default one is created.
func (f *serveFlags) checkData(cmd *cobra.Command) error {
	if f.init || !cmd.Flags().Changed("data") {
		return nil
	}
	there, err := hasJournal(f.data)
	if err == nil && !there {
		err = fmt.Errorf("%w; if its disk is not mounted, mount it; to start an empty queue there, give --init", errNoData)
	}
	if err != nil {
		return fmt.Errorf("data directory %s: %w", f.data, err)
	}
	return nil
}

// checkSettings refuses settings that make no sense, before anything is created or listens.
func (f *serveFlags) checkSettings() error {
	if _, err := f.options(); err != nil {
		return err
	}
	if _, err := newLogger(f.logLevel, f.logFormat, io.Discard); err != nil {
		return err
	}
	address, exposed, err := checkListen(f.listen, f.insecure)
	if err != nil {
		return err
	}
	if f.mdns == mdnsOn && !exposed {
		return usageError{fmt.Errorf("--mdns on, and the server listens on %s, where no other machine can connect", address)}
	}
	return checkProfiles(f.pprof)
}

// options checks the flags and returns what the API is made of.
func (f *serveFlags) options() (api.Options, error) {
	o := api.Options{
		Hosts: f.hosts, RequireClaimID: f.requireClaim, GetSwitches: f.allowGet,
		Build: api.Version{Version: version, Commit: commit},
		Defaults: api.Defaults{
			MaxAttempts: f.maxAttempts, LeaseMs: f.abandonedAge.ms(), RetentionMs: f.retention.ms(),
		},
	}
	for _, err := range []error{
		job.CheckRange("--max-attempts", int64(f.maxAttempts), 1, job.MaxAttempts),
		checkDuration("--abandoned-age", f.abandonedAge, job.MinLeaseMs, job.MaxLeaseMs),
		checkDuration("--retention", f.retention, 0, job.MaxDelayMs),
		checkDuration("--drain", f.drain, 0, job.MaxDelayMs),
		checkDurationOrZero("--queue-idle", f.queueIdle, job.MinQueueIdleMs, job.MaxDelayMs),
	} {
		if err != nil {
			return o, usageError{err}
		}
	}
	if f.mdns != mdnsAuto && f.mdns != mdnsOn && f.mdns != mdnsOff {
		return o, usageError{fmt.Errorf("--mdns %q is none of auto, on, off", f.mdns)}
	}
	if o.Defaults.RetentionMs == 0 {
		o.Defaults.RetentionMs = -1
	}
	return o, nil
}

func newLogger(level, format string, w io.Writer) (zerolog.Logger, error) {
	parsed, err := zerolog.ParseLevel(level)
	if err != nil || level == "" {
		return zerolog.Logger{}, usageError{fmt.Errorf("--log-level %q is none of trace, debug, info, warn, error", level)}
	}
	switch format {
	case "json":
	case "console":
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.RFC3339, NoColor: !isTerminal(w) || os.Getenv("NO_COLOR") != ""}
	default:
		return zerolog.Logger{}, usageError{fmt.Errorf("--log-format %q is neither json nor console", format)}
	}
	return zerolog.New(w).Level(parsed).With().Timestamp().Logger(), nil
}

func serve(cmd *cobra.Command, f *serveFlags) (err error) {
	options, err := f.options()
	if err != nil {
		return err
	}
	log, err := newLogger(f.logLevel, f.logFormat, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	options.Log = log

	ctx, stop := untilSignal(cmd.Context(), log)
	defer stop()
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	if f.allowQuit {
		options.Quit = quit
	}
	for _, name := range unknownVariables(os.Environ()) {
		log.Warn().Msg(unknownVariable(name))
	}
	if err := f.checkData(cmd); err != nil {
		return err
	}

	files, err := openFiles()
	if err != nil {
		return err
	}
	options.MaxConnections = files.connections

	address, exposed, err := checkListen(f.listen, f.insecure)
	if err != nil {
		return err
	}
	l, err := net.ListenTCP(networkOf(address), address)
	if err != nil {
		return fmt.Errorf("%w: %w", errListen, err)
	}
	if exposed {
		log.Warn().Str("address", l.Addr().String()).Msg("--insecure: other machines can connect and there is no access control; whoever connects can read, change and delete every job")
	}
	defer l.Close() // once more than needed, which does no harm
	engine, err := ingest.Open(ingest.Options{
		Dir: f.data, JournalRetain: int64(f.journalRetain), QueueIdle: time.Duration(f.queueIdle), AllowClockAhead: f.clockAhead, StoreFiles: files.store,
		Logger: slog.New(zerolog.NewSlogHandler(log)),
		Fatal: func(reason string) {
			log.WithLevel(zerolog.FatalLevel).Str("reason", reason).Msg("the store cannot go on")
			os.Exit(exitError) // not exitFile: what failed is Pebble's, and the reason is in the log
		},
	})
	if err != nil {
		return err
	}
	// From here on the engine is only given back by its Run.
	engineCtx, stopEngine := context.WithCancel(context.WithoutCancel(ctx))
	var engineErr error
	engineEnded := make(chan struct{})
	go func() {
		engineErr = engine.Run(engineCtx)
		close(engineEnded)
	}()
	endEngine := func() error {
		stopEngine()
		<-engineEnded
		return engineErr
	}
	defer func() { err = errors.Join(err, endEngine()) }()

	options.Engine, options.Queries = engine, engine.Queries()
	server, err := api.New(options)
	if err != nil {
		return usageError{err}
	}
	if f.pprof != "" {
		profiles, err := serveProfiles(f.pprof)
		if err != nil {
			return err
		}
		defer profiles.Close()
	}
	quiet, err := f.announceOnNetwork(l.Addr().(*net.TCPAddr), engine.Stats().Journal.UUID, exposed, log)
	if err != nil {
		return err
	}
	defer quiet()
	removeAddress, err := announce(cmd.OutOrStdout(), f.data, l.Addr())
	if err != nil {
		return err
	}
	log.Info().Str("address", l.Addr().String()).Str("data", f.data).Str("version", version).
		Uint64("open_files", files.limit).Int("max_connections", files.connections).Msg("listening")

	// An engine that ends by itself takes the server with it: without it every answer would be a refusal.
	serving, stopServing := context.WithCancel(ctx)
	defer stopServing()
	go func() {
		<-engineEnded
		stopServing()
	}()
	if err := server.Run(serving, l, time.Duration(f.drain)); err != nil {
		return err
	}
	if endEngine() != nil {
		return nil // the deferred call has the error
	}
	if err := removeAddress(); err != nil {
		return err
	}
	log.Info().Msg("stopped")
	return nil
}

// untilSignal is done at the first SIGTERM or SIGINT. The second ends the process: whoever asks twice does not want to wait.
func untilSignal(ctx context.Context, log zerolog.Logger) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		first, ok := <-signals
		if !ok {
			return
		}
		log.Info().Stringer("signal", first).Msg("stopping")
		cancel()
		if second, ok := <-signals; ok {
			log.Warn().Stringer("signal", second).Msg("ended at once")
			code := exitError
			if number, ok := second.(syscall.Signal); ok {
				code = exitSignal + int(number)
			}
			os.Exit(code)
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		cancel()
	}
}

// announce reports where the server listens: on out, and in the file "address" of the data directory, for those who chose port 0. The file is deleted at a
// clean stop; after a kill it stays and names a port that nobody answers on.
func announce(out io.Writer, data string, addr net.Addr) (remove func() error, err error) {
	path := filepath.Join(data, "address")
	fresh := path + ".new"
	if err := os.WriteFile(fresh, []byte(addr.String()+"\n"), 0o644); err != nil {
		return nil, fmt.Errorf("write address: %w", err)
	}
	if err := os.Rename(fresh, path); err != nil { // readers see all of it or the old one
		return nil, fmt.Errorf("write address: %w", err)
	}
	if _, err := fmt.Fprintf(out, "listening on http://%s\n", addr); err != nil {
		return nil, fmt.Errorf("print address: %w", err)
	}
	return func() error {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove address: %w", err)
		}
		return nil
	}, nil
}

// checkProfiles refuses an address for profiles that other machines can reach.
func checkProfiles(address string) error {
	if at, err := netip.ParseAddrPort(address); address != "" && (err != nil || !at.Addr().IsLoopback()) {
		return usageError{fmt.Errorf("--pprof %q is not a loopback address with a port, like 127.0.0.1:6060", address)}
	}
	return nil
}

// serveProfiles serves net/http/pprof on a loopback address of its own: profiles tell what is in memory.
func serveProfiles(address string) (*http.Server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w for profiles: %w", errListen, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go server.Serve(l) // ends with Close
	return server, nil
}
