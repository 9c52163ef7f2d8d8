package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
)

// sayWaiting is how often a command prints why it waits for the server.
const sayWaiting = 5 * time.Second

// newClient returns a client that repeats requests for this long, or 0 for its default. It prints on standard error why a
// request is repeated.
func newClient(cmd *cobra.Command, server *config.ServerAddress, url string, retryFor time.Duration) (*client.Client, error) {
	return server.Client(url, client.Options{RetryFor: retryFor, By: changer(cmd), Logger: slog.New(&waits{to: cmd.ErrOrStderr(), now: time.Now})})
}

// waits is the log of a client. It prints the causes of repeated requests, but not for short interruptions.
type waits struct {
	to  io.Writer
	now func() time.Time

	mu   sync.Mutex // guards said
	said time.Time  // the time of the last line; at first, it makes the first line due after a second
}

// Enabled implements slog.Handler.
func (*waits) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (w *waits) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" {
			w.say(a.Value.String())
		}
		return true
	})
	return nil
}

func (w *waits) say(why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	if w.said.IsZero() {
		w.said = now.Add(time.Second - sayWaiting) // so that the first line appears after a second
	}
	if now.Sub(w.said) < sayWaiting {
		return
	}
	w.said = now
	fmt.Fprintf(w.to, "daybook: waiting for the server: %s\n", why)
}

// WithAttrs implements slog.Handler.
func (w *waits) WithAttrs([]slog.Attr) slog.Handler { return w }

// WithGroup implements slog.Handler.
func (w *waits) WithGroup(string) slog.Handler { return w }

// ForKey calls send. If the server refuses it because the key is for other clients or runners, and fill, which gets what the key is
// for, has set a value that was not given, ForKey calls send again. So only such a key costs more requests.
func (r *Command) ForKey(cmd *cobra.Command, send func() error, fill func(client.Key) bool) error {
	err := send()
	if refused, ok := errors.AsType[*client.Error](err); !ok || refused.Code != "out_of_scope" {
		return err
	}
	if k, asked := r.Client.Whoami(cmd.Context()); asked != nil || !fill(k) {
		return err
	}
	return send()
}
