package ingest

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// All queues are in memory, with a lane or two for each priority of their jobs. So requests that would exceed the limits
// of queues, by a new queue or a new priority, are refused before they are journaled: Apply carries out every journaled
// command, and so does each start. Queues that running requests may make count as made.

// makingQueues counts the queues that proposed but unapplied commands may make.
type makingQueues struct {
	queues, bytes atomic.Int64
	// ends bounds the completed jobs whose creates have named a follow-on job. Looking up these jobs is only worth the
	// time if their queues might exceed the limits.
	ends atomic.Int64
	uses usesInFlight
}

// maxQueueBytes bounds the queue memory that one job may add.
var maxQueueBytes = store.QueueBytes("", "", 0) + 2*job.MaxNameBytes

// newQueues are the queues and priorities that a command may make. They count until the command is applied. Nil: none.
type newQueues struct {
	e      *Engine
	names  map[queueName]store.Priorities // the priorities that each queue will have
	queues int64
	bytes  int64
	ends   int64
	uses   map[string]job.Quota // of the clients with quotas: how much the command may add
	ended  atomic.Bool
}

// settled is called when the command is applied, or never will be. It may be called more than once.
func (n *newQueues) settled(bool) {
	if n == nil || n.ended.Swap(true) {
		return
	}
	n.e.making.queues.Add(-n.queues)
	n.e.making.bytes.Add(-n.bytes)
	n.e.making.ends.Add(-n.ends)
	n.e.making.uses.end(n.uses)
}

// mayMakeQueues refuses jobs that would exceed the limits of queues, now or when they complete. A job that inherits its
// client counts as a job of a new queue.
func (e *Engine) mayMakeQueues(c *job.Create) (made *newQueues, err error) {
	made, err = e.addQueues(nil, c.Groups)
	if err == nil {
		made, err = e.addUses(made, c)
	}
	if err != nil {
		made.settled(false)
		return nil, err
	}
	return made, nil
}

// addQueues adds the queues of jobs to made, which it allocates if necessary.
func (e *Engine) addQueues(made *newQueues, groups []job.Group) (_ *newQueues, err error) {
	for i := range groups {
		g := &groups[i]
		if g.OnComplete != "" {
			next, _, err := g.OnComplete.Parse()
			if err != nil {
				return made, fmt.Errorf("%w: %w", ErrMalformed, err)
			}
			if next.Client == "" {
				next.Client = g.Client
			}
			if made, err = e.addQueues(made, []job.Group{next}); err != nil {
				return made, err
			}
		}
		if i > 0 && g.Client == groups[i-1].Client && g.Type == groups[i-1].Type && g.Priority == groups[i-1].Priority {
			continue
		}
		if made, err = e.addQueue(made, queueName{g.Client, g.Type}, g.Priority); err != nil {
			return made, err
		}
	}
	return made, nil
}

// addQueue adds the queue of a job with the given priority.
func (e *Engine) addQueue(made *newQueues, name queueName, priority int) (*newQueues, error) {
	exists, has, use := e.store.QueueExists(name.client, name.typ)
	if exists && has.Has(priority) {
		return made, nil
	}
	if made == nil {
		made = &newQueues{e: e}
	}
	if made.names == nil {
		made.names = map[queueName]store.Priorities{}
	}
	was, counted := made.names[name]
	if counted && was.Has(priority) {
		return made, nil
	}
	one, bytes := int64(0), -store.QueueBytes(name.client, name.typ, was|has)
	if !counted && !exists {
		one, bytes = 1, 0
	}
	made.names[name] = (was | has).With(priority)
	if bytes += store.QueueBytes(name.client, name.typ, made.names[name]); bytes == 0 { // the first priority of a queue without jobs
		return made, nil
	}
	made.queues += one
	made.bytes += bytes
	queues, memory := e.making.queues.Add(one), e.making.bytes.Add(bytes)
	var own job.Quota
	ownMemory := int64(0)
	if e.store.OwnersOfKeys() > 1 { // at most half of what is free for one client
		own, ownMemory, _ = e.store.QueuesOf(name.client)
	}
	switch {
	case one > 0 && (int64(use.Queues)+queues > int64(e.o.maxQueues) || use.Ever >= job.MaxQueueNumbers):
		return made, &TooManyQueues{RetryAfter: e.queueWait()}
	case e.o.QueueMemory > 0 && use.Bytes+memory > e.o.QueueMemory:
		return made, &TooManyQueues{RetryAfter: e.queueWait(), Memory: e.o.QueueMemory}
	case one > 0 && int64(use.Queues)+queues+own.Queues > int64(e.o.maxQueues), e.o.QueueMemory > 0 && use.Bytes+memory+ownMemory > e.o.QueueMemory:
		return made, &TooManyQueues{RetryAfter: e.queueWait(), Client: name.client}
	}
	return made, nil
}

// mayChain refuses a completion that would create jobs in too many queues. It counts the jobs that its outcomes create,
// and the follow-on jobs that creates have named.
func (e *Engine) mayChain(c *job.Complete) (made *newQueues, err error) {
	made = &newQueues{e: e}
	if c.All != nil && c.All.Code == job.OK {
		made.ends = job.MaxClaimJobs
	}
	for i := range c.Outcomes {
		if c.Outcomes[i].Code == job.OK {
			made.ends++
		}
		if then := c.Outcomes[i].Then; then != nil && err == nil {
			_, err = e.addQueues(made, then.Groups)
		}
	}
	ends := e.making.ends.Add(made.ends)
	use := e.store.Totals().QueueUse
	if queues, bytes := int64(use.Queues)+e.making.queues.Load()+ends, use.Bytes+e.making.bytes.Load()+ends*maxQueueBytes; err == nil &&
		(queues > int64(e.o.maxQueues) || e.o.QueueMemory > 0 && bytes > e.o.QueueMemory) {
		failed := e.store.FollowOns(c, func(client, typ string, priority int) {
			if err == nil {
				_, err = e.addQueue(made, queueName{client, typ}, priority)
			}
		})
		if err == nil {
			err = failed
		}
	}
	if err != nil {
		made.settled(false)
		return nil, err
	}
	return made, nil
}

// mayPatch refuses a change of a job's priority if there is no queue memory for it.
func (e *Engine) mayPatch(p *job.Patch) (made *newQueues, err error) {
	if p.Priority == nil {
		return nil, nil
	}
	client, typ, err := e.store.QueueOf(p.Job)
	if err != nil || typ == "" {
		return nil, err
	}
	made, err = e.addQueue(nil, queueName{client, typ}, *p.Priority)
	if err != nil {
		made.settled(false)
		return nil, err
	}
	return made, nil
}

// queueWait returns the time after which there may be room for another queue.
func (e *Engine) queueWait() time.Duration {
	wait, ok := e.untilIdle()
	if !ok {
		return maxQueueWait
	}
	return min(max(wait, time.Second), maxQueueWait)
}

// maxQueueWait bounds TooManyQueues.RetryAfter, because a user may delete a queue earlier than the server does.
const maxQueueWait = time.Hour

// TooManyQueues is an ErrTooManyQueues with the time after which the caller may try again, because the server may have
// deleted an idle queue by then.
type TooManyQueues struct {
	RetryAfter time.Duration
	Memory     int64  // Options.QueueMemory if that limit is reached; 0: job.MaxQueues is reached
	Client     string // the client that has half of what is free, if it may make no more although others may
}

func (t *TooManyQueues) Error() string {
	if t.Client != "" {
		return fmt.Sprintf("client %s has as many queues, or as much memory of queues, as is left for all clients; delete queues that have no jobs, or use one that exists", t.Client)
	}
	if t.Memory > 0 {
		return fmt.Sprintf("the queues take about %d MiB of memory, which is the limit of this server; delete queues that have no jobs, use one that exists and a priority that it has jobs of, or give the server more memory", t.Memory>>20)
	}
	return ErrTooManyQueues.Error()
}

// Is makes errors.Is match ErrTooManyQueues.
func (t *TooManyQueues) Is(target error) bool { return target == ErrTooManyQueues }
