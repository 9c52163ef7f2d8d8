package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/memory"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/cmd/daybook/internal/work"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner"
	"github.com/daybookq/daybook/runner/sandbox"
	"github.com/daybookq/daybook/runner/script"
	"github.com/daybookq/daybook/runner/webhook"
)

type workFlags struct {
	server                            config.ServerAddress
	listen                            string // for the metrics
	insecure                          bool
	containers                        work.ContainerFlags
	strategy                          config.StrategyFlag
	sandbox, id                       string
	logLevel, logFormat               string
	accept, types, clients, httpAllow []string
	wasiGrant                         []string
	wasiExtensions, cache             string
	concurrency                       int
	takeover                          bool
	labels                            map[string]string
	untilIdle, drain                  config.DurationFlag
}

func newWork() *cobra.Command {
	f := workFlags{drain: config.DurationFlag(30 * time.Second)}
	cmd := &cobra.Command{
		Use:   "work",
		Short: "Run jobs: claim them, run the handlers of their types, report the outcomes",
		Long: `Run jobs. A runner claims the jobs that it has handlers for, runs them, tickles them while they run, and
reports how they ended. It goes on while the server restarts. SIGTERM, Ctrl-C or a terminal that is closed
ends it: it claims no more, waits up to --drain for the jobs that run, and reports them. Jobs that run longer go back to their queues, which
costs them no attempt. A signal half a second or more after the first ends it at once. If the server refuses its
key, because it was revoked or lacks a role, the runner ends with exit code 9; a key in a file may be replaced
before. With a key for some clients and types, the runner runs only jobs of these.

Handlers are in the file of --config, or stored in the server (PUT /handlers/{type}). Those of the file may
be of any kind: exec (a program), http (a request to a URL), script (node, python, php or sh), wasi (a module of
WebAssembly) or container (of Docker or Podman, as the job says). Of stored ones the runner runs only the kinds
in --accept, because whoever may store a handler chooses what it does. A stored handler of kind exec names a
handler of the file. Containers run only images of --images.

Without --accept and handlers in a file, the runner accepts wasi: guests can only compute. They have no files
and no network, unless --wasi-grant gives permissions to the handlers that require them. With wasi accepted,
jobs that name their own binary (binary_addr) need no handler; their type is default, or one of --types.

Programs and scripts run in a sandbox: nothing of them is left when they end, and they reach no network
and few files, unless their handler in the file allows it. What this machine cannot do is logged at the
start. With --sandbox=require the runner does not start then. Requests of handlers go to public addresses
only; --http-allow names others. It is needed for handlers of the file, too.`,
		Example: `  daybook work
  daybook work --accept script
  daybook work --config work.toml --until-idle 2s
  daybook work --accept http --http-allow 127.0.0.1:8080 --types resize`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	config.ServerFlag(cmd, &f.server)
	config.EncryptionFlag(cmd, &f.server)
	flags.StringSliceVar(&f.accept, "accept", nil, "kinds of stored handlers to run: exec, http, script, wasi, container (default: wasi if there are no handlers in --config)")
	flags.StringSliceVar(&f.types, "types", nil, "types of jobs to run (default: all that there are handlers for)")
	flags.StringSliceVar(&f.clients, "clients", nil, "clients whose jobs to run (default: all)")
	flags.IntVar(&f.concurrency, "concurrency", 0, "slots: how many runs there are at a time (default: four for each processor)")
	flags.Var(&f.strategy, "strategy", config.StrategyHelp)
	config.OptionalDuration(flags, &f.untilIdle, "until-idle", "end when no job was handed out, and none ran, for that long; not while the server cannot be reached (default: never)")
	flags.Var(&f.drain, "drain", "how long jobs may still run after SIGTERM; later they go back to their queues")
	flags.StringVar(&f.sandbox, "sandbox", string(sandbox.Auto), "auto: the best that this machine can do; require: do not start if anything is missing; off")
	flags.StringSliceVar(&f.httpAllow, "http-allow", nil, "private addresses that handlers of kind http may reach: a host, host:port, an IP address or a range like 10.1.0.0/16")
	f.containers.Add(cmd)
	flags.StringSliceVar(&f.wasiGrant, "wasi-grant", nil, "permissions for handlers of kind wasi that require them: proc:read:*, http:*, http:HOST, extension:*, extension:NAME")
	flags.StringVar(&f.wasiExtensions, "wasi-extensions", "", "directory of modules (*.wasm) that guests with a permission can import (default: none)")
	flags.StringVar(&f.cache, "cache", "", "directory for what the runner can fetch or make again, such as compiled modules (default: daybook in the user's cache)")
	flags.StringVar(&f.listen, "listen", "", "address for /metrics and /healthz, like 127.0.0.1:9717 (default: none)")
	flags.BoolVar(&f.insecure, "insecure", false, "let --listen be an address that other machines can connect to")
	flags.StringVar(&f.logLevel, "log-level", "info", "least severe messages to log: trace, debug, info, warn or error")
	flags.StringVar(&f.logFormat, "log-format", terminal.LogAuto, terminal.LogFormatHelp+"; console on a terminal shows the progress too")
	flags.StringVar(&f.id, "id", "", "id of the runner (default: host name, process id and a random number, after the prefix that the key requires)")
	flags.BoolVar(&f.takeover, "takeover", false, "hold the --id even if another runner does, which then ends")
	flags.StringToStringVar(&f.labels, "label", nil, "labels that the list of runners shows, as name=value")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return runWork(cmd, &f) }
	return cmd
}

func runWork(cmd *cobra.Command, f *workFlags) (err error) {
	file, err := work.ReadFile(cmd)
	if err != nil {
		return err
	}
	settings, err := f.settings(cmd, file)
	if err != nil {
		return err
	}
	level, err := terminal.ParseLevel(f.logLevel)
	if err != nil {
		return err
	}
	isConsole, err := terminal.ForPeople(f.logFormat, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	out := newWorkOutput(cmd.ErrOrStderr(), level, isConsole)
	settings.Log, settings.ScriptOutput = out.log, out.script
	r, err := runner.New(settings)
	if err != nil {
		return terminal.Usage(err)
	}
	for _, text := range r.Missing() {
		settings.Log.Warn("this machine cannot do all: " + text)
	}
	memory.DelayCollections(memory.Limit())
	ctx, stop := terminal.UntilSignal(cmd.Context(), out.zero, terminal.StopSignals()...)
	defer stop()
	if f.listen != "" {
		end, err := f.serveMetrics(r, settings.Log)
		if err != nil {
			return err
		}
		defer end()
	}
	settings.Log.Info("the runner has started", "runner_id", settings.ID, "server", f.server.String(), "slots", settings.Concurrency, "version", version)
	done := out.follow(r)
	err = r.Run(ctx)
	done()
	if err == nil && ctx.Err() == nil {
		work.LogWaiting(ctx, &settings)
	}
	if errors.Is(err, client.ErrRunnerTaken) {
		err = fmt.Errorf("%w; --takeover makes the other process end", err)
	}
	settings.Log.Info("the runner has ended", "jobs", r.Totals().String())
	return err
}

// settings returns the settings of the runner.
func (f *workFlags) settings(cmd *cobra.Command, file *work.File) (s runner.Settings, err error) {
	url, err := f.server.URL(cmd.Context())
	if err != nil {
		return s, err
	}
	for _, kind := range f.accept {
		if !slices.Contains(handler.Kinds, kind) {
			return s, terminal.Usagef("--accept: %q is not one of %s", kind, strings.Join(handler.Kinds, ", "))
		}
	}
	for name, list := range map[string][]string{"--types": f.types, "--clients": f.clients} {
		for _, item := range list {
			if err := job.CheckName(name, item); err != nil {
				return s, terminal.Usage(err)
			}
		}
	}
	if f.concurrency == 0 && !cmd.Flags().Changed("concurrency") {
		f.concurrency = 4 * runtime.GOMAXPROCS(0)
	}
	if f.concurrency < 1 || f.concurrency > handler.MaxSlots {
		return s, terminal.Usagef("--concurrency must be 1 to %d, not %d", handler.MaxSlots, f.concurrency)
	}
	given := f.id != ""
	if given {
		if err := job.CheckName("--id", f.id); err != nil {
			return s, terminal.Usage(err)
		}
	} else {
		host, _ := os.Hostname() // without the host's name, the rest still differs
		f.id = fmt.Sprintf("%s-%d-%s", nameOf(host), os.Getpid(), rand.Text()[:8])
	}
	allow, err := webhook.ParseAllow(f.httpAllow)
	if err != nil {
		return s, terminal.Usagef("--http-allow: %w", err)
	}
	containers, err := f.containers.Settings(file.Containers, f.accept)
	if err != nil {
		return s, err
	}
	guests, err := file.Wasi.Limits()
	if err != nil {
		return s, err
	}
	mode := sandbox.Mode(f.sandbox)
	if !slices.Contains([]sandbox.Mode{sandbox.Auto, sandbox.Require, sandbox.Off}, mode) {
		return s, terminal.Usagef("--sandbox must be %s, %s or %s, not %q", sandbox.Auto, sandbox.Require, sandbox.Off, f.sandbox)
	}
	if len(f.accept) == 0 && len(file.Handlers) == 0 {
		f.accept = []string{handler.WASI}
	}
	for _, permission := range f.wasiGrant {
		if err := handler.CheckPermission(permission); err != nil {
			return s, terminal.Usagef("--wasi-grant: %w", err)
		}
	}
	if err := remote.CheckTLS(cmd, &f.server); err != nil {
		return s, err
	}
	server, err := f.server.Client(url, client.Options{By: remote.ShortenedBy(f.id)})
	if err == nil {
		err = f.fitToKey(cmd.Context(), server, given)
	}
	if err != nil {
		return s, err
	}
	return runner.Settings{
		Client: server, ID: f.id, Takeover: f.takeover, Labels: f.labels, Version: version, Handlers: file.Handlers, Accept: f.accept, Types: f.types, Clients: f.clients, Strategy: client.Strategy(f.strategy),
		Concurrency: f.concurrency, DrainTimeout: time.Duration(f.drain), UntilIdle: time.Duration(f.untilIdle), Sandbox: mode, Allow: allow,
		WASIGrants: f.wasiGrant, WASIExtensions: f.wasiExtensions, WASI: guests, Cache: f.cache,
		Interpreters: file.Interpreters, Containers: containers, UserAgent: "Daybook/" + version,
	}, nil
}

// fitToKey makes the id, the clients and the types that were not given those that the key is for, and refuses given clients and
// types that it is not for: their jobs would never be handed out. Without a key it asks nobody.
func (f *workFlags) fitToKey(ctx context.Context, server *client.Client, idGiven bool) error {
	if key, err := f.server.Key(); err != nil || key == "" {
		return err
	}
	k, err := server.With(func(o *client.Options) { o.Persistent = true }).Whoami(ctx)
	if err != nil {
		return fmt.Errorf("read what the key is for: %w", err)
	}
	if !idGiven {
		f.id = k.RunnerPrefix + f.id
	}
	for _, of := range []struct {
		what    string
		allowed []string
		names   *[]string
	}{{"client", k.Clients, &f.clients}, {"type", k.Types, &f.types}} {
		if len(of.allowed) == 0 {
			continue
		}
		if len(*of.names) == 0 {
			*of.names = of.allowed
		}
		for _, name := range *of.names {
			if !slices.Contains(of.allowed, name) {
				return &client.Error{Status: http.StatusForbidden, Code: "out_of_scope", Outcome: "not_stored",
					Detail: fmt.Sprintf("the key %s is not for the %s %s, but for %s", k.Name, of.what, name, strings.Join(of.allowed, ", "))}
			}
		}
	}
	return nil
}

// nameOf returns the beginning of a host's name in a form that fits into an id.
func nameOf(host string) string {
	name := []byte(host[:min(len(host), 40)])
	for i, c := range name {
		if !job.NameByte(c) {
			name[i] = '-'
		}
	}
	return string(name)
}

// serveMetrics serves the metrics and the health of a runner.
func (f *workFlags) serveMetrics(r *runner.Runner, log *slog.Logger) (end func(), err error) {
	address, err := config.ListenAddress(f.listen, f.insecure)
	if errors.Is(err, config.ErrExposed) {
		return nil, terminal.Usagef("--listen %s is not a loopback address: anybody who connects could read the metrics; listen on 127.0.0.1, or give --insecure", f.listen)
	}
	if err != nil {
		return nil, err
	}
	l, err := net.ListenTCP(config.NetworkOf(address), address)
	if err != nil {
		return nil, err
	}
	s := http.Server{Handler: r.Handler(), ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are served no more", "error", err)
		}
	}()
	log.Info("serving /metrics and /healthz", "address", l.Addr().String())
	return func() {
		_ = s.Close() // it can only abort requests for metrics and health
		<-ended
	}, nil
}

// workOutput is the output of a runner: JSON lines, or lines for people and, on a terminal, one that shows the
// progress.
type workOutput struct {
	zero     zerolog.Logger
	log      *slog.Logger
	progress *terminal.StatusLine
}

func newWorkOutput(errs io.Writer, level zerolog.Level, isConsole bool) *workOutput {
	w := &workOutput{progress: &terminal.StatusLine{}}
	to := errs
	if isConsole {
		if w.progress = terminal.NewStatusLine(errs); w.progress.IsOn() {
			to = w.progress
		}
		to = terminal.ConsoleLog(to, terminal.HasColours(errs))
	}
	w.zero = zerolog.New(to).With().Timestamp().Logger().Level(level)
	w.log = slog.New(zerolog.NewSlogHandler(w.zero))
	return w
}

// script logs a line that a script has printed.
func (w *workOutput) script(l script.Line) {
	w.zero.Info().Str("lang", l.Lang).Str("type", l.Type).Str("client", l.Client).Str("job_id", l.Job).Str("stream", l.Stream).Msg(l.Text)
}

// follow shows the progress of a runner until the returned function is called.
func (w *workOutput) follow(r *runner.Runner) (done func()) {
	if !w.progress.IsOn() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				w.progress.Clear()
				return
			case <-tick.C:
				w.progress.Show(r.Totals().String())
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}
