//go:build !linux

package script

import "time"

func pause(time.Duration) {} // timers are too coarse for it
