package runs

import (
	"math"

	"github.com/daybookq/daybook/job"
)

// numbers writes the numbers of claimed jobs that are not as usual. lease is the lease of the claim.
func (w *writer) numbers(j *job.Job, lease int64) {
	w.set("priority", int64(j.Priority), job.DefaultPriority)
	w.set("max_attempts", int64(j.MaxAttempts), job.DefaultMaxAttempts)
	w.set("redrives", int64(j.Redrives), 0)
	w.set("run_at", j.RunAt, 0)
	w.set("expires_at", j.ExpiresAt, 0)
	w.set("timeout_ms", j.TimeoutMs, 0)
	w.set("lease_ms", j.LeaseMs, lease)
}

// numbers reads what the method of writer writes.
func (h *head) numbers(j *job.Job, lease int64) {
	j.Priority = int(h.set("priority", 0, job.MaxPriority, job.DefaultPriority))
	j.MaxAttempts = int(h.set("max_attempts", 1, job.MaxAttempts, job.DefaultMaxAttempts))
	j.Redrives = int(h.set("redrives", 1, math.MaxInt32, 0))
	j.RunAt = h.set("run_at", 1, job.MaxTimeMs, 0)
	j.ExpiresAt = h.set("expires_at", 1, job.MaxTimeMs, 0)
	j.TimeoutMs = h.set("timeout_ms", job.MinTimeoutMs, job.MaxTimeoutMs, 0)
	j.LeaseMs = h.set("lease_ms", job.MinLeaseMs, job.MaxLeaseMs, lease)
}

// NewAttributes are the attributes of new jobs. What is missing has its default.
type NewAttributes struct {
	Numbers     []Number // in the order of NumberKeys
	Traceparent string
	Meta        job.Meta
}

// Number is a numeric attribute.
type Number struct {
	Key   string
	Value int64
}

// NumberKeys are the keys of numeric attributes, in the order of their fields. A bulk post's query parameters have the
// same names.
var NumberKeys = [...]string{
	"run_at", "delay_ms", "priority", "max_attempts", "backoff_initial_ms", "backoff_factor_milli", "backoff_max_ms", "lease_ms", "retention_ms",
	"expires_at", "timeout_ms",
}

// newAttributes writes the attributes of new jobs.
func (w *writer) newAttributes(a *NewAttributes) {
	for _, n := range a.Numbers {
		w.int(n.Key, n.Value)
	}
	w.texts(a.Traceparent, a.Meta)
}

func (h *head) newAttributes(a *NewAttributes) {
	for _, key := range NumberKeys {
		if n, ok := h.optional(key, 0, math.MaxInt64); ok {
			a.Numbers = append(a.Numbers, Number{key, n})
		}
	}
	a.Traceparent, a.Meta = h.texts()
}

// texts writes the attributes that are texts, of claimed and of new jobs.
func (w *writer) texts(traceparent string, meta job.Meta) {
	w.text("traceparent", traceparent)
	if meta != "" { // it is in its text form already
		w.key("meta")
		*w = append(*w, meta...)
	}
}

func (h *head) texts() (traceparent string, meta job.Meta) {
	traceparent = named(h, "traceparent", func(_, raw string) (string, error) { return raw, job.CheckTraceparent(raw) })
	meta = named(h, "meta", func(_, raw string) (job.Meta, error) { return job.ParseMeta(raw) })
	return traceparent, meta
}
