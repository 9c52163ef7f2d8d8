package opsqueue

import (
	"log/slog"
	"time"

	"github.com/daybookq/daybook/job"
)

// Config are the settings of a Server.
type Config struct {
	ReservationExpiration  time.Duration // how long a consumer may hold a chunk
	HeartbeatInterval      time.Duration
	MaxMissableHeartbeats  uint64
	MaxChunkRetries        uint32        // how often a chunk runs at most; 0 is as 1
	MaxSubmissionAge       time.Duration // how long a submission is kept after its end
	MaxSubmissionsReturned int64
	DebugConnections       bool // the first connections have names of colours
	MaxConnections         int  // that are open at a time; others wait in the backlog of the system. 0: DefaultMaxConnections
	Log                    *slog.Logger
}

// DefaultMaxConnections is as many consumers as the original is meant for.
const DefaultMaxConnections = 10_000

// ConfigOf returns the settings that a command line and the environment say.
func ConfigOf(f Flags, e Environment, log *slog.Logger) Config {
	return Config{
		ReservationExpiration: f.ReservationExpiration, HeartbeatInterval: f.HeartbeatInterval, MaxMissableHeartbeats: f.MaxMissableHeartbeats,
		MaxChunkRetries: f.MaxChunkRetries, MaxSubmissionAge: f.MaxSubmissionAge, MaxSubmissionsReturned: f.MaxSubmissionsReturned,
		DebugConnections: e.DebugConnections, Log: log,
	}
}

// attempts returns max_attempts of the jobs of chunks.
func (c *Config) attempts() int { return int(min(max(c.MaxChunkRetries, 1), job.MaxAttempts)) }

// leaseSlack is how much longer the lease of a claim is than a reservation. The connection ends the reservation, and the
// lease is for what nobody ends: a server that was killed.
const leaseSlack = 10 * time.Second

// leaseMs returns the lease of the claims of chunks. One of more than a day ends after a day.
func (c *Config) leaseMs() int64 {
	return min(max((c.ReservationExpiration+leaseSlack).Milliseconds(), job.MinLeaseMs), job.MaxLeaseMs)
}
