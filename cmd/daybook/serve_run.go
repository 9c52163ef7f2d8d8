package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/api"
	"github.com/daybookq/daybook/ingest"
)

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

// untilSignal is done at the first SIGTERM or SIGINT. The second ends the process: a second signal means that somebody
// does not want to wait.
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

// announce reports where the server listens: on out, and in the file "address" of the data directory, for those who
// chose port 0. The file is deleted at a clean stop; after a kill it stays and names a port that nobody answers on.
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
