package runner

import (
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/daybookq/daybook/client"
)

// failures logs runs that end badly: for each type at most one per logEvery, with the number of runs that it left out.
type failures struct {
	mu    sync.Mutex
	types map[string]*failed
}

// failed counts the runs of a type that ended badly.
type failed struct {
	logged time.Time // when one was last logged
	others int       // since then
}

const (
	logEvery = time.Second
	// maxLogged bounds the logged part of an error, in bytes.
	maxLogged = 500
)

// log logs a job's outcome, unless a run of its type was logged less than logEvery ago.
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

// turn reports whether to log a run of a type now, and how many runs were not logged since the last one.
func (f *failures) turn(typ string, now time.Time) (others int, turn bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.types[typ]
	switch {
	case t == nil && len(f.types) >= maxTypes: // forget all types, to bound the map
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
