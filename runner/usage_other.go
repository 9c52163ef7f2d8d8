//go:build !linux

package runner

import "time"

// processorTime and residentBytes are implemented on Linux only.
func processorTime() time.Duration { return 0 }
func residentBytes() int64         { return 0 }
