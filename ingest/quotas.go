package ingest

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
)

// Creates that would exceed the quota of a client are refused before they are journaled, as those that would exceed the limits
// of queues are. What proposed but unapplied creates may add counts as used. In a cluster, each node knows only its own creates,
// so a client may exceed its quota by what is in flight at the other nodes. Jobs that completions create are never refused, because
// the work before them would be lost, and neither are redrives.

// usesInFlight is what proposed but unapplied creates may add to the use of clients with quotas.
type usesInFlight struct {
	mu   sync.Mutex
	uses map[string]document.ClientUse // none is zero
}

// add adds what a command may add to the use of a client, and returns what all commands in flight may.
func (u *usesInFlight) add(client string, by document.ClientUse) document.ClientUse {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.uses == nil {
		u.uses = map[string]document.ClientUse{}
	}
	use := u.uses[client]
	use.Queues += by.Queues
	use.Unfinished += by.Unfinished
	if u.uses[client] = use; use == (document.ClientUse{}) {
		delete(u.uses, client)
	}
	return use
}

// end takes away what a command may add.
func (u *usesInFlight) end(uses map[string]document.ClientUse) {
	for client, use := range uses {
		u.add(client, document.ClientUse{Queues: -use.Queues, Unfinished: -use.Unfinished})
	}
}

// addUses refuses new jobs that would exceed the quota of their client. made has the queues that they make; addUses allocates it if
// necessary. A create with unique keys counts all its jobs, though some may exist. The queues of jobs that follow on count,
// too.
func (e *Engine) addUses(made *newQueues, groups []job.Group) (*newQueues, error) {
	for i := range groups {
		client := groups[i].Client
		if made != nil {
			if _, counted := made.uses[client]; counted {
				continue
			}
		}
		quota, bounded := e.store.Quota(client)
		if !bounded {
			continue
		}
		if made == nil {
			made = &newQueues{e: e}
		}
		if made.uses == nil {
			made.uses = map[string]document.ClientUse{}
		}
		var by document.ClientUse
		for j := range groups {
			if groups[j].Client == client {
				by.Unfinished += int64(groups[j].Lines)
			}
		}
		for name := range made.names {
			if exists, _, _ := e.store.QueueExists(name.client, name.typ); name.client == client && !exists {
				by.Queues++
			}
		}
		made.uses[client] = by
		if err := e.mayUse(client, &quota, by); err != nil {
			return made, err
		}
	}
	return made, nil
}

// usesTries is how often mayUse looks before it refuses a create.
const usesTries = 3

// mayUse counts what a create may add to the use of a client, and returns a *QuotaExceeded if that is too much. A create that is
// applied between the two looks counts twice for a moment, so mayUse looks again before it refuses one.
func (e *Engine) mayUse(client string, quota *job.Quota, by document.ClientUse) (err error) {
	inFlight := e.making.uses.add(client, by)
	for range usesTries {
		use, known := e.store.ClientUse(client)
		if !known { // a command takes long; creates may exceed the quota until it is applied
			return nil
		}
		if err = exceeded(client, quota, by, use, inFlight); err == nil {
			return nil
		}
		runtime.Gosched()
		inFlight = e.making.uses.add(client, document.ClientUse{})
	}
	return err
}

// exceeded returns a *QuotaExceeded if a client would exceed its quota. inFlight includes by.
func exceeded(client string, quota *job.Quota, by, use, inFlight document.ClientUse) error {
	for _, of := range []struct {
		what               string
		limit, by, has, in int64
	}{
		{"unfinished jobs", quota.Unfinished, by.Unfinished, use.Unfinished, inFlight.Unfinished},
		{"queues", quota.Queues, by.Queues, use.Queues, inFlight.Queues},
	} {
		if of.limit > 0 && of.by > 0 && of.has+of.in > of.limit {
			return &QuotaExceeded{Client: client, What: of.what, Limit: of.limit, Use: of.has + of.in - of.by, More: of.by}
		}
	}
	return nil
}

// QuotaExceeded is an ErrQuotaExceeded that says which number of the quota a create would exceed.
type QuotaExceeded struct {
	Client, What     string
	Limit, Use, More int64 // Use includes what creates in flight may add
}

func (q *QuotaExceeded) Error() string {
	return fmt.Sprintf("client %s may have %d %s, and has %d; the request would add %d", q.Client, q.Limit, q.What, q.Use, q.More)
}

// Is makes errors.Is match ErrQuotaExceeded.
func (q *QuotaExceeded) Is(target error) bool { return target == ErrQuotaExceeded }
