package stockclient

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/daybookq/daybook/opsqueue/wire"
)

// Consumer is the original's consumer. It connects on first use, and again after an error. Any goroutine may use it.
type Consumer struct {
	address    string // host:port
	violations *Violations
	expired    atomic.Int64
	connects   atomic.Int64
	closed     chan struct{}
	close      sync.Once

	connecting chan struct{} // one goroutine at a time connects
	mu         sync.Mutex
	now        *connection // nil: none yet
}

// NewConsumer returns a consumer of the server at address, which is host:port. The caller must call Close.
func NewConsumer(address string, v *Violations) *Consumer {
	return &Consumer{address: address, violations: v, closed: make(chan struct{}), connecting: make(chan struct{}, 1)}
}

// Close drops the connection and waits until its goroutines have ended. Later calls return ErrClosed.
func (c *Consumer) Close() {
	c.close.Do(func() { close(c.closed) })
	c.connecting <- struct{}{} // prevents further connections
	defer func() { <-c.connecting }()
	c.Disconnect()
}

// ErrClosed is returned by calls after Close.
var ErrClosed = errors.New("the consumer is closed")

// ErrIncorrectUsage is returned for a reservation of 0 chunks. The original drops the connection after that.
var ErrIncorrectUsage = errors.New("a reservation of 0 chunks is incorrect usage")

// Disconnect drops the connection, if there is one, as a dying process does. The next call connects again.
func (c *Consumer) Disconnect() {
	if l := c.current(); l != nil {
		l.end()
		l.workers.Wait()
	}
}

// Expired returns the number of messages about expired reservations.
func (c *Consumer) Expired() int64 { return c.expired.Load() }

// Connects returns how often the consumer has connected.
func (c *Consumer) Connects() int64 { return c.connects.Load() }

// Init returns the first message of the connection. It connects if necessary.
func (c *Consumer) Init(ctx context.Context) (wire.Init, error) {
	l, err := c.connection(ctx)
	if err != nil {
		return wire.Init{}, err
	}
	return l.init, nil
}

// Reserve waits for up to max chunks. If ctx ends first, it fails the chunks that arrive later.
func (c *Consumer) Reserve(ctx context.Context, max uint64, strategy wire.Strategy) ([]wire.ReservedChunk, error) {
	l, err := c.connection(ctx)
	if err != nil {
		return nil, err
	}
	m, err := l.reserve(ctx, max, strategy)
	if err != nil {
		return nil, err
	}
	if m.MaxIsZero {
		l.end()
		return nil, ErrIncorrectUsage
	}
	return m.Chunks, nil
}

// Complete reports that a chunk is completed. output is nil if it is in the object store. As in the original, a nil error
// means only that the report was sent, not that the server accepted it.
func (c *Consumer) Complete(ctx context.Context, id wire.ChunkID, output []byte) error {
	return c.send(ctx, wire.CompleteChunk{ID: id, OutputContent: output})
}

// Fail reports that a chunk failed. A nil error means only that the report was sent.
func (c *Consumer) Fail(ctx context.Context, id wire.ChunkID, failure string) error {
	return c.send(ctx, wire.FailChunk{ID: id, Failure: failure})
}

func (c *Consumer) send(ctx context.Context, contents wire.ClientContents) error {
	l, err := c.connection(ctx)
	if err != nil {
		return err
	}
	return l.send(contents)
}

func (c *Consumer) current() *connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// connection returns the connection. If there is none, or if it has ended, it tries to connect until it succeeds or ctx
// ends.
func (c *Consumer) connection(ctx context.Context) (*connection, error) {
	select {
	case c.connecting <- struct{}{}:
		defer func() { <-c.connecting }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if l := c.current(); l != nil {
		if l.running.Err() == nil {
			return l, nil
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-c.closed:
			cancel()
		case <-ctx.Done():
		}
	}()
	var pauses backoff
	for {
		select {
		case <-c.closed:
			return nil, ErrClosed
		default:
		}
		l, err := c.connect(ctx)
		if err == nil {
			c.mu.Lock()
			c.now = l
			c.mu.Unlock()
			c.connects.Add(1)
			return l, nil
		}
		if err := pauses.wait(ctx); err != nil {
			select {
			case <-c.closed:
				return nil, ErrClosed
			default:
				return nil, err
			}
		}
	}
}
