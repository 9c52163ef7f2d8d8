package memory

import (
	"math"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	// ballastBytes makes the garbage collector wait for more garbage. The heap of a server has about 20 MiB in use, so
	// with Go's default (GOGC=100) it would collect after each 20 MiB of garbage: 14 times a second while it creates
	// 300,000 jobs a second. Each collection stops all requests twice, for as long as it takes to stop all threads,
	// which on a busy machine is tens of milliseconds. A runner that runs 100,000 jobs a second, with 4 MiB in use,
	// would collect 40 times a second.
	ballastBytes = 32 << 20
	// ballastLimit is the least memory limit with which there is ballast. The ballast counts against the limit,
	// although it takes no memory.
	ballastLimit = 700 << 20
	// unlimitedGOGC and unlimitedBallast apply without a memory limit. Only GOGC bounds the garbage then, and with 100
	// a server that needs 300 MiB for a moment would keep 600. A small heap has about as much garbage as with a limit.
	unlimitedGOGC    = 50
	unlimitedBallast = 2 * ballastBytes
)

// ballast is a part of the heap that is never read or written, so that it takes addresses and no memory.
//
// A higher GOGC would have the same effect for a small heap, but it is a factor: with GOGC=400 a server that needs 200
// MiB would take a gigabyte. Adjusting the factor after each collection would stop all requests for each change.
var ballast []byte

// Limit returns how many bytes this process may have: the soft limit, or the container's limit if it is lower.
func Limit() int64 {
	soft := debug.SetMemoryLimit(-1) // reads the limit without changing it
	container, err := memlimit.FromCgroup()
	if err != nil || container > math.MaxInt64 { // there is no limit
		return soft
	}
	return min(soft, int64(container))
}

// DelayCollections sets how much garbage the collector waits for, unless GOGC is set or the memory limit is small.
func DelayCollections(limit int64) {
	switch {
	case os.Getenv("GOGC") != "" || limit < ballastLimit:
	case limit == math.MaxInt64:
		debug.SetGCPercent(unlimitedGOGC)
		ballast = make([]byte, unlimitedBallast)
	default:
		ballast = make([]byte, ballastBytes)
	}
}
