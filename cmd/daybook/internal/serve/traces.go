package serve

import (
	"context"
	"log/slog"
	"os"
	"sync"

	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/api"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/trace"
)

// traceSettings returns the settings of --otlp and of the variables OTEL_*.
func (f *traceFlags) traceSettings() (trace.Settings, error) {
	settings, err := trace.NewSettings(f.otlp, os.Getenv)
	if err != nil {
		return settings, terminal.Usagef("--otlp: %w", err)
	}
	return settings, nil
}

// startTraces exports the spans of runs until end is called, if the settings require it. end exports the remaining
// spans, for a few seconds at most.
func (s *serverRun) startTraces(ctx context.Context) (end func(), err error) {
	none := func() {}
	settings, err := s.traceSettings()
	if err != nil {
		return none, err
	}
	if settings.Warning != "" {
		s.log.Warn().Msg(settings.Warning)
	}
	if !settings.On {
		return none, nil
	}
	exporter, err := trace.New(trace.Options{Settings: settings, Version: s.build.Version, Logger: slog.New(zerolog.NewSlogHandler(s.log))})
	if err != nil {
		return none, err
	}
	s.ended = exporter.Ended
	s.options.Spans = func() api.SpanCounts { return api.SpanCounts(exporter.Counts()) }
	s.log.Info().Str("endpoint", settings.Endpoint).Msg("exporting traces of runs")
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { exporter.Run(ctx) })
	return func() {
		stop()
		running.Wait()
	}, nil
}
