package main

import (
	"fmt"
	"math"
	"slices"
)

// figure is a quantity that decides whether a benchmark is slower.
type figure struct {
	benchmark benchmark
	unit      string
}

// The units that decide: processor time and wall time.
const (
	cpuUnit  = "cpu-sec/job"
	wallUnit = "sec/job"
)

const (
	// maxGrowth is how much a figure may grow.
	maxGrowth = 0.05
	// maxChance is the p below which a growth is significant.
	maxChance = 0.05
)

// slower describes the figures that have grown significantly by maxGrowth or more.
func slower(base, head results) (map[figure]string, error) {
	grown := map[figure]string{}
	for _, b := range base.in(head, true) {
		for unit, name := range map[string]string{cpuUnit: "processor time", wallUnit: "wall time"} {
			before, now := base[b][unit], head[b][unit]
			if len(before) != len(now) {
				return nil, fmt.Errorf("%s has %d values of %s at the base, and %d here", b, len(before), unit, len(now))
			}
			if len(before) == 0 || slices.Min(before) <= 0 || slices.Min(now) <= 0 {
				continue
			}
			if growth, p := paired(before, now); p < maxChance && growth >= maxGrowth {
				grown[figure{b, unit}] = fmt.Sprintf("%s: %s per job %+.1f %% (p=%.3f)", b, name, 100*growth, p)
			}
		}
	}
	return grown, nil
}

// paired returns the median of the growths from base[i] to head[i], and the probability that growths at least as
// one-sided appear by chance: the p of Wilcoxon's signed-rank test of their logarithms, two-sided and exact. All values
// must be above 0.
//
// Values of the same round were measured within a second or two, and other work on the machine affected both. Their ratio
// varies at most half as much as the values do. So this test finds slowdowns that benchstat's test of two independent
// samples does not find. golang.org/x/perf lacks a test of pairs.
func paired(base, head []float64) (growth, p float64) {
	logs := make([]float64, len(base))
	for i := range base {
		logs[i] = math.Log(head[i] / base[i])
	}
	slices.Sort(logs)
	growth = math.Exp((logs[(len(logs)-1)/2]+logs[len(logs)/2])/2) - 1
	logs = slices.DeleteFunc(logs, func(x float64) bool { return x == 0 })
	// chance[s] is the probability that the ranks of positive values sum up to s, if a coin decides each sign.
	chance, sum := map[int]float64{0: 1}, 0
	for _, x := range logs {
		rank := 1 // doubled, since equal values share the middle of their ranks
		for _, other := range logs {
			if math.Abs(other) < math.Abs(x) {
				rank += 2
			} else if math.Abs(other) == math.Abs(x) {
				rank++
			}
		}
		if x > 0 {
			sum += rank
		}
		next := map[int]float64{}
		for s, c := range chance {
			next[s] += c / 2
			next[s+rank] += c / 2
		}
		chance = next
	}
	var below, above float64
	for s, c := range chance {
		if s <= sum {
			below += c
		}
		if s >= sum {
			above += c
		}
	}
	return growth, min(1, 2*min(below, above))
}
