package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/internal/backoff"
)

// streams keeps a stream open, in which the worker gets its jobs, tickles and reports while the server offers one.
// Otherwise, and while the stream is interrupted, the worker uses HTTP requests. If the server offers none, it tries
// again every minute.
type streams struct {
	*Worker
	*transport
	claims   *claims
	jobs     *jobs
	leases   *leases
	begins   *begins
	stopping context.Context
	// resume is the id of the last stream that the server has answered. Only keep uses it.
	resume string
}

const (
	// shortStream is how long a stream must have been open for the next one to be opened at once.
	shortStream = time.Second
	// withoutStreams is how long the worker sends HTTP requests until it tries to open a stream again.
	withoutStreams = time.Minute
)

// keep keeps a stream open until the worker stops.
func (s *streams) keep() {
	for attempt := 0; s.stopping.Err() == nil; attempt++ {
		stream, sub, err := s.open()
		if err == nil {
			began := time.Now()
			s.serve(stream, sub)
			if time.Since(began) >= shortStream {
				attempt = 0
				continue
			}
			if err = stream.Err(); attempt == 0 || s.stopping.Err() != nil {
				continue
			}
		}
		s.claims.noStream()
		wait := backoff.Wait(attempt)
		if errors.Is(err, client.ErrNoStreams) {
			wait = withoutStreams
		}
		s.Logger.Debug("the worker has no stream and sends requests", "for", wait, "error", err)
		backoff.Sleep(s.stopping, wait)
	}
}

// open opens a stream that continues the last one, and subscribes to the worker's jobs. If the answer to the subscription is lost,
// jobs may have followed it, so the next stream continues this one.
func (s *streams) open() (*client.Stream, *client.Subscription, error) {
	// When the worker stops before the answers, they will arrive soon, unless the server is down. Jobs may follow them,
	// which the worker must return to their queues.
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	defer context.AfterFunc(s.stopping, func() {
		backoff.Sleep(ctx, lastAnswer)
		cancel()
	})()
	stream, err := s.client.OpenStream(ctx, client.StreamOptions{RunnerID: s.RunnerID, Linger: streamLinger, Resume: s.resume, Claims: s.leases.held(maxCredit)})
	if err != nil {
		return nil, nil, err
	}
	s.resume = stream.ID
	s.leases.tickleAll(nil) // claims that the stream has not taken over may be lost; all others need a tickle to keep their lease
	credit := s.claims.wanted()
	s.transport.begins.Store(stream) // the first jobs may begin before Subscribe returns
	s.begins.again(stream)
	sub, err := stream.Subscribe(ctx, client.SubscribeOptions{
		Clients: s.Clients, Types: s.Types, Strategy: s.Strategy, LeaseMs: s.Lease.Milliseconds(), Credit: credit,
		Take: s.take, Failed: func(err error) { s.Logger.Warn("the server cannot claim; it will retry", "error", err) },
	})
	if err != nil {
		stream.Abort() // the stream has taken over the jobs that run
		return nil, nil, fmt.Errorf("subscribe: %w", err)
	}
	s.claims.subscribed(credit)
	s.stream.Store(stream)
	return stream, sub, nil
}

// serve keeps the credit of the stream equal to the number of jobs that the worker can hold, until the stream ends or
// the worker stops. When the worker stops, the stream stays open for reports.
func (s *streams) serve(stream *client.Stream, sub *client.Subscription) {
	defer func() {
		s.claims.unsubscribed() // until the next attempt has failed
		if s.stopping.Err() == nil {
			return
		}
		ctx, cancel := context.WithTimeout(s.ctx, lastAnswer)
		defer cancel()
		if err := sub.End(ctx); err != nil {
			stream.Abort() // so that no jobs arrive; some may still run
		}
	}()
	for {
		select {
		case <-stream.Done():
			s.stream.CompareAndSwap(stream, nil)
			s.leases.tickleAll(stream)
			s.Logger.Debug("the worker's stream has ended", "error", stream.Err())
			return
		case <-s.stopping.Done():
			return
		case <-s.claims.changed:
		}
		sub.SetCredit(s.claims.decided())
	}
}

// take adds jobs that the stream has sent.
func (s *streams) take(got *client.Claim) {
	// The user's OnEvent must not delay the stream.
	s.claims.underWay.Go(func() { s.OnEvent(Event{Claim: got.ID, Jobs: len(got.Jobs)}) })
	// The server has stamped the claim at some earlier time. So its lease is counted from its arrival, less a tenth.
	unknown := got.Received.Add(-time.Duration(got.LeaseMs) * time.Millisecond)
	s.jobs.giveBack(s.jobs.take(got, unknown))
}
