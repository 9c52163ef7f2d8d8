package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/opsqueue"
	"github.com/daybookq/daybook/registry"
)

func newOpsqueueServe() *cobra.Command {
	return &cobra.Command{
		Use:   "opsqueue-serve",
		Short: "Run the server in place of that of Opsqueue",
		Long: `Run a server for clients of Opsqueue, with the flags and environment variables of its own server, so that
a script which starts that one can start this one: docs/how-to/from-opsqueue.md lists them. There is no --help.

The data is in the directory that --database-filename names. With a name for a database in memory, such as
:memory:, it is in a temporary directory that is removed at the end. Like the original, the server listens
on all addresses of IPv4, without access control. To choose the address, and for Daybook's own API beside
the protocol, use ` + "`daybook serve --opsqueue`" + `.`,
		Example:            `  daybook opsqueue-serve --port 3999 --database-filename /var/lib/opsqueue`,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			flags, err := opsqueue.ParseFlags(args)
			if errors.Is(err, opsqueue.ErrVersion) {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "opsqueue "+opsqueue.Version)
				return err
			}
			if err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "error: %v\n", err)
				return silentExit(opsqueue.ExitUsage)
			}
			if err := opsqueueServe(cmd, &flags); err != nil {
				return opsqueueError{err}
			}
			return nil
		},
	}
}

// opsqueueError is an error of opsqueue-serve, whose flags have other names than those of serve.
type opsqueueError struct{ error }

func (e opsqueueError) Unwrap() error { return e.error }

// hintForOpsqueue returns the next step after an error of opsqueue-serve, or "".
func hintForOpsqueue(e opsqueueError) string {
	switch exitCode(e) {
	case exitDataInUse:
		return "Stop the process that uses it, or name another directory with --database-filename. The lock is on the directory itself: there is no lock file to remove."
	case exitListen:
		return "Stop the process that listens there, or choose another port with --port (0 means any free port)."
	}
	return hintFor(nil, e.error)
}

// opsqueueServe runs the server until a signal ends it. As in the original, it is gone within a second then.
func opsqueueServe(cmd *cobra.Command, f *opsqueue.Flags) (err error) {
	pipe, err := opsqueue.NewPortPipe(f.ReportBoundPortPipe)
	if err != nil {
		return err
	}
	defer pipe.Close() // it is closed already if the port was reported
	environment := opsqueue.ReadEnvironment(os.LookupEnv)
	s := &serverRun{serveFlags: &serveFlags{}, log: opsqueueLogger(cmd, environment)}
	for _, warning := range environment.Warnings {
		s.log.Warn().Msg(warning)
	}
	ctx, stop := untilSignal(cmd.Context(), s.log)
	defer stop()

	removeData, err := s.openOpsqueueData(f.DatabaseFilename)
	if err != nil {
		return err
	}
	defer removeData()
	if err := s.useMachine(); err != nil {
		return err
	}
	sampleTraces(environment.TraceSampleRate)
	s.traceFlush = opsqueueTraces
	endTraces, err := s.startTraces(ctx)
	if err != nil {
		return err
	}
	defer endTraces()
	engine, err := s.openEngine(ctx)
	if err != nil {
		return err
	}
	// As in the original, clients cannot connect before the server is ready. They then try again.
	if !untilReady(ctx, engine) {
		return s.endEngineSoon(engine)
	}
	listener, err := listenForOpsqueue(ctx, f.Port)
	if err != nil {
		return errors.Join(err, s.endEngineSoon(engine))
	}
	config := opsqueue.ConfigOf(*f, environment, slog.New(zerolog.NewSlogHandler(s.log)))
	config.MaxConnections = min(s.files.connections, opsqueue.DefaultMaxConnections)
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	end := s.serveOpsqueue(engine, listener, config, opsqueueDrain, quit)
	port := listener.Addr().(*net.TCPAddr).Port
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "daybook %s serves the protocol of Opsqueue v%s on port %d\n", version, opsqueue.Version, port); err != nil {
		s.log.Warn().Err(err).Msg("nobody reads the output")
	}
	if err := pipe.Report(uint16(port)); err != nil {
		s.log.Warn().Err(err).Msg("nobody reads the port")
	}
	<-engine.whileRunning(ctx).Done()
	end()
	return s.endEngineSoon(engine)
}

// listenForOpsqueue listens on a port of all addresses of IPv4. As in the original, an earlier process may take a moment to
// leave the port.
func listenForOpsqueue(ctx context.Context, port uint16) (*net.TCPListener, error) {
	const tries, pause = 10, 200 * time.Millisecond
	for try := 1; ; try++ {
		listener, err := net.ListenTCP("tcp4", &net.TCPAddr{Port: int(port)})
		if err == nil {
			return listener, nil
		}
		if try == tries || !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("%w: %w", errListen, err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", errListen, err)
		}
	}
}

// The server is gone within a second after a signal.
const (
	// opsqueueDrain is how long requests that are under way may take.
	opsqueueDrain = 300 * time.Millisecond
	// opsqueueTraces is how long the export of the last spans may take.
	opsqueueTraces = 150 * time.Millisecond
)

// engineEnd is how long the engine may take to stop. What was acknowledged is on disk in any case, and the next start
// applies it.
const engineEnd = 400 * time.Millisecond

// endEngineSoon stops the engine, or leaves it if that takes long.
func (s *serverRun) endEngineSoon(engine *runningEngine) error {
	engine.stop()
	select {
	case <-engine.ended:
		return engine.err
	case <-time.After(engineEnd):
		s.leaving.Store(true)
		s.log.Info().Msg("stopped before the store was closed; the next start goes on from the journal")
		return nil
	}
}

// useMachine sets what serve has flags for, and divides the files and the memory of the process.
func (s *serverRun) useMachine() (err error) {
	s.queueIdle = job.DefaultQueueIdleMs * durationFlag(time.Millisecond)
	s.runnerHeartbeat = durationFlag(registry.DefaultHeartbeat)
	if s.files, err = openFiles(); err != nil {
		return err
	}
	if err := limitMemory(memlimit.FromCgroup, s.log); err != nil {
		s.log.Warn().Err(err).Msg("the memory of this process has no soft limit; set GOMEMLIMIT if it runs in a container")
	}
	delayCollections(memoryLimit())
	return nil
}

// opsqueueLogger returns a logger with the level of RUST_LOG.
func opsqueueLogger(cmd *cobra.Command, e opsqueue.Environment) zerolog.Logger {
	level := zerolog.Disabled
	switch l := e.LogLevel; {
	case l <= opsqueue.LevelTrace:
		level = zerolog.TraceLevel
	case l <= slog.LevelDebug:
		level = zerolog.DebugLevel
	case l <= slog.LevelInfo:
		level = zerolog.InfoLevel
	case l <= slog.LevelWarn:
		level = zerolog.WarnLevel
	case l <= slog.LevelError:
		level = zerolog.ErrorLevel
	}
	to := cmd.ErrOrStderr()
	if isTerminal(to) {
		to = consoleLog(to, hasColours(to))
	}
	return zerolog.New(to).Level(level).With().Timestamp().Logger()
}

// sampleTraces sets the variables of OpenTelemetry that the original's variable stands for, unless they are set.
func sampleTraces(rate float64) {
	const sampler, argument = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
	if _, set := os.LookupEnv(sampler); !set && rate < 1 {
		_ = os.Setenv(sampler, "parentbased_traceidratio") // it fails for names that are not valid only
		_ = os.Setenv(argument, strconv.FormatFloat(rate, 'g', -1, 64))
	}
}

// temporaryData begins the names of temporary data directories.
const temporaryData = "daybook-opsqueue-"

// openOpsqueueData sets the data directory that stands for a database file. remove removes one that is temporary.
func (s *serverRun) openOpsqueueData(name string) (remove func(), err error) {
	path, inMemory := opsqueueData(name)
	if !inMemory {
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return nil, fmt.Errorf("--database-filename %s is a file, perhaps a database of Opsqueue itself; daybook keeps its data in a directory, and cannot read that file: name another path", path)
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("--database-filename: %w", err)
		}
		s.data = path
		return func() {}, nil
	}
	removeAbandoned(os.TempDir())
	if s.data, err = os.MkdirTemp("", temporaryData+"*"); err != nil {
		return nil, fmt.Errorf("make a temporary data directory: %w", err)
	}
	return func() {
		if err := os.RemoveAll(s.data); err != nil {
			s.log.Warn().Err(err).Msg("the temporary data directory cannot be removed")
		}
	}, nil
}

// opsqueueData returns the path that the name of a database means, or that it is one in memory. A name may be a URI of
// SQLite, such as `file:name?mode=memory`.
func opsqueueData(name string) (path string, inMemory bool) {
	path = name
	if rest, isURI := strings.CutPrefix(name, "file:"); isURI {
		rest, _, _ = strings.Cut(rest, "#")
		var query string
		path, query, _ = strings.Cut(rest, "?")
		if unescaped, err := url.PathUnescape(path); err == nil {
			path = unescaped
		}
		if after, ok := strings.CutPrefix(path, "//"); ok { // an authority, which is empty or localhost
			_, after, _ = strings.Cut(after, "/")
			path = "/" + after
		}
		for parameter := range strings.SplitSeq(query, "&") {
			if parameter == "mode=memory" {
				return "", true
			}
		}
	}
	return path, path == "" || path == ":memory:"
}

// removeAbandoned removes temporary data directories of servers that were killed. A running server has locked its
// directory. One that starts at this moment may not have yet, so young directories stay.
func removeAbandoned(dir string) {
	const young = time.Minute
	found, err := filepath.Glob(filepath.Join(dir, temporaryData+"*"))
	if err != nil {
		return
	}
	for _, path := range found {
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < young {
			continue
		}
		if lock, err := ingest.Lock(path); err == nil {
			_ = os.RemoveAll(path) // another user may own it
			_ = lock.Close()
		}
	}
}

// silentExit is an error that is printed already, with the exit code.
type silentExit int

func (e silentExit) Error() string { return "exit code " + strconv.Itoa(int(e)) }
