package load

import (
	"sync"
	"time"
)

// slot is the length of a slot of a timeline.
const slot = 10 * time.Millisecond

// maxSlots bounds a timeline to ten minutes. Later arrivals count for the last slot.
const maxSlots = 60_000

// timeline has the longest latency of the arrivals in each slot of time.
type timeline struct {
	mu    sync.Mutex // guards the field below
	slots []slotLatency
}

type slotLatency struct {
	longest time.Duration
	slow    int // arrivals whose latency was more than StallOver
}

func newTimeline(length time.Duration) *timeline {
	return &timeline{slots: make([]slotLatency, max(1, min(maxSlots, int(length/slot)+1)))}
}

// add records a latency. due is the arrival's due time after the start.
func (t *timeline) add(due, latency time.Duration) {
	i := max(0, min(int(due/slot), len(t.slots)-1))
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.slots[i]
	s.longest = max(s.longest, latency)
	if latency > StallOver {
		s.slow++
	}
}

// StallOver is the latency above which an arrival belongs to a stall.
const StallOver = 50 * time.Millisecond

// Stall is an interval in which arrivals waited for longer than StallOver.
type Stall struct {
	// Start is the due time of the first of these arrivals, after the start of the load.
	Start time.Duration
	// Length is the time from Start to the last answer to one of these arrivals.
	Length  time.Duration
	Longest time.Duration // the longest latency
	Calls   int           // number of arrivals
}

// stalls returns the stalls in order of time. Slots whose waits overlap belong to one stall.
func (t *timeline) stalls() []Stall {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []Stall
	for i, s := range t.slots {
		if s.slow == 0 {
			continue
		}
		start := time.Duration(i) * slot
		if n := len(all); n > 0 && start <= all[n-1].Start+all[n-1].Length {
			last := &all[n-1]
			last.Length = max(last.Length, start+s.longest-last.Start)
			last.Longest = max(last.Longest, s.longest)
			last.Calls += s.slow
			continue
		}
		all = append(all, Stall{Start: start, Length: s.longest, Longest: s.longest, Calls: s.slow})
	}
	return all
}
