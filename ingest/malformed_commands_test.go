package ingest

import (
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// TestMalformedCommandsAreRefusedBeforeTheJournal: a command that Apply cannot carry out is never journaled. Otherwise
// the engine would stop, and every later start too.
func TestMalformedCommandsAreRefusedBeforeTheJournal(t *testing.T) {
	creates := map[string]func(c *job.Create){
		"fewer payloads than lines":   func(c *job.Create) { c.Frame, c.Payloads, c.Longest = job.LenFrame, []byte("2\nab\n"), 2 },
		"more payloads than lines":    func(c *job.Create) { c.Payloads = append(c.Payloads, "one more\n"...) },
		"another frame":               func(c *job.Create) { c.Frame = job.LenFrame },
		"payloads without a frame":    func(c *job.Create) { c.Frame = job.NoFrame },
		"no last newline":             func(c *job.Create) { c.Payloads = c.Payloads[:len(c.Payloads)-1] },
		"a wrong longest payload":     func(c *job.Create) { c.Longest++ },
		"no group":                    func(c *job.Create) { c.Groups = nil },
		"a group without lines":       func(c *job.Create) { c.Groups = append(c.Groups, job.Group{Client: "a", Type: "b"}) },
		"a client that is no name":    func(c *job.Create) { c.Groups[0].Client = "a b" },
		"a unique key past the lines": func(c *job.Create) { c.Unique = []job.UniqueKey{{Line: 3, Key: "k"}} },
	}
	dir := t.TempDir()
	e, stop := start(t, dir)
	for name, spoil := range creates {
		t.Run(name, func(t *testing.T) {
			c := lines(3)
			spoil(c)
			testkit.Fails2(e.Create(t.Context(), c))(t, ErrMalformed)
		})
	}
	t.Run("a claim of no jobs", func(t *testing.T) {
		testkit.Fails2(e.decide(t.Context(), job.Claim{Runner: "r", MaxBytes: 1}))(t, ErrMalformed)
	})
	t.Run("an unclaimed completion of a claim", func(t *testing.T) {
		id := job.NewID(e.Now(), 1, 0)
		c := job.Complete{Unclaimed: true, Claim: id, Outcomes: []job.Outcome{{ID: id, Code: job.OK, ExitCode: 200, DelayMs: -1}}}
		testkit.Fails2(e.Complete(t.Context(), c))(t, ErrMalformed)
	})
	testkit.Must2(e.Create(t.Context(), lines(3)))(t)
	stop()
	e, _ = start(t, dir)
	counts := e.Stats().Jobs
	testkit.Equal(t, counts["pending"], 3, "after a restart:", counts)
}
