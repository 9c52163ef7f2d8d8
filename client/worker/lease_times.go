package worker

import (
	"time"

	"github.com/daybookq/daybook/client"
)

// leaseTimes are the times of a claim's next tickle and of its lease's end.
type leaseTimes struct {
	tickleAt time.Time
	endsAt   time.Time
	leaseEnd time.Time // endsAt, unless the stream of the claim was lost since the last tickle
	tickling bool      // a tickle is outstanding
	failures int       // failed tickles since the last success
	released bool      // the claim is no longer tickled
}

// startLease returns when a new claim is tickled, and when its lease ends.
//
// A lease begins when the server stamps the claim, which is between sending and receiving. Counted from sending, the
// lease ends too early in the worker's view, which is safe. But a claim that waited for jobs at the server may have
// been sent long before. Its lease is counted from receiving, less a tenth for the time that the answer took. If the
// answer took longer, a handler may continue for the difference after the lease has ended, until the first tickle.
//
// The answer to a repeat does not say when the first answer was lost. Then the claim is tickled at once, and counts as
// lost after a third of the lease if no tickle succeeds.
func startLease(lease time.Duration, sent time.Time, got *client.Claim) (l leaseTimes) {
	l.endsAt = sent.Add(lease)
	l.tickleAt = got.Received.Add(tickleAfter(lease))
	late := got.Received.Add(lease - lease/10)
	if got.Replayed {
		l.tickleAt = got.Received
		late = got.Received.Add(lease / 3)
	}
	if late.After(l.endsAt) {
		l.endsAt = late
	}
	l.leaseEnd = l.endsAt
	return l
}

// tickleAfter returns about a third of a lease, so that two tickles in a row may fail.
func tickleAfter(lease time.Duration) time.Duration {
	return lease/3 - lease/30 + jitter(lease/15)
}

// nextLook returns when the claim is tickled or its lease ends.
func (l *leaseTimes) nextLook() time.Time {
	if l.tickling || l.endsAt.Before(l.tickleAt) {
		return l.endsAt
	}
	return l.tickleAt
}
