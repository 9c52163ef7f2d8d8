package terminal

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones are the same on each machine

	"github.com/daybookq/daybook/internal/testkit"
)

// TestLocalTimes: a local time that does not exist or exists twice is refused with its two readings, which are accepted. A date
// alone is the first moment of the day.
func TestLocalTimes(t *testing.T) {
	defer func(was func() time.Time) { Now = was }(Now)
	for _, c := range []struct{ zone, text, want, other string }{ // other: the second reading, of a time that is refused
		{"America/New_York", "2027-03-14 01:59:59", "2027-03-14T01:59:59-05:00", ""},
		{"America/New_York", "2027-03-14 02:00", "2027-03-14T03:00:00-04:00", "2027-03-14T01:00:00-05:00"},
		{"America/New_York", "2027-03-14 02:30", "2027-03-14T03:30:00-04:00", "2027-03-14T01:30:00-05:00"},
		{"America/New_York", "2027-03-14T02:59:59", "2027-03-14T03:59:59-04:00", "2027-03-14T01:59:59-05:00"},
		{"America/New_York", "2027-03-14 03:00", "2027-03-14T03:00:00-04:00", ""},
		{"America/New_York", "2027-11-07 00:59", "2027-11-07T00:59:00-04:00", ""},
		{"America/New_York", "2027-11-07 01:00", "2027-11-07T01:00:00-04:00", "2027-11-07T01:00:00-05:00"},
		{"America/New_York", "2027-11-07 02:00", "2027-11-07T02:00:00-05:00", ""},
		{"America/New_York", "2027-03-14", "2027-03-14T00:00:00-05:00", ""},
		{"America/New_York", "tomorrow 02:30", "2027-03-14T03:30:00-04:00", "2027-03-14T01:30:00-05:00"},
		{"Europe/Berlin", "2027-03-28 02:30", "2027-03-28T03:30:00+02:00", "2027-03-28T01:30:00+01:00"},
		{"Europe/Berlin", "2027-10-31T02:30:00", "2027-10-31T02:30:00+02:00", "2027-10-31T02:30:00+01:00"},
		{"Australia/Lord_Howe", "2027-10-03 02:15", "2027-10-03T02:45:00+11:00", "2027-10-03T01:45:00+10:30"},
		{"Australia/Lord_Howe", "2027-04-04 01:45", "2027-04-04T01:45:00+11:00", "2027-04-04T01:45:00+10:30"},
		{"Asia/Beirut", "2027-03-28", "2027-03-28T01:00:00+03:00", ""}, // its midnight does not exist
		{"Asia/Beirut", "2027-03-28 00:00", "2027-03-28T01:00:00+03:00", "2027-03-27T23:00:00+02:00"},
		{"America/Havana", "2027-11-07", "2027-11-07T00:00:00-04:00", ""}, // its midnight exists twice
		{"America/Havana", "2027-11-07 00:30", "2027-11-07T00:30:00-04:00", "2027-11-07T00:30:00-05:00"},
		{"Pacific/Apia", "2011-12-30 12:00", "2011-12-31T12:00:00+14:00", "2011-12-29T12:00:00-10:00"}, // a day that was left out
		{"Pacific/Apia", "2011-12-30", "2011-12-31T00:00:00+14:00", ""},
		{"UTC", "2027-03-14 02:30", "2027-03-14T02:30:00Z", ""},
	} {
		t.Run(c.zone+" "+c.text, func(t *testing.T) {
			zone := testkit.Must(time.LoadLocation(c.zone))(t)
			Now = func() time.Time { return time.Date(2027, 3, 13, 12, 0, 0, 0, zone) }
			var f TimeFlag
			err := f.Set(c.text)
			if c.other == "" {
				got := time.UnixMilli(int64(f)).In(zone).Format(time.RFC3339)
				testkit.Holds(t, err == nil && got == c.want, got, err, "want", c.want)
				return
			}
			testkit.MustHold(t, err != nil && f == 0 && strings.Contains(err.Error(), "; give "+c.want+" or "+c.other), &f, err, c.want, c.other)
			for _, reading := range []string{c.want, c.other} {
				testkit.NoError(t, f.Set(reading))
				testkit.Equal(t, time.UnixMilli(int64(f)).In(zone).Format(time.RFC3339), reading)
			}
		})
	}
}
