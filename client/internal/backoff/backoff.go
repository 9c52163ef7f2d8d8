// Package backoff says how long to wait between two tries.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	first   = 20 * time.Millisecond
	longest = 2 * time.Second
)

// Wait returns a wait that doubles from first to longest. The result is a random part of it, between half and all, so
// that many clients do not retry at the same time. attempt counts from 0.
func Wait(attempt int) time.Duration {
	wait := min(first<<min(attempt, 16), longest)
	return wait/2 + rand.N(wait/2+1)
}

// Sleep returns after d, or when ctx ends.
func Sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
