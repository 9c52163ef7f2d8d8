package api

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestRefusalsAreSummedUp: the first refusal with a code is in the log at once, and those of the next minute in one line after it.
func TestRefusalsAreSummedUp(t *testing.T) {
	now := int64(1_000_000)
	var log bytes.Buffer
	r := &refusals{wrong: wrongKeys{now: func() int64 { return now }}, log: zerolog.New(&log)}
	peer := netip.MustParseAddr("192.0.2.7")
	lines := func() (list []string) {
		for line := range strings.Lines(log.String()) {
			list = append(list, line)
		}
		log.Reset()
		return list
	}
	_ = r.refuse(peer, errNoKey)
	first := lines()
	testkit.Holds(t, len(first) == 1 && strings.Contains(first[0], `"audit":true`) && strings.Contains(first[0], `"requests":1`) && strings.Contains(first[0], "192.0.2.7"), first)
	for range 99 {
		_ = r.refuse(peer, errNoKey)
	}
	r.flush()
	testkit.Equal(t, len(lines()), 0)
	_ = r.refuse(peer, errWrongKey)
	testkit.Equal(t, len(lines()), 1, "another code")
	now += summedMs
	r.flush()
	summed := lines()
	testkit.Holds(t, len(summed) == 1 && strings.Contains(summed[0], `"requests":99`), summed)
	r.flush()
	testkit.Equal(t, len(lines()), 0)
}
