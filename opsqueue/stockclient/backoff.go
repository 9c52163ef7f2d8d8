package stockclient

import (
	"context"
	"math/rand/v2"
	"time"
)

// The pauses between tries grow like the Fibonacci numbers.
const (
	firstPause   = 10 * time.Millisecond
	longestPause = 5 * time.Second
)

// backoff computes the pauses between tries. The zero value starts with firstPause.
type backoff struct{ last, next time.Duration }

// pause returns the length of the next pause without jitter.
func (b *backoff) pause() time.Duration {
	if b.next == 0 {
		b.next = firstPause
	}
	d := b.next
	b.last, b.next = d, min(b.last+d, longestPause)
	return d
}

// wait waits for the next pause, plus a random part of up to the same length. It returns the error of ctx if that ends
// first.
func (b *backoff) wait(ctx context.Context) error {
	d := b.pause()
	return sleep(ctx, d+rand.N(d))
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
