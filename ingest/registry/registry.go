package registry

import (
	"container/list"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/daybookq/daybook/job"
)

const (
	// MaxAlive bounds the runners that are alive. With MaxInfoBytes each, they take about 50 MiB.
	MaxAlive = 10_000
	// MaxDead bounds the number of dead runners that are kept, and deadFor the time.
	MaxDead = 1_000
	deadFor = 24 * time.Hour
	// MissedHeartbeats is the number of heartbeats after which a silent runner is overdue.
	MissedHeartbeats = 3
)

// Reasons why a heartbeat or a goodbye is refused.
var (
	ErrTaken    = errors.New("another process holds this runner id")
	ErrReplaced = errors.New("another process has taken this runner id over; stop, and drop the jobs that you hold")
	ErrLost     = errors.New("the runner was declared lost or has ended, and its jobs were returned; drop the jobs that you hold, and register with a new instance")
	ErrFull     = fmt.Errorf("the maximum of %d runners that are alive is reached", MaxAlive)
	ErrNotFound = errors.New("no such runner: it sent no heartbeat lately, and holds no jobs")
)

// Registry holds all runners that sent heartbeats. It is safe for concurrent use.
type Registry struct {
	every time.Duration // time between two heartbeats

	mu      sync.Mutex // guards the fields below
	runners map[string]*entry
	alive   list.List  // of *entry, by heard, the earliest first
	places  job.Shares // of those that are alive
	dead    list.List  // of *entry, by died, the earliest first
	excused time.Time  // silence before this time does not count; zero: no runner is overdue
	lost    uint64     // number of runners that were declared lost
}

// New returns an empty registry. every is the time between two heartbeats. No runner is overdue before the first call of
// Excuse.
func New(every time.Duration) *Registry {
	return &Registry{every: every, runners: map[string]*entry{}}
}

// Every returns the time between two heartbeats.
func (r *Registry) Every() time.Duration { return r.every }

// Heartbeat records that a runner is alive, with its info, which the registry keeps and Info.Check has accepted.
// A runner that is not known yet counts for owner. aliveSince is the time at which this instance registered. The error is ErrTaken,
// ErrReplaced, ErrLost or ErrFull.
func (r *Registry) Heartbeat(owner job.Owner, id string, info Info, takeover bool, now Moment) (aliveSince int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetDead(now)
	e := r.runners[id]
	if e == nil || e.State == Dead {
		return r.register(owner, e, id, info, now)
	}
	if err := e.refuse(info.Instance); err != nil {
		return 0, err
	}
	if e.Instance != info.Instance {
		if !takeover {
			return 0, fmt.Errorf("%w; stop it, or take the id over; if it does not run any more, it is declared lost %v after its last heartbeat", ErrTaken, MissedHeartbeats*r.every)
		}
		e.dismiss(Replaced)
		e.Since = now.At
	}
	r.hear(e, info, now)
	r.alive.MoveToBack(e.place)
	return e.Since, nil
}

// register adds a runner that is not alive. e is the dead runner of that id, or nil.
func (r *Registry) register(owner job.Owner, e *entry, id string, info Info, now Moment) (aliveSince int64, err error) {
	if e != nil {
		if err := e.refuse(info.Instance); err != nil {
			return 0, err
		}
	}
	if err := r.places.Take(owner, 1, MaxAlive); err != nil {
		return 0, job.Limited(ErrFull, err)
	}
	if e == nil {
		e = &entry{Runner: Runner{ID: id}}
		r.runners[id] = e
	} else {
		r.dead.Remove(e.place)
	}
	e.client, e.State, e.End, e.Since = owner.Client, Alive, "", now.At
	r.hear(e, info, now)
	e.place = r.alive.PushBack(e)
	return e.Since, nil
}

func (r *Registry) hear(e *entry, info Info, now Moment) {
	e.Info, e.HeartbeatAt, e.heard = info, max(e.HeartbeatAt, now.At), now.Mono
}

// refuse returns the reason why an instance may not hold the id again, or nil.
func (e *entry) refuse(instance string) error {
	switch e.endOf(instance) {
	case "":
		return nil
	case Replaced:
		return ErrReplaced
	}
	return ErrLost
}

// Goodbye records the clean end of a runner, so that it is not declared lost. Repeating a goodbye succeeds. The error is
// ErrNotFound for an unknown runner, or an error as from Heartbeat if another instance holds the id.
func (r *Registry) Goodbye(id, instance string, now Moment) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetDead(now)
	e := r.runners[id]
	if e == nil {
		return ErrNotFound
	}
	if e.endOf(instance) == Left {
		return nil
	}
	if err := e.refuse(instance); err != nil {
		return err
	}
	if e.State == Dead || e.Instance != instance {
		return ErrTaken
	}
	r.bury(e, Left, now)
	return nil
}
