package job

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/daybookq/daybook/job/internal/testkit"
)

// TestDocs generates the tables of docs/reference/api.md about the life of a job from the rules, and compares them.
// -rewrite writes them.
func TestDocs(t *testing.T) {
	const page = "../docs/reference/api.md"
	text := testkit.Must(os.ReadFile(page))(t)
	want := string(text)
	for name, table := range map[string]string{"transitions": transitionTable(), "operations": operationTable(), "fences": fenceTable()} {
		begin, end := fmt.Sprintf("<!-- %s: written by go test ./job -rewrite -->\n", name), "<!-- end -->\n"
		before, rest, found := strings.Cut(want, begin)
		_, after, ended := strings.Cut(rest, end)
		testkit.MustHold(t, found && ended, page, "has no place for the table of", name, "the lines", begin, "and", end)
		want = before + begin + "\n" + table + "\n" + end + after
	}
	if string(text) == want {
		return
	}
	if *rewrite {
		testkit.NoError(t, os.WriteFile(page, []byte(want), 0o644))
		return
	}
	t.Errorf("%s does not show the rules as they are: go test ./job -run TestDocs -rewrite", page)
}

func row(b *strings.Builder, cells ...string) { fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | ")) }

// transitionTable shows the life of a job, event by event.
func transitionTable() string {
	var b strings.Builder
	row(&b, "from", "event", "to", "")
	b.WriteString("|---|---|---|---|\n")
	for _, r := range rules() {
		if r.event == "" {
			continue
		}
		from := "new"
		if r.from.Status != 0 {
			from = r.from.Status.String()
		}
		to, refusal := r.do(r.from, &r.attributes)
		if refusal != Granted {
			panic("a rule of the table refuses: " + r.name)
		}
		row(&b, from, r.event, to.Status.String(), r.note)
	}
	return b.String()
}

// operationTable shows which operations are allowed on a job of each status.
func operationTable() string {
	var b strings.Builder
	row(&b, "operation", "deferred", "pending", "active", "completed", "failed", "cancelled")
	b.WriteString("|---|---|---|---|---|---|---|\n")
	priority := 1
	for _, op := range []struct {
		name string
		do   func(s State) (State, Refusal)
	}{
		{"cancel", func(s State) (State, Refusal) { return s.Cancel(at7) }},
		{"redrive", func(s State) (State, Refusal) { return s.Redrive(at7) }},
		{"run", func(s State) (State, Refusal) { return s.RunNow(at7) }},
		{"PATCH", func(s State) (State, Refusal) { return s.Patch(&usual, &Patch{Priority: &priority}, at7) }},
	} {
		cells := []string{op.name}
		later := deferred
		later.At = 9000
		for _, s := range []State{later, pending, active, completed, failed, gone} {
			next, refusal := op.do(s)
			switch {
			case refusal != Granted:
				cells = append(cells, "409 `"+refusal.Code()+"`")
			case next == s:
				cells = append(cells, "no change")
			case next.Status == s.Status:
				cells = append(cells, "changed")
			default:
				cells = append(cells, next.Status.String())
			}
		}
		row(&b, cells...)
	}
	cells := []string{"DELETE"}
	for range Delete.Takes() {
		cells = append(cells, "deleted")
	}
	row(&b, cells...)
	return b.String()
}

// fenceTable shows the answer to a tickle, an outcome or a release that names a claim, a runner or neither.
func fenceTable() string {
	var b strings.Builder
	row(&b, "the job is", "answer to a tickle", "answer to an outcome or release")
	b.WriteString("|---|---|---|\n")
	for _, test := range fences {
		answer, repeated := "carried out", "carried out"
		if refusal := test.fence.Allows(&test.state, test.holder); refusal != Granted {
			answer = "`" + refusal.Code() + "`"
			if repeated = "200, as the first time"; test.fence.Repeats(&test.state, test.holder, &test.outcome, refusal) != Granted {
				repeated = "`" + test.fence.Repeats(&test.state, test.holder, &test.outcome, refusal).Code() + "`"
			}
			if test.late {
				repeated = "an outcome: carried out, late; a release: `claim_lost`"
			}
		}
		row(&b, test.name, answer, repeated)
	}
	return b.String()
}
