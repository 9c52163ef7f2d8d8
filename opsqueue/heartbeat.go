package opsqueue

import "time"

// HeartbeatPayload is the payload of the pings that the original sends: U+1F493 in UTF-8. Clients accept any payload.
const HeartbeatPayload = "\U0001F493"

// Heartbeat decides when the server pings a consumer's connection, and when it drops the connection. It has no clock: each
// call has the time, which must not decrease. One goroutine may use it.
//
// A ping is due at once, and then after each interval in which nothing was received. When a ping is due and more than
// mostMissed pings were sent since the last frame that was received, the connection is dropped instead. So a peer that is
// silent is dropped mostMissed+1 intervals after its first ping: 40 s with the original's defaults.
type Heartbeat struct {
	interval   time.Duration
	mostMissed uint64
	missed     uint64    // pings since the last frame
	due        time.Time // when the next ping is sent or the connection is dropped
}

// NewHeartbeat returns the heartbeat of a connection that began now, after its Init message was sent. The interval must be
// longer than 0.
func NewHeartbeat(interval time.Duration, mostMissed uint64, now time.Time) *Heartbeat {
	return &Heartbeat{interval: interval, mostMissed: mostMissed, due: now}
}

// Beat is what a connection must do.
type Beat int

// The beats.
const (
	Wait Beat = iota // nothing until Due
	Ping
	Drop
)

// Due returns the time at which the caller must call Tick next, unless it calls Received before.
func (h *Heartbeat) Due() time.Time { return h.due }

// Tick returns what must be done now.
func (h *Heartbeat) Tick(now time.Time) Beat {
	switch {
	case now.Before(h.due):
		return Wait
	case h.missed > h.mostMissed:
		return Drop
	}
	h.missed++
	h.due = now.Add(h.interval)
	return Ping
}

// Received notes a frame of any kind from the peer. Frames to the peer do not count.
func (h *Heartbeat) Received(now time.Time) {
	h.missed = 0
	h.due = now.Add(h.interval)
}
