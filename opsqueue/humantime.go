package opsqueue

import (
	"errors"
	"fmt"
	"math"
	"time"
	"unicode"
	"unicode/utf8"
)

// durationUnits are the units of a duration, by name. A month has 30.44 days and a year 365.25.
var durationUnits = map[string]time.Duration{}

func init() {
	for _, u := range []struct {
		unit  time.Duration
		names []string
	}{
		{time.Nanosecond, []string{"nanos", "nsec", "ns"}},
		{time.Microsecond, []string{"usec", "us", "µs"}},
		{time.Millisecond, []string{"millis", "msec", "ms"}},
		{time.Second, []string{"seconds", "second", "secs", "sec", "s"}},
		{time.Minute, []string{"minutes", "minute", "mins", "min", "m"}},
		{time.Hour, []string{"hours", "hour", "hrs", "hr", "h"}},
		{24 * time.Hour, []string{"days", "day", "d"}},
		{7 * 24 * time.Hour, []string{"weeks", "week", "wks", "wk", "w"}},
		{2_630_016 * time.Second, []string{"months", "month", "M"}},
		{31_557_600 * time.Second, []string{"years", "year", "yrs", "yr", "y"}},
	} {
		for _, name := range u.names {
			durationUnits[name] = u.unit
		}
	}
}

var (
	errEmptyDuration = errors.New("value was empty")
	errLongDuration  = errors.New("number is too large or cannot be represented without a lack of precision (values below 1ns are not supported)")
)

// parseDuration reads a duration in the format of the Rust library humantime: a sum of numbers with units, such as
// `10 minutes`, `1h 30m`, `1h30m`, `1.5s` or `0`. Units distinguish m from M. The longest duration is 292 years; that of
// the original is longer.
func parseDuration(text string) (time.Duration, error) {
	var sum time.Duration
	p := durationParser{text: text}
	for terms := 0; ; terms++ {
		p.skip(unicode.IsSpace)
		if p.at == len(text) {
			if terms == 0 {
				return 0, errEmptyDuration
			}
			return sum, nil
		}
		whole := p.skip(isDigit)
		if whole == "" {
			return 0, fmt.Errorf("expected number at %d", p.at)
		}
		fraction := ""
		if p.at < len(text) && text[p.at] == '.' {
			point := p.at
			p.at++
			if fraction = p.skip(isDigit); fraction == "" {
				return 0, fmt.Errorf("invalid character at %d", point)
			}
		}
		p.skip(unicode.IsSpace)
		name := p.skip(isUnit)
		if next, _ := utf8.DecodeRuneInString(text[p.at:]); p.at < len(text) && !isDigit(next) && !unicode.IsSpace(next) {
			return 0, fmt.Errorf("invalid character at %d", p.at)
		}
		unit, known := durationUnits[name]
		switch {
		case name == "" && text == "0":
			return 0, nil
		case name == "":
			return 0, fmt.Errorf("time unit needed, for example %[1]ssec or %[1]sms", whole)
		case !known:
			return 0, fmt.Errorf("unknown time unit %q, supported units: ns, us/µs, ms, sec, min, hours, days, weeks, months, years (and few variations)", name)
		}
		term, ok := durationTerm(whole, fraction, unit)
		if !ok || term > math.MaxInt64-sum {
			return 0, errLongDuration
		}
		sum += term
	}
}

// durationParser is a position in a text.
type durationParser struct {
	text string
	at   int // in bytes
}

// skip moves past the characters of a class and returns them.
func (p *durationParser) skip(class func(rune) bool) string {
	start := p.at
	for p.at < len(p.text) {
		c, size := utf8.DecodeRuneInString(p.text[p.at:])
		if !class(c) {
			break
		}
		p.at += size
	}
	return p.text[start:p.at]
}

func isDigit(c rune) bool { return '0' <= c && c <= '9' }
func isUnit(c rune) bool  { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == 'µ' }

// durationTerm returns a number of a unit. It returns false if that is too long or not a whole number of nanoseconds.
func durationTerm(whole, fraction string, unit time.Duration) (sum time.Duration, ok bool) {
	var n time.Duration
	for _, digit := range whole {
		d := time.Duration(digit - '0')
		if n > (math.MaxInt64-d)/10 {
			return 0, false
		}
		n = 10*n + d
	}
	if n > math.MaxInt64/unit {
		return 0, false
	}
	sum = n * unit
	for _, digit := range fraction {
		d := time.Duration(digit - '0')
		if unit%10 != 0 && d != 0 {
			return 0, false
		}
		if unit /= 10; d*unit > math.MaxInt64-sum {
			return 0, false
		}
		sum += d * unit
	}
	return sum, true
}
