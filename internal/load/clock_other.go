//go:build !linux

package load

import "time"

// Sleep sleeps with a Go timer.
func Sleep(d time.Duration) { time.Sleep(d) }
