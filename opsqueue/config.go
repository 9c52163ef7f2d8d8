package opsqueue

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"time"

	"github.com/daybookq/daybook/job"
)

// Version is the version of Opsqueue whose protocol this is. Clients compare "v" + Version with their own.
const Version = "0.40.1"

// Config are the settings of a Server.
type Config struct {
	ReservationExpiration  time.Duration // how long a consumer may hold a chunk
	HeartbeatInterval      time.Duration
	MaxMissableHeartbeats  uint64
	MaxChunkRetries        uint32        // how often a chunk runs at most; 0 is as 1
	MaxSubmissionAge       time.Duration // how long a submission is kept after its end
	MaxSubmissionsReturned int64
	ConnID                 func() string // names a connection; nil: a UUID of version 7 for each
	MaxConnections         int           // that are open at a time; others wait in the backlog of the system. 0: DefaultMaxConnections
	Log                    *slog.Logger
}

// DefaultMaxConnections is as many consumers as the original is meant for.
const DefaultMaxConnections = 10_000

// DefaultConfig returns the original's settings.
func DefaultConfig() Config {
	return Config{
		ReservationExpiration: 10 * time.Minute, HeartbeatInterval: 10 * time.Second, MaxMissableHeartbeats: 3, MaxChunkRetries: 10,
		MaxSubmissionAge: time.Hour, MaxSubmissionsReturned: 100_000,
	}
}

// newConnID returns a UUID of version 7.
func newConnID() string {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:], uint64(time.Now().UnixMilli())<<16)
	_, _ = rand.Read(id[6:]) // never fails
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
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
