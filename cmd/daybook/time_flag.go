package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// timeFlag is a time in unix milliseconds. It may be given as such, in RFC 3339 with or without zone and seconds, or as a time
// of today or tomorrow; a time without zone is local. 0 means that it was not given.
type timeFlag int64

// timeForms are the forms of a time, for the help of flags.
const timeForms = "RFC 3339, \"tomorrow 08:00\", or unix milliseconds; without a zone, in the local time zone"

// maxPast is how long ago a time may be that says when something is to happen. Clocks differ, and scripts are late.
const maxPast = 24 * time.Hour

// notPast refuses a time that is long ago: most are seconds in place of milliseconds, or a wrong date.
func (t timeFlag) notPast(name string) error {
	at := time.UnixMilli(int64(t))
	if t == 0 || now().Sub(at) <= maxPast {
		return nil
	}
	question := ""
	if at.Year() == 1970 {
		question = fmt.Sprintf(". If these are seconds, give milliseconds: %d000", int64(t))
	}
	return fmt.Errorf("%s is %s, which is more than a day ago%s", name, at.In(now().Location()).Format("2006-01-02 15:04:05 -07:00"), question)
}

// now is the clock of the flags; tests set it.
var now = time.Now

func (t *timeFlag) Set(text string) error {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		if ms <= 0 {
			return fmt.Errorf("%q is not a time after 1970", text)
		}
		*t = timeFlag(ms)
		return nil
	}
	local := now().Location()
	rest := text
	for days, name := range []string{"today", "tomorrow"} {
		if after, ok := strings.CutPrefix(rest, name); ok && (after == "" || after[0] == ' ') {
			rest = now().AddDate(0, 0, days).Format(time.DateOnly) + after
		}
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, "2006-01-02 15:04", time.DateOnly} {
		if at, err := time.ParseInLocation(layout, rest, local); err == nil && at.UnixMilli() > 0 {
			*t = timeFlag(at.UnixMilli())
			return nil
		}
	}
	return fmt.Errorf("%q is not a time like 2026-12-24T18:00:00Z, \"2026-12-24 18:00\", \"tomorrow 08:00\" or unix milliseconds", text)
}

func (t *timeFlag) String() string {
	if *t == 0 {
		return ""
	}
	return time.UnixMilli(int64(*t)).UTC().Format(time.RFC3339Nano)
}
func (t *timeFlag) Type() string { return "time" }
