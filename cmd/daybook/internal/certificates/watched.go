package certificates

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// lookEvery is the time between two looks at the files. A look reads a few kilobytes. It compares the contents, because the
// time of a file says little: tools that renew certificates rename files or directories, or keep times.
const lookEvery = 5 * time.Second

// Watched are files whose new contents are used when they change. If the new ones cannot be used, the old ones remain in use.
type Watched struct {
	files    Files
	settings func(Loaded) *tls.Config
	log      *slog.Logger
	now      atomic.Pointer[current]
	failures atomic.Uint64

	mu     sync.Mutex // guards the fields below
	seen   [sha256.Size]byte
	failed string // the last failure, to log each only once
}

// current are the contents in use, and the settings with them.
type current struct {
	Loaded
	config *tls.Config
}

// Watch reads the files, and fails if they cannot be used. settings makes the settings of TLS with them, once for each new
// contents.
func Watch(files Files, settings func(Loaded) *tls.Config, log *slog.Logger) (*Watched, error) {
	w := &Watched{files: files, settings: settings, log: log}
	text, err := files.read()
	if err != nil {
		return nil, err
	}
	loaded, err := files.parse(text)
	if err != nil {
		return nil, err
	}
	w.seen = text.sum()
	w.use(loaded)
	return w, nil
}

func (w *Watched) use(loaded Loaded) {
	w.now.Store(&current{loaded, w.settings(loaded)})
	if loaded.Pair != nil && time.Now().After(loaded.Expires) {
		w.log.Warn("the certificate has expired, so most clients refuse it; renew it", "file", w.files.Cert.Path, "expired", loaded.Expires)
	}
}

// Config returns the settings with the files in use: the same pointer until they change.
func (w *Watched) Config() *tls.Config { return w.now.Load().config }

// Expires returns when the certificate in use expires.
func (w *Watched) Expires() time.Time { return w.now.Load().Expires }

// Failures returns how many times new contents could not be used.
func (w *Watched) Failures() uint64 { return w.failures.Load() }

// Run looks for new contents every few seconds, and at each signal, until ctx is done.
func (w *Watched) Run(ctx context.Context, signals <-chan os.Signal) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.Look(false)
		case <-signals:
			w.Look(true)
		}
	}
}

// Look uses the contents of the files if they have changed. It logs and counts the same failure again only after a
// requested look, for example by a signal.
func (w *Watched) Look(requested bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text, err := w.files.read()
	if sum := text.sum(); err == nil && sum == w.seen {
		if w.failed = ""; requested {
			w.log.Info("the files of TLS have not changed", "file", w.files.Cert.Path)
		}
		return
	}
	var loaded Loaded
	if err == nil {
		loaded, err = w.files.parse(text)
	}
	if err != nil {
		if why := err.Error(); requested || why != w.failed {
			w.failures.Add(1)
			w.failed = why
			w.log.Error("new files of TLS cannot be used; the old ones remain in use", "error", err)
		}
		return
	}
	w.seen, w.failed = text.sum(), ""
	w.use(loaded)
	w.log.Info("new files of TLS are in use", "file", w.files.Cert.Path, "expires", loaded.Expires)
}
