package opsqueue

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"sync/atomic"
	"time"
)

// connectionColours are the names of the first connections if OPSQUEUE_DEBUG_CONNECTIONS is set. They are easier to tell
// apart in logs than UUIDs.
var connectionColours = [24]string{
	"red", "green", "blue", "yellow", "magenta", "cyan", "orange", "purple", "brown", "pink", "olive", "teal",
	"navy", "maroon", "lime", "aqua", "silver", "gold", "violet", "indigo", "coral", "salmon", "khaki", "crimson",
}

// ConnectionNames gives each consumer's connection its conn_id: a UUID of version 7. Many goroutines may use it.
type ConnectionNames struct {
	Colours bool // the first 24 connections have the names of colours
	given   atomic.Int64
}

// Next returns the name of a connection that began now.
func (c *ConnectionNames) Next(now time.Time) string {
	if n := c.given.Add(1); c.Colours && n <= int64(len(connectionColours)) {
		return connectionColours[n-1]
	}
	var id [16]byte
	binary.BigEndian.PutUint64(id[:], uint64(now.UnixMilli())<<16)
	_, _ = rand.Read(id[6:]) // never fails
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	text := hex.EncodeToString(id[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}
