package main

import (
	"cmp"
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// paired returns the median of the growths from base[i] to head[i], and the probability that growths at least as
// one-sided appear by chance: the p of Wilcoxon's signed-rank test of their logarithms, two-sided and exact. All values
// must be above 0.
//
// Values of the same round were measured within a second or two, and other work on the machine affected both. Their ratio
// varies at most half as much as the values do. So this test finds slowdowns that benchstat's test of two independent
// samples does not find. benchstat's packages lack a test of pairs.
func paired(base, head []float64) (growth, p float64) {
	var logs []float64
	for i := range base {
		logs = append(logs, math.Log(head[i]/base[i]))
	}
	growth = math.Exp(median(benchmath.NewSample(slices.Clone(logs), &benchmath.DefaultThresholds))) - 1
	logs = slices.DeleteFunc(logs, func(x float64) bool { return x == 0 })
	slices.SortFunc(logs, func(a, b float64) int {
		return cmp.Compare(math.Abs(a), math.Abs(b))
	})
	// Ranks are doubled, since equal values share the middle of their ranks.
	ranks := make([]int, len(logs))
	for i := 0; i < len(logs); {
		end := i + 1
		for end < len(logs) && math.Abs(logs[end]) == math.Abs(logs[i]) {
			end++
		}
		for j := i; j < end; j++ {
			ranks[j] = i + 1 + end
		}
		i = end
	}
	sum, most := 0, 0
	for i, rank := range ranks {
		most += rank
		if logs[i] > 0 {
			sum += rank
		}
	}
	// chance[s] is the probability that the ranks of positive values sum up to s, if a coin decides each sign.
	chance := make([]float64, most+1)
	chance[0] = 1
	for _, rank := range ranks {
		for s := most; s >= 0; s-- {
			chance[s] /= 2
			if s >= rank {
				chance[s] += chance[s-rank] / 2
			}
		}
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
