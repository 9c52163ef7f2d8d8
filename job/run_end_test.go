package job_test

import (
	"testing"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/internal/testkit"
)

func TestRunEndExtend(t *testing.T) {
	at := func(line int) job.ID { return job.NewID(1_700_000_000_000, 7, line) }
	base := job.RunEnd{First: at(3), Jobs: 2, Client: "c", Type: "t", Runner: "r", Attempt: 1, StartedAt: 1, EndedAt: 2, Outcome: "ok"}
	next := base
	next.First, next.Jobs = at(5), 4
	e := base
	testkit.Holds(t, e.Extend(&next) && e.First == at(3) && e.Jobs == 6, "the next lines make", e)
	for name, change := range map[string]func(e *job.RunEnd){
		"a gap":             func(e *job.RunEnd) { e.First = at(6) },
		"the same lines":    func(e *job.RunEnd) { e.First = at(3) },
		"another batch":     func(e *job.RunEnd) { e.First = job.NewID(1_700_000_000_000, 8, 5) },
		"another outcome":   func(e *job.RunEnd) { e.Outcome = "failed" },
		"another error":     func(e *job.RunEnd) { e.Error = "x" },
		"another attempt":   func(e *job.RunEnd) { e.Attempt = 2 },
		"another trace":     func(e *job.RunEnd) { e.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" },
		"another beginning": func(e *job.RunEnd) { e.StartedAt = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			e, other := base, next
			change(&other)
			testkit.Holds(t, !e.Extend(&other) && e == base, "extended", e)
		})
	}
	last := job.RunEnd{First: at(job.MaxLines - 1), Jobs: 1}
	again := job.RunEnd{First: at(0), Jobs: 1}
	testkit.Holds(t, !last.Extend(&again), "the first line of a batch follows its last one")
}
