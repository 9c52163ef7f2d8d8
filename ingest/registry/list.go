package registry

import (
	"cmp"
	"slices"
)

// maxListBytes bounds the texts of the runners that Runners returns. Only the last runner may exceed it.
const maxListBytes = 256 << 10

// Counts are figures of the registry.
type Counts struct {
	Alive int    `json:"alive"`
	Dead  int    `json:"dead"`
	Lost  uint64 `json:"lost"` // number of runners declared lost since the start
}

// Counts returns the current figures.
func (r *Registry) Counts() Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Counts{Alive: r.alive.Len(), Dead: r.dead.Len(), Lost: r.lost}
}

// Runner returns the entry of a runner; ok is false if the runner is unknown.
func (r *Registry) Runner(id string, now Moment) (known Runner, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetDead(now)
	e := r.runners[id]
	if e == nil {
		return Runner{}, false
	}
	return e.Runner, true
}

// Runners returns up to limit runners after an id, in the order of Compare, and whether there are more. A list with very
// long texts ends before its limit.
func (r *Registry) Runners(after string, limit int, now Moment) (list []Runner, more bool) {
	list = r.after(after, now)
	slices.SortFunc(list, func(a, b Runner) int { return Compare(a.ID, b.ID) })
	bytes := 0
	for i := range list {
		if i == limit || bytes > maxListBytes {
			return list[:i:i], true
		}
		bytes += list[i].bytes()
	}
	return list, false
}

// after returns the runners after an id, in no order.
func (r *Registry) after(id string, now Moment) (found []Runner) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetDead(now)
	for name, e := range r.runners {
		if Compare(name, id) > 0 {
			found = append(found, e.Runner)
		}
	}
	return found
}

// Compare orders runners in lists: first by the length of their ids, and then by the ids. The store uses the same order.
func Compare(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}
