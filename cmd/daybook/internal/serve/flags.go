package serve

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/spf13/pflag"

	"github.com/daybookq/daybook/api"
	"github.com/daybookq/daybook/cluster"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/ingest/registry"
	"github.com/daybookq/daybook/ingest/registry/onlost"
	"github.com/daybookq/daybook/job"
)

// Flags are the settings of the server.
type Flags struct {
	networkFlags
	storageFlags
	blobFlags
	jobFlags
	requestFlags
	runnerFlags
	traceFlags
	metricsFlags
	opsqueueFlags
	clusterFlags
	tlsFlags
	accessFlags
	loginFlags

	logLevel  string
	logFormat string

	build    api.Version
	dataFlag *pflag.Flag
}

// networkFlags define where the server listens, and how it can be found.
type networkFlags struct {
	listen   string
	insecure bool
	hosts    []string
	mdns     string
	mdnsOn   []string
	pprof    string
}

// storageFlags define where the data is, and how long it is kept.
type storageFlags struct {
	data          string
	init          bool
	journalRetain config.BytesFlag
	history       config.BytesFlag
	historyAge    config.DurationFlag
	queueIdle     config.DurationFlag
	clockAhead    bool
}

// jobFlags are the defaults for jobs that are created without these attributes.
type jobFlags struct {
	abandonedAge config.DurationFlag
	maxAttempts  int
	retention    config.DurationFlag
}

// requestFlags define which requests are allowed, and how long they may take when the server stops.
type requestFlags struct {
	drain        config.DurationFlag
	allowQuit    bool
	allowGet     bool
	requireClaim bool
	heartbeat    config.DurationFlag
}

// runnerFlags define when a runner is lost, and the command or URL for it.
type runnerFlags struct {
	runnerHeartbeat config.DurationFlag
	onLost          string
}

// traceFlags define where the server exports spans of runs.
type traceFlags struct {
	otlp string
}

// metricsFlags define how detailed the metrics are.
type metricsFlags struct {
	metricsQueues int
}

const (
	// A collection reads the whole store.
	defaultBlobsCollect = 6 * time.Hour
	minBlobsCollectMs   = 60_000

	// Each stream has its own pings: ten thousand streams with the shortest heartbeat send a hundred thousand a second.
	minHeartbeatMs = 100
	maxHeartbeatMs = 10 * 60_000
)

// NewFlags returns the defaults. build is the version of the program.
func NewFlags(build api.Version) *Flags {
	f := &Flags{build: build}
	f.abandonedAge = job.DefaultLeaseMs * config.DurationFlag(time.Millisecond)
	f.retention = job.DefaultRetentionMs * config.DurationFlag(time.Millisecond)
	f.queueIdle = job.DefaultQueueIdleMs * config.DurationFlag(time.Millisecond)
	f.historyAge = job.DefaultHistoryMs * config.DurationFlag(time.Millisecond)
	f.drain = config.DurationFlag(10 * time.Second)
	f.heartbeat = config.DurationFlag(5 * time.Second)
	f.blobsCollect = config.DurationFlag(defaultBlobsCollect)
	f.runnerHeartbeat = config.DurationFlag(registry.DefaultHeartbeat)
	return f
}

// Define defines the flags.
func (f *Flags) Define(flags *pflag.FlagSet) {
	flags.StringVar(&f.listen, "listen", config.DefaultListen, "address to listen on; port 0 means any free port")
	flags.StringVar(&f.data, "data", config.DefaultData, "data directory")
	flags.BoolVar(&f.init, "init", false, "create an empty queue in the directory of --data if it has no journal")
	flags.BoolVar(&f.insecure, "insecure", false, "allow --listen with an address that other machines can connect to without TLS, and without a key. Keys that exist are required all the same")
	flags.StringSliceVar(&f.hosts, "allow-host", nil, "names that requests may have as their Host; *.example.com allows all names that end in .example.com, * allows every name")
	flags.Var(&f.abandonedAge, "abandoned-age", "default for new jobs: how long a runner may hold a job without a tickle before it is handed out again")
	flags.IntVar(&f.maxAttempts, "max-attempts", job.DefaultMaxAttempts, "default for new jobs: how many times a job may run")
	flags.Var(&f.retention, "retention", "default for new jobs: how long a job is kept after it has ended; 0 means not at all")
	flags.Var(&f.queueIdle, "queue-idle", "how long a queue without jobs is kept if it is not paused, at least a minute; 0 means for ever")
	flags.Var(&f.journalRetain, "journal-retain", "bytes of journal to keep that the store no longer needs, for rebuilds and audits")
	flags.Var(&f.history, "history", "bytes of the history of jobs to keep, at least 1M; the oldest part is deleted first. 0 means a twentieth of the disk, but at most 4G")
	flags.Var(&f.historyAge, "history-age", "how long the history of jobs is kept, at least a minute, if --history suffices")
	flags.StringVar(&f.blobs, "blobs", "", "directory of the blobs, or a bucket: s3://BUCKET/PREFIX?endpoint=https://HOST&region=REGION, or none to keep no blobs (default: blobs in the data directory)")
	flags.Var(&f.blobQuota, "blob-quota", "bytes that all blobs together may have; 0 means as many as the disk holds")
	flags.Var(&f.clientQuota, "blob-client-quota", "bytes that the blobs of each client may have; 0 means as many as --blob-quota")
	flags.Var(&f.blobsCollect, "blobs-collect", "time between two collections, which remove blobs that nothing names and that were stored more than a day ago; 0 means never")
	flags.StringVar(&f.logLevel, "log-level", "info", "least severe messages to log: trace, debug, info, warn or error; successful requests of frequent kinds are logged at debug")
	flags.StringVar(&f.logFormat, "log-format", terminal.LogAuto, terminal.LogFormatHelp)
	flags.BoolVar(&f.clockAhead, "allow-clock-ahead", false, "start even if the last time in the journal is more than a day ahead of the wall clock")
	flags.StringVar(&f.mdns, "mdns", "auto", "announce the server on the local network: on, off, or auto, which means if other machines can connect to it")
	flags.StringSliceVar(&f.mdnsOn, "mdns-interface", nil, "network interfaces to announce the server on (default: all that can multicast)")
	flags.StringVar(&f.pprof, "pprof", "", "loopback address for profiles by net/http/pprof (default: no profiles)")
	flags.Var(&f.drain, "drain", "how long requests under way may take when the server stops")
	flags.Var(&f.heartbeat, "stream-heartbeat", "time between two pings of a stream; a stream ends after three pings without an answer")
	flags.Var(&f.runnerHeartbeat, "runner-heartbeat", "time between two heartbeats of a runner, from 1s to 1h; a runner that misses three is lost")
	flags.StringVar(&f.onLost, "on-lost", "", "command, or URL, for each runner that is lost (default: none)")
	flags.StringVar(&f.otlp, "otlp", "", "URL of a collector of OpenTelemetry, such as http://127.0.0.1:4318, that gets a span for each run of a job (default: the variables OTEL_EXPORTER_OTLP_*ENDPOINT, or none)")
	flags.IntVar(&f.metricsQueues, "metrics-queues", job.DefaultMetricsQueues, "how many queues have metrics of their own, at most 1000; 0 means that there are no metrics of queues")
	f.opsqueueFlags.define(flags)
	f.clusterFlags.define(flags)
	f.tlsFlags.define(flags)
	f.accessFlags.define(flags)
	f.loginFlags.define(flags)
	flags.BoolVar(&f.requireClaim, "require-claim-id", false, "refuse tickles, completions and releases that do not name their claim")
	flags.BoolVar(&f.allowQuit, "allow-quit", false, "stop on POST /quit, if the request comes from this machine and not through a proxy")
	flags.BoolVar(&f.allowGet, "allow-get-switches", false, "let GET /start, GET /stop and GET /quit do what POST does, as in miniq; unsafe, since any web page can send a GET")
	f.dataFlag = flags.Lookup("data")
}

// ErrListen means that the server cannot listen on its address.
var ErrListen = errors.New("cannot listen")

// checkData refuses a directory of --data without a journal and without a node. The default directory is created, and a node
// that joins a cluster begins with an empty one.
func (f *Flags) checkData() error {
	if f.init || !f.dataFlag.Changed || f.join != "" {
		return nil
	}
	there, err := ingest.HasJournal(f.data)
	if err == nil && !there {
		var node *cluster.Identity
		node, err = cluster.ReadIdentity(cluster.DirOf(f.data))
		there = node != nil
	}
	if err == nil && !there {
		err = fmt.Errorf("%w; if its disk is not mounted, mount it; to create an empty queue in it, give --init", ingest.ErrNoJournal)
	}
	if err != nil {
		return fmt.Errorf("data directory %s: %w", f.data, err)
	}
	return nil
}

// Check refuses invalid settings before the server creates anything and before it listens.
func (f *Flags) Check() error {
	if _, err := f.options(); err != nil {
		return err
	}
	if _, err := terminal.NewLogger(f.logLevel, f.logFormat, io.Discard); err != nil {
		return err
	}
	address, err := f.listenAddress()
	if err != nil {
		return err
	}
	if err := f.checkBlobs(); err != nil {
		return err
	}
	if err := f.clusterFlags.check(); err != nil {
		return err
	}
	if err := f.tlsFlags.check(); err != nil {
		return err
	}
	if err := f.accessFlags.check(); err != nil {
		return err
	}
	if err := f.loginFlags.check(); err != nil {
		return err
	}
	if f.node != "" && f.blobs != "none" {
		return terminal.Usagef("a node of a cluster needs --blobs none: blobs are not replicated yet")
	}
	if _, err := f.traceSettings(); err != nil {
		return err
	}
	if _, err := f.opsqueueAddress(); err != nil {
		return err
	}
	if f.mdns == mdnsOn && f.node != "" {
		return terminal.Usagef("a node of a cluster is not announced by mDNS")
	}
	if f.mdns == mdnsOn && !config.IsExposed(address) {
		return terminal.Usagef("--mdns on cannot announce the server: it listens on %s, where no other machine can connect; give another --listen, or --mdns auto", address)
	}
	return checkProfiles(f.pprof)
}

// listenAddress returns the address of --listen. Other machines may be able to connect to it only over TLS, unless --insecure is given.
func (f *Flags) listenAddress() (*net.TCPAddr, error) {
	address, err := config.ListenAddress(f.listen, true)
	if err == nil && f.exposed(address) && !f.speaksTLS() {
		err = terminal.Usagef("--listen %s is not a loopback address: other machines could connect without TLS, and everybody on the way could read and use the keys; "+
			"next step: give --tls-cert and --tls-key (for a trial, daybook tls self-signed makes them), listen on 127.0.0.1, or give --insecure if the network itself is safe", f.listen)
	}
	return address, err
}

// exposed reports whether the server must have TLS and a key, because other machines can connect to the address.
func (f *Flags) exposed(address *net.TCPAddr) bool { return config.IsExposed(address) && !f.insecure }

// options checks the flags, and returns the options of the API.
func (f *Flags) options() (api.Options, error) {
	o := api.Options{
		Hosts: f.hosts, Origins: f.origins, RequireClaimID: f.requireClaim, GetSwitches: f.allowGet,
		Build: f.build, StreamHeartbeat: time.Duration(f.heartbeat),
		Defaults: api.Defaults{
			MaxAttempts: f.maxAttempts, LeaseMs: f.abandonedAge.Ms(), RetentionMs: f.retention.Ms(),
		},
	}
	for _, err := range []error{
		job.CheckRange("--max-attempts", int64(f.maxAttempts), 1, job.MaxAttempts),
		job.CheckRange("--metrics-queues", int64(f.metricsQueues), 0, job.MaxMetricsQueues),
		config.CheckDuration("--abandoned-age", f.abandonedAge, job.MinLeaseMs, job.MaxLeaseMs),
		config.CheckDuration("--retention", f.retention, 0, job.MaxDelayMs),
		config.CheckDuration("--drain", f.drain, 0, job.MaxDelayMs),
		config.CheckDuration("--stream-heartbeat", f.heartbeat, minHeartbeatMs, maxHeartbeatMs),
		config.CheckDuration("--runner-heartbeat", f.runnerHeartbeat, registry.MinHeartbeat.Milliseconds(), registry.MaxHeartbeat.Milliseconds()),
		config.CheckDurationOrZero("--blobs-collect", f.blobsCollect, minBlobsCollectMs, job.MaxDelayMs),
		config.CheckDuration("--history-age", f.historyAge, job.MinHistoryMs, job.MaxDelayMs),
		job.CheckRange("--history", cmp.Or(int64(f.history), job.MinHistoryBytes), job.MinHistoryBytes, job.MaxHistoryBytes), // 0: of the disk
		config.CheckDurationOrZero("--queue-idle", f.queueIdle, job.MinQueueIdleMs, job.MaxDelayMs),
	} {
		if err != nil {
			return o, terminal.Usage(err)
		}
	}
	if f.onLost != "" {
		if _, err := onlost.New(f.onLost, slog.New(slog.DiscardHandler)); err != nil {
			return o, terminal.Usagef("--on-lost: %w", err)
		}
	}
	if f.mdns != mdnsAuto && f.mdns != mdnsOn && f.mdns != mdnsOff {
		return o, terminal.Usagef("--mdns %q is not one of auto, on, off", f.mdns)
	}
	if o.Defaults.RetentionMs == 0 {
		o.Defaults.RetentionMs = -1
	}
	return o, nil
}
