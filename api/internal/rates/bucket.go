package rates

import (
	"time"

	"golang.org/x/time/rate"
)

// mostDebt bounds how long a bucket can owe.
const mostDebt = time.Hour

// bucket has what a key may use in a second. It is full at first.
type bucket struct{ *rate.Limiter }

// newBucket returns a bucket for a rate. It holds at least one unit, because nothing smaller can be used.
func newBucket(perSecond float64) *bucket {
	return &bucket{rate.NewLimiter(rate.Limit(perSecond), max(1, int(perSecond)))}
}

// wait returns how long the bucket stays empty; 0: something is in it.
func (b *bucket) wait(now time.Time) time.Duration {
	left := b.TokensAt(now)
	if left >= 1 {
		return 0
	}
	return max(1, time.Duration((1-left)/float64(b.Limit())*float64(time.Second)))
}

// take takes n units, unless the bucket is empty. Then it returns how long to wait, which is otherwise 0.
func (b *bucket) take(now time.Time, n int64) time.Duration {
	if wait := b.wait(now); wait > 0 {
		return wait
	}
	b.charge(now, n)
	return 0
}

// charge takes n units, also if the bucket then owes. A reservation can have at most as many units as the bucket holds.
func (b *bucket) charge(now time.Time, n int64) {
	n = min(n, int64(b.TokensAt(now)+mostDebt.Seconds()*float64(b.Limit())))
	for n > 0 {
		part := min(n, int64(b.Burst()))
		b.ReserveN(now, int(part))
		n -= part
	}
}

// full reports whether the bucket is as it was at first.
func (b *bucket) full(now time.Time) bool { return b.TokensAt(now) >= float64(b.Burst()) }
