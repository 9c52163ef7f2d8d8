package chunks

import (
	"container/list"
	"context"
	"errors"
	"sync"
)

// cache keeps values that were read from the server, up to a size, and discards the least recently used first. Callers
// that need the same value at the same time share one request.
type cache[K comparable, V any] struct {
	most int         // the largest sum of sizes; the newest value is kept in any case
	size func(V) int // of a value
	read func(context.Context, K) (V, error)

	mu   sync.Mutex // guards the fields below
	held map[K]*list.Element
	used list.List // of *cached, the last used first
	sum  int
}

type cached[K comparable, V any] struct {
	key   K
	ready chan struct{} // closed when value and err are set
	value V
	err   error
	size  int // 0 until it is ready
}

func newCache[K comparable, V any](most int, size func(V) int, read func(context.Context, K) (V, error)) *cache[K, V] {
	return &cache[K, V]{most: most, size: size, read: read, held: map[K]*list.Element{}}
}

// get returns the value of a key. Errors are not kept. If the context of the caller that reads ends, only that caller
// gets the error: callers that wait for the value read it again.
func (c *cache[K, V]) get(ctx context.Context, key K) (v V, err error) {
	for {
		e, first := c.find(key)
		if first {
			return c.fill(ctx, e)
		}
		select {
		case <-e.ready:
		case <-ctx.Done():
			return v, context.Cause(ctx)
		}
		if e.err == nil || ctx.Err() != nil || !errors.Is(e.err, errReaderEnded) {
			return e.value, e.err
		}
	}
}

// errReaderEnded marks the error of a caller that stopped reading.
var errReaderEnded = errors.New("the caller that read it has ended")

// find returns the entry of a key, and whether the caller has to fill it.
func (c *cache[K, V]) find(key K) (e *cached[K, V], first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, there := c.held[key]; there {
		c.used.MoveToFront(at)
		return at.Value.(*cached[K, V]), false
	}
	e = &cached[K, V]{key: key, ready: make(chan struct{})}
	c.held[key] = c.used.PushFront(e)
	return e, true
}

// fill reads the value of an entry.
func (c *cache[K, V]) fill(ctx context.Context, e *cached[K, V]) (V, error) {
	e.err = errReaderEnded // if read panics
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		close(e.ready)
		if at := c.held[e.key]; at != nil && at.Value == e {
			if e.err != nil {
				c.remove(at)
			} else {
				e.size = c.size(e.value)
				c.sum += e.size
			}
		}
		for c.sum > c.most && c.used.Len() > 1 {
			c.remove(c.used.Back())
		}
	}()
	value, err := c.read(ctx, e.key)
	if e.value, e.err = value, err; err != nil && ctx.Err() != nil {
		e.err = errors.Join(errReaderEnded, err)
	}
	return value, err
}

// remove removes an entry. c.mu is held. If the entry is being filled, the callers that wait still get its value.
func (c *cache[K, V]) remove(at *list.Element) {
	e := c.used.Remove(at).(*cached[K, V])
	delete(c.held, e.key)
	c.sum -= e.size
}
