package runners

import (
	"context"
	"flag"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/daybookq/daybook/bench/rig"
	"github.com/daybookq/daybook/internal/testkit"
)

var soak = flag.Duration("soak", 20*time.Second, "how long TestSoak runs a runner")

const (
	// warmUp is the part of a soak after which the runner should need no more memory: it has run jobs of all kinds, and
	// has as many contexts and connections as it keeps.
	warmUp = 3 // a third
	// mayGrow is how much more memory the last third may have in the median. The garbage of a Go program varies by some
	// megabytes from one collection to the next.
	mayGrow = 16 << 20
	// moreFiles and moreProcesses are how many more descriptors and processes the last third may have in the median. Both
	// vary with the number of jobs that run at a time.
	moreFiles, moreProcesses = 60, 60
)

// sample is a measurement of a runner at one moment.
type sample struct{ resident, files, processes int64 }

func (r *runner) sample() (s sample, err error) {
	pid := r.cmd.Process.Pid
	if s.resident, _, err = rig.Resident(pid); err != nil {
		return s, err
	}
	files, err := rig.Descriptors(pid)
	if err != nil {
		return s, err
	}
	below, err := descendants(pid)
	s.files, s.processes = int64(files), int64(len(below))
	return s, err
}

// median returns the medians of samples.
func median(samples []sample) (m sample) {
	middle := func(of func(sample) int64) int64 {
		values := make([]int64, len(samples))
		for i, s := range samples {
			values[i] = of(s)
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	return sample{
		middle(func(s sample) int64 { return s.resident }), middle(func(s sample) int64 { return s.files }), middle(func(s sample) int64 { return s.processes }),
	}
}

// grown says how a runner has grown between the middle third of its samples and the last third, or returns "".
func grown(samples []sample) (before, after sample, how string) {
	third := len(samples) / warmUp
	before, after = median(samples[third:2*third]), median(samples[2*third:])
	switch {
	case after.resident > before.resident+mayGrow:
		how = "resident memory"
	case after.files > before.files+moreFiles:
		how = "descriptors"
	case after.processes > before.processes+moreProcesses:
		how = "processes"
	}
	return before, after, how
}

// TestSoak: while a runner runs jobs of all kinds, its memory, descriptors and processes do not keep growing.
func TestSoak(t *testing.T) {
	testkit.Need(t, "sh", "setsid", "nohup", "sleep", "python3")
	t.Parallel()
	// A long soak has millions of jobs, so the server forgets them soon.
	s := newTrial(t, rand.New(rand.NewPCG(*seed, 2)), 1, "--retention", "5s")
	ctx, stop := context.WithCancel(t.Context())
	var producing sync.WaitGroup
	p := producer{client: s.client, to: &s.account, rng: rand.New(rand.NewPCG(*seed, 3)), name: "soak"}
	producing.Go(func() { p.run(ctx) })
	defer producing.Wait()
	defer stop()
	s.awaitWork()
	before := s.account.acknowledged()
	var samples []sample
	began := time.Now()
	every := time.NewTicker(100 * time.Millisecond)
	defer every.Stop()
	enough := func() bool { return len(samples) >= 30 && s.account.acknowledged()-before >= 100 } // a slow machine takes longer
	for ; time.Since(began) < *soak || !enough(); <-every.C {
		now, err := s.runners[0].sample()
		s.must(err)
		samples = append(samples, now)
		if len(samples)%max(int(soak.Seconds()), 2) == 1 {
			t.Logf("%4.0f s: %d jobs posted, %d MiB, %d descriptors, %d processes", time.Since(began).Seconds(), s.account.acknowledged()-before, now.resident>>20, now.files, now.processes)
		}
	}
	stop()
	producing.Wait()
	s.drain()
	s.stopRunners()
	after := s.account.acknowledged()
	middle, last, how := grown(samples)
	t.Logf("%d jobs posted in %v, and their chained jobs; middle third: %d MiB, %d descriptors, %d processes; last third: %d MiB, %d, %d",
		after-before, soak, middle.resident>>20, middle.files, middle.processes, last.resident>>20, last.files, last.processes)
	testkit.Equal(t, how, "", "the runner has more", last, middle)
}

// TestGrown: growth is noticed, noise is not.
func TestGrown(t *testing.T) {
	flat := func() []sample {
		samples := make([]sample, 90)
		for i := range samples {
			samples[i] = sample{100<<20 + int64(i%7)<<20, 50 + int64(i%5), 20 + int64(i%3)}
		}
		for i := range 30 { // the warm-up does not count
			samples[i].resident = int64(i) << 20
		}
		samples[80].resident *= 2 // nor does a peak
		return samples
	}
	_, _, how := grown(flat())
	testkit.Equal(t, how, "", "more in flat samples")
	for want, grow := range map[string]func(*sample, int64){
		"resident memory": func(s *sample, i int64) { s.resident += i << 20 },
		"descriptors":     func(s *sample, i int64) { s.files += 3 * i },
		"processes":       func(s *sample, i int64) { s.processes += 3 * i },
	} {
		samples := flat()
		for i := range samples {
			grow(&samples[i], int64(i))
		}
		_, _, how := grown(samples)
		testkit.Equal(t, how, want, "has grown")
	}
}
