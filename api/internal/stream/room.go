package stream

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// unusedPause is the shortest time between two searches for unused streams.
const unusedPause = 100 * time.Millisecond

// mostStreams returns the largest number of open streams. The remaining connections are left to HTTP requests, so that
// streams that only wait cannot take all of them.
func mostStreams(connections int) int { return max(1, connections/4*3) }

// streamRoom bounds the number of open streams and their memory. When all places are taken, it closes the stream that
// has been unused for the longest time. A stream is in use while it receives a request, has an outstanding request, or
// has a subscription or jobs.
type streamRoom struct {
	most     int
	requests *web.Lane
	jobs     *web.Lane

	mu       sync.Mutex
	places   job.Shares
	evicted  int64
	unused   []*stream // found by the last search, the longest unused first
	searched time.Time
}

func newStreamRoom(o Options) streamRoom {
	return streamRoom{most: mostStreams(o.Connections), requests: o.Waiting, jobs: o.Jobs}
}

// admit takes a place for a new stream. It returns a problem if there is none. A client that has its share can only take the place of a
// stream of its own.
func (l *Streams) admit(owner job.Owner) error {
	for {
		err := l.room.take(owner)
		over, own := errors.AsType[*job.OverShare](err)
		switch {
		case err == nil:
			return nil
		case own && !l.evict(over.Client):
			return &web.Problem{Status: http.StatusServiceUnavailable, Code: web.CodeOverloaded, Detail: over.Error() + ": it may open no more streams; send HTTP requests, or try again later"}
		case !own && !l.Evict():
			return &web.Problem{Status: http.StatusServiceUnavailable, Code: web.CodeOverloaded, Detail: fmt.Sprintf("all %d places for streams are taken by streams that are in use; send HTTP requests, or try again later", l.room.most)}
		}
	}
}

func (r *streamRoom) take(owner job.Owner) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.places.Take(owner, 1, int64(r.most))
}

// leave frees a place.
func (r *streamRoom) leave(client string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.places.Return(client, 1)
}

// left frees the place of a stream that has ended.
func (r *streamRoom) left(t *stream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !t.evicted {
		r.places.Return(t.client, 1)
	}
	r.unused = slices.DeleteFunc(r.unused, func(u *stream) bool { return u == t }) // so that its memory is free
}

// evictions returns the number of streams that were closed to make room.
func (r *streamRoom) evictions() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.evicted
}

// Evict ends the stream that has been unused for the longest time, and frees its place. It reports false if every
// stream is in use.
func (l *Streams) Evict() bool { return l.evict("") }

// evict is Evict among the streams of a client; "": of all.
func (l *Streams) evict(client string) bool {
	r := &l.room
	r.mu.Lock()
	defer r.mu.Unlock()
	for range 2 {
		for {
			i := slices.IndexFunc(r.unused, func(t *stream) bool { return client == "" || t.client == client })
			if i < 0 {
				break
			}
			t := r.unused[i]
			r.unused = slices.Delete(r.unused, i, i+1)
			if t.leaveUnused() {
				r.places.Return(t.client, 1)
				r.evicted++
				return true
			}
		}
		if time.Since(r.searched) < unusedPause {
			return false
		}
		r.unused, r.searched = l.findUnused(), time.Now()
	}
	return false
}

// findUnused returns the streams that have not been used for IdleGrace.
func (l *Streams) findUnused() []*stream {
	type candidate struct {
		t     *stream
		since time.Time
	}
	var found []candidate
	for _, t := range l.snapshot() {
		if since, unused := t.unusedSince(); unused && time.Since(since) >= web.IdleGrace {
			found = append(found, candidate{t, since})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int { return a.since.Compare(b.since) })
	list := make([]*stream, len(found))
	for i := range found {
		list[i] = found[i].t
	}
	return list
}

// full returns a problem if claims and subscriptions of streams have used up their memory.
func (r *streamRoom) full() error {
	if r.jobs.Used() < r.jobs.Total() {
		return nil
	}
	return noRoom()
}

func noRoom() error {
	return &web.Problem{Status: http.StatusServiceUnavailable, Code: web.CodeOverloaded, Detail: "the subscriptions and claims of streams take all memory for them; complete jobs, end subscriptions, or claim over HTTP"}
}
