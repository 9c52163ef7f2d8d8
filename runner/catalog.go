package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/task"
)

// refreshPatience bounds one read of the server's handlers.
const refreshPatience = 5 * time.Second

// local returns the versions in the configuration, by the queues whose jobs they run.
func (s *Settings) local() map[queue]version {
	versions := map[queue]version{}
	for _, name := range slices.Sorted(maps.Keys(s.Handlers)) {
		h := s.Handlers[name]
		for _, typ := range h.types(name) {
			if len(s.Types) > 0 && !slices.Contains(s.Types, typ) {
				continue
			}
			versions[queue{"", typ}] = version{typ: typ, document: h.Document, program: &h.Program, images: h.Images, file: h.Binary}
		}
	}
	return versions
}

// implicitType is the type whose jobs a runner that accepts kind wasi runs without a handler, unless Types name others.
const implicitType = job.DefaultName

// addImplicit adds versions for types without a handler, whose jobs name their own binaries. shared are the types for
// which the server stores a handler for all clients, even if this runner does not accept that handler.
func (s *Settings) addImplicit(versions map[queue]version, shared map[string]bool) {
	if !slices.Contains(s.Accept, handler.WASI) {
		return
	}
	types := s.Types
	if len(types) == 0 {
		types = []string{implicitType}
	}
	for _, typ := range types {
		q := queue{"", typ}
		if _, has := versions[q]; !has && !shared[typ] {
			versions[q] = version{typ: typ, implicit: true, document: handler.Document{Kind: handler.WASI}}
		}
	}
}

// stored returns the newest versions that the server stores and this runner can run, by the queues whose jobs they run.
func (r *Runner) stored(ctx context.Context) (map[queue]version, error) {
	versions, listed, own, shared := map[queue]version{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for h, err := range r.Client.Handlers(ctx) {
		if err != nil {
			return nil, err
		}
		q := queue{h.Client, h.Type}
		listed[h.ID] = true
		if h.Client != "" {
			own[h.Type] = true
		} else {
			shared[h.Type] = true
		}
		switch {
		case len(r.Accept) == 0, len(r.Types) > 0 && !slices.Contains(r.Types, h.Type):
			continue
		case h.Client != "" && len(r.Clients) > 0 && !slices.Contains(r.Clients, h.Client):
			continue
		}
		v, err := r.version(ctx, h.ID)
		if errors.Is(err, client.ErrNotFound) { // deleted since it was listed
			continue
		}
		if err == nil {
			err = r.kinds.check(&v)
		} else if !errors.Is(err, errUnknownDocument) {
			return nil, err
		}
		if err != nil {
			if errors.Is(err, errNotAccepted) {
				r.say("", "stored handlers of a kind that --accept does not have are not run here", "kind", h.Kind)
				continue
			}
			r.say(h.ID, fmt.Sprintf("a stored handler is not run here: %v", err), "type", h.Type, "client", h.Client, "handler_id", h.ID)
			continue
		}
		versions[q] = v
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.own, r.shared = own, shared
	maps.DeleteFunc(r.versions, func(id string, _ version) bool { return !listed[id] }) // a lane that still uses one reads it again
	return versions, nil
}

var errUnknownDocument = errors.New("the document is not known to this version of Daybook")

// version returns a version that the server stores. Versions never change, so it reads each only once.
func (r *Runner) version(ctx context.Context, id string) (version, error) {
	r.mu.Lock()
	v, known := r.versions[id]
	r.mu.Unlock()
	if known {
		return v, nil
	}
	h, err := r.Client.HandlerVersion(ctx, id)
	if err != nil {
		return version{}, err
	}
	if h.Document == nil {
		return version{}, errUnknownDocument
	}
	if err := h.Document.Check(); err != nil {
		return version{}, fmt.Errorf("%w: %w", errUnknownDocument, err)
	}
	v = version{id: h.ID, client: h.Client, typ: h.Type, document: *h.Document}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.versions[id] = v
	return v, nil
}

// executorOf returns the executor of a handler's version. newest is the version that the lane knows, and saves a
// request if its id is id.
func (r *Runner) executorOf(ctx context.Context, newest *version, id string) (task.Executor, error) {
	v := *newest
	if v.id != id {
		var err error
		if v, err = r.version(ctx, id); err != nil {
			return nil, err
		}
		if err = r.kinds.check(&v); err != nil {
			return nil, err
		}
	}
	return r.kinds.executor(&v)
}

// refresh updates the lanes and the feeds to the current handlers.
func (r *Runner) refresh(ctx context.Context) error {
	versions, err := r.stored(ctx)
	if err != nil {
		return err
	}
	for q, v := range r.Settings.local() { // the configuration has precedence
		versions[q] = v
		maps.DeleteFunc(versions, func(other queue, _ version) bool { return other.typ == q.typ && other.client != "" })
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addImplicit(versions, r.shared)
	before := r.types()
	for q, v := range versions {
		l := r.lanes[q]
		if l != nil && l.fits(&v) {
			continue
		}
		if l != nil { // its runs continue
			r.closeLane(l)
		}
		if l, err = r.newLane(q, v); err != nil {
			r.say(v.id+q.typ, fmt.Sprintf("a handler is not run here: %v", err), "type", q.typ, "client", q.client)
			delete(r.lanes, q)
			continue
		}
		r.lanes[q] = l
	}
	for q, l := range r.lanes {
		if _, ok := versions[q]; !ok {
			delete(r.lanes, q)
			r.closeLane(l)
		}
	}
	r.updateFeeds()
	if !slices.Equal(before, r.types()) {
		r.beatSoon()
	}
	return nil
}

// beatSoon makes a heartbeat be sent soon.
func (r *Runner) beatSoon() {
	select {
	case r.beat <- struct{}{}:
	default: // one is already due
	}
}

// fits reports whether a lane can serve a newer version of its handler, and if so, makes it the lane's newest. It
// cannot if the version's batch size, concurrency, weight or slots differ, or if only one of the two is implicit.
func (l *lane) fits(v *version) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, b := l.newest.options(), v.options()
	same := l.batch == v.batch() && l.most == v.most(l.r.Concurrency) && cmp.Or(a.Weight, 1) == cmp.Or(b.Weight, 1) && cmp.Or(a.Slots, 1) == cmp.Or(b.Slots, 1)
	if same = same && l.newest.implicit == v.implicit; same {
		if l.newest.id != v.id {
			l.rest.end()
		}
		l.newest = *v
	}
	return same
}

// closeLane closes a lane after its last job has ended. The caller has removed it from r.lanes, so it gets no more
// jobs. r.mu is held.
func (r *Runner) closeLane(l *lane) {
	r.closing.Go(func() {
		l.users.Wait()
		l.close()
	})
}
