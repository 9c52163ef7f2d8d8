//go:build !linux

package load

import "time"

// Sleep sleeps, by a timer of Go.
func Sleep(d time.Duration) { time.Sleep(d) }
