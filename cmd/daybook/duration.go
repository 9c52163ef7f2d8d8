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

// bytesFlag is a number of bytes, with k, M or G for powers of 1024.
type bytesFlag int64

func (b *bytesFlag) Set(text string) error {
	number, shift := text, 0
	for suffix, bits := range map[string]int{"k": 10, "K": 10, "M": 20, "G": 30, "T": 40} {
		if n, ok := strings.CutSuffix(text, suffix); ok {
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
