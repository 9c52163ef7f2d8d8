package job

import (
	"testing"

	"github.com/daybookq/daybook/job/internal/testkit"
)

func TestDeadline(t *testing.T) {
	lease := Lease{Seq: 10, At: 5000, Ms: 1000}
	for name, test := range map[string]struct {
		promise Promise
		graceAt int64
		want    int64
	}{
		"the lease after the last tickle":                    {want: 6000},
		"the lease after the grace":                          {graceAt: 5500, want: 6500},
		"an earlier grace changes nothing":                   {graceAt: 4000, want: 6000},
		"the lease after a tickle of the runner":             {promise: Promise{From: 5800}, want: 6800},
		"the end that a tickle of the runner promised":       {promise: Promise{Until: 9000, Seq: 11}, want: 9000},
		"a promise that ends earlier":                        {promise: Promise{Until: 5500, Seq: 11}, want: 6000},
		"a promise from before the claim is not for it":      {promise: Promise{Until: 9000, Seq: 10}, want: 6000},
		"the latest of all":                                  {promise: Promise{From: 5100, Until: 6900, Seq: 11}, graceAt: 5900, want: 6900},
		"the latest of all, where the grace is that":         {promise: Promise{From: 5100, Until: 6800, Seq: 11}, graceAt: 5900, want: 6900},
		"the latest of all, where the runner's tickle is it": {promise: Promise{From: 5950, Until: 6800, Seq: 11}, graceAt: 5900, want: 6950},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Equal(t, lease.Deadline(&test.promise, test.graceAt), test.want, "deadline")
		})
	}
}

func TestUnder(t *testing.T) {
	own := Lease{Seq: 10, At: 5000, Ms: 1000}
	if got, want := own.Under(Lease{Seq: 11, At: 5500, Ms: 9}), (Lease{Seq: 11, At: 5500, Ms: 1000}); got != want {
		t.Errorf("after a later tickle of the claim: %+v, want %+v", got, want)
	}
	testkit.Equal(t, own.Under(Lease{Seq: 9, At: 5500, Ms: 9}), own, "after an earlier tickle of the claim")
}

func TestExtendPromise(t *testing.T) {
	var p Promise
	p.Extend(0, at7)
	testkit.Equal(t, p, (Promise{From: 7000}), "without a lease")
	p.Extend(500, at7)
	testkit.Equal(t, p, (Promise{From: 7000, Until: 7500, Seq: 70}), "with a lease")
	p.Extend(100, Now{Seq: 71, At: 7100})
	testkit.Equal(t, p, (Promise{From: 7000, Until: 7500, Seq: 71}), "with a lease that ends earlier")
}
