package worker

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookq/daybook/client"
)

// transport sends the requests of a worker: in its stream while there is one, and otherwise by HTTP.
type transport struct {
	client  *client.Client
	session *session
	stream  atomic.Pointer[client.Stream] // has the worker's jobs; nil: there is none
	begins  atomic.Pointer[client.Stream] // the last stream, in which the worker announces that runs begin

	ctx      context.Context // of all requests; ends when abort is called
	abort    context.CancelFunc
	underWay sync.WaitGroup // tickles and reports
}

// calls returns the client for tickles and reports: they use the stream while there is one.
func (t *transport) calls() *client.Client {
	if s := t.stream.Load(); s != nil {
		return s.Client()
	}
	return t.client
}

// beginStream returns the stream in which to announce that runs begin, or nil if there is none.
func (t *transport) beginStream() *client.Stream {
	if s := t.begins.Load(); s != nil && s.Err() == nil {
		return s
	}
	return nil
}

// numbered makes one request with a number of the session. It calls call again if the server has deleted the session,
// so call must make a request that is safe to repeat.
func (t *transport) numbered(c *client.Client, call func(*client.Client) error) error {
	return t.session.send(t.ctx, c, call)
}

// once returns a client that does not repeat requests, and that waits at most timeout for an answer.
func once(c *client.Client, timeout time.Duration) *client.Client {
	return c.With(func(o *client.Options) { o.RetryFor, o.Timeout = -1, min(o.Timeout, timeout) })
}

// signal notifies a goroutine through a channel of capacity 1. The channel may hold a signal already.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func jitter(d time.Duration) time.Duration { return rand.N(d + 1) }
