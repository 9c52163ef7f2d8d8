package opsqueue

import "time"

// Heartbeat decides when the server pings a consumer's connection, and when it drops the connection. It has no clock: the
// caller passes the time, which must not decrease. Only one goroutine may use it.
//
// The first ping is due immediately. After that, a ping is due after each interval in which nothing was received. When a
// ping is due but more than mostMissed pings were sent since the last received frame, the connection is dropped instead.
// So a silent peer is dropped mostMissed+1 intervals after its first ping: 40 s with the original's defaults.
type Heartbeat struct {
	interval   time.Duration
	mostMissed uint64
	missed     uint64    // pings since the last frame
	due        time.Time // when to send the next ping or drop the connection
}

// NewHeartbeat returns the heartbeat of a connection whose Init message was sent now. The interval must be longer than 0.
func NewHeartbeat(interval time.Duration, mostMissed uint64, now time.Time) *Heartbeat {
	return &Heartbeat{interval: interval, mostMissed: mostMissed, due: now}
}

// Beat is an action on a connection.
type Beat int

const (
	Wait Beat = iota // do nothing until Due
	Ping
	Drop
)

// Due returns the time at which the caller must call Tick next, unless it calls Received before.
func (h *Heartbeat) Due() time.Time { return h.due }

// Tick returns the action that is due now.
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

// Received records a frame of any kind from the peer. Frames to the peer do not count.
func (h *Heartbeat) Received(now time.Time) {
	h.missed = 0
	h.due = now.Add(h.interval)
}
