package store

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/machine"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
	"github.com/daybookq/daybook/store/query"
)

// TestAudit: the commands of operators and admins are kept for a year, with who sent them and whether they were refused, until
// they take too many bytes; a restart keeps them; lists filter them.
func TestAudit(t *testing.T) {
	rules := row.FirstRules
	rules.AuditBytes = 400
	s := mustOpen(t, Options{bounds: &memory.Bounds{MinWindow: 1, MaxWindow: 9, Rules: &rules}})
	boss, other := &job.Actor{Name: "boss"}, &job.Actor{Name: "other"}
	seq, at := uint64(0), int64(startAt)
	apply := func(by *job.Actor, cmd job.Command) {
		t.Helper()
		seq++
		testkit.Must(s.ApplyRecord(seq, at, &job.Place{}, by, cmd))(t)
		testkit.NoError(t, s.Commit())
	}
	list := func(f query.AuditFilter) (seqs []uint64) {
		t.Helper()
		if f.Limit == 0 {
			f.Limit = math.MaxInt
		}
		for _, a := range testkit.Must(s.Audit(f))(t) {
			seqs = append(seqs, a.Seq)
		}
		return seqs
	}
	apply(boss, &job.Create{Groups: []job.Group{{Lines: 1, Client: "a", Type: "x", Attributes: job.Attributes{MaxAttempts: 1, LeaseMs: 1000}}}})
	apply(boss, job.Pause{Client: "a", Type: "x", Paused: true})
	apply(other, job.Pause{Client: "a", Type: "none"})
	apply(&job.Actor{}, job.Switch{Stopped: true})
	apply(boss, job.Claim{Runner: "r", Max: 1, MaxBytes: 1})
	all := testkit.Must(s.Audit(query.AuditFilter{Limit: 9}))(t)
	testkit.Equal(t, len(all), 3)
	testkit.Holds(t, all[0].By == "boss" && all[0].Verb == "pause" && all[0].Fields == "client=a type=x" && all[0].Refusal == job.Granted && all[0].At == at && all[0].Seq == 2, all[0])
	testkit.Holds(t, all[1].By == "other" && all[1].Refusal == job.QueueNotFound, all[1])
	testkit.Holds(t, all[2].By == "" && all[2].Verb == "stop", all[2])
	testkit.Equal(t, len(list(query.AuditFilter{By: "boss"})), 1)
	testkit.Equal(t, len(list(query.AuditFilter{Verb: "stop"})), 1)
	testkit.Equal(t, len(list(query.AuditFilter{After: 2})), 2)
	testkit.Equal(t, len(list(query.AuditFilter{Limit: 1})), 1)
	testkit.Equal(t, len(list(query.AuditFilter{Before: at})), 0)
	testkit.Equal(t, len(list(query.AuditFilter{Since: at + 1})), 0)

	at += machine.AuditSegmentMs
	apply(boss, job.Switch{})
	at += machine.AuditRetentionMs
	apply(boss, job.Switch{})
	testkit.Equal(t, len(list(query.AuditFilter{})), 2, "the first segment is older than a year")
	for range 100 {
		apply(boss, job.Switch{})
	}
	tenant := &job.Actor{Name: "acme", Scope: job.Scope{Clients: []string{"a"}}}
	before := len(list(query.AuditFilter{By: "boss"}))
	for range 100 {
		apply(tenant, job.Pause{Client: "a", Type: "x", Paused: seq%2 == 0})
	}
	testkit.Equal(t, len(list(query.AuditFilter{By: "boss"})), before, "a tenant's commands remove no rows of others")
	kept := list(query.AuditFilter{By: "acme"})
	testkit.Holds(t, len(kept) > 10 && len(kept) < 80 && kept[len(kept)-1] == seq, kept)
	apply(boss, job.Switch{})
	kept = list(query.AuditFilter{})
	testkit.Holds(t, slices.IsSorted(kept), kept)
	first := list(query.AuditFilter{Limit: 3})
	testkit.Equal(t, fmt.Sprint(first), fmt.Sprint(kept[:3]))
	testkit.Holds(t, len(kept) > 20 && len(kept) < 80 && kept[len(kept)-1] == seq, kept)
	problems := testkit.Must(s.Check(func(problem string) bool { t.Error(problem); return true }))(t)
	testkit.Equal(t, problems, 0)
}
