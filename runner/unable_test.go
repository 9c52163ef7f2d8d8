package runner

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
)

// TestHandlerThatCannotRun: if a handler cannot be loaded, its jobs go back to their queue without an attempt, less and
// less often. They run as soon as the handler has a version that can be loaded. Other handlers keep working.
func TestHandlerThatCannotRun(t *testing.T) {
	r := start(t)
	r.put("", "bad", handler.Document{Kind: handler.Script, Lang: handler.Python, Source: "return payload"})
	r.put("", "good", handler.Document{Kind: handler.Script, Lang: handler.Python, Source: "def handle(payload, job):\n    return payload"})
	r.add("bad", "a", "b", "c")
	s := r.settings(nil)
	s.Accept, s.UntilIdle = []string{handler.Script}, 0
	w, stop := r.begin(s)
	last := func() time.Duration {
		w.mu.Lock()
		defer w.mu.Unlock()
		l := w.lanes[queue{"", "bad"}]
		if l == nil {
			return 0
		}
		l.rest.mu.Lock()
		defer l.rest.mu.Unlock()
		return l.rest.last
	}
	r.until("the lane has rested three times", func() bool { return last() >= 4*w.pace.rest })
	n := w.Totals().Ended["returned"]
	testkit.Holds(t, n >= 3 && n <= 30, "jobs were returned", n, "times")
	r.add("good", "d")
	r.until("another handler runs", func() bool { return slices.Equal(r.jobs("good"), []string{"completed ok 1 d"}) })
	for _, line := range r.jobs("bad") {
		testkit.Holds(t, strings.HasSuffix(line, " 0 ") || strings.HasPrefix(line, "active"), "a job has used up an attempt", line)
	}
	r.put("", "bad", handler.Document{Kind: handler.Script, Lang: handler.Python, Source: "def handle(payload, job):\n    return payload"})
	r.until("the jobs have ended", func() bool {
		return slices.Equal(r.jobs("bad"), []string{"completed ok 1 a", "completed ok 1 b", "completed ok 1 c"})
	})
	stop()
}
