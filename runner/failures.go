package runner

import (
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/daybookq/daybook/client"
)

// failures logs runs that have ended badly: at most one of a type in logEvery, with the number of the others.
type failures struct {
	mu    sync.Mutex
	types map[string]*failed
}

// failed are the runs of a type that have ended badly.
type failed struct {
	logged time.Time // when the last one was logged
	others int       // since then
}

const (
	logEvery = time.Second
	// maxLogged is how much of an error is logged.
	maxLogged = 500
)

// log logs how the run of a job ended, if it is the turn of its type.
func (f *failures) log(log *slog.Logger, j *client.Job, o *client.Outcome) {
	others, turn := f.turn(j.Type, time.Now())
	if !turn {
		return
	}
	text := strings.TrimSpace(o.Error)
	if len(text) > maxLogged {
		text = strings.ToValidUTF8(text[:maxLogged], "") + "…"
	}
	log.Warn("a run ended badly", "type", j.Type, "client", j.Client, "job_id", j.ID, "code", o.Code, "error", text, "not_logged", others)
}

// turn reports whether a run of a type is logged, and how many were not since the last one.
func (f *failures) turn(typ string, now time.Time) (others int, turn bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.types[typ]
	switch {
	case t == nil && len(f.types) >= maxTypes: // forget them all, so that they stay bounded
		f.types = nil
		fallthrough
	case t == nil:
		if f.types == nil {
			f.types = map[string]*failed{}
		}
		t = &failed{}
		f.types[typ] = t
	case now.Sub(t.logged) < logEvery:
		t.others++
		return 0, false
	}
	others, t.logged, t.others = t.others, now, 0
	return others, true
}
