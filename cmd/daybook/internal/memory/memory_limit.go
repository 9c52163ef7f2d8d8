package memory

import (
	"fmt"
	"math"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/rs/zerolog"
)

// containerShare is the part of a container's memory limit that the Go runtime may use. The rest is for the kernel's
// buffers of connections and for the files that the server is reading and writing.
const containerShare = 0.85

// FollowContainer makes the garbage collector work harder when the memory of the process approaches the limit of its
// cgroup, so that the kernel does not kill the process for memory that could have been collected. GOMEMLIMIT has
// precedence. Without a limit of the cgroup FollowContainer changes nothing.
func FollowContainer(provider memlimit.Provider, log zerolog.Logger) error {
	limit, err := memlimit.Set(memlimit.WithProvider(memlimit.ApplyRatio(provider, containerShare)), memlimit.WithRatio(1))
	if err != nil {
		return fmt.Errorf("read the memory limit of the container: %w", err)
	}
	log.Debug().Int64("bytes", limit).Msg("soft limit of memory")
	return nil
}

// queueShare is the part of a server's memory that all queues may take: in a container of a gigabyte, 310,000 queues
// with short names. The rest is for requests, caches and garbage. A start reads all queues.
const queueShare = 0.2

// ForQueues returns how much memory all queues may take with a limit of the process; 0 without one.
func ForQueues(limit int64) int64 {
	if limit == math.MaxInt64 {
		return 0
	}
	return int64(queueShare * float64(limit))
}
