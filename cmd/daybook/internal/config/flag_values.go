package config

import (
	"fmt"
	"strconv"
	"time"

	"github.com/docker/go-units"
	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/job"
)

// DurationFlag is a duration of whole milliseconds, 0 or more, in the form of Go (300s, 1h30m, 1.5h), or with days and
// weeks (14d, 1d12h, 2w).
type DurationFlag time.Duration

func (d *DurationFlag) Set(text string) error {
	parsed, err := time.ParseDuration(text)
	if err != nil { // Go's form, without days and weeks
		var long model.Duration
		long, err = model.ParseDuration(text)
		parsed = time.Duration(long)
	}
	if err != nil {
		return fmt.Errorf("%q is not a duration like 300s, 1h30m, 1.5h, 14d or 2w", text)
	}
	if parsed < 0 {
		return fmt.Errorf("%q is negative; a duration is 0 or longer", text)
	}
	if parsed%time.Millisecond != 0 {
		return fmt.Errorf("%q has a fraction of a millisecond; durations are whole milliseconds", text)
	}
	*d = DurationFlag(parsed)
	return nil
}

// String returns a text that Set accepts for all durations that are not negative.
func (d *DurationFlag) String() string {
	if t := time.Duration(*d); t%time.Millisecond != 0 { // the library would drop the rest
		return t.String()
	}
	return model.Duration(*d).String()
}
func (d *DurationFlag) Type() string { return "duration" }

func (d DurationFlag) Ms() int64 { return time.Duration(d).Milliseconds() }

// OptionalDuration adds a flag for a duration. The help shows no default, since without the flag something else decides.
func OptionalDuration(flags *pflag.FlagSet, to *DurationFlag, name, usage string) {
	flags.Var(to, name, usage)
	flags.Lookup(name).DefValue = "" // otherwise the help shows 0s
}

// MsIfGiven returns the duration in milliseconds, or nil if the command line has no such flag.
func (d DurationFlag) MsIfGiven(cmd *cobra.Command, name string) *int64 {
	if !cmd.Flags().Changed(name) {
		return nil
	}
	ms := d.Ms()
	return &ms
}

// StrategyFlag is a client.Strategy. The flags of a claim and of a runner have the same meaning.
type StrategyFlag client.Strategy

const StrategyHelp = "which jobs to claim first: oldest, newest, random, fair, or prefer_distinct:KEY/STRATEGY, which prefers values of a key of meta with few active jobs (default: oldest)"

func (s *StrategyFlag) Set(text string) error {
	if text == "" {
		*s = ""
		return nil
	}
	parsed, err := job.ParseStrategy(text)
	if err == nil {
		*s = StrategyFlag(parsed.String())
	}
	return err
}

func (s *StrategyFlag) String() string { return string(*s) }
func (s *StrategyFlag) Type() string   { return "strategy" }

// CheckDuration refuses a duration outside of min … max, which are milliseconds.
func CheckDuration(flag string, d DurationFlag, min, max int64) error {
	if d.Ms() >= min && d.Ms() <= max {
		return nil
	}
	return fmt.Errorf("%s must be %s, not %s", flag, durations(min, max), &d)
}

// CheckDurationOrZero is CheckDuration for a flag that also accepts 0, with a special meaning.
func CheckDurationOrZero(flag string, d DurationFlag, min, max int64) error {
	if d == 0 || d.Ms() >= min && d.Ms() <= max {
		return nil
	}
	return fmt.Errorf("%s must be %s, or 0, not %s", flag, durations(min, max), &d)
}

func durations(min, max int64) string {
	least, most := DurationFlag(time.Duration(min)*time.Millisecond), DurationFlag(time.Duration(max)*time.Millisecond)
	return fmt.Sprintf("from %s to %s", &least, &most)
}

// BytesFlag is a number of bytes, with k, M, G or T (or KiB, MiB and so on) for powers of 1024.
type BytesFlag int64

func (b *BytesFlag) Set(text string) error {
	n, err := units.RAMInBytes(text)
	if err != nil || n < 0 || n > 1<<62 {
		return fmt.Errorf("%q is not a number of bytes like 1048576, 512M or 10G", text)
	}
	*b = BytesFlag(n)
	return nil
}

func (b *BytesFlag) String() string { return strconv.FormatInt(int64(*b), 10) }
func (b *BytesFlag) Type() string   { return "bytes" }
