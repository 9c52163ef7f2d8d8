package registry

import (
	"container/list"
	"time"
)

// State says whether a runner is alive.
type State string

const (
	Alive State = "ALIVE"
	Dead  State = "DEAD"
)

// End is the reason why a runner is dead, or why an instance no longer holds its runner id.
type End string

const (
	Lost     End = "lost"     // it was declared lost
	Left     End = "left"     // it reported its end
	Replaced End = "replaced" // another instance took over
)

// Runner is the registry's entry for a runner. Times are unix ms of the journal's time. Its lists and labels are shared,
// so callers must not change them.
type Runner struct {
	ID    string `json:"runner_id"`
	State State  `json:"state"`
	// End is lost or left if the runner is dead; otherwise "".
	End End `json:"end"`
	// Since is the time at which the instance registered or, if the runner is dead, at which it was declared lost or
	// left.
	Since int64 `json:"since"`
	// HeartbeatAt is the time of the last heartbeat.
	HeartbeatAt int64 `json:"heartbeat_at"`
	Info
}

// Moment is a time by the two clocks that the registry uses: the journal's clock, for people, and the monotonic clock of
// the process, for counting periods.
type Moment struct {
	At   int64 // unix ms
	Mono time.Time
}

// entry is a runner with the registry's internal data.
type entry struct {
	Runner
	heard  time.Time     // last heartbeat, by the monotonic clock
	died   time.Time     // when it died, by the monotonic clock
	client string        // whose place it has while it is alive; "": nobody's in particular
	place  *list.Element // in Registry.alive or Registry.dead
	former []former      // the last instances that may not hold the id again, oldest first
}

// former is an instance that held a runner id.
type former struct {
	instance string
	end      End
}

// maxFormer bounds entry.former.
const maxFormer = 8

// endOf returns why an instance may not hold the id again, or "" if it may.
func (e *entry) endOf(instance string) End {
	for _, f := range e.former {
		if f.instance == instance {
			return f.end
		}
	}
	return ""
}

// dismiss records that the instance that holds the id may not hold it again.
func (e *entry) dismiss(why End) {
	e.former = append(e.former, former{e.Instance, why})
	if n := len(e.former) - maxFormer; n > 0 {
		e.former = append([]former(nil), e.former[n:]...)
	}
}
