package job

import "fmt"

// Claim hands out waiting jobs to a runner under a new claim.
type Claim struct {
	Runner string
	Max    int // 1 … MaxClaimJobs
	// Clients and Types restrict the queues; an empty list allows all.
	Clients, Types []string
	LeaseMs        int64 // 0: each job's lease from its create
	MaxBytes       int64 // of payload; the first job is handed out however long it is
	Strategy       Strategy
	// Announced means that the runner reports the begin of each job with a tickle that names it. The first Begins jobs
	// begin with the claim. Without Announced, all jobs do.
	Announced bool
	Begins    int
	Once      Once
}

func (Claim) Verb() string { return "claim" }

func (c Claim) Encode() (fieldText, body []byte) {
	f := make(fields, 0, usualFields)
	f.text("runner", c.Runner)
	f.int("max", int64(c.Max))
	f.texts("clients", c.Clients)
	f.texts("types", c.Types)
	f.int("lease_ms", c.LeaseMs)
	f.int("max_bytes", c.MaxBytes)
	if c.Strategy != Oldest {
		f.text("strategy", c.Strategy.String())
	}
	if c.Announced {
		f.key("begins")
		f = fmt.Appendf(f, "%d", c.Begins)
	}
	f.once(&c.Once)
	return f, nil
}

func decodeClaim(r *fieldReader) Command {
	var c Claim
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		switch key {
		case "runner":
			c.Runner = r.bounded(key, raw, MaxRunnerBytes)
		case "max":
			c.Max = int(r.int(key, raw, 1, MaxClaimJobs))
		case "clients":
			c.Clients = r.names(key, raw)
		case "types":
			c.Types = r.names(key, raw)
		case "lease_ms":
			c.LeaseMs = r.int(key, raw, MinLeaseMs, MaxLeaseMs)
		case "max_bytes":
			c.MaxBytes = r.int(key, raw, 1, MaxClaimBytes)
		case "strategy":
			var err error
			if c.Strategy, err = ParseStrategy(raw); err != nil {
				r.fail(err)
			}
		case "begins":
			c.Announced, c.Begins = true, int(r.int(key, raw, 0, MaxClaimJobs))
		default:
			if !r.once(&c.Once, key, raw) {
				r.unknown(key)
			}
		}
	}
	r.whole(&c.Once)
	r.withoutPart(&c.Once)
	if c.Runner == "" || c.Max == 0 || c.MaxBytes == 0 {
		r.fail(fmt.Errorf("runner, max or max_bytes is missing"))
	}
	return c
}
