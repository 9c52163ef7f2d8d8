//go:build !race

package runner

import "time"

// idleTime is how long the runners of tests wait for another job.
const idleTime = 300 * time.Millisecond
