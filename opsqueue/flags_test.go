package opsqueue

import (
	"errors"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestFlagDefaults(t *testing.T) {
	got, err := ParseFlags(nil)
	want := Flags{3999, -1, "opsqueue.db", 10 * time.Minute, 256, 10 * time.Second, 3, 10, time.Hour, 100000}
	if err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

func TestFlags(t *testing.T) {
	with := func(change func(*Flags)) Flags {
		f, err := ParseFlags(nil)
		if err != nil {
			t.Fatal(err)
		}
		change(&f)
		return f
	}
	for line, want := range map[string]Flags{
		"--port 5":                    with(func(f *Flags) { f.Port = 5 }),
		"--port=65535":                with(func(f *Flags) { f.Port = 65535 }),
		"-p 0":                        with(func(f *Flags) { f.Port = 0 }),
		"-p7":                         with(func(f *Flags) { f.Port = 7 }),
		"-p=+007":                     with(func(f *Flags) { f.Port = 7 }),
		"--":                          with(func(f *Flags) {}),
		"--report-bound-port-pipe 12": with(func(f *Flags) { f.ReportBoundPortPipe = 12 }),
		"--report-bound-port-pipe=-1": with(func(f *Flags) { f.ReportBoundPortPipe = -1 }),
		"--database-filename file::memory:?cache=shared":     with(func(f *Flags) { f.DatabaseFilename = "file::memory:?cache=shared" }),
		"--database-filename=a=b":                            with(func(f *Flags) { f.DatabaseFilename = "a=b" }),
		"--database-filename=":                               with(func(f *Flags) { f.DatabaseFilename = "" }),
		"--reservation-expiration=1h30m":                     with(func(f *Flags) { f.ReservationExpiration = 90 * time.Minute }),
		"--max-read-pool-size 4294967295":                    with(func(f *Flags) { f.MaxReadPoolSize = math.MaxUint32 }),
		"--heartbeat-interval 500ms --max-submission-age 0s": with(func(f *Flags) { f.HeartbeatInterval, f.MaxSubmissionAge = 500*time.Millisecond, 0 }),
		"--max-missable-heartbeats 18446744073709551615":     with(func(f *Flags) { f.MaxMissableHeartbeats = math.MaxUint64 }),
		"--max-chunk-retries 0 -p 1":                         with(func(f *Flags) { f.MaxChunkRetries, f.Port = 0, 1 }),
		"--max-submissions-returned 9223372036854775806":     with(func(f *Flags) { f.MaxSubmissionsReturned = math.MaxInt64 - 1 }),
	} {
		if got, err := ParseFlags(strings.Fields(line)); err != nil || got != want {
			t.Errorf("%s: %+v, %v", line, got, err)
		}
	}
	if got, err := ParseFlags([]string{"--reservation-expiration", "1h 30m"}); err != nil || got.ReservationExpiration != 90*time.Minute {
		t.Errorf("a duration with a space: %+v, %v", got, err)
	}
}

// TestFlagsRefused: the texts are those of the original's library, which were taken from a program built with it.
func TestFlagsRefused(t *testing.T) {
	for line, says := range map[string]string{
		"--help":                         "unexpected argument '--help' found",
		"-h":                             "unexpected argument '-h' found",
		"help":                           "unexpected argument 'help' found",
		"--bogus":                        "unexpected argument '--bogus' found",
		"--bogus=5":                      "unexpected argument '--bogus' found",
		"-x5":                            "unexpected argument '-x' found",
		"-":                              "unexpected argument '-' found",
		"--=5":                           "unexpected argument '--' found",
		"-- x":                           "unexpected argument 'x' found",
		"--por 5":                        "unexpected argument '--por' found",
		"--PORT 5":                       "unexpected argument '--PORT' found",
		"--bogus --version":              "unexpected argument '--bogus' found",
		"--report-bound-port-pipe -1":    "unexpected argument '-1' found",
		"--port --help":                  "unexpected argument '--help' found",
		"-- --port=5":                    "unexpected argument '--port=5' found",
		"-é5":                            "unexpected argument '-é' found",
		"--port -15":                     "unexpected argument '-1' found",
		"--port -p5":                     "a value is required for '--port <PORT>' but none was supplied",
		"--port --version":               "a value is required for '--port <PORT>' but none was supplied",
		"--port=1 --port=x":              "the argument '--port <PORT>' cannot be used multiple times",
		"--version=1":                    "unexpected value '1' for '--version' found; no more were expected",
		"--port":                         "a value is required for '--port <PORT>' but none was supplied",
		"--port --":                      "a value is required for '--port <PORT>' but none was supplied",
		"-p 1 --port 2":                  "the argument '--port <PORT>' cannot be used multiple times",
		"--port=":                        "invalid value '' for '--port <PORT>': cannot parse integer from empty string",
		"--port x":                       "invalid value 'x' for '--port <PORT>': invalid digit found in string",
		"-px5":                           "invalid value 'x5' for '--port <PORT>': invalid digit found in string",
		"--port -":                       "invalid value '-' for '--port <PORT>': invalid digit found in string",
		"--port 70000":                   "invalid value '70000' for '--port <PORT>': 70000 is not in 0..=65535",
		"--port x --version":             "invalid value 'x' for '--port <PORT>': invalid digit found in string",
		"--max-read-pool-size 0":         "invalid value '0' for '--max-read-pool-size <MAX_READ_POOL_SIZE>': 0 is not in 1..=4294967295",
		"--max-chunk-retries 4294967296": "invalid value '4294967296' for '--max-chunk-retries <MAX_CHUNK_RETRIES>': 4294967296 is not in 0..=4294967295",
		"--max-missable-heartbeats 18446744073709551616": "invalid value '18446744073709551616' for '--max-missable-heartbeats <MAX_MISSABLE_HEARTBEATS>': number too large to fit in target type",
		"--max-submissions-returned 0":                   "invalid value '0' for '--max-submissions-returned <MAX_SUBMISSIONS_RETURNED>': 0 is not in 1..=9223372036854775806",
		"--max-submissions-returned 9223372036854775807": "invalid value '9223372036854775807' for '--max-submissions-returned <MAX_SUBMISSIONS_RETURNED>': 9223372036854775807 is not in 1..=9223372036854775806",
		"--report-bound-port-pipe 3000000000":            "invalid value '3000000000' for '--report-bound-port-pipe <REPORT_BOUND_PORT_PIPE>': 3000000000 is not in -2147483648..=2147483647",
		"--reservation-expiration 10":                    "invalid value '10' for '--reservation-expiration <RESERVATION_EXPIRATION>': time unit needed, for example 10sec or 10ms",
		"--heartbeat-interval 0s":                        "invalid value '0s' for '--heartbeat-interval <HEARTBEAT_INTERVAL>': it must be longer than 0",
	} {
		_, err := ParseFlags(strings.Fields(line))
		if usage, ok := errors.AsType[*UsageError](err); !ok || usage.Error() != says {
			t.Errorf("%s: %v\nwant %s", line, err, says)
		}
	}
	if _, err := ParseFlags([]string{""}); err == nil || err.Error() != "unexpected argument '' found" {
		t.Errorf("an empty argument: %v", err)
	}
	for _, line := range []string{"--version", "-V", "-Vx", "--version --bogus", "-p 5 --version"} {
		if _, err := ParseFlags(strings.Fields(line)); !errors.Is(err, ErrVersion) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"10 minutes": 10 * time.Minute, "1h 30m": 90 * time.Minute, "1h30m": 90 * time.Minute, "90s": 90 * time.Second, "500ms": 500 * time.Millisecond,
		"0": 0, "0s": 0, " 1s ": time.Second, "5  sec": 5 * time.Second, "1m1m": 2 * time.Minute, "2d 3w": 23 * 24 * time.Hour,
		"1hour 12min 5s": time.Hour + 12*time.Minute + 5*time.Second, "1\u3000h": time.Hour,
		"1M": 2630016 * time.Second, "1 month": 2630016 * time.Second, "1y": 31557600 * time.Second, "100 years": 3155760000 * time.Second,
		"17nsec": 17, "1 nanos": 1, "3usec": 3000, "1µs": 1000, "1us": 1000, "1millis": time.Millisecond, "1wk": 7 * 24 * time.Hour,
		"1.5s": 1500 * time.Millisecond, "1.5 s": 1500 * time.Millisecond, "0.5h": 30 * time.Minute, "0.000000001s": 1, "0.1y": 3155760 * time.Second,
		"0.001ms": 1000, "1.5h 30m": 2 * time.Hour, "1.50s": 1500 * time.Millisecond, "1.0ns": 1,
		"9223372036854775807ns": math.MaxInt64, "9223372036s 854775807ns": math.MaxInt64, "9223372036.854775807s": math.MaxInt64,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for text, says := range map[string]string{
		"": "value was empty", "  ": "value was empty", "-1s": "expected number at 0", "sec": "expected number at 0", ".5s": "expected number at 0",
		"2 hours min": "expected number at 8", "１s": "expected number at 0", "1s,": "invalid character at 2", "1.s": "invalid character at 1", "1_000s": "invalid character at 1",
		"10": "time unit needed, for example 10sec or 10ms", "1.5": "time unit needed, for example 1sec or 1ms", "1sec1": "time unit needed, for example 1sec or 1ms",
		"1S": `unknown time unit "S"`, "1mo": `unknown time unit "mo"`, "1micros": `unknown time unit "micros"`, "1 MIN": `unknown time unit "MIN"`,
		"9223372036854775808ns": "number is too large", "9223372036854775807ns 1ns": "number is too large", "99999999999999999999s": "number is too large",
		"18446744073709551615s": "number is too large", "9223372037s": "number is too large", "293y": "number is too large", "9223372036.854775808s": "number is too large",
		"1.5ns": "number is too large", "0.0000000001s": "number is too large", "18446744073709551616m": "number is too large",
	} {
		if got, err := parseDuration(text); err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%q is %v, %v; want %s", text, got, err, says)
		}
	}
}

// FuzzDuration: no text makes it panic, and no duration is negative.
func FuzzDuration(f *testing.F) {
	for _, text := range []string{"1h 30m", "1.5s", "9223372036.854775808s", "1µ", "0", "1 \xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := parseDuration(text); d < 0 || err != nil && d != 0 {
			t.Errorf("%q is %v, %v", text, d, err)
		}
	})
}

// TestFlagsAreDocumented: docs/how-to/from-opsqueue.md has a row for each flag with its default, and no other one.
func TestFlagsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/how-to/from-opsqueue.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| (?:`-(.)`, )?`--([a-z-]+)` \\| `?([^|`]*)`? \\|").FindAllStringSubmatch(string(page), -1)
	if len(rows) != len(flagTable) {
		t.Fatalf("the page has %d flags, the table %d", len(rows), len(flagTable))
	}
	for i, row := range flagTable {
		if got := rows[i]; got[1] != row.short || got[2] != row.name || got[3] != row.otherwise {
			t.Errorf("the page has %q, the table --%s, -%s with %q", got[1:], row.name, row.short, row.otherwise)
		}
	}
}

// FuzzFlags: no command line makes it panic, and each error has a kind.
func FuzzFlags(f *testing.F) {
	f.Add("--port\x005", "-p5", "--heartbeat-interval=1.5s")
	f.Add("-é", "--", "-Vp")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		flags, err := ParseFlags([]string{a, b, c})
		if _, usage := errors.AsType[*UsageError](err); err != nil && !usage && !errors.Is(err, ErrVersion) {
			t.Errorf("%v has no kind", err)
		}
		if err == nil && (flags.HeartbeatInterval <= 0 || flags.MaxSubmissionsReturned < 1 || flags.MaxReadPoolSize < 1) {
			t.Errorf("%+v", flags)
		}
	})
}
