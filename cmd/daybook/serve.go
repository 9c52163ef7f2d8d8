package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/api"
	"github.com/daybookq/daybook/job"
)

// serveFlags are the settings of the server.
type serveFlags struct {
	networkFlags
	storageFlags
	jobFlags
	requestFlags

	logLevel    string
	logFormat   string
	config      string
	printConfig bool
}

// networkFlags are where the server listens, and who finds it.
type networkFlags struct {
	listen   string
	insecure bool
	hosts    []string
	mdns     string
	mdnsOn   []string
	pprof    string
}

// storageFlags are where the data is, and how long it stays.
type storageFlags struct {
	data          string
	init          bool
	journalRetain bytesFlag
	queueIdle     durationFlag
	clockAhead    bool
}

// jobFlags are the attributes of jobs whose creator does not give them.
type jobFlags struct {
	abandonedAge durationFlag
	maxAttempts  int
	retention    durationFlag
}

// requestFlags are which requests are served, and for how long when the server stops.
type requestFlags struct {
	drain        durationFlag
	allowQuit    bool
	allowGet     bool
	requireClaim bool
}

const (
	defaultListen = "127.0.0.1:1717"
	defaultData   = "./daybook-data"
)

func newServe() *cobra.Command {
	var f serveFlags
	f.abandonedAge = job.DefaultLeaseMs * durationFlag(time.Millisecond)
	f.retention = job.DefaultRetentionMs * durationFlag(time.Millisecond)
	f.queueIdle = job.DefaultQueueIdleMs * durationFlag(time.Millisecond)
	f.drain = durationFlag(10 * time.Second)
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Run the server until SIGTERM or SIGINT, which stop it gracefully: requests under way get up to --drain
to end. A second signal ends it at once, as SIGKILL would. What was acknowledged is safe either way.

The server prints the address it listens on as "listening on http://…", and keeps it in the file
"address" in the data directory until a clean stop. It answers before it is ready: while it replays the
journal, /readyz says so.

There is no access control yet, so the server refuses to listen beyond loopback unless --insecure is
given. With it, every start logs a warning.

The default data directory is created when it does not exist. One that --data names must hold a journal
already, unless --init is given: a disk that is not mounted would otherwise start an empty queue.

A server that listens beyond loopback announces itself on the local network by multicast DNS, under its
id, so that ` + "`daybook discover`" + ` and --server mdns: find it. --mdns off keeps it quiet; --mdns on makes it
an error if the server cannot be announced.

A request's Host must be an IP address, localhost, or a name that --allow-host lists: a web page could
make any other name point to this server. For containers and clusters: --allow-host daybook,
--allow-host '*.svc.cluster.local'; --allow-host '*' accepts every name.

Settings may also be in a TOML file, named by --config: max-attempts = 5, allow-host = ["a.example"].
The command line has precedence over the environment, and the environment over the file. --print-config
shows the settings in force and where each comes from.`,
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
	address, err := f.listenAddress()
	if err != nil {
		return err
	}
	if f.mdns == mdnsOn && !isExposed(address) {
		return usageError{fmt.Errorf("--mdns on cannot announce the server: it listens on %s, where no other machine can connect; give another --listen, or --mdns auto", address)}
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
