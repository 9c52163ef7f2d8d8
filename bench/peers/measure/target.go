package measure

// Target is a ratio that Daybook should reach.
type Target struct {
	Title  string  `json:"title"`
	Block  string  `json:"block"`
	Ours   Of      `json:"ours"`
	Theirs Of      `json:"theirs"`
	Least  float64 `json:"least"`                    // ours ≥ least × theirs, in the median
	P99    float64 `json:"p99_ms_at_most,omitempty"` // of ours; 0 if there is no bound
}

// Of names a result within a block.
type Of struct {
	Driver string `json:"driver"`
	Work   string `json:"work"`
}

// Outcome says how far a target was reached. Measured is false if one of the two results is missing.
type Outcome struct {
	Target
	Measured bool   `json:"measured"`
	Ratio    Spread `json:"ratio"`
	OurP99   Spread `json:"our_p99_ms"`
	Met      bool   `json:"met"`
}

// Targets returns all targets that name a peer.
func Targets() []Target {
	targets := []Target{
		{Title: "bulk create, 16 × 1000, over Redis pipelined 1000", Block: "create-bulk", Least: 4, P99: 40,
			Ours: Of{"daybook-http", CreateBulk.Name}, Theirs: Of{"redis", CreateBulk.Name}},
		{Title: "claim 100 + complete 100, plain HTTP and runs, over Redis XREADGROUP 100, XACK + XDEL", Block: "drain-bulk", Least: 4,
			Ours: Of{"daybook-runs", DrainBulk.Name}, Theirs: Of{"redis", DrainBulk.Name}},
		{Title: "both at once, plain HTTP and runs, over Redis", Block: "both-bulk", Least: 4,
			Ours: Of{"daybook-runs", BothBulk.Name}, Theirs: Of{"redis", BothBulk.Name}},
		{Title: "Go client, 64 goroutines, one job a call, over Redis XADD one at a time", Block: "create-one", Least: 2,
			Ours: Of{"daybook-go", CreateOne.Name}, Theirs: Of{"redis", CreateOne.Name}},
		{Title: "plain HTTP, 64 connections, create one a request, over an HTTP handler that does nothing", Block: "create-one", Least: 0.6,
			Ours: Of{"daybook-http", CreateOne.Name}, Theirs: Of{"echo", CreateOne.Name}},
		{Title: "stream, 64 connections, one job under way each, over Redis lifecycles one at a time", Block: "lifecycle-one", Least: 1.2,
			Ours: Of{"daybook-stream", LifecycleOne.Name}, Theirs: Of{"redis", LifecycleOne.Name}},
		{Title: "stream, 64 connections, 16 jobs under way each, over Redis lifecycles one at a time", Block: "lifecycle-one", Least: 4,
			Ours: Of{"daybook-stream", LifecycleMany.Name}, Theirs: Of{"redis", LifecycleOne.Name}},
		{Title: "the same stream in binary messages with runs", Block: "lifecycle-one", Least: 4,
			Ours: Of{"daybook-stream-runs", LifecycleMany.Name}, Theirs: Of{"redis", LifecycleOne.Name}},
		{Title: "plain HTTP, 64 connections, complete and claim one, over an HTTP handler that does nothing", Block: "lifecycle-one", Least: 0.4,
			Ours: Of{"daybook-http", ExchangeOne.Name}, Theirs: Of{"echo", ExchangeOne.Name}},
	}
	for _, w := range []Work{Worker1, Worker16, Worker64} {
		targets = append(targets,
			Target{Title: w.Title + ", over Redis XREADGROUP 100, XACK + XDEL", Block: "worker", Least: 2,
				Ours: Of{"daybook-go", w.Name}, Theirs: Of{"redis", DrainBulk.Name}},
			Target{Title: w.Title + ", over River's worker", Block: "worker", Least: 5,
				Ours: Of{"daybook-go", w.Name}, Theirs: Of{"river", w.Name}},
			Target{Title: w.Title + ", over asynq's worker", Block: "worker", Least: 20,
				Ours: Of{"daybook-go", w.Name}, Theirs: Of{"asynq", w.Name}})
	}
	for _, w := range []Work{Worker64By1, Worker64Own} {
		targets = append(targets, Target{Title: w.Title + ", over Redis lifecycles one at a time", Block: "worker-one", Least: 1.5,
			Ours: Of{"daybook-go", w.Name}, Theirs: Of{"redis", LifecycleOne.Name}})
	}
	return targets
}

// Judge computes the outcome of each target from the results of a report.
func (r *Report) Judge(targets []Target) []Outcome {
	var outcomes []Outcome
	for _, t := range targets {
		o := Outcome{Target: t}
		ours, theirs := r.Find(t.Block, t.Ours.Driver, t.Ours.Work), r.Find(t.Block, t.Theirs.Driver, t.Theirs.Work)
		if ours != nil && theirs != nil {
			o.Ratio, o.Measured = Ratio(ours, theirs)
			o.OurP99 = ours.Over(func(t TurnResult) float64 { return t.P99 })
			o.Met = o.Measured && o.Ratio.Median >= t.Least && (t.P99 == 0 || o.OurP99.Median <= t.P99)
		}
		outcomes = append(outcomes, o)
	}
	return outcomes
}
