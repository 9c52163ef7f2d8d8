package stream

import "github.com/daybookq/daybook/job"

// mayRefuse reports whether a refusal of a request with a scope says something about the claims of a holder.
func (h holder) mayRefuse(by *job.Scope) bool {
	switch {
	case by.All():
		return true
	case h.stream != nil:
		return by.Equal(&job.KeyOf(h.stream.ctx).By().Scope)
	case h.lingerer != nil:
		return by.Equal(h.lingerer.scope)
	}
	return false
}
