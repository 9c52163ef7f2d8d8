package opsqueue

import (
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestHeartbeat simulates connections second by second, with the original's defaults.
func TestHeartbeat(t *testing.T) {
	start := time.Unix(1750000000, 0)
	for _, c := range []struct {
		name     string
		most     uint64
		received []int // seconds at which a frame arrives, after the tick of that second
		pings    []int
		drop     int // 0: not within two minutes
	}{
		{"a silent peer", 3, nil, []int{0, 10, 20, 30}, 40},
		{"a peer that answers each ping", 3, []int{0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110}, []int{0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110}, 0},
		{"a peer that sends often", 3, []int{5, 12, 21, 30, 38, 47, 56, 65, 74, 83, 92, 101, 110, 119}, []int{0}, 0},
		{"a peer that answers the last ping", 3, []int{35}, []int{0, 10, 20, 30, 45, 55, 65, 75}, 85},
		{"a frame in the second of the drop is too late", 3, []int{40}, []int{0, 10, 20, 30}, 40},
		{"no ping may be missed", 0, nil, []int{0}, 10},
		{"no ping may be missed and none is", 0, []int{9, 18, 27}, []int{0, 37}, 47},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := NewHeartbeat(10*time.Second, c.most, start)
			pings, received := c.pings, c.received
			for second := range 120 {
				now := start.Add(time.Duration(second) * time.Second)
				beat := h.Tick(now)
				switch {
				case beat == Drop && second == c.drop:
					if len(pings) > 0 {
						t.Errorf("dropped before the pings %v", pings)
					}
					return
				case len(pings) > 0 && pings[0] == second:
					if beat != Ping || !h.Due().Equal(now.Add(10*time.Second)) {
						t.Fatalf("%d s: beat %d, due %v", second, beat, h.Due())
					}
					if again := h.Tick(now); again != Wait {
						t.Fatalf("%d s: a second tick at the same time is %d", second, again)
					}
					pings = pings[1:]
				case beat != Wait:
					t.Fatalf("%d s: beat %d", second, beat)
				}
				if len(received) > 0 && received[0] == second {
					h.Received(now)
					received = received[1:]
				}
			}
			if c.drop != 0 || len(pings) > 0 {
				t.Errorf("it was not dropped at %d s, and the pings %v were not sent", c.drop, pings)
			}
		})
	}
}

// TestHeartbeatLate: after a late tick there is one ping, not one for each missed interval.
func TestHeartbeatLate(t *testing.T) {
	start := time.Unix(1750000000, 0)
	h := NewHeartbeat(time.Second, 3, start)
	now := start.Add(time.Minute)
	testkit.MustEqual(t, h.Tick(now), Ping)
	testkit.Equal(t, h.Tick(now.Add(999*time.Millisecond)), Wait)
	testkit.Equal(t, h.Tick(now.Add(time.Second)), Ping)
}
