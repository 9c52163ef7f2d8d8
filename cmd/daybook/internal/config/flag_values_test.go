package config

import (
	"math"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestValues: a duration or a number of bytes is read, and shown in a form that is read as the same.
func TestValues(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"300s": 5 * time.Minute, "0": 0, "0s": 0, "1h30m": 90 * time.Minute, "1.5h": 90 * time.Minute, "0.25s": 250 * time.Millisecond,
		"14d": 14 * 24 * time.Hour, "1d12h": 36 * time.Hour, "2w": 14 * 24 * time.Hour, "1y": 365 * 24 * time.Hour,
		"500ms": 500 * time.Millisecond,
	} {
		var d DurationFlag
		err := d.Set(text)
		testkit.Holds(t, err == nil && time.Duration(d) == want, text, time.Duration(d), err)
		var again DurationFlag
		testkit.Holds(t, again.Set(d.String()) == nil && again == d, text, "shows as", d.String())
	}
	for _, text := range []string{"", "5", "h", "-5s", "-1d", "1.5d", "1h1d", "300y", "1h 30m", "500us", "1.5ms", "1ns", "90m1ns"} {
		d := DurationFlag(time.Second)
		testkit.Holds(t, d.Set(text) != nil && d == DurationFlag(time.Second), text, "is a duration of", time.Duration(d))
	}
	for d, want := range map[time.Duration]string{
		-time.Second: "-1s", -36 * time.Hour: "-1d12h", -time.Microsecond: "-1µs", -1500 * time.Microsecond: "-1.5ms", 0: "0s",
		time.Microsecond: "1µs", time.Second + 1: "1.000000001s", math.MinInt64: "-2562047h47m16.854775808s",
	} {
		flag := DurationFlag(d)
		testkit.Equal(t, flag.String(), want, d, "shows as")
	}
	for text, want := range map[string]int64{"0": 0, "1048576": 1 << 20, "512M": 512 << 20, "10G": 10 << 30, "3k": 3 << 10, "1T": 1 << 40, "1g": 1 << 30, "1.5M": 3 << 19, "10GiB": 10 << 30} {
		var b BytesFlag
		err := b.Set(text)
		testkit.Holds(t, err == nil && int64(b) == want, text, b, err)
	}
	for _, text := range []string{"", "G", "-1", "1X", "9223372036854775807G"} {
		var b BytesFlag
		testkit.Failed(t, b.Set(text))
	}
}
