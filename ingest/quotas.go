package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"

	"github.com/daybookq/daybook/job"
)

// A request that would exceed the quota of a client is refused before it is journaled, as creates that would exceed the limits of
// queues are. Proposed but unapplied creates count, too. In a cluster, each node knows only its own creates, so a client may
// exceed its quota by what is in flight at the other nodes. Jobs that completions create are never refused, because the work
// before them would be lost, and neither are redrives, nor the idempotency keys of completions.

// usesInFlight is what proposed but unapplied creates may add to the use of clients with quotas.
type usesInFlight struct {
	mu   sync.Mutex
	uses map[string]job.Quota // none is zero
}

// add adds what a command may add to the use of a client, and returns what all commands in flight may.
func (u *usesInFlight) add(client string, by job.Quota, sign int64) job.Quota {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.uses == nil {
		u.uses = map[string]job.Quota{}
	}
	use := u.uses[client]
	more := by.Numbers()
	for i, of := range use.Numbers() {
		*of.N += sign * *more[i].N
	}
	if u.uses[client] = use; use == (job.Quota{}) {
		delete(u.uses, client)
	}
	return use
}

// end takes away what a command may add.
func (u *usesInFlight) end(uses map[string]job.Quota) {
	for client, use := range uses {
		u.add(client, use, -1)
	}
}

// addUses refuses new jobs that would exceed the quota of their client. made has the queues that they make; addUses allocates it if
// necessary. A create with unique keys counts all its jobs, though some may exist. The queues of jobs that follow on count,
// too.
func (e *Engine) addUses(made *newQueues, c *job.Create) (*newQueues, error) {
	var quotas map[string]job.Quota // of the clients that have one
	for i := range c.Groups {
		client := c.Groups[i].Client
		if i > 0 && client == c.Groups[i-1].Client {
			continue
		}
		if quota, bounded := e.store.Quota(client); bounded {
			if quotas == nil {
				quotas = map[string]job.Quota{}
			}
			quotas[client] = quota
		}
	}
	if quotas == nil {
		return made, nil
	}
	if made == nil {
		made = &newQueues{e: e}
	}
	uses, err := usesOf(c, quotas)
	if err != nil {
		return made, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	for name := range made.names {
		by, bounded := uses[name.client]
		if exists, _, _ := e.store.QueueExists(name.client, name.typ); bounded && !exists {
			by.Queues++
			uses[name.client] = by
		}
	}
	made.uses = map[string]job.Quota{}
	for _, client := range slices.Sorted(maps.Keys(uses)) { // so that the same create always gets the same refusal
		by, quota := uses[client], quotas[client]
		made.uses[client] = by
		if err := e.mayUse(client, &quota, by); err != nil {
			return made, err
		}
	}
	return made, nil
}

// usesOf returns how many jobs, and bytes of payloads, a create adds to the clients with quotas. It looks at payloads only if a
// quota bounds their bytes.
func usesOf(c *job.Create, quotas map[string]job.Quota) (uses map[string]job.Quota, err error) {
	uses = make(map[string]job.Quota, len(quotas))
	reads := false
	for _, quota := range quotas {
		reads = reads || quota.Bytes > 0 && c.Frame != job.NoFrame
	}
	rest := c.Payloads
	for i := range c.Groups {
		g := &c.Groups[i]
		by := uses[g.Client]
		by.Unfinished += int64(g.Lines)
		if reads {
			for range g.Lines {
				var payload []byte
				if payload, rest, err = c.Frame.Next(rest); err != nil {
					return nil, err
				}
				by.Bytes += int64(len(payload))
			}
		}
		if _, bounded := quotas[g.Client]; bounded {
			uses[g.Client] = by
		}
	}
	return uses, nil
}

// usesTries is how often mayUse looks before it refuses a create.
const usesTries = 3

// mayUse counts what a create may add to the use of a client, and returns a *QuotaExceeded if that is too much. A create that is
// applied between the two looks counts twice for a moment, so mayUse looks again before it refuses one.
func (e *Engine) mayUse(client string, quota *job.Quota, by job.Quota) (err error) {
	inFlight := e.making.uses.add(client, by, 1)
	for range usesTries {
		use, _, known := e.store.QueuesOf(client)
		if !known { // a command takes long; creates may exceed the quota until it is applied
			return nil
		}
		if err = exceeded(client, quota, &by, &use, &inFlight); err == nil {
			return nil
		}
		runtime.Gosched()
		inFlight = e.making.uses.add(client, job.Quota{}, 1)
	}
	return err
}

// exceeded returns a *QuotaExceeded if a client would exceed its quota. inFlight includes by.
func exceeded(client string, quota, by, use, inFlight *job.Quota) error {
	more, has, in := by.Numbers(), use.Numbers(), inFlight.Numbers()
	for i, of := range quota.Numbers() {
		if *of.N > 0 && *more[i].N > 0 && *has[i].N+*in[i].N > *of.N {
			return &QuotaExceeded{Client: client, What: of.What, Limit: *of.N, Use: *has[i].N + *in[i].N - *more[i].N, More: *more[i].N}
		}
	}
	return nil
}

// mayOpenSession refuses a session that would exceed the quota of the client that owns it.
func (e *Engine) mayOpenSession(ctx context.Context) error {
	return e.mayOwn(job.KeyOf(ctx).By().Owner(), func(q *job.Quota) *int64 { return &q.Sessions }, e.store.SessionsOf)
}

// mayAddKey is mayRemember for requests other than completions. It also refuses an idempotency key that would exceed the quota of
// the client that owns it.
func (e *Engine) mayAddKey(ctx context.Context, o *job.Once) error {
	if err := e.mayRemember(ctx, o); err != nil || o.Numbered() {
		return err
	}
	return e.mayOwn(o.Owner(&job.KeyOf(ctx).By().Scope), func(q *job.Quota) *int64 { return &q.IdempotencyKeys }, func(owner string) (int64, error) {
		keys, err := e.store.KeysOf(owner)
		return int64(keys.Keys), err
	})
}

// maySweep refuses a sweep that would exceed the quota of the client that owns it, or its half of the sweeps that are free once
// two clients have keys. It counts the sweeps of which steps are left, so several that begin at the same time may exceed both.
// The end of a submission is no sweep.
func (e *Engine) maySweep(ctx context.Context, m *job.Move) error {
	owner := e.ownerOf(ctx)
	own, all := e.store.SweepsOf(owner.Client)
	var err error
	if owner.MayTake(int64(own), int64(all), 1, job.MaxSweeps) != nil && own > 0 {
		err = job.TooManySweeps
	} else {
		err = e.mayOwn(owner.Client, func(q *job.Quota) *int64 { return &q.Sweeps }, func(string) (int64, error) { return int64(own), nil })
	}
	if err != nil && !m.Batch.IsZero() && m.Status == 0 && m.Op != job.Redrive {
		if doc, failed := e.store.Batch(m.Batch); failed == nil && doc.Submission != nil {
			return nil
		}
	}
	return err
}

// mayPutDocument refuses a document of a key whose clients have their share of the documents of its kind, or of their bytes. Several that
// are stored at the same time may exceed it.
func (e *Engine) mayPutDocument(ctx context.Context, p *job.PutDocument) error {
	owner, rules := e.ownerOf(ctx), p.Kind.Rules()
	if !owner.Shares {
		return nil
	}
	own, all := e.store.DocumentUse(p.Kind, job.KeyOf(ctx).Clients)
	err := owner.MayTake(own.Names, all.Names, 1, int64(cmp.Or(e.o.maxDocuments, rules.MaxNames)))
	if err != nil { // a version of a document that exists takes no place
		if _, _, missing := e.store.Document(p.Kind, p.Client, p.Name, 0); missing == nil {
			err = nil
		}
	}
	if err == nil && rules.MaxTotal > 0 {
		err = owner.MayTake(own.Bytes, all.Bytes, int64(len(p.Document)), cmp.Or(e.o.maxDocumentBytes, rules.MaxTotal))
	}
	if over, ok := errors.AsType[*job.OverShare](err); ok {
		return job.Limited(rules.TooMany, over)
	}
	return nil // Apply refuses it if there is no room for anybody
}

// ownerOf returns for whom a request takes something; see job.Owner.
func (e *Engine) ownerOf(ctx context.Context) job.Owner {
	return job.OwnerOf(ctx, e.store.OwnersOfKeys)
}

// mayOwn refuses one more of something that the quota of a client bounds by a number. count counts how many the client has.
func (e *Engine) mayOwn(owner string, number func(*job.Quota) *int64, count func(owner string) (int64, error)) error {
	quota, bounded := e.store.Quota(owner)
	if !bounded || owner == "" || *number(&quota) == 0 {
		return nil
	}
	has, err := count(owner)
	if err != nil {
		return err
	}
	var use, by job.Quota
	*number(&use), *number(&by) = has, 1
	return exceeded(owner, &quota, &by, &use, &by)
}

// QuotaExceeded is an ErrQuotaExceeded that says which number of the quota a request would exceed.
type QuotaExceeded struct {
	Client, What     string
	Limit, Use, More int64 // Use includes what creates in flight may add
}

func (q *QuotaExceeded) Error() string {
	return fmt.Sprintf("client %s may have %d %s, and has %d; the request would add %d", q.Client, q.Limit, q.What, q.Use, q.More)
}

// Is makes errors.Is match ErrQuotaExceeded.
func (q *QuotaExceeded) Is(target error) bool { return target == ErrQuotaExceeded }
