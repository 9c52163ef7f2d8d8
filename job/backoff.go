package job

import "math/bits"

// Backoff is the wait after a retry or error: InitialMs at first, then FactorMilli/1000 times as long after each further
// attempt, at most MaxMs.
type Backoff struct {
	InitialMs   int64
	FactorMilli int64 // 1000 … MaxFactorMilli
	MaxMs       int64
}

// MaxFactorMilli bounds the growth of a backoff to a hundredfold per attempt.
const MaxFactorMilli = 100_000

// Delay returns the wait in milliseconds after the given number of attempts (1 or more). The wait is within a quarter of
// the exact value either way, and never above MaxMs. random supplies the jitter: every value in these bounds is equally
// likely, and a wait that has grown to MaxMs is drawn from the quarter below it. The computation uses whole numbers only,
// so that every machine gets the same result.
func (b Backoff) Delay(attempts int, random uint64) int64 {
	delay := min(b.InitialMs, b.MaxMs)
	for range attempts - 1 {
		if b.FactorMilli <= 1000 || delay >= b.MaxMs || delay == 0 {
			break
		}
		hi, lo := bits.Mul64(uint64(delay), uint64(b.FactorMilli))
		if hi != 0 || lo/1000 >= uint64(b.MaxMs) {
			delay = b.MaxMs
			break
		}
		delay = int64(lo / 1000)
	}
	quarter := delay / 4
	shortest, longest := delay-quarter, min(delay+quarter, b.MaxMs)
	return shortest + int64(random%uint64(longest-shortest+1))
}
