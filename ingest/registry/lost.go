package registry

import "time"

// Excuse discards all silence before now: no runner is overdue until MissedHeartbeats more periods have passed. The owner
// calls it after a time in which heartbeats may have been unable to arrive, and once before any runner can be overdue.
func (r *Registry) Excuse(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.excused = now
}

// Overdue reports whether a runner is overdue.
func (r *Registry) Overdue(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.overdue(now) != nil
}

// overdue returns the runner that has been silent for the longest time, or nil if that runner is not overdue.
func (r *Registry) overdue(now time.Time) *entry {
	if r.excused.IsZero() || r.alive.Len() == 0 {
		return nil
	}
	e := r.alive.Front().Value.(*entry)
	from := e.heard
	if r.excused.After(from) {
		from = r.excused
	}
	if now.Sub(from) < MissedHeartbeats*r.every {
		return nil
	}
	return e
}

// Lose declares one overdue runner lost, and returns it. ok is false if no runner is overdue. From then on, the runner's
// instance is refused, and another instance may register.
func (r *Registry) Lose(now Moment) (lost Runner, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetDead(now)
	e := r.overdue(now.Mono)
	if e == nil {
		return Runner{}, false
	}
	r.lost++
	r.bury(e, Lost, now)
	return e.Runner, true
}

// bury makes an alive runner a dead one.
func (r *Registry) bury(e *entry, why End, now Moment) {
	e.dismiss(why)
	e.State, e.End, e.Since, e.died = Dead, why, now.At, now.Mono
	r.alive.Remove(e.place)
	r.places.Return(e.client, 1)
	e.place = r.dead.PushBack(e)
	r.forgetDead(now)
}

// forgetDead deletes dead runners that exceed their number or age.
func (r *Registry) forgetDead(now Moment) {
	for r.dead.Len() > 0 {
		e := r.dead.Front().Value.(*entry)
		if r.dead.Len() <= MaxDead && now.Mono.Sub(e.died) < deadFor {
			return
		}
		r.dead.Remove(e.place)
		delete(r.runners, e.ID)
	}
}
