package measure

import "slices"

// Spread is the median of some figures, with the least and the greatest.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// spreadOf returns the spread of figures, or the zero value if there are none. The median of an even number of figures is
// the mean of the two in the middle.
func spreadOf(figures []float64) Spread {
	if len(figures) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(figures))
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + sorted[middle]) / 2
	}
	return Spread{Median: median, Min: sorted[0], Max: sorted[len(sorted)-1]}
}

// Over returns the spread of a figure over the turns of a result.
func (r *Result) Over(figure func(TurnResult) float64) Spread {
	var figures []float64
	for _, t := range r.Turns {
		figures = append(figures, figure(t))
	}
	return spreadOf(figures)
}

// Ratio returns the rate of ours divided by the rate of theirs, over the rounds in which both had a turn. ok is false if
// there is no such round.
func Ratio(ours, theirs *Result) (s Spread, ok bool) {
	var ratios []float64
	for _, our := range ours.Turns {
		for _, their := range theirs.Turns {
			if our.Round == their.Round && their.Rate() > 0 {
				ratios = append(ratios, our.Rate()/their.Rate())
			}
		}
	}
	return spreadOf(ratios), len(ratios) > 0
}
