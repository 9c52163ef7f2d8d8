package memory

import (
	"errors"
	"math"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestLimitMemory: the runtime gets a share of the container's limit, unless GOMEMLIMIT is set or there is no limit.
func TestLimitMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	of := func(n uint64, err error) memlimit.Provider { return func() (uint64, error) { return n, err } }
	for _, test := range []struct {
		name, env string
		provider  memlimit.Provider
		want      int64
		fails     bool
	}{
		{"a container of 4 GiB", "", of(4<<30, nil), 4 << 30 * 85 / 100, false},
		{"no limit", "", of(0, memlimit.ErrNoLimit), math.MaxInt64, false},
		{"GOMEMLIMIT has precedence", "1GiB", of(4<<30, nil), 1 << 30, false},
		{"unreadable", "", of(0, errors.New("broken")), 1 << 30, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			debug.SetMemoryLimit(1 << 30)
			if test.env != "" {
				t.Setenv("GOMEMLIMIT", test.env)
			}
			err := FollowContainer(test.provider, zerolog.Nop())
			testkit.Equal(t, debug.SetMemoryLimit(-1), test.want)
			testkit.Equal(t, err != nil, test.fails)
		})
	}
}

// TestQueueMemory: queues may take a part of the server's memory; without a limit the part is not bounded.
func TestQueueMemory(t *testing.T) {
	testkit.Equal(t, ForQueues(math.MaxInt64), 0, "without a limit")
	testkit.Equal(t, ForQueues(1000<<20), 200<<20, "with 1000 MiB")
}
