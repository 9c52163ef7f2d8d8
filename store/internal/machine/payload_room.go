package machine

import (
	"github.com/daybookq/daybook/store/internal/row"
)

// payloadRoom counts the payload bytes of a claim against its limit. It looks up no lengths while even payloads of the
// greatest length would fit. After that, it measures the payloads taken so far once, and all later payloads.
type payloadRoom struct {
	limit int64
	bound int64     // the payloads taken so far have at most this size
	taken []row.Run // while only bound is known
	exact bool
	some  bool          // a payload has been taken
	sizes row.PageSizes // of the page that was measured last
}

// first returns how many lines of a part fit, counted from the first line. The first payload of a claim always fits.
func (r *payloadRoom) first(m *Machine, p row.Part) (fit int) {
	if r.allFit(m, p) {
		return int(p.Lines())
	}
	r.sizes.Each(&m.O, p.B, p.First, p.Last, func(size int64) bool {
		if !r.Add(size) {
			return false
		}
		fit++
		return true
	})
	return fit
}

// last returns how many lines of a part fit, counted from the last line backwards.
func (r *payloadRoom) last(m *Machine, p row.Part) (fit int) {
	if r.allFit(m, p) {
		return int(p.Lines())
	}
	sizes := make([]int64, 0, p.Lines())
	r.sizes.Each(&m.O, p.B, p.First, p.Last, func(size int64) bool {
		sizes = append(sizes, size)
		return true
	})
	for i := len(sizes) - 1; i >= 0 && r.Add(sizes[i]); i-- {
		fit++
	}
	return fit
}

// allFit reports whether all lines of a part fit whatever their lengths are.
func (r *payloadRoom) allFit(m *Machine, p row.Part) bool {
	if r.exact {
		return false
	}
	if bound := r.bound + p.Lines()*int64(p.B.Longest); bound <= r.limit {
		r.bound, r.some = bound, true
		r.taken = append(r.taken, p.Run())
		return true
	}
	r.exact, r.bound = true, 0
	for _, t := range r.taken {
		r.sizes.Each(&m.O, m.Batch(t.Batch), t.First, t.Last, func(size int64) bool {
			r.bound += size
			return true
		})
	}
	return false
}

// Add counts a payload if it fits.
func (r *payloadRoom) Add(size int64) bool {
	if r.bound+size > r.limit && r.some {
		return false
	}
	r.bound += size
	r.some = true
	return true
}
