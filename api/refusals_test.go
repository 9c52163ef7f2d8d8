package api

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// TestRefusalsAreSummedUp: the first refusal with a code is in the log at once, and those of the next minute in one line after it.
func TestRefusalsAreSummedUp(t *testing.T) {
	now := int64(1_000_000)
	var log bytes.Buffer
	r := &refusals{wrong: wrongKeys{now: func() int64 { return now }}, log: zerolog.New(&log)}
	key := job.KeyText("shop", [job.SecretBytes]byte{1})
	peer := netip.MustParseAddr("192.0.2.7")
	lines := func() (list []string) {
		for line := range strings.Lines(log.String()) {
			list = append(list, line)
		}
		log.Reset()
		return list
	}
	_ = r.refuse(peer, key, errNoKey)
	first := lines()
	testkit.Holds(t, len(first) == 1 && strings.Contains(first[0], `"audit":true`) && strings.Contains(first[0], `"requests":1`) && strings.Contains(first[0], "192.0.2.7"), first)
	for range 99 {
		_ = r.refuse(peer, key, errNoKey)
	}
	r.flush()
	testkit.Equal(t, len(lines()), 0)
	_ = r.refuse(peer, key, errWrongKey)
	other := lines()
	testkit.Holds(t, len(other) == 1 && strings.Contains(other[0], `"last_key":"shop"`) && !strings.Contains(other[0], key), "another code", other)
	_ = r.refuse(peer, "a secret", errLoginEnded)
	testkit.Lacks(t, strings.Join(lines(), ""), "secret", "last_key")
	now += summedMs
	r.flush()
	summed := lines()
	testkit.Holds(t, len(summed) == 1 && strings.Contains(summed[0], `"requests":99`), summed)
	r.flush()
	testkit.Equal(t, len(lines()), 0)
}
