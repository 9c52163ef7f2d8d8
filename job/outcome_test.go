package job

import (
	"math"
	"testing"

	"github.com/daybookq/daybook/job/internal/testkit"
)

func TestExitCodes(t *testing.T) {
	for exit, want := range map[int]Code{
		-1: NoCode, 0: NoCode, 99: NoCode, 100: Retry, 199: Retry, 200: OK, 299: OK, 300: NoCode, 399: NoCode, 400: Fail, 499: Fail, 500: Error, 599: Error,
		600: NoCode, 999: NoCode, 1000: NoCode,
	} {
		testkit.Equal(t, ExitCodeClass(exit), want, exit)
	}
	for _, c := range []Code{OK, Fail, Retry, Error} {
		testkit.Equal(t, ExitCodeClass(c.DefaultExitCode()), c, "has the default of")
		got, err := ParseCode(c.String())
		testkit.Holds(t, got == c && err == nil, c, "is parsed as", got, err)
	}
	testkit.Equal(t, Unget.DefaultExitCode(), 0, "unget has exit code")
	for _, bad := range []string{"", "OK", "fail", "done"} {
		c, err := ParseCode(bad)
		testkit.Holds(t, err != nil, bad, "is", c)
	}
}

func TestStatuses(t *testing.T) {
	for s, want := range map[Status]bool{Deferred: false, Pending: false, Active: false, Completed: true, Failed: true, Cancelled: true, Purged: false} {
		testkit.Equal(t, s.Terminal(), want, s, "is terminal", !want)
	}
	testkit.Equal(t, Status(200).String(), "status(200)")
	counts := Counts{9, 1, 2, 3, 4, 5, 6, 7}
	testkit.Equal(t, counts.Total(), 21, "total")
}

func TestBackoff(t *testing.T) {
	usual := Backoff{InitialMs: 1000, FactorMilli: 2000, MaxMs: 3_600_000}
	for _, test := range []struct {
		name     string
		b        Backoff
		attempts int
		exact    int64
	}{
		{"first", usual, 1, 1000},
		{"second", usual, 2, 2000},
		{"twelfth", usual, 12, 2_048_000},
		{"thirteenth is cut", usual, 13, 3_600_000},
		{"a thousandth", usual, 1000, 3_600_000},
		{"constant", Backoff{500, 1000, 5000}, 100, 500},
		{"factor one and a half", Backoff{1000, 1500, 1 << 40}, 3, 2250},
		{"a hundredfold, to the end of numbers", Backoff{MaxDelayMs, MaxFactorMilli, MaxDelayMs}, 1000, MaxDelayMs},
		{"initial above max", Backoff{5000, 2000, 300}, 1, 300},
		{"at once", Backoff{0, 2000, 5000}, 5, 0},
		{"max zero", Backoff{1000, 2000, 0}, 5, 0},
		{"too short for jitter", Backoff{3, 1000, 3}, 1, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			quarter := test.exact / 4
			lowest, highest := int64(math.MaxInt64), int64(0)
			times := map[int64]int{}
			for random := uint64(0); random < 5000; random++ {
				delay := test.b.Delay(test.attempts, random*0x9e3779b97f4a7c15)
				lowest, highest = min(lowest, delay), max(highest, delay)
				times[delay]++
			}
			for delay, n := range times {
				testkit.Holds(t, quarter < 100 || n <= 100, n, "of 5000 delays are", delay)
			}
			testkit.Holds(t, lowest >= test.exact-quarter && highest <= min(test.exact+quarter, test.b.MaxMs), "delays",
				lowest, "to", highest, "want", test.exact, "within a quarter")
			testkit.Holds(t, quarter <= 100 || highest-lowest >= quarter*9/10, "delays", lowest, "to", highest, "hardly differ")
			for _, random := range []uint64{0, 1, math.MaxUint64} {
				a, b := test.b.Delay(test.attempts, random), test.b.Delay(test.attempts, random)
				testkit.Holds(t, a == b, "the same chance gives", a, "and", b)
			}
		})
	}
	// The jitter is fixed: replaying a journal must always give the same times.
	for random, want := range map[uint64]int64{0: 750, 1: 751, 250: 1000, 500: 1250, 501: 750, math.MaxUint64: 750 + math.MaxUint64%501} {
		testkit.Equal(t, usual.Delay(1, random), want, "delay with", random)
	}
}

func TestOutcome(t *testing.T) {
	o := Outcome{Code: Error, ExitCode: 503}
	testkit.Holds(t, o.Same(Error, 503) && !o.Same(Error, 500) && !o.Same(Fail, 503), "Same")
	n := int64(0)
	for _, r := range []Result{{ProcessExit: &n}, {OutputAddr: "a"}, {LogAddr: "a"}, {OutputKind: Text}} {
		testkit.Holds(t, !r.Empty(), r, "is empty")
	}
	testkit.Holds(t, (&Result{}).Empty(), "nothing is something")
	for r := Granted; r <= TooManyQueues; r++ {
		testkit.Holds(t, (r.Code() == "") == (r == Granted) && (r.Error() == "") == (r == Granted), "refusal", int(r), r.Code(), r)
	}
}
