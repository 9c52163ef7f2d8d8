//go:build race

package runner

import "time"

// idleTime is how long the runners of tests wait for another job. With the race detector everything takes longer.
const idleTime = 1200 * time.Millisecond
