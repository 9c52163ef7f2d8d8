package opsqueue

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"time"

	"github.com/daybookq/daybook/job"
)

// Version is the version of Opsqueue whose protocol this package serves. Clients compare "v" + Version with their own.
const Version = "0.40.1"

// Config has the settings of a Server.
type Config struct {
	ReservationExpiration  time.Duration // how long a consumer may hold a chunk
	HeartbeatInterval      time.Duration
	MaxMissableHeartbeats  uint64
	MaxChunkRetries        uint32        // maximum runs of a chunk; 0 is as 1
	MaxSubmissionAge       time.Duration // how long an ended submission is kept
	MaxSubmissionsReturned int64
	Origin                 uint64                      // of this process, if it is a node of a cluster; 0: a single server
	FillWait               time.Duration               // how long a submission that another node may fill must not have grown before it counts as left; 0: 30 s
	ConnID                 func() string               // names a connection; nil: a UUID of version 7
	MaxConnections         int                         // open at a time; more wait in the system's backlog. 0: DefaultMaxConnections
	Permit                 func(roles job.Roles) error // why the key of the listener does not permit what needs one of the roles, or nil; nil: everything is permitted
	Log                    *slog.Logger
}

// DefaultMaxConnections is the number of consumers that the original is designed for.
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

// attempts returns max_attempts for the jobs of chunks.
func (c *Config) attempts() int { return int(min(max(c.MaxChunkRetries, 1), job.MaxAttempts)) }

// leaseSlack is how much a claim's lease exceeds the reservation. The server ends reservations itself. The lease only
// matters if the server is killed.
const leaseSlack = 10 * time.Second

// leaseMs returns the lease of claims of chunks, at most a day.
func (c *Config) leaseMs() int64 {
	return min(max((c.ReservationExpiration+leaseSlack).Milliseconds(), job.MinLeaseMs), job.MaxLeaseMs)
}
