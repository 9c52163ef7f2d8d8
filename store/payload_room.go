package store

// payloadRoom counts the payload bytes of a claim against its limit. It looks up no lengths while even payloads of the
// greatest length would fit. After that, it measures the payloads taken so far once, and all later payloads.
type payloadRoom struct {
	limit int64
	bound int64 // the payloads taken so far have at most this size
	taken []Run // while only bound is known
	exact bool
	some  bool      // a payload has been taken
	sizes pageSizes // of the page that was measured last
}

// first returns how many lines of a part fit, counted from the first line. The first payload of a claim always fits.
func (r *payloadRoom) first(m *machine, p part) (fit int) {
	if r.allFit(m, p) {
		return int(p.lines())
	}
	r.sizes.each(&m.o, p.b, p.first, p.last, func(size int64) bool {
		if !r.add(size) {
			return false
		}
		fit++
		return true
	})
	return fit
}

// last returns how many lines of a part fit, counted from the last line backwards.
func (r *payloadRoom) last(m *machine, p part) (fit int) {
	if r.allFit(m, p) {
		return int(p.lines())
	}
	sizes := make([]int64, 0, p.lines())
	r.sizes.each(&m.o, p.b, p.first, p.last, func(size int64) bool {
		sizes = append(sizes, size)
		return true
	})
	for i := len(sizes) - 1; i >= 0 && r.add(sizes[i]); i-- {
		fit++
	}
	return fit
}

// allFit reports whether all lines of a part fit whatever their lengths are.
func (r *payloadRoom) allFit(m *machine, p part) bool {
	if r.exact {
		return false
	}
	if bound := r.bound + p.lines()*int64(p.b.longest); bound <= r.limit {
		r.bound, r.some = bound, true
		r.taken = append(r.taken, p.run())
		return true
	}
	r.exact, r.bound = true, 0
	for _, t := range r.taken {
		r.sizes.each(&m.o, m.batch(t.Batch), t.First, t.Last, func(size int64) bool {
			r.bound += size
			return true
		})
	}
	return false
}

// add counts a payload if it fits.
func (r *payloadRoom) add(size int64) bool {
	if r.bound+size > r.limit && r.some {
		return false
	}
	r.bound += size
	r.some = true
	return true
}
