package serve

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/daybookq/daybook/api"
	"github.com/daybookq/daybook/api/oidc"
	"github.com/daybookq/daybook/cmd/daybook/internal/issuers"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

// loginFlags say which tokens the server accepts besides keys, and from which pages.
type loginFlags struct {
	oidcFile string
	origins  []string
}

func (f *loginFlags) define(flags *pflag.FlagSet) {
	flags.StringVar(&f.oidcFile, "oidc-file", "", "file with the issuers of OpenID Connect whose tokens count as keys, and with the roles of their claims; it is read again at SIGHUP. With it, each request needs a key or a token (default: no tokens)")
	flags.StringSliceVar(&f.origins, "allow-origin", nil, "origins of other sites whose pages may use the server with keys, such as https://board.example; cookies of their requests are ignored")
}

// check refuses a file that cannot be used, and malformed origins.
func (f *loginFlags) check() error {
	if err := api.CheckOrigins(f.origins); err != nil {
		return terminal.Usage(err)
	}
	if f.oidcFile == "" {
		return nil
	}
	if _, err := issuers.Read(f.oidcFile); err != nil {
		return terminal.Usage(err)
	}
	return nil
}

// startIssuers reads the issuers, if there are any, and their keys in the background. It reads the file again at each SIGHUP, until
// end is called. A file that cannot be used changes nothing.
func (s *serverRun) startIssuers(ctx context.Context) (end func(), err error) {
	if s.oidcFile == "" {
		return func() {}, nil
	}
	list, err := issuers.Read(s.oidcFile)
	if err != nil {
		return nil, terminal.Usage(err)
	}
	if s.options.Issuers, err = oidc.New(list, slog.New(zerolog.NewSlogHandler(s.log)), nil); err != nil {
		return nil, terminal.Usagef("--oidc-file: %w", err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx)) // outstanding requests may need keys until the end
	var running sync.WaitGroup
	running.Go(func() { s.options.Issuers.Run(ctx) })
	hangUps := make(chan os.Signal, 1)
	signal.Notify(hangUps, syscall.SIGHUP)
	running.Go(func() {
		defer signal.Stop(hangUps)
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangUps:
				s.readIssuersAgain()
			}
		}
	})
	return func() {
		stop()
		running.Wait()
	}, nil
}

func (s *serverRun) readIssuersAgain() {
	list, err := issuers.Read(s.oidcFile)
	if err == nil {
		err = s.options.Issuers.Replace(list)
	}
	if err != nil {
		s.log.Error().Err(err).Msg("the new file of issuers cannot be used; the old one remains in use")
		return
	}
	s.log.Info().Str("file", s.oidcFile).Int("issuers", len(list)).Msg("the file of issuers is in use")
}
