package store

import "github.com/daybookq/daybook/job"

// Readied names a queue that has jobs to hand out, and how many.
type Readied struct {
	Client, Type string
	Pending      int64
}

// TakeReadied returns the queues that gained pending jobs, or were resumed, since it was last called. It is the applying
// goroutine's to call. all is set when the switch was set to start meanwhile: then all ready queues did, of which there may be very many,
// and ReadyQueues lists them.
func (s *Store) TakeReadied() (names []Readied, all bool) {
	for _, q := range s.readied {
		if !q.paused && !s.meta.stopped && q.counts[job.Pending] > 0 {
			names = append(names, Readied{q.client, q.typ, q.counts[job.Pending]})
		}
	}
	for _, q := range s.readied {
		q.readied = false
	}
	s.readied = s.readied[:0]
	all, s.allReadied = s.allReadied, false
	return names, all
}

// readyPage is how many queues ReadyQueues looks at.
const readyPage = 1000

// ReadyQueues returns those of the next queues after a client and type, by name, that have jobs to hand out, and the client and type to go on
// after; "" when those were the last. Apply waits meanwhile, so it looks at a bounded number of queues.
func (s *Store) ReadyQueues(client, typ string) (ready []Readied, nextClient, nextType string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	page := s.queues.page("", client, typ, readyPage, func(*queue) bool { return true })
	for _, q := range page {
		if q.rank != "" && !s.meta.stopped {
			ready = append(ready, Readied{q.client, q.typ, q.counts[job.Pending]})
		}
	}
	if len(page) < readyPage {
		return ready, "", ""
	}
	last := page[len(page)-1]
	return ready, last.client, last.typ
}
