package terminal

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// TimeFlag is a time in unix milliseconds; 0 means that it was not given. The text of the flag is this number, RFC 3339
// with or without zone and seconds, or a time of today or tomorrow. A time without zone is local. A local time that
// does not exist or exists twice, because the clocks change, is refused. A date alone is the first moment of that day.
type TimeFlag int64

// TimeForms are the forms of a time, for the help of flags.
const TimeForms = "RFC 3339, \"tomorrow 08:00\", or unix milliseconds; without a zone, in the local time zone, where a time that a change of the clocks leaves out or repeats is refused"

// maxPast is how far in the past a time for a future event may be. Clocks differ, and scripts are late.
const maxPast = 24 * time.Hour

// NotPast refuses a time that is long ago: most are seconds in place of milliseconds, or a wrong date.
func (t TimeFlag) NotPast(name string) error {
	at := time.UnixMilli(int64(t))
	if t == 0 || Now().Sub(at) <= maxPast {
		return nil
	}
	question := ""
	if at.Year() == 1970 {
		question = fmt.Sprintf(". If these are seconds, give milliseconds: %d000", int64(t))
	}
	return fmt.Errorf("%s is %s, which is more than a day ago%s", name, at.In(Now().Location()).Format("2006-01-02 15:04:05 -07:00"), question)
}

// Now is the clock of the flags; tests set it.
var Now = time.Now

func (t *TimeFlag) Set(text string) error {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		if ms <= 0 {
			return fmt.Errorf("%q is not a time after 1970", text)
		}
		*t = TimeFlag(ms)
		return nil
	}
	local := Now().Location()
	rest := text
	for days, name := range []string{"today", "tomorrow"} {
		if after, ok := strings.CutPrefix(rest, name); ok && (after == "" || after[0] == ' ') {
			y, m, d := Now().Date()
			rest = time.Date(y, m, d+days, 0, 0, 0, 0, time.UTC).Format(time.DateOnly) + after
		}
	}
	if at, err := time.Parse(time.RFC3339Nano, rest); err == nil && at.UnixMilli() > 0 {
		*t = TimeFlag(at.UnixMilli())
		return nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, "2006-01-02 15:04", time.DateOnly} {
		wall, err := time.Parse(layout, rest)
		if err != nil {
			continue
		}
		at, err := localTime(text, wall, local, layout == time.DateOnly)
		if err != nil {
			return err
		}
		if at.UnixMilli() > 0 {
			*t = TimeFlag(at.UnixMilli())
			return nil
		}
	}
	return fmt.Errorf("%q is not a time like 2026-12-24T18:00:00Z, \"2026-12-24 18:00\", \"tomorrow 08:00\" or unix milliseconds", text)
}

// localTime returns the moment at which the clocks of a zone show the date and time of wall, which is in UTC. If there
// are two moments or none, the error names the two readings. For a day alone (isDay) it returns the earlier of two
// moments, or if there is none, the moment at which the clocks change.
func localTime(text string, wall time.Time, zone *time.Location, isDay bool) (time.Time, error) {
	var readings, exact []time.Time // with each offset of the days around wall; those that the clocks show
	const around = 36 * time.Hour   // offsets are from -12 to +14 hours, and some zones have left out a day
	var lastChange time.Time
	for at, end := wall.Add(-around), wall.Add(around); ; {
		begin, next := at.In(zone).ZoneBounds()
		_, offset := at.In(zone).Zone()
		reading := wall.Add(-time.Duration(offset) * time.Second).In(zone)
		readings = append(readings, reading)
		if reading.Format(time.DateTime) == wall.Format(time.DateTime) && !slices.ContainsFunc(exact, reading.Equal) {
			exact = append(exact, reading)
		}
		if !begin.IsZero() && begin.After(wall.Add(-around)) && len(exact) == 0 {
			lastChange = begin
		}
		if next.IsZero() || next.After(end) {
			break
		}
		at = next
	}
	slices.SortFunc(exact, time.Time.Compare)
	switch {
	case len(exact) == 1, len(exact) > 1 && isDay:
		return exact[0], nil
	case len(exact) == 0 && isDay:
		return lastChange, nil // the day begins when the clocks go forward
	}
	what := "does not exist"
	if len(exact) > 1 {
		what, readings = "exists twice", exact
	}
	of := zone.String()
	if zone == time.Local {
		of = "the local time zone"
	}
	before, after := readings[0].Format(time.RFC3339Nano), readings[len(readings)-1].Format(time.RFC3339Nano)
	return time.Time{}, fmt.Errorf("%q %s in %s, since the clocks change; give %s or %s", text, what, of, before, after)
}

func (t *TimeFlag) String() string {
	if *t == 0 {
		return ""
	}
	return time.UnixMilli(int64(*t)).UTC().Format(time.RFC3339Nano)
}
func (t *TimeFlag) Type() string { return "time" }
