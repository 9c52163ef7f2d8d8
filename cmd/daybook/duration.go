package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// durationFlag is a time.Duration that also knows days, in which retention is thought of.
type durationFlag time.Duration

func (d *durationFlag) Set(text string) error {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 32)
		if err != nil {
			return fmt.Errorf("%q is not a number of days", text)
		}
		*d = durationFlag(time.Duration(n) * 24 * time.Hour)
		return nil
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is not a duration like 300s, 5m, 12h or 14d", text)
	}
	*d = durationFlag(parsed)
	return nil
}

func (d *durationFlag) String() string {
	const day = 24 * time.Hour
	if v := time.Duration(*d); v >= day && v%day == 0 {
		return strconv.FormatInt(int64(v/day), 10) + "d"
	}
	return time.Duration(*d).String()
}

func (d *durationFlag) Type() string { return "duration" }

func (d durationFlag) ms() int64 { return time.Duration(d).Milliseconds() }

// checkDuration refuses a duration that is outside of min … max, unless it is 0 and zero says that 0 is allowed.
func checkDuration(flag string, d durationFlag, min, max int64, zero bool) error {
	if zero && d == 0 || d.ms() >= min && d.ms() <= max {
		return nil
	}
	least, most := durationFlag(time.Duration(min)*time.Millisecond), durationFlag(time.Duration(max)*time.Millisecond)
	or := ""
	if zero && min > 0 {
		or = ", or 0"
	}
	return fmt.Errorf("%s must be from %s to %s%s, not %s", flag, &least, &most, or, &d)
}

// bytesFlag is a number of bytes, with k, M or G (or KiB, MiB, GiB) for powers of 1024.
type bytesFlag int64

func (b *bytesFlag) Set(text string) error {
	number, shift := text, 0
	plain := strings.TrimSuffix(text, "iB") // 1GiB is 1G
	for suffix, bits := range map[string]int{"k": 10, "K": 10, "M": 20, "G": 30, "T": 40} {
		if n, ok := strings.CutSuffix(plain, suffix); ok {
			number, shift = n, bits
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > 1<<62>>shift {
		return fmt.Errorf("%q is not a number of bytes like 1048576, 512M or 10G", text)
	}
	*b = bytesFlag(n << shift)
	return nil
}

func (b *bytesFlag) String() string { return strconv.FormatInt(int64(*b), 10) }
func (b *bytesFlag) Type() string   { return "bytes" }
